"""A tartan: woven of two sets of threads, its picture is a matrix of low rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Of `side_by_side`: three ways of lying over and under, for the warp and for each colour of the weft.
RANK = 12
THREAD = 4  # pixels across
_LIGHT = np.array([0.72, 1.0, 1.0, 0.82])  # across a thread, which is round
_COLOURS = {
    "navy": (24, 40, 92), "green": (20, 92, 64), "black": (22, 22, 28), "red": (196, 36, 48),
    "gold": (238, 190, 66), "white": (240, 236, 224),
}  # fmt: skip
# How many threads of each colour lie beside each other; after the last one the order is turned round.
_SETT = (
    ("navy", 12), ("black", 3), ("navy", 3), ("black", 3), ("green", 12), ("gold", 2), ("green", 12),
    ("black", 10), ("red", 3), ("black", 2), ("white", 1), ("black", 2),
)  # fmt: skip


def tartan(height: int, width: int) -> Floats:
    """Return the picture of a cloth, height × width × 3 numbers up to 255, in 2/2 twill.

    Examples
    --------
    >>> cloth = tartan(240, 360)
    >>> cloth.shape, int(np.linalg.matrix_rank(side_by_side(cloth)))
    ((240, 360, 3), 12)
    """
    weft, warp = _threads(height), _threads(width)
    down, across = np.arange(height) // THREAD, np.arange(width) // THREAD
    above = (down[:, None] + across[None, :]) % 4 < 2  # each thread passes over two and under two
    return np.where(above[:, :, None], warp[None, :], weft[:, None])


def side_by_side(picture: Floats) -> Floats:
    """Return a picture as a matrix: its red, green and blue parts beside each other."""
    return np.concatenate([picture[:, :, colour] for colour in range(3)], axis=1)


def stacked(matrix: Floats) -> Floats:
    """Return the picture that `side_by_side` made a matrix of."""
    return np.stack(np.split(matrix, 3, axis=1), axis=2)


def _threads(pixels: int) -> Floats:
    """Return the colours of so many pixels across the threads."""
    half = [_COLOURS[name] for name, count in _SETT for _ in range(count)]
    colours = np.array([*half, *half[::-1]], dtype=np.float64)
    place = np.arange(pixels)
    light = _LIGHT[place % THREAD]
    return np.asarray(colours[place // THREAD % len(colours)] * light[:, None])
