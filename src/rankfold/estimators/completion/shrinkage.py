"""How much offsets are shrunk: by the variance that the data say they have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from rankfold.costs.completion import Completion
from rankfold.entries.lines import FactorPair, solve_with_pivots
from rankfold.estimators.completion.convex_lines import ConvexLines
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.selection.holding_out import Triples

Floats = NDArray[Any]
# Next to no shrinkage, and so much that an offset is next to nothing; in numbers of entries.
LEAST, MOST = 1e-8, 1e9
_CANDIDATES = 25  # variances looked at, evenly on a logarithmic scale, before the best is refined


def estimated(joint: Joint, x: FactorPair, noise: float) -> Shrinkage:
    """Return ρ = noise / τ² for either side, with τ² the most likely variance of its offsets.

    Given the other side, the offset of a line is estimated with a variance of noise / s, where s is what is
    left of its curvature when the line's factor is eliminated. The estimates b̂ are so many draws from
    N(0, τ² + noise / s), and τ² maximises their likelihood.
    """
    G, H = x
    of_rows = _variance(*_estimates(joint, 0, G, H), noise)
    of_cols = _variance(*_estimates(joint, 1, H, G), noise)
    rows, cols = (noise / variance if variance > 0 else MOST for variance in (of_rows, of_cols))
    return Shrinkage(float(np.clip(rows, LEAST, MOST)), float(np.clip(cols, LEAST, MOST)))


def dispersion(completion: Completion, data: Floats, predicted: Floats) -> float:
    """Return the variance of y about what is predicted, in the unit of half the loss's curvature.

    That is the mean of ¼ ℓ'² over that of ½ ℓ'': for the square loss the mean square of the residuals, and
    ½ for a loss that is the negative logarithm of a true likelihood.
    """
    _, first, second = completion.loss(predicted, data[:, 0])
    weights = data[:, 1] if data.shape[1] == 2 else np.ones(len(data))
    curvature = float(weights @ np.maximum(second, 0.0)) / 2
    return float(weights @ first**2) / 4 / curvature if curvature > 0 else 0.0


def noise_of(joint: Joint, x: FactorPair, test: Triples, predicted: Floats) -> float:
    """Return the dispersion of the noise: the geometric mean of what was fitted and what was held out.

    A fit follows the noise, so that it seems too small where it was fitted, and too large where it was not,
    both by about as much.
    """
    A, B = joint.widened(*x)
    completion, side = joint.completion, joint.completion.observed.by_row
    if completion.quadratic:
        weight = float(side.data[:, 1].sum(dtype=np.float64)) if side.data.shape[1] == 2 else len(side.data)
        seen = completion.value(A, B) * len(side.data) / (weight or 1.0)
    else:
        fitted = np.einsum("pk,pk->p", A[side.keys], B[side.indices], dtype=np.float64)
        seen = dispersion(completion, side.data, fitted)
    return float(np.sqrt(seen * dispersion(completion, test[2], predicted)))


def _estimates(joint: Joint, k: int, X: Floats, Y: Floats) -> tuple[Floats, Floats]:
    """Return b̂ and s of the lines of side k; where s is 0, b̂ says nothing."""
    side, B = joint.completion.observed.sides[k], np.ascontiguousarray(joint.design(Y))
    ridges = joint.ridges(k, X.shape[1])
    ridges[:, -1] = 0.0
    if not joint.quadratic:
        side = ConvexLines(side, joint.completion.loss, B, ridges).model(X)
    x, information = solve_with_pivots(side, B, ridges)
    found = x[:, -1].astype(np.float64)
    if k == 0:
        found = found - X[:, -1].mean()
    return found, information.astype(np.float64)


def _variance(found: Floats, information: Floats, noise: float) -> float:
    """Return the τ² for which N(0, τ² + noise / information) makes what was found most likely."""
    known = information > 0
    squares, errors = found[known] ** 2, noise / information[known]
    if not squares.size or not squares.max() > 0:
        return 0.0
    # Less than a millionth of the errors is nothing; more than the largest square is too much.
    top = float(np.log(squares.max()))
    bottom = min(float(np.log(max(1e-6 * errors.min(), 1e-30 * squares.max()))), top)

    def cost(log: float) -> float:
        variances = np.exp(log) + errors
        return float(np.sum(np.log(variances) + squares / variances))

    candidates = np.linspace(bottom, top, _CANDIDATES)
    best = int(np.argmin([cost(log) for log in candidates]))
    if best == 0:
        return 0.0
    around = candidates[best - 1], candidates[min(best + 1, _CANDIDATES - 1)]
    return float(np.exp(minimize_scalar(cost, bounds=around, method="bounded", options={"xatol": 1e-3}).x))
