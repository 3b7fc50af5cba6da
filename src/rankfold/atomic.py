"""Writing files: the old content stays until all of the new is on disk, whatever happens on the way."""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

_SHOWN = 20  # characters of a draft's name that are the target's: in bytes, with the rest, far below 255
_OLD = 24 * 3600.0  # seconds after which nobody writes to a draft any more, on whatever machine
_EXCLUSIVE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# What file systems answer that cannot sync folders, or lock files.
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}

_fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` once it is complete.

    A symbolic link is followed and stays a link, the permissions of an old file are kept (and its owner,
    where that is allowed), and devices and pipes, which cannot be replaced, are written to. Drafts that
    killed processes left behind are removed. Errors name `path`.
    """
    target = Path(os.path.realpath(path))
    try:
        old = _status(target)
        if old is not None and not stat.S_ISREG(old.st_mode):
            with target.open("wb") as file:
                yield file
        else:
            yield from _drafted(target, old)
    except OSError as error:
        if error.filename is not None and not _is_draft(error.filename, target):
            raise
        # A write to a full disk fails without saying which file it was for; a draft means nothing to anyone.
        number, why = (error.errno, error.strerror) if error.errno else (errno.EIO, str(error))
        raise OSError(number, why, os.fspath(path)) from error


def replace_text(path: str | os.PathLike[str], text: str) -> None:
    """Make `text`, in UTF-8, the content of `path`, in one go like `replacing`."""
    with replacing(path) as file:
        file.write(text.encode())


def _status(path: Path) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.stat(path)
    return None


def _drafted(target: Path, old: os.stat_result | None) -> Iterator[BinaryIO]:
    _remove_leftovers(target)
    draft, file = _new_draft(target, old)
    try:
        try:
            if old is not None:
                _give_permissions(file.fileno(), old)
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):  # what is in its buffer has no place on a full disk, and need not have
                file.close()
            raise
        file.close()
        os.replace(draft, target)
        _sync_folder(target.parent)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _new_draft(target: Path, old: os.stat_result | None) -> tuple[Path, BinaryIO]:
    """Create a file beside `target`, and lock it, which says that somebody is writing to it."""
    mode = 0o666 if old is None else 0o600  # nobody opens what they may not read
    while True:
        # In the same folder: a file can be moved in one go only within a file system.
        draft = target.with_name(f"{_prefix(target)}{_host()}-{secrets.token_hex(6)}.tmp")
        file = os.fdopen(os.open(draft, _EXCLUSIVE, mode), "wb")
        # Whoever looks for leftovers may have found it before it was locked.
        if _lock(file.fileno()) is not False and (os.name != "posix" or os.fstat(file.fileno()).st_nlink):
            return draft, file
        file.close()


def _lock(handle: int) -> bool | None:
    """Whether the lock of a file could be had; None where there is none."""
    try:
        if _fcntl is None:
            return None
        _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError as error:
        return None if error.errno in _UNSUPPORTED else False
    return True


def _give_permissions(handle: int, old: os.stat_result) -> None:
    if os.name != "posix":
        return
    mode, new = stat.S_IMODE(old.st_mode), os.fstat(handle)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(handle, old.st_uid, old.st_gid)
        except PermissionError:
            mode &= 0o707 if new.st_gid != old.st_gid else 0o777  # they were for another group
    os.fchmod(handle, mode)


def _prefix(target: Path) -> str:
    return f".{target.name[:_SHOWN]}.{_digest(os.fsencode(target.name))}-"


def _host() -> str:
    return _digest(socket.gethostname().encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _pattern(target: Path) -> re.Pattern[str]:
    return re.compile(re.escape(_prefix(target)) + r"([0-9a-f]{12})-[0-9a-f]{12}\.tmp")


def _is_draft(name: Any, target: Path) -> bool:
    return _pattern(target).fullmatch(Path(os.fsdecode(name)).name) is not None


def _remove_leftovers(target: Path) -> None:
    """Remove drafts of this file that nobody writes to.

    The lock says so, which dies with its process. Another machine's may not be seen here: its drafts, and
    those on file systems without locks, are leftovers only when they are old.
    """
    pattern = _pattern(target)
    with suppress(OSError):  # a folder that cannot be listed can still be written to
        for found in target.parent.iterdir():
            if match := pattern.fullmatch(found.name):
                with suppress(OSError):
                    _remove_if_left(found, ours=match[1] == _host())


def _remove_if_left(draft: Path, ours: bool) -> None:
    if _fcntl is None:
        draft.unlink()  # Windows refuses while it is open
        return
    handle = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        free, age = _lock(handle), time.time() - os.fstat(handle).st_mtime
        if (free and ours) or (free is not False and age > _OLD):
            draft.unlink()
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Have the new name on disk too; where folders cannot be opened, the system sees to that."""
    if os.name != "posix":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # one may write to a folder that one may not read
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(handle)
