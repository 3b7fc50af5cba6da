"""Arrays that users give, made ours before anything is believed of them: no masks, native, in range.

What kernels trust is a copy that no one else can write to, and the copy is what is checked: a caller's other
thread may write into his arrays at any time.
"""

from __future__ import annotations

from math import floor, log10
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

BLOCK = 1 << 16  # entries copied and checked at a time: few enough to stay in cache
# Fourth powers of numbers up to these, and sums of them, stay in the range of float64; third ones in that of
# float32. Measured, fits with default settings go wrong at 1e100, and at 1e19 in float32.
LARGEST = {np.dtype(np.float64): 1e60, np.dtype(np.float32): 1e12}
# Below these, squares vanish, or powers that a fit needs. What exact offsets leave over of data is smaller
# than the data by 16 or 7 digits, and should pass.
SMALLEST = {np.dtype(np.float64): 1e-75, np.dtype(np.float32): 1e-18}


def unmasked(name: str, given: Any) -> Any:
    """Return what was given if nothing in it is masked; a masked number is none that could be fitted."""
    if not isinstance(given, np.ma.MaskedArray):
        return given
    mask = np.ma.getmaskarray(given)
    if mask.any():
        at = ", ".join(str(int(k[0])) for k in np.nonzero(mask))
        raise ValueError(
            f"{name}[{at}] is masked, and so are {int(mask.sum()) - 1} more: leave masked entries out"
        )
    return given.data


def plain(name: str, given: Any) -> Any:
    """Return what was given, for scikit-learn to check, unless it is an array that it says too little of.

    That is one with something masked, of what are no numbers, or of no dimension or more than two.
    """
    kind = given.dtype.kind if isinstance(given, np.ndarray) else ""
    if kind and given.ndim not in (1, 2):
        raise ValueError(f"{name} must have one dimension or two; got shape {given.shape}")
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} must be real numbers; got {given.dtype}")
    if kind and kind in "VMmSU":
        raise TypeError(f"{name} must be real numbers; got {given.dtype}")
    return unmasked(name, given)


def with_holes(given: Any, hole: Any = np.nan) -> Any:
    """Return what was given, a masked array with `hole` for what is masked."""
    if not isinstance(given, np.ma.MaskedArray):
        return given
    return np.where(np.ma.getmaskarray(given), hole, given.data)


def own_indices(name: str, given: Any, size: int, index: DTypeLike) -> NDArray[Any]:
    """Return a copy of integers, as the unsigned type `index`, all of them from 0 to `size` - 1."""
    indices = np.asarray(unmasked(name, given))
    if indices.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {indices.shape}")
    if indices.dtype.kind not in "iu" and indices.size:
        raise TypeError(f"{name} must be integers; got {indices.dtype} (map labels to 0, 1, ... first)")
    own, native = np.empty(indices.size, index), indices.dtype.newbyteorder("=")
    for start in range(0, own.size, BLOCK):
        block = np.array(indices[start : start + BLOCK], dtype=native)
        if block.min() < 0 or block.max() >= size:
            at = int(np.argmax((block < 0) | (block >= size)))
            raise ValueError(
                f"{name}[{start + at}] is {block[at]}, out of range: "
                f"must be from 0 to {size - 1} for this shape"
            )
        own[start : start + BLOCK] = block
    return own


def own_numbers(name: str, given: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return a copy of real numbers, in `out` or else in float32 if they are that and in float64 if not.

    They are finite, and the largest has a square, and powers beyond, that neither overflow nor vanish.
    """
    numbers = real_vector(name, given)
    kind = np.float32 if numbers.dtype == np.float32 else np.float64
    own = np.empty(numbers.size, kind) if out is None else out
    largest = 0.0
    for start in range(0, own.size, BLOCK):
        block = own[start : start + BLOCK]
        with np.errstate(over="ignore"):
            block[:] = numbers[start : start + BLOCK]
        peak = float(max(block.max(), -block.min()))  # NaN if any is
        if not peak <= LARGEST[own.dtype]:
            _refuse(name, numbers, own.dtype)
        largest = max(largest, peak)
    _check_smallest(name, largest, own.dtype)
    return own


def real_vector(name: str, given: Any) -> NDArray[Any]:
    """Return real numbers of any type as a vector."""
    numbers = np.asarray(unmasked(name, given))
    if numbers.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {numbers.shape}")
    if numbers.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers; got {numbers.dtype}")
    return numbers


def check_size(name: str, numbers: NDArray[Any], dtype: DTypeLike | None = None, holes: bool = False) -> None:
    """Raise ValueError unless numbers are finite and neither too large nor all too small to be squared.

    `dtype` is the type that they will be computed in, their own by default; `holes` allows NaN.
    """
    kind = np.dtype(numbers.dtype if dtype is None else dtype)
    kind = kind if kind in LARGEST else np.dtype(np.float64)
    if not numbers.size:
        return
    ends = [numbers.max(), numbers.min()]
    if holes and np.isnan(ends[0]):
        known = numbers[~np.isnan(numbers)]
        ends = [known.max(initial=0), known.min(initial=0)]
    peak = max(float(ends[0]), -float(ends[1]))
    if not peak <= LARGEST[kind]:
        _refuse(name, numbers, kind, holes)
    _check_smallest(name, peak, kind)


def _refuse(name: str, numbers: NDArray[Any], dtype: np.dtype[Any], holes: bool = False) -> None:
    """Raise the error of the first number that is not finite, or else of the largest."""
    with np.errstate(over="ignore"):
        numbers = numbers.astype(np.float64)  # of which a longer type may hold more
    finite = np.isfinite(numbers) | (holes & np.isnan(numbers))
    bad = not finite.all()
    where = int(np.argmin(finite) if bad else np.nanargmax(np.abs(numbers)))
    place = ", ".join(str(int(k)) for k in np.unravel_index(where, numbers.shape))
    what = f"{name}[{place}] is {numbers.flat[where]}"
    if bad:
        raise ValueError(f"{what} (NaN or infinity); all must be finite: leave unknown entries out")
    raise ValueError(
        f"{what}, and in {dtype} products of numbers above {LARGEST[dtype]:.0e} overflow: "
        f"divide {name} by {_power_of_ten(abs(float(numbers.flat[where])))}"
    )


def _check_smallest(name: str, peak: float, dtype: np.dtype[Any]) -> None:
    if 0 < peak < SMALLEST[dtype]:
        raise ValueError(
            f"{name} holds no number beyond {peak:.3g} in size, and in {dtype} products of numbers below "
            f"{SMALLEST[dtype]:.0e} vanish: divide {name} by {_power_of_ten(peak)}"
        )


def _power_of_ten(number: float) -> str:
    return f"1e{floor(log10(number)):+03d}"


def own_sparse(name: str, matrix: Any, form: str = "csr") -> Any:
    """Return a copy of a SciPy sparse matrix in another format, whose indices are all in range.

    SciPy looks at them when it builds a matrix, and its compiled loops trust them from then on.
    """
    try:
        matrix = _consistent(matrix.copy()).asformat(form)
        return _consistent(matrix)
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(f"{name} is not a valid sparse matrix: {error}") from None


def _consistent(matrix: Any) -> Any:
    if matrix.format in ("csr", "csc", "bsr"):
        matrix.check_format(full_check=True)
    elif matrix.format == "coo":
        matrix = type(matrix)((matrix.data, matrix.coords), matrix.shape)
    return matrix


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same numbers in an array that cannot be made writable again, nor can a view of it be."""
    base: Any = array.base
    if isinstance(base, memoryview) and not array.flags.writeable:
        return array
    return np.asarray(array.data.toreadonly())


def vector_of(name: str, given: ArrayLike, size: int) -> NDArray[Any]:
    """Return `size` real numbers as kernels want them, and nobody can write to; or say what is wrong."""
    vector = real_vector(name, given)
    if vector.size != size:
        raise ValueError(f"{name} must be a vector of {size} numbers, one per entry; got {vector.size}")
    kind = np.float32 if vector.dtype == np.float32 else np.float64
    return frozen(np.require(vector, kind, ["C", "A"]))
