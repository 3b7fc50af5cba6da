"""Rows as x = mean + L z + noise, with z of low dimension and a noise of its own for each column.

That is factor analysis. Its noise variances tell which columns to trust: with one noise for all columns, as
a plain low-rank fit has, a nearly exact copy of a missing entry counts no more than any other entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.run.display import progress
from rankfold.selection.rank import RankPath

Floats = NDArray[np.float64]
Known = NDArray[np.bool_]
FLOOR = 1e-6  # of the noise's variance, in units of the column's: columns may be copies of each other
_INNER = 4  # alternations between L and ψ in each M-step; EM goes on from there
_HELD_OUT, _PATH_ITERATIONS, _PATIENCE = 0.1, 3, 2
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
        X = np.where(known, Z - self.mean, 0.0)
        precision = self._precision()
        added = np.empty((0, 0)) if covariance is None else covariance
        kernels.conditional.fill(X, known, self.L, self.psi, precision, added)
        return np.asarray(X + self.mean)

    def improved(self, Z: Floats, known: Known, rank: int) -> tuple[FactorModel, Floats]:
        """Return the model after an EM step, and the table as this model fills it."""
        n, d = Z.shape
        covariance = np.zeros((d, d))
        full = self.filled(Z, known, covariance)
        mean = full.mean(axis=0)
        S = (full.T @ full + covariance) / n - np.outer(mean, mean)
        return FactorModel(mean, *_factors_of(S, self.psi, rank)), full

    def _precision(self) -> Floats:
        """(L Lᵀ + diag ψ)⁻¹, by the Woodbury identity."""
        scaled = self.L / self.psi[:, None]
        inner = np.eye(self.L.shape[1]) + self.L.T @ scaled
        return np.asarray(np.diag(1 / self.psi) - scaled @ np.linalg.solve(inner, scaled.T))


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
    start: FactorModel,
    Z: Floats,
    known: Known,
    rank: int,
    max_iterations: int,
    tolerance: float,
    verbose: int = 0,
) -> tuple[FactorModel, int, bool]:
    """Return the model, the number of EM steps taken, and whether filled entries had stopped changing."""
    model, before = start, None
    holes = ~known
    with progress(verbose, "EM") as tell:
        for k in range(1, max_iterations + 1):
            model, full = model.improved(Z, known, rank)
            now = full[holes]
            if before is not None:
                change = float(np.sqrt(np.mean((now - before) ** 2))) if now.size else 0.0
                tell(f"step {k}  change of the filled entries {change:.3g}")
                if change <= tolerance:
                    return model, k, True
            before = now
    return model, max_iterations, False


def choose_rank(Z: Floats, known: Known, largest: int, rng: Any, verbose: int = 0) -> RankPath:
    """Choose the rank by the squared error of a tenth of the entries, held out; each rank starts the next.

    The least rank is taken whose excess over the best error is within one standard error of that excess,
    which tells ranks apart that the errors' own deviations do not. `fits` are the mean noise variances.
    """
    if len(Z) > _PATH_ROWS:
        rows = rng.permutation(len(Z))[:_PATH_ROWS]
        Z, known = Z[rows], known[rows]
    test = known & (rng.uniform(size=Z.shape) < _HELD_OUT)
    train = known & ~test
    model = FactorModel.start(Z.shape[1])
    tried: list[tuple[int, float, float, float]] = []
    models: list[FactorModel] = []
    losses: list[Floats] = []
    with progress(verbose, "choosing the rank") as tell:
        for rank in _candidates(largest):
            for _ in range(_PATH_ITERATIONS):
                model, _ = model.improved(Z, train, rank)
            squares = (model.filled(Z, train) - Z)[test] ** 2 if test.any() else np.zeros(1)
            tried.append((rank, float(squares.mean()), _standard_error(squares), float(model.psi.mean())))
            models.append(model)
            losses.append(squares)
            tell(f"rank {rank}  held-out error {tried[-1][1]:.6g}")
            best = min(tried, key=lambda row: row[1])
            if len(tried) - 1 - tried.index(best) >= _PATIENCE:
                break
    excess = [squares - losses[tried.index(best)] for squares in losses]
    k = next(k for k, more in enumerate(excess) if more.mean() <= _standard_error(more))
    ranks, errors, deviations, fits = zip(*tried, strict=True)
    return RankPath(ranks, errors, deviations, fits, ranks[k], (models[k].mean, models[k].L))


def _standard_error(values: Floats) -> float:
    return float(values.std() / np.sqrt(values.size))


def _candidates(largest: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, ... and the largest."""
    doubling = {2**k for k in range(20)} | {3 * 2**k for k in range(20)}
    return sorted({k for k in doubling if k < largest} | {largest})
