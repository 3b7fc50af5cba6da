"""Lines for losses other than the square: its quadratic model, and steps that no line is worse for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.losses import Loss
from rankfold.entries.sorted_entries import SortedEntries

Floats = NDArray[Any]
_BLOCK = 1 << 18  # entries looked at together
# A loss that is nearly straight, or bends the other way, is taken to curve by this part of the mean: a
# Newton step could go anywhere.
_LEAST_CURVATURE = 0.03
_HALVINGS = 12


def quadratic_model(side: SortedEntries, A: Floats, B: Floats, loss: Loss) -> SortedEntries:
    """Return entries (z, h) for which Σ h (w − z)² has the slope and the curvature of the losses at A Bᵀ."""
    data = np.empty((side.indices.size, 2), side.data.dtype)
    slopes = np.empty(len(data), side.data.dtype)
    for part, _, w, y, _ in _parts(side, A, B):
        with np.errstate(over="ignore"):
            _, first, second = loss(w, y)
        data[part, 0], data[part, 1], slopes[part] = w, second / 2, first / 2
    least = _LEAST_CURVATURE * float(np.mean(np.maximum(data[:, 1], 0.0))) or 1.0
    np.maximum(data[:, 1], least, out=data[:, 1])
    data[:, 0] -= slopes / data[:, 1]
    if side.data.shape[1] == 2:
        data[:, 1] *= side.data[:, 1]
    return replace(side, data=data)


def damped(
    side: SortedEntries, X: Floats, found: Floats, B: Floats, loss: Loss, ridges: Floats, pull: Floats | None
) -> Floats:
    """Return lines on the way from X to those found, as far as no line's own cost rises."""

    def costs(Z: Floats) -> Floats:
        wide = np.hstack([Z, np.ones((len(Z), 1), Z.dtype)]) if B.shape[1] > Z.shape[1] else Z
        total = np.einsum("ik,ik->i", ridges * Z, Z, dtype=np.float64)
        if pull is not None:
            total -= 2 * np.einsum("ik,ik->i", pull, Z, dtype=np.float64)
        for _, lines, w, y, weights in _parts(side, wide, B):
            with np.errstate(over="ignore"):
                values = loss(w, y)[0]
            total += np.bincount(lines, values if weights is None else weights * values, len(Z))
        return np.asarray(total)

    before, steps = costs(X), np.ones((len(X), 1), X.dtype)
    for _ in range(_HALVINGS):
        Z = X + steps * (found - X)
        worse = ~(costs(Z) <= before)
        if not worse.any():
            return np.asarray(Z)
        steps[worse] /= 2
    steps[worse] = 0
    return np.asarray(X + steps * (found - X))


def _parts(
    side: SortedEntries, A: Floats, B: Floats
) -> Iterator[tuple[slice, NDArray[Any], Floats, Floats, Floats | None]]:
    """Blocks of entries: which, of which lines, what A Bᵀ is there, the values and the weights."""
    keys = side.keys
    for first in range(0, keys.size, _BLOCK):
        part = slice(first, first + _BLOCK)
        lines, data = keys[part].astype(np.int64), side.data[part]
        w = np.einsum("pk,pk->p", A[lines], B[side.indices[part]], dtype=np.float64)
        yield part, lines, w, data[:, 0], data[:, 1] if data.shape[1] == 2 else None
