"""Reduced-rank regression on yeast cell cycle and stock04, to set beside reduced-rank ridge.

    python -m benchmarks.regression path/to/data

where path/to/data holds yeast_cellcycle/{X,Y}.csv.gz and stock04/stock04.csv. Yeast: 10 folds, RMSE relative
to that of the training mean, averaged over the responses. stock04: VAR(1), first 26 pairs train, last 25
test. Rank and ridge are chosen within the training part: by 5-fold cross-validation (three times on stock04,
which is small) or by a criterion of the fit. "mean" predicts the training mean; least squares has full rank.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, RepeatedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankfold as rf

Floats = np.ndarray[Any, Any]
FULL = 10**6


def models(cv: Any) -> dict[str, Any]:
    chosen = {name: {"rank": name, "ridge": "auto"} for name in ("cv", "gcv", "aic", "bic")}
    settings = {"least squares": {"rank": FULL}, "ridge by cv": {"rank": FULL, "ridge": "auto"}} | {
        f"rank and ridge by {name}": options for name, options in chosen.items()
    }
    return {
        name: make_pipeline(StandardScaler(), rf.ReducedRankRegression(**options, cv=cv, random_state=0))
        for name, options in settings.items()
    }


def squares(model: Any, X: Floats, Y: Floats, train: Floats, test: Floats) -> tuple[Floats, int]:
    """Return the sum of squared errors by response, and the rank; without a model, of the training mean."""
    if model is None:
        return np.sum((Y[test] - Y[train].mean(axis=0)) ** 2, axis=0), 0
    model.fit(X[train], Y[train])
    return np.sum((Y[test] - model.predict(X[test])) ** 2, axis=0), model[-1].rank_


def yeast(folder: Path) -> None:
    X, Y = (np.loadtxt(folder / f"{name}.csv.gz", delimiter=",", skiprows=1) for name in "XY")
    folds = list(KFold(10, shuffle=True, random_state=0).split(X))
    mean = np.array([squares(None, X, Y, *fold)[0] for fold in folds])
    print("| yeast cell cycle | relative RMSE, mean of folds | folds pooled | ranks | seconds |")
    print("|---|---|---|---|---|")
    for name, model in models(cv=5).items():
        began = time.perf_counter()
        errors, ranks = zip(*(squares(model, X, Y, *fold) for fold in folds), strict=True)
        by_fold = np.mean(np.sqrt(np.array(errors) / mean))
        pooled = np.mean(np.sqrt(np.sum(errors, axis=0) / mean.sum(axis=0)))
        seconds = time.perf_counter() - began
        print(f"| {name} | {by_fold:.4f} | {pooled:.4f} | {min(ranks)} to {max(ranks)} | {seconds:.1f} |")


def stock(path: Path) -> None:
    returns = np.loadtxt(path, delimiter=",", skiprows=1)
    X, Y = returns[:-1], returns[1:]
    split = np.arange(26), np.arange(26, 51)
    print("\n| stock04 | test MSE x 1e3 | rank | ridge |\n|---|---|---|---|")
    for name, model in {
        "mean": None,
        **models(RepeatedKFold(n_splits=5, n_repeats=3, random_state=0)),
    }.items():
        errors, rank = squares(model, X, Y, *split)
        ridge = f"{model[-1].ridge_:.3g}" if model else "-"
        print(f"| {name} | {1e3 * errors.sum() / Y[26:].size:.4f} | {rank} | {ridge} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    yeast(data / "yeast_cellcycle")
    stock(data / "stock04" / "stock04.csv")


if __name__ == "__main__":
    main()
