"""Opening what users name: a path, `-` or a binary file object, compressed with gzip or not."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from rankfold.atomic import replacing
from rankfold.data.errors import DataFileError
from rankfold.data.io.limits import check_expansion

GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 1 << 17  # bytes unpacked at a time
# What parsers of other hands raise for content that they cannot read.
DAMAGE = (ValueError, OverflowError, EOFError, csv.Error, zipfile.BadZipFile, zlib.error, pa.ArrowException)


def name_of(file: Any) -> str:
    """Return what error messages call a path or file object."""
    if file == "-":
        return "standard input"
    return (
        os.fspath(file) if isinstance(file, str | os.PathLike) else str(getattr(file, "name", "the stream"))
    )


@contextmanager
def reading(file: Any) -> Iterator[BinaryIO]:
    """Open for reading; gzip is recognised by its first bytes, whatever the file is called.

    Whatever goes wrong with the content until the file is closed is a `DataFileError`.
    """
    with _naming(name_of(file)):
        if isinstance(file, str | os.PathLike) and file != "-":
            with Path(file).open("rb") as raw:
                yield from _decompressed(raw, name_of(file))
        else:
            yield from _decompressed(_binary(sys.stdin if file == "-" else file), name_of(file))


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Have each error name the file."""
    try:
        yield
    except DataFileError:
        raise
    except OSError as error:
        if error.errno is None:  # not of the system: pyarrow's word for what it cannot decode
            raise DataFileError(f"{file}: the content is damaged ({error})") from error
        if error.filename is None:
            raise type(error)(error.errno, error.strerror, file) from error
        raise
    except DAMAGE as error:
        raise DataFileError(f"{file}: the content cannot be read ({error})") from error


def _binary(stream: Any, verb: str = "read") -> BinaryIO:
    stream = getattr(stream, "buffer", stream)  # a text stream such as sys.stdin wraps a binary one
    if isinstance(stream, io.TextIOBase) or not hasattr(stream, verb):
        raise TypeError(f"expected a path, '-' or a file opened in binary mode, got {stream!r}")
    return cast(BinaryIO, stream)


def _decompressed(raw: BinaryIO, name: str) -> Iterator[BinaryIO]:
    wrapped = None if hasattr(raw, "peek") else io.BufferedReader(cast(io.RawIOBase, raw))
    stream: Any = wrapped or raw
    try:
        if stream.peek(2)[:2] != GZIP_MAGIC:
            yield stream
            return
        with io.BufferedReader(_Unpacked(stream, name), CHUNK) as plain:
            yield cast(BinaryIO, plain)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataFileError(
            f"{name}: the gzip data is damaged ({error}); fetch or write the file again"
        ) from error
    finally:
        if wrapped is not None:
            wrapped.detach()  # the caller's stream stays open


class _Counted:
    """A stream that knows how many bytes have been read of it."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.count = stream, 0

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.count += len(data)
        return data


class _Unpacked(io.RawIOBase):
    """What a gzip stream holds, unless that is absurdly more than the stream itself."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.name, self.count = name, 0
        self.packed = _Counted(stream)
        self.plain = gzip.GzipFile(fileobj=cast(BinaryIO, self.packed), mode="rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.plain.readinto(buffer)
        self.count += count
        check_expansion(
            self.count,
            self.packed.count,
            self.name,
            "the gzip data",
            "if that is right, unpack it first: gunzip",
        )
        return count


def seekable(stream: BinaryIO) -> BinaryIO:
    """Return the stream itself, or its content in memory for formats that are read from the end."""
    return stream if stream.seekable() else io.BytesIO(stream.read())


def length_of(stream: BinaryIO) -> int:
    """Return how many bytes a seekable stream holds, and leave it at its end."""
    return stream.seek(0, os.SEEK_END)


@contextmanager
def writing(file: Any) -> Iterator[BinaryIO]:
    """Open for writing; a path ending in .gz is compressed, and appears only once it is complete."""
    if not isinstance(file, str | os.PathLike) or file == "-":
        yield _binary(sys.stdout if file == "-" else file, "write")
        return
    with replacing(file) as raw:
        if Path(file).suffix != ".gz":
            yield raw
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
            yield cast(BinaryIO, packed)
