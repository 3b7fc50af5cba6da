"""A short name for data: equal for equal data, whatever the machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_BLOCK = 1 << 18  # rows of an array that are looked at together


def fingerprint(*arrays: Any) -> str:
    """Return 32 hexadecimal digits that depend on the arrays (NumPy, CSR or None), their types and shapes."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if array is None:
            digest.update(b"none")
        elif sparse.issparse(array):
            parts = array.data, array.indices, array.indptr, np.array(array.shape, np.int64)
            digest.update(fingerprint(*parts).encode())
        else:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            for part in _parts(array) if array.size else ():
                digest.update(_bytes_of(np.ascontiguousarray(part)))
    return digest.hexdigest()


def _parts(array: Any) -> Iterator[Any]:
    """Yield an array some rows at a time: those of a column, which are not contiguous, are copied."""
    if not array.ndim or array.dtype.hasobject:
        yield array
        return
    for first in range(0, len(array), _BLOCK):
        yield array[first : first + _BLOCK]


def _bytes_of(array: Any) -> Any:
    """Return what an array holds; of Python objects, such as strings, their texts, each with its length."""
    if array.dtype.hasobject:
        return repr(array.tolist()).encode(errors="surrogatepass")
    return array.view(np.uint8)


def spread(count: int, step: float, first: int = 0) -> NDArray[np.float64]:
    """Return numbers from -1/2 to 1/2, spread as if at random, and the same everywhere.

    Multiples of an irrational number, modulo 1; of numbers `first` to `first + count`, counted from 1.
    """
    return np.asarray((np.arange(first + 1, first + count + 1) * step) % 1.0 - 0.5)
