"""Writing files: the old content stays until all of the new is on disk, whatever happens on the way."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_LONGEST = 100  # characters of a draft's name that are the target's: with the rest, below 255 everywhere


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` once it is complete.

    A symbolic link is followed and stays a link, the permissions of an old file are kept, and devices and
    pipes, which cannot be replaced, are written to. Drafts that killed processes left behind are removed.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
        else:
            yield from _drafted(target)
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        # A write to a full disk fails without saying which file it was for.
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error


def replace_text(path: str | os.PathLike[str], text: str) -> None:
    """Make `text`, in UTF-8, the content of `path`, in one go like `replacing`."""
    with replacing(path) as file:
        file.write(text.encode())


def _drafted(target: Path) -> Iterator[BinaryIO]:
    _remove_leftovers(target)
    # Of this thread alone, and in the same folder: a file can be moved in one go only within a file system.
    draft = target.with_name(f"{_prefix(target)}{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with draft.open("wb") as file:
            if target.exists():
                draft.chmod(target.stat().st_mode & 0o7777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
        _sync_folder(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    """What the drafts of this file begin with on this host, whose process numbers mean nothing on another."""
    return f".{target.name[:_LONGEST]}.{socket.gethostname()[:_LONGEST]}-"


def _remove_leftovers(target: Path) -> None:
    pattern = re.compile(re.escape(_prefix(target)) + r"(\d+)-\d+\.tmp")
    with suppress(OSError):  # a folder that cannot be listed can still be written to
        for found in target.parent.iterdir():
            match = pattern.fullmatch(found.name)
            if match and not _is_running(int(match[1])):
                found.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # it may be of another user
    return True


def _sync_folder(folder: Path) -> None:
    """Have the new name on disk too; where folders cannot be opened (Windows), the system sees to that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
