"""A stream of ratings: `partial_fit` beside a refit for each batch, and beside the first fit left as it is.

    python -m benchmarks.stream path/to/ml-latest-small/ratings.csv.gz [--batches 20] [--forget 0 0.1]
        [--shuffled]

The first half of the ratings, in the order of their times (or shuffled), is fitted with defaults at rank 10.
Of each batch of the other half, ratings are predicted before they are taken in: by the model that
`partial_fit` has brought so far, by a refit to all ratings before, and by the first fit. Seconds are the
process's CPU time for each batch, without predictions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd

import rankfold as rf

RANK = 10


def fitted(X: Any, y: Any) -> rf.MatrixCompletion:
    return rf.MatrixCompletion(RANK, random_state=0).fit(X, y)


def streamed(
    model: rf.MatrixCompletion,
    X: Any,
    y: Any,
    batches: list[Any],
    take: Callable[[rf.MatrixCompletion, Any], Any],
) -> tuple[float, float]:
    """Return the error over all batches, and the seconds for each."""
    errors, seconds = [], []
    for batch in batches:
        errors.append(model.predict(X[batch]) - y[batch])
        began = time.process_time()
        model = take(model, batch)
        seconds.append(time.process_time() - began)
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2))), float(np.mean(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--forget", type=float, nargs="*", default=[0.0, 0.1])
    parser.add_argument("--shuffled", action="store_true")
    options = parser.parse_args()
    data = pd.read_csv(options.path)
    order = np.argsort(data.iloc[:, 3].to_numpy(), kind="stable")
    if options.shuffled:
        order = np.random.default_rng(0).permutation(len(data))
    X, y = data.iloc[order, :2].to_numpy(), data.iloc[order, 2].to_numpy(dtype=float)
    half = len(y) // 2
    batches = np.array_split(np.arange(half, len(y)), options.batches)
    first = fitted(X[:half], y[:half])
    deepcopy(first).partial_fit(X[half : half + 10], y[half : half + 10])  # compiles
    print(f"{len(batches)} batches of {len(batches[0])} ratings after {half}, rank {RANK}")
    print("| | RMSE of ratings to come | seconds for a batch |\n|---|---|---|")
    ways: dict[str, Callable[[Any, Any], Any]] = {"the first fit": lambda model, batch: model}
    for forget in options.forget:
        ways[f"partial_fit(forget={forget:g})"] = lambda model, batch, forget=forget: model.partial_fit(
            X[batch], y[batch], forget=forget
        )
    ways["refit"] = lambda model, batch: fitted(X[: batch[-1] + 1], y[: batch[-1] + 1])
    for name, take in ways.items():
        found, seconds = streamed(deepcopy(first), X, y, batches, take)
        print(f"| {name} | {found:.4f} | {seconds:.3f} |", flush=True)


if __name__ == "__main__":
    main()
