"""Test error on Jester5k with offsets and regularised low rank.

    python -m benchmarks.ratings path/to/jester5k/ratings.csv.gz [--rank 8]

The split is `numpy.random.default_rng(0).permutation(n)`, first 80% train. The regularisation is chosen on a
tenth of the training data; the test part is used once, by the model refitted on all training data.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import rankfold as rf

SHAPE = 5000, 100
WEIGHTS = 0.1, 0.2, 0.3, 0.4, 0.5
Triples = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


def read(path: str) -> Triples:
    rows, cols, values = np.loadtxt(path, delimiter=",", skiprows=1, unpack=True)
    return rows.astype(int) - 1, cols.astype(int) - 1, values


def take(triples: Triples, where: Any) -> Triples:
    rows, cols, values = triples
    return rows[where], cols[where], values[where]


def fit(train: Triples, rank: int, weight: float) -> Any:
    """Return a function that predicts entries."""
    plain = rf.Completion(*train, SHAPE)
    biased = rf.Biased(plain, rows=10.0, cols=10.0)
    geometry = rf.FullRank(SHAPE, rank, metric="preconditioned")
    problem = rf.Problem(biased + rf.Nuclear.by_counts(weight, plain), geometry)
    L, R = geometry.factors(rf.minimize(problem, rf.ConjugateGradient(), max_iterations=60).x)
    mean, b, c = biased.biases(L, R)
    return lambda rows, cols: np.einsum("pk,pk->p", L[rows], R[cols]) + mean + b[rows] + c[cols]


def rmse(predict: Any, triples: Triples) -> float:
    return float(np.sqrt(np.mean((predict(*triples[:2]) - triples[2]) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--rank", type=int, default=8)
    options = parser.parse_args()
    triples = read(options.path)
    n = triples[2].size
    order = np.random.default_rng(0).permutation(n)
    train, test = take(triples, order[: int(0.8 * n)]), take(triples, order[int(0.8 * n) :])
    held = np.random.default_rng(1).uniform(size=train[2].size) < 0.1
    began = time.perf_counter()
    errors = {w: rmse(fit(take(train, ~held), options.rank, w), take(train, held)) for w in WEIGHTS}
    best = min(errors, key=errors.__getitem__)
    print("validation RMSE by weight:", {w: round(e, 4) for w, e in errors.items()})
    error = rmse(fit(train, options.rank, best), test)
    seconds = time.perf_counter() - began
    print(f"rank {options.rank}, weight {best}: test RMSE {error:.4f}, {seconds:.0f} s in all")


if __name__ == "__main__":
    main()
