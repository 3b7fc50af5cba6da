"""Clicks: `ImplicitFeedback` with defaults beside `implicit`'s alternating least squares at its best.

    python -m benchmarks.clicks path/to/ml-latest-small/ratings.csv.gz [--seeds 0 1 2 3 4] [--no-peers]

A rating of 4 or more is a click. The split of seed s is `numpy.random.default_rng(s).permutation(n)`: seven
tenths to train, one to validate, two to test. The settings of implicit (the `bench` extra) are those of a
grid with the best NDCG@20 on the validation part; it is fitted anew, with these, to training and validation
parts. `ImplicitFeedback` is fitted to the same two parts, and holds out what it needs itself. Lists leave
out what was fitted to; users without a click in the test part are not in the means. Seconds are the process's
CPU time; those of implicit are of its last fit alone.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse

import rankfold as rf
from rankfold.metrics import map_at_k, ndcg_at_k, precision_at_k, recall_at_k

Clicks = Any  # sparse, users × items
METRICS = {"recall": recall_at_k, "NDCG": ndcg_at_k, "precision": precision_at_k, "MAP": map_at_k}
PLACES = 20
# implicit weighs a click by alpha and all other pairs by 1, and has a plain ridge.
GRID = {
    "factors": (32, 64, 128),
    "regularization": (3.0, 10.0, 30.0, 60.0),
    "alpha": (2.0, 5.0, 10.0),
}


def read(path: str, seed: int) -> list[Clicks]:
    """Return the three parts."""
    data = rf.data.read_triples(path)
    liked = data.values >= 4
    rows, cols = (np.unique(side[liked], return_inverse=True)[1] for side in (data.rows, data.cols))
    shape = int(rows.max()) + 1, int(cols.max()) + 1
    order = np.random.default_rng(seed).permutation(rows.size)
    parts = np.split(order, [round(0.7 * order.size), round(0.8 * order.size)])
    return [sparse.csr_array((np.ones(p.size), (rows[p], cols[p])), shape=shape) for p in parts]


def measured(scores: Any, fitted: Clicks, test: Clicks) -> dict[str, float]:
    """Return all metrics."""
    return {name: metric(test, scores, PLACES, exclude=fitted) for name, metric in METRICS.items()}


def popularity(fitted: Clicks) -> Any:
    return np.ones((fitted.shape[0], 1)) * fitted.sum(axis=0)


def ours(fitted: Clicks) -> tuple[Any, str]:
    pairs = np.stack(fitted.nonzero(), axis=1)
    model = rf.ImplicitFeedback(shape=fitted.shape, random_state=0).fit(pairs)
    L, R = model.factors_
    return L @ R.T, f"rank {model.rank_}, λ {model.regularization_:.3g}, {model.n_iter_} iterations"


def theirs(fitted: Clicks, settings: dict[str, Any]) -> Any:
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(random_state=0, **settings)
    model.fit(sparse.csr_matrix(fitted), show_progress=False)
    return model.user_factors @ model.item_factors.T


def best_settings(train: Clicks, validation: Clicks) -> dict[str, Any]:
    """Return implicit's settings that are best on the validation part."""
    found = []
    for values in product(*GRID.values()):
        settings = dict(zip(GRID, values, strict=True))
        found.append((ndcg_at_k(validation, theirs(train, settings), PLACES, exclude=train), settings))
    return max(found, key=lambda each: each[0])[1]


def show(name: str, found: dict[str, float], more: str) -> None:
    print(
        f"| {name} | " + " | ".join(f"{value:.4f}" for value in found.values()) + f" | {more} |", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    print(f"|  | {' | '.join(f'{name}@{PLACES}' for name in METRICS)} |  |\n|---|---|---|---|---|---|")
    means: dict[str, list[list[float]]] = {}
    for seed in options.seeds:
        train, validation, test = read(options.path, seed)
        fitted = train + validation
        runs = {"popularity": measured(popularity(fitted), fitted, test)}
        show(f"popularity, seed {seed}", runs["popularity"], "")
        began = time.process_time()
        scores, told = ours(fitted)
        seconds = time.process_time() - began
        runs["ImplicitFeedback"] = measured(scores, fitted, test)
        show(f"ImplicitFeedback(), seed {seed}", runs["ImplicitFeedback"], f"{told}, {seconds:.0f} s")
        if options.peers:
            settings = best_settings(train, validation)
            began = time.process_time()
            scores = theirs(fitted, settings)
            seconds = time.process_time() - began
            runs["implicit"] = measured(scores, fitted, test)
            show(f"implicit, seed {seed}", runs["implicit"], f"{settings}, {seconds:.0f} s")
        for name, found in runs.items():
            means.setdefault(name, []).append(list(found.values()))
    for name, rows in means.items():
        show(f"{name}, mean", dict(zip(METRICS, np.mean(rows, axis=0), strict=True)), "")


if __name__ == "__main__":
    main()
