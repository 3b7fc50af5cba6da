"""How strongly a completion is regularised: the penalty, where to start, and the choice of its weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Cost
from rankfold.costs.completion import Completion
from rankfold.costs.offsets import GivenOffsets, Offsets
from rankfold.costs.regularisers import Nuclear
from rankfold.entries.lanczos import dominant_svd
from rankfold.entries.observed import Observed
from rankfold.entries.operators import SparseMatrix
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.estimators.completion.lines import solve_lines
from rankfold.estimators.completion.offsets import counts, fit_offsets, no_offsets, predictions, subtracted
from rankfold.estimators.fitting import Geometries, problem_of
from rankfold.linalg import svd_of_product
from rankfold.run.display import progress
from rankfold.run.driver import minimize
from rankfold.run.result import Result
from rankfold.run.stopping import RelativeChange, StopKind
from rankfold.selection.holding_out import hold_out, losses_of
from rankfold.solvers import ConjugateGradient

Floats = NDArray[Any]
Factors = tuple[Floats, Floats]

# Candidates are λ_max times powers of this, from the first on, until so many in a row lowered the held-out
# loss by less than a part of it that no user would notice.
_RATIO, _PATIENCE, _MAX_CANDIDATES, _NOTICED = 0.7, 2, 15, 5e-4
_HELD_OUT = 0.1
# What the choice looks at: about so many entries, of at least so many rows (or columns, if these are more).
MAX_ENTRIES, _MIN_LINES = 1_000_000, 100
# Loose: candidates are compared by an error that no longer changes in its fourth digit.
_LOOSE, _LOOSE_ITERATIONS = RelativeChange(1e-4, window=3), 40
# A singular value that the last candidate shrank to nothing starts again at this part of the largest.
_LIFT = 0.02


@dataclass(frozen=True, eq=False)
class Penalised:
    """A completion cost with its offsets taken off, and what the penalty on W needs to know of it.

    The penalty is (2λ/|Ω|) ‖D_r^½ W D_c^½‖_*, the least λ/|Ω| (Σ √n_i ‖L_i‖² + Σ √m_j ‖R_j‖²) over all
    W = L Rᵀ, with n_i and m_j entries in row i and column j: half-way between the plain ridge on factors (no
    weights) and the one that grows with the data (weights n_i, m_j). The noise in D_r^-½ P_Ω(E) D_c^-½ has a
    spectral norm that depends on the size of the errors E, not on their number, so one λ is right for a
    sample of the data and for all of it; on validation data it was as good as either extreme or better.
    """

    completion: Completion
    offsets: Offsets
    weights: tuple[Floats, Floats]

    @staticmethod
    def of(completion: Completion, bias: bool) -> Penalised:
        """Fit offsets if asked to, and take them off."""
        offsets = fit_offsets(completion) if bias else no_offsets(completion.shape)
        weights = tuple(np.sqrt(np.maximum(n, 1.0)) for n in counts(completion))
        if bias and completion.quadratic:
            completion = subtracted(completion, offsets)
        return Penalised(completion, offsets, (weights[0], weights[1]))

    def cost(self, weight: float) -> Cost:
        """Return what is minimised over W."""
        fit: Cost = self.completion
        mean, rows, cols = self.offsets
        if not self.completion.quadratic and (mean or rows.any() or cols.any()):
            fit = GivenOffsets(self.completion, mean + rows, cols)
        if not weight:
            return fit
        return fit + Nuclear(2 * weight / self.completion.observed.size, *self.weights)

    def balanced(self, L: Floats, R: Floats) -> Factors:
        """Return the factors of the same W that the ridge form of the penalty is least for."""
        U, s, V = svd_of_product(*self._scaled(L, R))
        return self._unscaled(U * np.sqrt(s), V * np.sqrt(s))

    def lifted(self, L: Floats, R: Floats) -> Factors:
        """Return the factors with no singular value left that is next to nothing."""
        U, s, V = svd_of_product(*self._scaled(L, R))
        roots = np.sqrt(np.maximum(s, _LIFT * s[0]))
        return self._unscaled(U * roots, V * roots)

    def start(self, weight: float, rank: int, seed: int) -> Factors | None:
        """Return a start: the dominant directions of what W has to explain, then a ridge problem per line.

        None if W = 0 is best: λ is at least λ_max.
        """
        U, s, V = dominant_svd(self._slope(), rank, seed)
        if s[0] <= weight:
            return None
        roots = np.sqrt(np.maximum(s - weight, _LIFT * s[0]))
        return self.swept(self._unscaled(U * roots, V * roots), weight)

    def swept(self, factors: Factors, weight: float) -> Factors:
        """Return the best L for R, then the best R for it, for the square loss nearest to the loss.

        The other way round if only L has the right size.
        """
        targets, half = self._targets()
        rows, cols = (weight / half * weights for weights in self.weights)
        L, R = factors
        if len(R) == self.completion.shape[1]:
            L = solve_lines(targets.by_row, R, rows)
            return L, solve_lines(targets.by_column, L, cols)
        R = solve_lines(targets.by_column, L, cols)
        return solve_lines(targets.by_row, R, rows), R

    def largest_weight(self, seed: int) -> float:
        """Return λ_max, from which on W = 0 is best."""
        return float(dominant_svd(self._slope(), 1, seed)[1][0])

    def _slope(self) -> _Scaled:
        """D_r^-½ S D_c^-½ for S = -|Ω|/2 times the gradient at W = 0."""
        targets, half = self._targets()
        sides = targets.by_row.data, targets.by_column.data
        values = [data[:, 0] * data[:, 1] if targets.weighted else data[:, 0] for data in sides]
        roots = half / np.sqrt(self.weights[0]), 1 / np.sqrt(self.weights[1])
        return _Scaled(SparseMatrix(targets, (values[0], values[1])), *roots)

    def _targets(self) -> tuple[Observed, float]:
        """Ω with the z, and the h, for which h (w - z)² is near the loss at W = 0; y and 1 for (w - y)²."""
        observed, (mean, rows, cols) = self.completion.observed, self.offsets
        if self.completion.quadratic:
            return observed, 1.0
        curvatures = []

        def slopes(i: NDArray[Any], j: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
            _, first, second = self.completion.loss(mean + rows[i] + cols[j], y)
            curvatures.append(float(np.max(second, initial=0.0)))
            return np.asarray(-first)

        targets = observed.with_values(slopes)
        half = max(curvatures) / 2 or 1.0
        return targets.with_values(lambda _i, _j, slope: slope / (2 * half)), half

    def _scaled(self, L: Floats, R: Floats) -> Factors:
        return self._times(L, R, np.sqrt)

    def _unscaled(self, L: Floats, R: Floats) -> Factors:
        return self._times(L, R, lambda weights: 1 / np.sqrt(weights))

    def _times(self, L: Floats, R: Floats, diagonal: Callable[[Floats], Floats]) -> Factors:
        rows, cols = (_times(diagonal(weights), X) for weights, X in zip(self.weights, (L, R), strict=True))
        return rows, cols


@dataclass(frozen=True, eq=False)
class _Scaled:
    """diag(rows) S diag(cols), by products alone."""

    matrix: SparseMatrix
    rows: Floats
    cols: Floats

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrix.dtype

    def __matmul__(self, X: Floats) -> Floats:
        return _times(self.rows, self.matrix @ _times(self.cols, X))

    def transposed_times(self, X: Floats) -> Floats:
        return _times(self.cols, self.matrix.transposed_times(_times(self.rows, X)))


def _times(diagonal: Floats, X: Floats) -> Floats:
    return (diagonal[:, None] * X).astype(X.dtype, copy=False)


@dataclass(frozen=True)
class Choice:
    """The weight chosen, the factors found with it, and (weight, held-out loss) of all that were tried.

    One of the factors is that of all rows, or of all columns; the other one may be that of a sample.
    """

    weight: float
    factors: Factors | None
    candidates: tuple[tuple[float, float], ...]


def choose_weight(
    completion: Completion, bias: bool, rank: int, geometry: str | Geometries, seed: int, verbose: int = 0
) -> Choice:
    """Choose λ by the loss of a tenth of the entries, held out; each candidate starts where the last ended.

    Looks at a sample of the longer side only if there are more than `MAX_ENTRIES` entries. `completion` is
    left alone.
    """
    train, test = hold_out(sample_lines(completion, MAX_ENTRIES, seed), _HELD_OUT, seed)
    fit = Penalised.of(train, bias)
    offsets = predictions(fit.offsets, *test[:2])
    weight = fit.largest_weight(seed)
    if not weight:
        return Choice(0.0, None, ())
    factors: Factors | None = None
    best: tuple[float, float, Factors | None] = (inf, weight, None)
    candidates, in_vain = [], 0
    with progress(verbose, "choosing the regularization") as tell:
        for _ in range(_MAX_CANDIDATES):
            weight *= _RATIO
            start = fit.start(weight, rank, seed) if factors is None else fit.lifted(*factors)
            if start is None:
                break
            factors = _loosely(fit, weight, start, rank, geometry)
            predicted = offsets + np.einsum("pk,pk->p", factors[0][test[0]], factors[1][test[1]])
            error = float(losses_of(train, test, predicted).mean())
            candidates.append((weight, error))
            tell(f"λ {weight:.4g}  held-out loss {error:.6g}")
            in_vain = 0 if error < (1 - _NOTICED) * best[0] else in_vain + 1
            if error < best[0]:
                best = error, weight, factors
            if in_vain == _PATIENCE:
                break
    return Choice(best[1], best[2], tuple(candidates))


def _loosely(
    fit: Penalised, weight: float, factors: Factors, rank: int, geometry: str | Geometries
) -> Factors:
    problem = problem_of(fit.cost(weight), rank, geometry)
    x0 = problem.geometry.from_factors(*factors)
    options: dict[str, Any] = {"max_iterations": _LOOSE_ITERATIONS, "tolerance": 0.0, "stop": _LOOSE}
    result: Result = minimize(problem, ConjugateGradient(), x0, **options)
    if result.stop.kind is StopKind.INTERRUPTED:
        raise KeyboardInterrupt  # there is no model yet
    if result.error is not None:
        raise result.error
    L, R = problem.geometry.factors(result.x)
    return L, R


def sample_lines(completion: Completion, limit: int, seed: int) -> Completion:
    """Return the cost of some lines of the longer side that together have about `limit` entries.

    Of all of them, if all have no more. Nothing of the size of the data is made.

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion([0, 0, 1, 2], [0, 1, 1, 0], [1.0, 2.0, 4.0, 2.0], (3, 2))
    >>> sample_lines(cost, 10, seed=0) is cost
    True
    """
    if completion.observed.size <= limit:
        return completion
    (d1, d2), observed = completion.shape, completion.observed
    side = observed.by_row if d1 >= d2 else observed.by_column
    order = np.random.default_rng(seed).permutation(side.lines)
    count = int(np.searchsorted(np.cumsum(side.counts[order]), limit, side="right"))
    chosen = np.sort(order[: max(count, min(_MIN_LINES, side.lines))])
    lines, entries = _entries_of(side, chosen)
    rows, cols = (lines, side.indices[entries]) if d1 >= d2 else (side.indices[entries], lines)
    sample = Observed.from_triples(
        rows, cols, side.data[entries, 0],
        (len(chosen), d2) if d1 >= d2 else (d1, len(chosen)),
        weights=side.data[entries, 1] if observed.weighted else None,
        duplicates="keep", warn_of_empty=False,
    )  # fmt: skip
    return Completion.from_observed(sample, completion.loss)


def _entries_of(
    side: SortedEntries, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the entries of some lines: their places in the side, and which of the lines each belongs to."""
    lines, entries = [], []
    for s in range(side.stripes):
        starts = side.stripe(s)[1].view(np.int64)
        sizes = starts[chosen + 1] - starts[chosen]
        lines.append(np.repeat(np.arange(len(chosen)), sizes))
        entries.append(np.arange(sizes.sum()) + np.repeat(starts[chosen] - np.cumsum(sizes) + sizes, sizes))
    return np.concatenate(lines), np.concatenate(entries)
