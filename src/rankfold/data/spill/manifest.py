"""What is done of a sort on disk: one small file, replaced in one go after each step."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from rankfold.atomic import replace_text
from rankfold.data.errors import DataFileError

NAME, LOCK = "manifest.json", "lock"
FORMAT = 1
_NO_LOCKS = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
_MADE = "rows.", "columns.", "row_labels.", "col_labels.", "held_out.", "bucket-"
_OURS = (NAME, LOCK, "given.", *_MADE)


@dataclass
class Manifest:
    """What a folder is sorted from, and how far: `facts` of each step that is finished, by its name."""

    folder: Path
    task: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of a folder; one without any steps if there is none."""
        path = folder / NAME
        try:
            content = json.loads(path.read_text("utf-8"))
            if content["format"] != FORMAT:
                raise DataFileError(
                    f"{path}: of another version of rankfold: remove the folder, and sort again"
                )
            return cls(folder, dict(content["task"]), dict(content["facts"]))
        except FileNotFoundError:
            return cls(folder)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, DataFileError):
                raise
            raise DataFileError(f"{path}: damaged ({error}): remove the folder, and sort again") from error

    def note(self, **facts: Any) -> None:
        """Keep what is finished now, beside what was."""
        self.facts.update(facts)
        content = {"format": FORMAT, "task": self.task, "facts": self.facts}
        replace_text(self.folder / NAME, json.dumps(content))

    def restart(self, task: dict[str, Any]) -> None:
        """Forget what was done, and remove its files: the manifest first, so that none seems finished."""
        (self.folder / NAME).unlink(missing_ok=True)
        for path in list(self.folder.iterdir()):
            if path.is_file() and path.name.lstrip(".").startswith(_MADE):
                path.unlink()
        self.task, self.facts = task, {}
        self.note()


def prepared(folder: Path) -> None:
    """Make a folder, unless it is there; refuse one that has files of somebody else."""
    folder.mkdir(parents=True, exist_ok=True)
    strange = [path.name for path in folder.iterdir() if not path.name.lstrip(".").startswith(_OURS)]
    if strange:
        raise ValueError(
            f"{folder} holds other files, such as {sorted(strange)[0]!r}: name a new folder, or an empty one"
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let nobody else sort into a folder meanwhile; the lock goes with its process."""
    with (folder / LOCK).open("wb") as file:
        if not _lock(file.fileno()):
            raise ValueError(f"{folder}: another process is sorting into this folder: wait for it")
        yield


def _lock(handle: int) -> bool:
    """Whether nobody else has the lock of a file, as far as the system knows of locks."""
    if os.name != "posix":
        return True
    fcntl: Any = import_module("fcntl")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _NO_LOCKS
    return True
