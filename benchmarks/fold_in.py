"""New rows in a fitted model: the time of `fold_in` beside that of the fit, and its error beside a refit's.

    python -m benchmarks.fold_in [--rows 100000] [--new 1000] [--cols 20000] [--per-row 50]

Ratings with offsets, rank 5 and noise; every fifth entry of the new rows is held out for testing. All kernels
are compiled before anything is timed.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import rankfold as rf

RANK = 5


def instance(rows: int, cols: int, per_row: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    L, R = rng.standard_normal((rows, RANK)) / np.sqrt(RANK), rng.standard_normal((cols, RANK))
    b, c = 0.5 * rng.standard_normal(rows), 0.5 * rng.standard_normal(cols)
    i, j = np.repeat(np.arange(rows), per_row), rng.integers(0, cols, rows * per_row)
    y = 3 + b[i] + c[j] + np.einsum("pk,pk->p", L[i], R[j]) + 0.5 * rng.standard_normal(i.size)
    return i, j, y


def pairs(*columns: np.ndarray) -> np.ndarray:
    return np.stack(columns, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=1_000)
    parser.add_argument("--cols", type=int, default=20_000)
    parser.add_argument("--per-row", type=int, default=50)
    options = parser.parse_args()
    small = instance(300, 200, 20)
    rf.MatrixCompletion(RANK, random_state=0).fit(pairs(*small[:2]), small[2]).fold_in([(0, 0)], [1.0])

    i, j, y = instance(options.rows + options.new, options.cols, options.per_row)
    old, test = i < options.rows, (i >= options.rows) & (np.arange(i.size) % 5 == 0)
    new = ~old & ~test
    began = time.perf_counter()
    model = rf.MatrixCompletion(RANK, random_state=0).fit(pairs(i[old], j[old]), y[old])
    fitted = time.perf_counter()
    folded = model.fold_in(pairs(i[new] - options.rows, j[new]), y[new])
    ended = time.perf_counter()
    refit = rf.MatrixCompletion(RANK, random_state=0).fit(pairs(i[~test], j[~test]), y[~test])
    errors = [
        float(np.sqrt(np.mean((predicted - y[test]) ** 2)))
        for predicted in (
            folded.predict(pairs(i[test] - options.rows, j[test])),
            refit.predict(pairs(i[test], j[test])),
            model.predict(pairs(i[test], j[test])),
        )
    ]
    fit, fold = fitted - began, ended - fitted
    print(f"fit of {options.rows} rows, {old.sum()} entries: {fit:.2f} s, {model.n_iter_} iterations")
    print(f"fold-in of {options.new} rows, {new.sum()} entries: {fold:.4f} s, {fold / fit:.2%} of the fit")
    print(f"RMSE of {test.sum()} entries of these: {errors[0]:.4f} folded in, {errors[1]:.4f} refitted")
    print(f"  ({100 * (errors[0] / errors[1] - 1):+.2f}%), {errors[2]:.4f} as unknown rows; noise 0.5")


if __name__ == "__main__":
    main()
