"""Rows as x = mean + L z + noise, with z of low dimension and a noise of its own for each column.

That is factor analysis. Its noise variances tell which columns to trust: with one noise for all columns, as
a plain low-rank fit has, a nearly exact copy of a missing entry counts no more than any other entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.estimators.rank_errors import RankErrors, choose_rank
from rankfold.linalg import norm_of_product
from rankfold.run.display import progress
from rankfold.run.stopping import Iterations, Stop, StopKind
from rankfold.run.trace import Trace, TraceRow

Floats = NDArray[np.float64]
Known = NDArray[np.bool_]
FLOOR = 1e-6  # of the noise's variance, in units of the column's: columns may be copies of each other
_INNER = 4  # alternations between L and ψ in each M-step; EM goes on from there
_HELD_OUT = 0.1
_GAIN, _PATH_STEPS = 0.01, 20  # EM at a rank ends when a step lowers the held-out error by less, or here
_PATH_ROWS = 4000  # that the choice of the rank looks at


@dataclass(frozen=True)
class FactorModel:
    """The covariance L Lᵀ + diag(ψ) and the mean of rows in units of their columns' deviations."""

    mean: Floats
    L: Floats
    psi: Floats

    @staticmethod
    def start(columns: int) -> FactorModel:
        """Return a model that knows nothing: independent columns."""
        return FactorModel(np.zeros(columns), np.zeros((columns, 0)), np.ones(columns))

    def filled(self, Z: Floats, known: Known, covariance: Floats | None = None) -> Floats:
        """Return Z with its holes filled by what is expected there given the rest of the row."""
        # Row after row, and none read-only: the kernel would compile for seconds for each kind of array.
        X = np.ascontiguousarray(np.where(known, Z - self.mean, 0.0))
        known, L, psi = np.ascontiguousarray(known), np.array(self.L, order="C"), np.array(self.psi)
        # (L Lᵀ + diag ψ)⁻¹, by the Woodbury identity.
        scaled = self.L / self.psi[:, None]
        inner = np.eye(self.L.shape[1]) + self.L.T @ scaled
        precision = np.diag(1 / self.psi) - scaled @ np.linalg.solve(inner, scaled.T)
        added = np.empty((0, 0)) if covariance is None else covariance
        kernels.conditional.fill(X, known, L, psi, precision, added)
        return np.asarray(X + self.mean)

    def improved(self, Z: Floats, known: Known, rank: int) -> tuple[FactorModel, Floats]:
        """Return the model after an EM step, and the table as this model fills it."""
        n, d = Z.shape
        covariance = np.zeros((d, d))
        full = self.filled(Z, known, covariance)
        mean = full.mean(axis=0)
        S = (full.T @ full + covariance) / n - np.outer(mean, mean)
        return FactorModel(mean, *_factors_of(S, self.psi, rank)), full


def _factors_of(S: Floats, psi: Floats, rank: int) -> tuple[Floats, Floats]:
    """Return L and ψ of S ≈ L Lᵀ + diag(ψ): for given ψ the best L is known, and the other way round."""
    from scipy.linalg import eigh

    d = len(S)
    for _ in range(_INNER):
        roots = np.sqrt(psi)
        values, E = eigh(S / np.outer(roots, roots), subset_by_index=(d - rank, d - 1))
        L = roots[:, None] * E * np.sqrt(np.maximum(values - 1, 0))
        psi = np.maximum(np.diag(S) - np.sum(L * L, axis=1), FLOOR)
    return L, psi


def fit(
    model: FactorModel, Z: Floats, known: Known, rank: int, max_iter: int, tol: float, verbose: int
) -> tuple[FactorModel, Trace, Stop]:
    """Return the model after EM, which starts from `model`, and how EM went and ended.

    The trace holds, as the length of a step, the larger of two changes in root mean square: that of the
    filled entries, and that of L Lᵀ, by which rows with holes will be filled even if these have none. EM
    computes neither likelihood nor gradient, so these are not in it.
    """
    began, before, stop = perf_counter(), None, None
    limit, trace, holes = Iterations(max_iter), Trace([TraceRow(0, nan, nan, 0.0)]), ~known
    with progress(verbose, "EM") as tell:
        while stop is None:
            last, (model, full) = model.L, model.improved(Z, known, rank)
            now = full[holes]
            change = nan if before is None else max(_rms(now - before), _moved(last, model.L))
            trace = trace.extended(TraceRow(len(trace), nan, nan, perf_counter() - began, step=change))
            tell(f"step {trace[-1].iteration}  change {change:.3g}")
            stop, before = limit(trace), now
            if change <= tol:
                stop = Stop(
                    f"filled entries and L Lᵀ changed by {change:.3g} <= {tol:.3g}", StopKind.CONVERGED
                )
    return model, trace, stop


def _rms(changes: Floats) -> float:
    return float(np.sqrt(np.mean(changes**2))) if changes.size else 0.0


def _moved(before: Floats, L: Floats) -> float:
    """The change of L Lᵀ in root mean square, without forming it."""
    return norm_of_product([L, -before], [L, before]) / len(L)


def rank_errors(Z: Floats, known: Known, largest: int, rng: Any, verbose: int) -> RankErrors:
    """Choose the rank by the squared error of a tenth of the entries, held out; each rank starts the next."""
    if len(Z) > _PATH_ROWS:
        rows = rng.permutation(len(Z))[:_PATH_ROWS]
        Z, known = Z[rows], known[rows]
    test = known & (rng.uniform(size=Z.shape) < _HELD_OUT)
    train = known & ~test
    model = FactorModel.start(Z.shape[1])

    def left(full: Floats) -> Floats:
        return np.asarray((full - Z)[test] ** 2) if test.any() else np.zeros(1)

    def squares(rank: int) -> Floats:
        # To the end at each rank: else a rank would be better by the steps alone that it has after others.
        nonlocal model
        error, (model, _) = np.inf, model.improved(Z, train, rank)
        for _ in range(_PATH_STEPS):
            model, full = model.improved(Z, train, rank)
            before, error = error, float(left(full).mean())
            if error >= (1 - _GAIN) * before:
                break
        return left(model.filled(Z, train))

    return choose_rank(largest, squares, verbose)
