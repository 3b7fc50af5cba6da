"""Arrays in NumPy archives (npz) that nobody vouches for: sizes are checked first, and nothing is unpickled.

NumPy itself takes the memory that an array's header asks for before it looks how much there is.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections import Counter
from collections.abc import Collection
from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rankfold.data.errors import DataFileError
from rankfold.data.io.limits import check_expansion, check_side
from rankfold.data.io.streams import length_of, seekable
from rankfold.data.triples import Triples, index_dtype

Arrays = dict[str, NDArray[Any]]
MOST_MEMBERS = 1000
LONGEST_HEADER = 10_000  # bytes; NumPy reads no longer one either
CHUNK = 1 << 22
ENCRYPTED = 1  # a flag of a zip member
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
KINDS = {
    "O": "Python objects",
    "c": "complex numbers",
    "f": "floating point numbers",
    "U": "text",
    "S": "bytes",
}
DTYPE = re.compile(r"'descr'\s*:\s*'([<>|=]?[a-zA-Z][0-9]{0,9})'")
ORDER = re.compile(r"'fortran_order'\s*:\s*(True|False)")
SHAPE = re.compile(r"'shape'\s*:\s*\(([0-9, ]{0,200})\)")


def read_arrays(stream: BinaryIO, names: Collection[str], file: str) -> Arrays:
    """Return the arrays of an archive that have one of these names."""
    stream = seekable(stream)
    length = length_of(stream)
    try:
        with zipfile.ZipFile(stream) as archive:
            members = _members(archive, length)
            wanted = {name: members[name] for name in names if name in members}
            size = sum(member.file_size for member in wanted.values())
            check_expansion(size, length, file, "its arrays", "if that is right, write it with np.savez")
            return {name: _read(archive, member) for name, member in wanted.items()}
    except DataFileError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, struct.error, RuntimeError) as error:
        raise ValueError(f"no zip archive, or a damaged one: {error}") from error


def _members(archive: zipfile.ZipFile, length: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members that are arrays, by name."""
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"it has {len(members):,} members")
    for member in members:
        if member.flag_bits & ENCRYPTED or member.compress_type not in METHODS:
            raise ValueError(
                f"{member.filename!r} is encrypted, or compressed by another method than deflate"
            )
        if not 0 <= member.header_offset < length:
            raise ValueError(f"{member.filename!r} begins behind the end of the file")
    twice = [name for name, count in Counter(member.filename for member in members).items() if count > 1]
    if twice:
        raise ValueError(f"two arrays are called {twice[0]!r}")
    return {member.filename.removesuffix(".npy"): member for member in members}


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as file:
        dtype, order, shape, header = _header(file, member.filename)
        size = dtype.itemsize * prod(shape)
        if size != member.file_size - header:
            raise ValueError(
                f"{member.filename!r} needs {size:,} bytes for the shape {shape}, and has "
                f"{member.file_size - header:,}"
            )
        content = np.empty(size, np.uint8)
        at = 0
        while part := file.read(CHUNK):  # to the end, where the checksum is compared
            content[at : at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
    if at < size:
        raise ValueError(f"{member.filename!r} ends too early")
    return content.view(dtype).reshape(shape, order=order).astype(dtype.newbyteorder("="), copy=False)


def _header(file: Any, name: str) -> tuple[np.dtype[Any], Any, tuple[int, ...], int]:
    """Return dtype, order and shape of an array, and how many bytes said so."""
    start = file.read(12)
    if start[:6] != b"\x93NUMPY" or start[6:7] not in (b"\1", b"\2", b"\3") or len(start) < 12:
        raise ValueError(f"{name!r} is no array")
    first = 10 if start[6] == 1 else 12
    length = int.from_bytes(start[8:first], "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"{name!r} has a header of {length:,} bytes")
    text = (start[first:] + file.read(length - (12 - first))).decode("latin-1")
    found = [pattern.search(text) for pattern in (DTYPE, ORDER, SHAPE)]
    if not all(found):
        raise ValueError(
            f"{name!r} has a header that says {text.strip()[:100]!r}: no array of numbers or strings"
        )
    descr, order, shape = (match[1] for match in found if match)
    kind = descr.lstrip("<>|=")[0]
    if kind == "O":
        raise ValueError(f"{name!r} holds {KINDS[kind]}, which are never unpickled")
    if kind not in "biufcUS":
        raise ValueError(f"{name!r} holds {descr!r}, which is neither numbers nor text")
    try:
        dtype = np.dtype(descr)
    except TypeError:
        raise ValueError(f"{name!r} holds {descr!r}, which is no type of array") from None
    if not dtype.itemsize:
        raise ValueError(f"{name!r} holds text of no length")
    sizes = tuple(int(size) for size in shape.replace(" ", "").split(",") if size)
    return dtype, "F" if order == "True" else "C", sizes, first + length


def array_in(arrays: Arrays, name: str, kinds: str, wanted: str, ndim: int = 1) -> NDArray[Any]:
    """Return an array, once its dimensions and the kind of its elements are right."""
    if name not in arrays:
        raise ValueError(f"holds no array named {name!r}, but {sorted(arrays)}")
    array = arrays[name]
    if array.ndim != ndim or array.dtype.kind not in kinds:
        holds = KINDS.get(array.dtype.kind, str(array.dtype))
        raise ValueError(f"{name} holds {holds} in {array.ndim} dimensions; {wanted} in {ndim} are needed")
    return array


def positions_in(arrays: Arrays, name: str) -> NDArray[np.integer]:
    """Return an array of integers."""
    return array_in(arrays, name, "iu", "integers")


def values_in(arrays: Arrays, name: str, ndim: int = 1) -> NDArray[np.float64]:
    """Return an array of real numbers, in double precision."""
    with np.errstate(invalid="ignore"):  # a NaN that signals is refused with the others
        return array_in(arrays, name, "biuf", "real numbers", ndim).astype(np.float64, copy=False)


def shape_in(arrays: Arrays, file: str) -> tuple[int, int]:
    """Return the shape of the matrix."""
    shape = positions_in(arrays, "shape").tolist()
    if len(shape) != 2:
        raise ValueError(f"shape holds {len(shape)} numbers; a matrix has two sides")
    check_side(shape[0], file, "row")
    check_side(shape[1], file, "column")
    return shape[0], shape[1]


def labels_in(arrays: Arrays, name: str) -> NDArray[Any]:
    """Return labels, integers or text, of which no two are equal."""
    labels = array_in(arrays, name, "iuU", "integers or text")
    if labels.dtype.kind == "U":
        code = labels.view(np.uint32)
        if ((code > 0x10FFFF) | ((code >= 0xD800) & (code < 0xE000))).any():
            raise ValueError(f"{name} holds what is no Unicode text")
    ordered = np.sort(labels)
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        raise ValueError(f"{name} holds {ordered[twice[0]].item()!r} twice")
    return labels


def checked_triples(
    rows: NDArray[np.integer],
    cols: NDArray[np.integer],
    values: NDArray[np.float64],
    shape: tuple[int, int],
    row_labels: NDArray[Any] | None = None,
    col_labels: NDArray[Any] | None = None,
) -> Triples:
    """Return triples if every value is finite and every position lies in the shape."""
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"entry {bad[0] + 1} is {values[bad[0]]}; values must be finite")
    for name, index, size in zip(("rows", "cols"), (rows, cols), shape, strict=True):
        bad = np.flatnonzero((index < 0) | (index >= size))
        if len(bad):
            raise ValueError(f"{name} of entry {bad[0] + 1} is {index[bad[0]]}, not between 0 and {size - 1}")
    dtype = index_dtype(shape)
    i: NDArray[np.integer] = rows.astype(dtype, copy=False)
    j: NDArray[np.integer] = cols.astype(dtype, copy=False)
    return Triples(i, j, values, shape, row_labels, col_labels)
