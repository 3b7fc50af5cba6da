"""Reduced-rank regression on yeast cell cycle and stock04, to set beside reduced-rank ridge.

    python -m benchmarks.regression path/to/data [--split 0]

where path/to/data holds yeast_cellcycle/{X,Y}.csv.gz and stock04/stock04.csv. Yeast: 10 folds, drawn by the
seed --split, RMSE relative to that of the training mean, averaged over the responses. stock04: VAR(1),
first 26 pairs train, last 25 test. Rank and ridge are chosen within the training part: by 5-fold cross-
validation (three times on stock04, which is small) or by a criterion of the fit; "cv error" is what that
cross-validation expects. "mean" predicts the training mean; least squares has full rank. The predictors of
each set share a unit; "standardised" rows divide each by its deviation all the same.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold, RepeatedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankfold as rf

Floats = np.ndarray[Any, Any]


def models(full: int, cv: Any) -> dict[str, Any]:
    """Models whose last step is the regression, by name; `full` is the full rank of the coefficients."""
    both = {"rank": "auto", "regularization": "auto"}
    ridge = {"rank": full, "regularization": "auto"}
    settings = {
        "least squares": ((), {"rank": full}),
        "ridge by cv, standardised": ((StandardScaler(),), ridge),
        "ridge by cv": ((), ridge),
        "rank and ridge by cv, standardised": ((StandardScaler(),), both),
        "rank and ridge by cv": ((), both),
    } | {f"rank and ridge by {name}": ((), both | {"criterion": name}) for name in ("gcv", "aic", "bic")}
    return {
        name: make_pipeline(*steps, rf.ReducedRankRegression(**options, cv=cv, random_state=0))
        for name, (steps, options) in settings.items()
    }


class Fold(NamedTuple):
    """Sums of squared errors by response, and what the model chose."""

    squares: Floats
    rank: int = 0
    ridge: float = np.nan
    expected: float = np.nan


def tested(model: Any, X: Floats, Y: Floats, train: Floats, test: Floats) -> Fold:
    """Fit and test; without a model, the training mean."""
    if model is None:
        return Fold(np.sum((Y[test] - Y[train].mean(axis=0)) ** 2, axis=0))
    last = model.fit(X[train], Y[train])[-1]
    path = last.regularization_path_
    expected = np.nan if path is None or path.criterion != "cv" else path.scores.min()
    squares = np.sum((Y[test] - model.predict(X[test])) ** 2, axis=0)
    return Fold(squares, last.rank_, last.regularization_, expected)


def yeast(folder: Path, split: int) -> None:
    X, Y = (np.loadtxt(folder / f"{name}.csv.gz", delimiter=",", skiprows=1) for name in "XY")
    splits = list(KFold(10, shuffle=True, random_state=split).split(X))
    mean = np.array([tested(None, X, Y, *split).squares for split in splits])
    print("| yeast cell cycle | relative RMSE, mean of folds | folds pooled | ranks | cv error | seconds |")
    print("|---|---|---|---|---|---|")
    for name, model in models(min(X.shape[1], Y.shape[1]), cv=5).items():
        began = time.perf_counter()
        folds = [tested(model, X, Y, *split) for split in splits]
        errors, ranks = np.array([fold.squares for fold in folds]), [fold.rank for fold in folds]
        by_fold = np.mean(np.sqrt(errors / mean))
        pooled = np.mean(np.sqrt(np.sum(errors, axis=0) / mean.sum(axis=0)))
        expected = np.mean([fold.expected for fold in folds])
        print(f"| {name} | {by_fold:.4f} | {pooled:.4f} | {min(ranks)} to {max(ranks)} | {expected:.5f} "
              f"| {time.perf_counter() - began:.1f} |", flush=True)  # fmt: skip


def stock(path: Path) -> None:
    returns = np.loadtxt(path, delimiter=",", skiprows=1)
    X, Y = returns[:-1], returns[1:]
    split = np.arange(26), np.arange(26, 51)
    print("\n| stock04 | test MSE x 1e3 | rank | ridge |\n|---|---|---|---|")
    for name, model in {
        "mean": None,
        **models(min(X.shape[1], Y.shape[1]), RepeatedKFold(n_splits=5, n_repeats=3, random_state=0)),
    }.items():
        fold = tested(model, X, Y, *split)
        print(f"| {name} | {1e3 * fold.squares.sum() / Y[26:].size:.4f} | {fold.rank} | {fold.ridge:.3g} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", type=int, default=0)
    options = parser.parse_args()
    yeast(options.data / "yeast_cellcycle", options.split)
    stock(options.data / "stock04" / "stock04.csv")


if __name__ == "__main__":
    main()
