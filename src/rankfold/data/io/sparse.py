"""Triples of the sparse matrices that `scipy.sparse.save_npz` writes; SciPy itself checks too little."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.data.io.archives import Arrays, array_in, checked_triples, positions_in, shape_in, values_in
from rankfold.data.triples import Triples

SPARSE = ("format", "shape", "data", "indices", "indptr", "row", "col", "coords", "offsets")


def triples_of_sparse(arrays: Arrays, file: str) -> Triples:
    """Return the stored entries of a sparse matrix, zeros too, if its arrays agree with each other."""
    name = array_in(arrays, "format", "SU", "a word", ndim=0).item()
    kind = name.decode("latin-1") if isinstance(name, bytes) else name
    shape = shape_in(arrays, file)
    if kind in ("csr", "csc"):
        data = values_in(arrays, "data")
        major, minor = _compressed(arrays, shape[kind == "csc"], len(data))
        rows, cols = (major, minor) if kind == "csr" else (minor, major)
        return checked_triples(rows, cols, data[: len(minor)], shape)
    if kind == "coo":
        return checked_triples(*_coordinates(arrays), values_in(arrays, "data"), shape)
    if kind == "bsr":
        return _blocks(arrays, shape)
    if kind == "dia":
        return _diagonals(arrays, shape)
    raise ValueError(f"format is {kind!r}; csr, csc, coo, bsr and dia can be read")


def _compressed(arrays: Arrays, size: int, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the two indices of each entry: of its row, say, which pointers tell, and of its column."""
    pointers, indices = positions_in(arrays, "indptr"), positions_in(arrays, "indices")
    if len(pointers) != size + 1 or pointers[0] != 0:
        raise ValueError(f"indptr holds {len(pointers)} pointers; {size + 1}, the first 0, are needed")
    if (pointers[1:] < pointers[:-1]).any() or pointers[-1] > len(indices):
        raise ValueError(f"indptr does not rise from 0 to at most {len(indices)}, the number of indices")
    if len(indices) > count:
        raise ValueError(f"there are {len(indices)} indices, and {count} data")
    return np.repeat(np.arange(size), np.diff(pointers).astype(np.int64)), indices[: int(pointers[-1])]


def _coordinates(arrays: Arrays) -> tuple[NDArray[Any], NDArray[Any]]:
    if "coords" not in arrays:
        return positions_in(arrays, "row"), positions_in(arrays, "col")
    coords = array_in(arrays, "coords", "iu", "integers", ndim=2)
    if len(coords) != 2:
        raise ValueError(f"coords holds {len(coords)} coordinates; a matrix has two")
    return coords[0], coords[1]


def _blocks(arrays: Arrays, shape: tuple[int, int]) -> Triples:
    """Return the entries of a matrix of small dense blocks."""
    data = values_in(arrays, "data", ndim=3)
    height, width = data.shape[1:]
    if not height or not width or shape[0] % height or shape[1] % width:
        raise ValueError(f"blocks of {height} × {width} do not tile a matrix of {shape[0]} × {shape[1]}")
    major, minor = _compressed(arrays, shape[0] // height, len(data))
    inside = np.indices((height, width))
    rows = (major[:, None, None] * height + inside[0]).ravel()
    cols = (_inside(minor, shape[1] // width)[:, None, None] * width + inside[1]).ravel()
    return checked_triples(rows, cols, data[: len(minor)].ravel(), shape)


def _diagonals(arrays: Arrays, shape: tuple[int, int]) -> Triples:
    """Return the entries of a matrix of diagonals: `data[k, j]` stands in row j − `offsets[k]`."""
    data, offsets = values_in(arrays, "data", ndim=2), positions_in(arrays, "offsets")
    if len(offsets) != len(data) or len(np.unique(offsets)) < len(offsets):
        raise ValueError(f"{len(data)} diagonals have {len(offsets)} offsets, or one comes twice")
    near = _inside(offsets.astype(np.int64) + shape[0], sum(shape) + 1)
    cols = np.broadcast_to(np.arange(data.shape[1]), data.shape)
    rows = cols - (near - shape[0])[:, None]
    there = (rows >= 0) & (rows < shape[0]) & (cols < shape[1]) & (data != 0)
    return checked_triples(rows[there], cols[there], data[there], shape)


def _inside(index: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Return indices as integers that can be multiplied, once all lie between 0 and `size`."""
    bad = np.flatnonzero((index < 0) | (index >= size))
    if len(bad):
        raise ValueError(f"index {index[bad[0]]} is not between 0 and {size - 1}")
    return index.astype(np.int64)
