"""Opening what users name: a path, `-` or a binary file object, compressed with gzip or not."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from rankfold.atomic import replacing

GZIP_MAGIC = b"\x1f\x8b"


def name_of(file: Any) -> str:
    """Return what error messages call a path or file object."""
    if file == "-":
        return "standard input"
    return (
        os.fspath(file) if isinstance(file, str | os.PathLike) else str(getattr(file, "name", "the stream"))
    )


@contextmanager
def reading(file: Any) -> Iterator[BinaryIO]:
    """Open for reading; gzip is recognised by its first bytes, whatever the file is called."""
    if isinstance(file, str | os.PathLike) and file != "-":
        with Path(file).open("rb") as raw:
            yield from _decompressed(raw, name_of(file))
    else:
        yield from _decompressed(_binary(sys.stdin if file == "-" else file), name_of(file))


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
        with gzip.GzipFile(fileobj=stream) as plain:
            yield cast(BinaryIO, plain)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{name}: the gzip data is damaged ({error}); fetch or write the file again"
        ) from error
    finally:
        if wrapped is not None:
            wrapped.detach()  # the caller's stream stays open


def seekable(stream: BinaryIO) -> BinaryIO:
    """Return the stream itself, or its content in memory for formats that are read from the end."""
    slow = isinstance(stream, cast(type, gzip.GzipFile))  # it can seek, but only by starting again
    return io.BytesIO(stream.read()) if slow or not stream.seekable() else stream


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
