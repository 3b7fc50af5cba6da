"""Reduced-rank regression on yeast cell cycle and stock04, to set beside reduced-rank ridge.

    python -m benchmarks.regression path/to/data

where path/to/data holds yeast_cellcycle/{X,Y}.csv.gz and stock04/stock04.csv. Yeast: 10 folds, average over
responses of RMSE relative to that of the training mean, rank and ridge chosen by 5 folds within the training
part. stock04: VAR(1), first 26 pairs train, last 25 test; rank and ridge chosen by 5 folds, three
times, within the training part. Fits are the closed form of `Regression` + `Frobenius`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import rankfold as rf

Floats = np.ndarray[Any, Any]
RIDGES = np.logspace(-3, 3, 13)  # of predictors scaled to unit variance


class Model:
    """A fit of centred and scaled data for any rank and ridge; rank 0 is the training mean."""

    def __init__(self, X: Floats, Y: Floats):
        self.mean, self.scale, self.centre = X.mean(axis=0), X.std(axis=0), Y.mean(axis=0)
        self.cost = rf.Regression((X - self.mean) / self.scale, Y - self.centre)

    def error(self, X: Floats, Y: Floats, rank: int, ridge: float) -> Floats:
        """Sum of squared errors by response."""
        residual = Y - self.centre
        if rank:
            U, s, V = self.cost.closed_form(rank, ridge / Y.shape[1])
            residual = residual - ((X - self.mean) / self.scale) @ (U * s) @ V.T
        return np.asarray(np.sum(residual**2, axis=0))


def folds(n: int, count: int, seed: int) -> list[Floats]:
    return np.array_split(np.random.default_rng(seed).permutation(n), count)


def choose(X: Floats, Y: Floats, parts: list[Floats], ranks: range) -> tuple[int, float]:
    """Rank and ridge with the least squared error over the held-out parts."""
    models = [Model(np.delete(X, part, 0), np.delete(Y, part, 0)) for part in parts]
    errors = {
        (rank, ridge): sum(
            model.error(X[part], Y[part], rank, ridge).sum()
            for model, part in zip(models, parts, strict=True)
        )
        for rank in ranks
        for ridge in (RIDGES if rank else RIDGES[:1])
    }
    return min(errors, key=errors.__getitem__)


def yeast(folder: Path) -> None:
    X, Y = (np.loadtxt(folder / f"{name}.csv.gz", delimiter=",", skiprows=1) for name in "XY")
    total = np.zeros((2, Y.shape[1]))
    by_fold, chosen = [], []
    for fold in folds(len(X), 10, seed=0):
        train = np.delete(np.arange(len(X)), fold)
        rank, ridge = choose(X[train], Y[train], folds(len(train), 5, seed=1), range(3, 8))
        model = Model(X[train], Y[train])
        errors = np.array([model.error(X[fold], Y[fold], r, ridge) for r in (rank, 0)])
        chosen.append(rank)
        by_fold.append(np.mean(np.sqrt(errors[0] / errors[1])))
        total += errors
    pooled = np.mean(np.sqrt(total[0] / total[1]))
    print(
        f"yeast: relative RMSE averaged over responses, pooled folds {pooled:.4f}, "
        f"mean of folds {np.mean(by_fold):.4f}; ranks {chosen}"
    )


def stock(path: Path) -> None:
    returns = np.loadtxt(path, delimiter=",", skiprows=1)
    X, Y = returns[:-1], returns[1:]
    parts = [part for seed in range(3) for part in folds(26, 5, seed)]
    rank, ridge = choose(X[:26], Y[:26], parts, range(1, 4))
    model = Model(X[:26], Y[:26])
    found, mean = (1e3 * model.error(X[26:], Y[26:], r, ridge).sum() / Y[26:].size for r in (rank, 0))
    print(f"stock04: test MSE x 1e3 {found:.4f} (mean {mean:.4f}), rank {rank}, ridge {ridge:.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    yeast(data / "yeast_cellcycle")
    stock(data / "stock04" / "stock04.csv")


if __name__ == "__main__":
    main()
