"""When the metric of the data pays: conjugate gradients in it, beside the geometry's, by rank.

    python -m benchmarks.metric [--ranks 1 2 5 10 20 50 100] [--size 2000] [--oversampling 3]

Completion of square matrices to f ≤ 1e-20 · f(0), from the same start point; medians over seeds. The CPU time
is that of the process, of runs in turn, and the column is a ratio: below 1, the metric of the data pays.
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np
from rich.console import Console
from rich.table import Table

import rankfold as rf
from benchmarks.instances import Instance

METRICS = ("geometry", "data")


def measure(instance, seeds, repeats):
    """Return iterations by metric, blocks formed, and the ratio of CPU times."""
    iterations, ratios, blocks = {m: [] for m in METRICS}, [], []
    for seed in range(seeds):
        cost = rf.Completion.from_triples(instance.draw(seed))
        problem = rf.Problem.of(cost, instance.rank)
        x0 = problem.start()
        times = {m: [] for m in METRICS}
        for repeat in range(repeats + 1):  # the first one compiles
            for metric in METRICS:
                solver, began = rf.ConjugateGradient(metric=metric), process_time()
                result = rf.minimize(problem, solver, x0, tolerance=1e-20, max_iterations=1000)
                if repeat:
                    times[metric].append(process_time() - began)
                else:
                    iterations[metric].append(result.iterations)
        blocks.append(int(result.trace["blocks"].sum()))
        ratios.append(min(times["data"]) / min(times["geometry"]))
    return {m: np.median(found) for m, found in iterations.items()}, np.median(blocks), np.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 5, 10, 20, 50, 100])
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--oversampling", type=float, default=3.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    table = Table("rank", "iterations, geometry", "iterations, data", "blocks formed", "CPU time, ratio")
    for rank in options.ranks:
        instance = Instance((options.size, options.size), rank, options.oversampling)
        iterations, blocks, ratio = measure(instance, options.seeds, options.repeats)
        cells = rank, *(f"{iterations[m]:.0f}" for m in METRICS), f"{blocks:.0f}", f"{ratio:.2f}"
        table.add_row(*map(str, cells))
        print(*cells, flush=True)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
