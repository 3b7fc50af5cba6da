"""A disk that fails at the k-th operation on it, for whatever `rankfold.atomic` writes."""

import errno
import io
import os

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO}


class BrokenDisk:
    """Stands for the module `os` in `rankfold.atomic`; `fault` is an error's name, or "short"."""

    def __init__(self, fault, at):
        self.fault, self.at, self.count = fault, at, 0

    def __getattr__(self, name):
        return getattr(os, name)

    def tick(self):
        self.count += 1
        if self.count == self.at and self.fault in ERRORS:
            raise OSError(ERRORS[self.fault], os.strerror(ERRORS[self.fault]))

    def open(self, *arguments):
        self.tick()
        return os.open(*arguments)

    def fdopen(self, handle, mode):
        return io.BufferedWriter(_Raw(io.FileIO(handle, mode), self), 512)  # many writes, also of little

    def fchmod(self, *arguments):
        self.tick()
        os.fchmod(*arguments)

    def fsync(self, handle):
        self.tick()
        os.fsync(handle)

    def replace(self, *names):
        self.tick()
        os.replace(*names)


class _Raw(io.RawIOBase):
    def __init__(self, file, disk):
        self._file, self._disk = file, disk

    def writable(self):
        return True

    def seekable(self):
        return True

    def seek(self, *arguments):
        return self._file.seek(*arguments)

    def tell(self):
        return self._file.tell()

    def fileno(self):
        return self._file.fileno()

    def write(self, content):
        self._disk.tick()
        part = content[: max(1, len(content) // 3)] if self._disk.fault == "short" else content
        return self._file.write(part)

    def close(self):
        super().close()
        self._file.close()


def failures(write, path, fault, stride=1):
    """Let `write(path)` fail at every stride-th operation; return at how many it did, and what is wrong.

    The file must hold its old content, or all of the new; nothing else may be left; the error names the file.
    """
    write(path)
    whole, count, wrong = _content(path), 0, []
    while True:
        path.write_bytes(b"old")
        disk = BrokenDisk(fault, 1 + count * stride)
        error = _error_of(write, path, disk)
        if error is None:
            if _content(path) != whole:
                wrong.append(f"{fault}: {path.name} differs after a write without errors")
            return count, wrong
        count += 1
        where = f"{fault} at operation {disk.at} of {path.name}"
        if (error.errno, error.filename) != (ERRORS[fault], str(path)):
            wrong.append(f"{where}: {error!r} does not name it")
        if _content(path) not in (b"old", whole):
            wrong.append(f"{where}: it is half written")
        if left := [name for name in os.listdir(path.parent) if name.endswith(".tmp")]:
            wrong.append(f"{where}: {left} are left")


def _content(path):
    return path.read_bytes()


def _error_of(write, path, disk):
    from rankfold import atomic

    atomic.os = disk
    try:
        write(path)
    except OSError as error:
        return error
    finally:
        atomic.os = os
    return None
