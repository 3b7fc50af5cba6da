"""The form of models and checkpoints in files: a JSON text and arrays, read as if written by an enemy.

A file is a line with its kind and the number of its format, the length of the text in eight bytes, the text,
the arrays that it refers to, in NumPy's own format, and the SHA-256 of all that. Every size is compared with
the length of the file, and with a limit, before memory is taken for it; the parts must fill the file exactly.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankfold._version import __version__

Arrays = dict[str, NDArray[Any]]
MAX_TEXT = 1 << 25  # bytes
MAX_MARKS = 1 << 20  # brackets, commas and colons of the text: each may cost a hundred bytes once it is read
_DIGEST = hashlib.sha256().digest_size
_CHUNK = 1 << 20
_NPY = b"\x93NUMPY\x01\x00"
_TYPE = r"'[<>|](?:[biufcUS]\d{1,9}|M8\[[a-z]{1,2}\])'"
# What NumPy writes, and nothing else that Python could read: `numpy.load` evaluates any literal.
_HEADER = re.compile(
    rf"\{{'descr': (?P<descr>{_TYPE}|\[\('\w{{1,99}}', {_TYPE}\)(?:, \('\w{{1,99}}', {_TYPE}\)){{0,99}}\]), "
    r"'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>|\d{1,18},|\d{1,18}(?:, \d{1,18}){1,7})\), \} *\n",
    re.ASCII,
)


@dataclass(frozen=True)
class Container:
    """A kind of file: what it is called, its format, what says so in errors, and what to do with old ones."""

    kind: str
    format: int
    error: type[ValueError]
    remedy: str

    @property
    def magic(self) -> bytes:
        """What every file of this kind begins with."""
        return f"rankfold {self.kind}, format ".encode()

    def write(self, file: IO[bytes], meta: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a file; the arrays must be called array0, array1, ... in this order."""
        text = json.dumps({**meta, "arrays": len(arrays)}).encode()
        if flaw := _flaw(text):
            raise ValueError(f"it has too many parts for a file: {flaw}")
        hashing = _Hashing(file)
        hashing.write(self.magic + f"{self.format}\n".encode() + len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            np.lib.format.write_array(hashing, array, version=(1, 0), allow_pickle=False)
        file.write(hashing.hash.digest())

    def read(self, path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
        """Return the text, an object, and the arrays of a file; what they mean is for the caller to check."""
        name = os.fspath(path)
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a directory says itself what is wrong
            raise self.error(f"{name!r} is not a regular file")
        with Path(path).open("rb") as file:
            self._check_format(name, file.readline(len(self.magic) + 20))
            start, end = file.tell(), os.fstat(file.fileno()).st_size - _DIGEST
            if end < start + 8 or not _is_whole(file, end):
                raise self.error(f"{name!r} is damaged: its checksum does not fit; restore it from a copy")
            file.seek(start)
            try:
                return _content(file, end)
            except (ValueError, TypeError, RecursionError) as error:  # TypeError: a type that NumPy has not
                self.refuse(name, error)

    def refuse(self, name: str, why: Exception) -> NoReturn:
        """Raise the error of a file that is whole, but holds what this version does not understand."""
        raise self.error(f"{name!r} does not fit rankfold {__version__}: {why}") from why

    def _check_format(self, name: str, line: bytes) -> None:
        number = line.removeprefix(self.magic).rstrip(b"\n")
        if not (line.startswith(self.magic) and line.endswith(b"\n") and re.fullmatch(rb"\d{1,9}", number)):
            raise self.error(
                f"{name!r} is not a {self.kind} that rankfold wrote, or its beginning is damaged"
            )
        found, here = int(number), f"rankfold {__version__}"
        newer = f"format {found}, newer than this {here} reads ({self.format}): upgrade rankfold to read it"
        older = f"old format {found}, which {here} no longer reads: {self.remedy}"
        if found != self.format:
            raise self.error(f"{name!r} has the {newer if found > self.format else older}")


class _Hashing:
    """A file that is written to, and hashed on the way."""

    def __init__(self, file: IO[bytes]):
        self.file, self.hash = file, hashlib.sha256()

    def write(self, part: Any) -> int:
        self.hash.update(part)
        return self.file.write(part)


def _is_whole(file: IO[bytes], length: int) -> bool:
    """Whether the last bytes of a file are the hash of the `length` bytes before them."""
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0 and (chunk := file.read(min(_CHUNK, length))):
        digest.update(chunk)
        length -= len(chunk)
    return file.read(_DIGEST + 1) == digest.digest()


def _flaw(text: bytes) -> str:
    if len(text) > MAX_TEXT:
        return f"a text of {len(text)} bytes, where {MAX_TEXT} are the most"
    marks = sum(text.count(mark) for mark in (b"[", b"{", b",", b":"))
    return f"{marks} marks in its text, where {MAX_MARKS} are the most" if marks > MAX_MARKS else ""


def _content(file: IO[bytes], end: int) -> tuple[dict[str, Any], Arrays]:
    """Return text and arrays, which fill the file from here to `end`."""
    length = int.from_bytes(file.read(8), "little")
    if length > end - file.tell():
        raise ValueError(f"its text is said to have {length} bytes, more than the file has")
    text = file.read(min(length, MAX_TEXT + 1))
    if flaw := _flaw(text):
        raise ValueError(f"it has {flaw}")
    meta = json.loads(text.decode("ascii"))
    if not isinstance(meta, dict):
        raise ValueError("its text is no object")
    count = meta.get("arrays")
    if type(count) is not int or not 0 <= count <= MAX_MARKS:
        raise ValueError(f"its number of arrays is {_short(count)}")
    arrays = {f"array{k}": _array(file, end) for k in range(count)}
    if file.tell() != end:
        raise ValueError("there is more in it than its text says")
    return meta, arrays


def _array(file: IO[bytes], end: int) -> NDArray[Any]:
    """Read one array, which must end before `end`."""
    beginning = file.read(len(_NPY) + 2)
    header = file.read(int.from_bytes(beginning[len(_NPY) :], "little")).decode("ascii")
    found = _HEADER.fullmatch(header)
    if not beginning.startswith(_NPY) or found is None:
        raise ValueError(f"an array of it begins with {_short(header)}")
    parts = re.findall(r"\('(\w+)', '(\S+)'\)", found["descr"]) or found["descr"].strip("'")
    dtype = np.dtype(parts)
    shape = tuple(int(size) for size in re.findall(r"\d+", found["shape"]))
    left = end - file.tell()
    # Of an empty array too: what is as long as a part of it is made by many a function.
    if dtype.itemsize == 0 or prod(shape) * dtype.itemsize > left or max(shape, default=0) > end:
        raise ValueError(f"an array of it has the shape {shape} and the type {dtype}: the file is too short")
    array = np.empty(shape, dtype, order="F" if found["fortran"] == "True" else "C")
    flat = array.reshape(-1, order="A").view(np.uint8)
    if file.readinto(flat) != array.nbytes:  # type: ignore[attr-defined]
        raise ValueError("it became shorter while it was read")
    array = array if dtype.isnative else array.astype(dtype.newbyteorder("="))
    for part in [array[name] for name in dtype.names] if dtype.names else [array]:
        _check_items(part)
    return array


def _check_items(array: NDArray[Any]) -> None:
    """Refuse letters that Unicode has not, and truth values beyond 0 and 1: NumPy takes them for granted."""
    kind, plain = array.dtype.kind, np.ascontiguousarray(array).reshape(-1)
    if array.size and kind == "U" and plain.view(np.uint32).max() > sys.maxunicode:
        raise ValueError("an array of it has letters that there are not")
    if array.size and kind == "b" and plain.view(np.uint8).max() > 1:
        raise ValueError("an array of it has truth values that are neither true nor false")


def _short(thing: object) -> str:
    """Return what a file holds in few characters, for an error."""
    text = repr(thing)
    return text if len(text) <= 80 else f"{text[:77]}..."
