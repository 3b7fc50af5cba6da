"""What clicks ask of W: 1 where there is one, 0 where there is none, and the first more than the second.

With n_ij clicks at a pair, and the weight v_ij = α n_ij that they have beyond that of a pair without any,

    Σ_clicked (1 + v_ij) (W_ij − 1)² + Σ_others W_ij² + λ (Σ n_i^¾ ‖L_i‖² + Σ m_j^¼ ‖R_j‖²)

where n_i and m_j are the sums of v over row i and column j (Hu, Koren and Volinsky 2008, with a plain ridge).
That is `Completion + Unobserved`, and the penalty of `MatrixCompletion` with other powers. No pair without a
click is visited: the squares of all entries are a product of Grams, and what is left of those clicked,
(1 + v)(W − 1)² − W², is v (W − (1 + v) / v)² − (1 + v) / v.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankfold.costs.base import ANY_SHAPE, Array, Combination, Cost, Evaluation
from rankfold.costs.completion import Completion
from rankfold.costs.regularisers import Frobenius
from rankfold.data.numbering import refuse
from rankfold.data.spill.folder import SortedFolder
from rankfold.data.triples import Triples
from rankfold.entries.given_arrays import real_vector
from rankfold.entries.lines import FactorPair, solve_lines
from rankfold.estimators.completion.entries import completion_of
from rankfold.estimators.completion.joint import Joint
from rankfold.estimators.completion.offsets import counts
from rankfold.estimators.inputs import (
    checked_rank,
    checked_regularization,
    checked_weights,
    is_auto,
    pair_columns,
)
from rankfold.estimators.tensors import without_tensors
from rankfold.linalg import gram

Floats = NDArray[Any]
# Of n_i and m_j in the penalty: with ½ and ½, as for ratings, lists of clicks held out are worse.
POWERS = 0.75, 0.25


def check_settings(rank: Any, alpha: Any, regularization: Any, shape: tuple[int, int]) -> None:
    """Refuse what no fit can be made with; a rank above the largest possible is taken to mean that."""
    if not is_auto(regularization):
        checked_regularization(regularization, "'auto' or ")
    if not (isinstance(alpha, Real) and 0 < float(alpha) < np.inf):
        raise ValueError(f"alpha must be finite and above 0, not {alpha!r}")
    if not is_auto(rank):
        capped = min(rank, *shape) if isinstance(rank, Integral) else rank
        checked_rank(capped, min(shape), "the lesser of {} rows and {} columns".format(*shape))


def counts_of(X: Any, y: Any) -> Any:
    """Return the clicks of pairs: one each, if they are not counted; Triples bring their own."""
    counted = isinstance(X, (Triples, SortedFolder))  # a folder is refused by name
    return np.ones(len(pair_columns(X)[0])) if y is None and not counted else y


def click_completion(data: Triples, sample_weight: Any, alpha: float, dtype: DTypeLike) -> Completion:
    """Return v (W − (1 + v) / v)² at the pairs of clicks; the clicks of a pair that comes twice add up.

    A pair of 0 clicks has the weight 0, and the value 0.
    """
    clicks = real_vector("y", data.values).astype(np.float64)
    refuse(clicks < 0, clicks, "y[{}]", "counts of clicks are never negative")
    (weights,) = without_tensors(sample_weight)
    clicks = clicks * checked_weights(weights, clicks.size)
    if not clicks.any():
        raise ValueError("y is 0 for every pair: there is no click to learn from")
    rows, cols = (np.asarray(side, dtype=np.int64) for side in (data.rows, data.cols))
    pairs, numbers = np.unique(rows * data.shape[1] + cols, return_inverse=True)
    v = alpha * np.bincount(numbers, clicks)
    values = np.divide(1 + v, v, out=np.zeros_like(v), where=v > 0)
    rows, cols = np.divmod(pairs, data.shape[1])
    return completion_of(Triples(rows, cols, values, data.shape), v, "square", dtype)


class Clicks(Combination):
    """The objective above, divided by the number of pairs that were seen, over factors L and R."""

    def __init__(self, joint: Joint) -> None:
        self.joint, self.roots = joint, joint.roots
        data, size = joint.completion.observed.by_row.data, joint.completion.observed.size
        one = _Constant(-float(data[:, 0].sum(dtype=np.float64)) / size)
        super().__init__([(1.0, joint), (1 / size, Frobenius(1.0)), (1.0, one)])
        self.nonnegative = True  # by the formula above

    @staticmethod
    def of(completion: Completion, weight: float = 0.0, powers: tuple[float, float] = POWERS) -> Clicks:
        """Return the objective of what `click_completion` returned; `powers` are of its rows and columns."""
        both = zip(counts(completion), powers, strict=True)
        rows, cols = (np.maximum(n, 1.0) ** power for n, power in both)
        return Clicks(Joint(completion, (rows, cols), weight))

    def share_of(self, shape: tuple[int, int]) -> float:
        """Return what λ is here for a λ of 1 on a matrix of which these are some rows, or some columns.

        Lines of the other side have fewer clicks here. With powers of ½ one λ is right for both (`Joint`).
        Charges, which count by the roots of their products, grow as much with other powers by this.
        """
        (d1, d2), (rows, cols) = self.shape, POWERS
        return float((d1 * shape[1] / (d2 * shape[0])) ** ((rows - cols) / 4))

    def at(self, weight: float) -> Clicks:
        """Return the objective with another weight of the penalty."""
        return Clicks(self.joint.at(weight, None))

    def solved(self, k: int, Y: Floats) -> Floats:
        """Return the best lines of side k for the lines Y of the other one.

        In the directions in which the Gram of Y is diagonal, the squares of all entries are a ridge.
        """
        values, E = np.linalg.eigh(gram(Y, Y).astype(np.float64))
        E = E.astype(Y.dtype)
        ridges = self.joint.ridges(k, Y.shape[1]) + np.maximum(values, 0.0)
        return np.asarray(solve_lines(self.joint.completion.observed.sides[k], Y @ E, ridges) @ E.T)

    def swept(self, G: Floats, H: Floats) -> FactorPair:
        """Return the best rows for the columns, then the best columns for these rows."""
        G = self.solved(0, H)
        return G, self.solved(1, G)

    def centred(self, G: Floats, H: Floats) -> FactorPair:
        """Return the point: there are no offsets that could be moved."""
        return G, H

    def completed(self, G: Floats, H: Floats) -> FactorPair:
        """Return a point from one of which only one factor belongs to all lines of its side."""
        if len(H) == self.shape[1]:
            return self.solved(0, H), H
        return G, self.solved(1, G)

    def started(self, rank: int, seed: int) -> tuple[float, FactorPair]:
        """Return λ_max, from which on W = 0 is best, and a start: dominant directions, as long as is best."""
        largest, (L, R) = self.joint.started(*self.joint.constant(), rank, seed)
        zero, one, four = self.value_at_zero, self.value(L, R), self.value(2 * L, 2 * R)
        # With t L Rᵀ for W the value is a parabola in t.
        bend = (four - 4 * one + 3 * zero) / 12
        slope = one - zero - bend
        root = float(np.sqrt(-slope / (2 * bend))) if slope < 0 < bend else 1.0
        return largest, (L * L.dtype.type(root), R * R.dtype.type(root))


class _Constant(Cost):
    """A number, whatever W is."""

    shape = ANY_SHAPE
    quadratic = True
    has_start = False
    value_at_zero = 0.0

    def __init__(self, number: float) -> None:
        self.value_at_zero = number

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value, and derivatives of 0."""
        return Evaluation(self.value_at_zero, 0 * L, 0 * R)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Nothing changes."""
        return 0 * L, 0 * R

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients of a constant."""
        coefficients = np.zeros(2 * (len(Ls) + len(Rs)) - 3)
        coefficients[0] = self.value_at_zero
        return coefficients
