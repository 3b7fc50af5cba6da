"""What geometry costs, in `gram`s, and how that grows with d.

    python -m benchmarks.geometry [--quick]

For each geometry, at a well-conditioned point of rank 10 of a d×d matrix, times one gradient conversion, one
horizontal projection and one retraction, and beside it, in the same run, one `gram` of two d×r matrices.
Prints the sum of the three in `gram`s and the fitted exponent of d.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import rankfold as rf
from rankfold.linalg import gram

RANK = 10
GEOMETRIES = {
    "GH invariant": lambda s: rf.FullRank(s, RANK),
    "GH preconditioned": lambda s: rf.FullRank(s, RANK, metric="preconditioned"),
    "GH euclidean": lambda s: rf.FullRank(s, RANK, metric="euclidean"),
    "UBV": lambda s: rf.Polar(s, RANK),
    "UBV diagonal": lambda s: rf.Polar(s, RANK, middle="diagonal"),
    "UY invariant": lambda s: rf.SubspaceProjection(s, RANK),
    "UY euclidean": lambda s: rf.SubspaceProjection(s, RANK, metric="euclidean"),
    "embedded": lambda s: rf.Embedded(s, RANK),
    "YY invariant": lambda s: rf.PositiveSemidefinite(s, RANK),
    "YY preconditioned": lambda s: rf.PositiveSemidefinite(s, RANK, metric="preconditioned"),
    "YY euclidean": lambda s: rf.PositiveSemidefinite(s, RANK, metric="euclidean"),
}


def interleaved(tasks, repeats):
    """Median seconds of each task, all of them timed in turn, so that noise hits them alike."""
    times = {name: [] for name in tasks}
    for k in range(repeats + 1):
        for name, task in tasks.items():
            began = perf_counter()
            task()
            if k:  # the first round warms up
                times[name].append(perf_counter() - began)
    return {name: float(np.median(t)) for name, t in times.items()}


def tasks_of(geometry):
    rng = np.random.default_rng(0)
    x = geometry.random_point(0)
    f_L, f_R = (rng.standard_normal((d, RANK)) for d in geometry.shape)
    xi = geometry.random_tangent(x, 1)

    def iteration():
        g = geometry.gradient(x, f_L, f_R)
        geometry.to_horizontal(x, g)
        geometry.retract(x, xi)

    return {"gram": lambda: gram(f_L, f_R), "three": iteration}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="d up to 1e5 only")
    sizes = [10**4, 10**5] if parser.parse_args().quick else [10**4, 10**5, 10**6]
    table = Table("geometry", *(f"d = {d:.0e}: ms (grams)" for d in sizes), "exponent")
    threadpool_limits(1, user_api="blas")  # as `minimize` has it
    for name, make in GEOMETRIES.items():
        seconds, cells = [], []
        for d in sizes:
            found = interleaved(tasks_of(make((d, d))), repeats=max(5, 10**6 // d))
            seconds.append(found["three"])
            cells.append(f"{found['three'] * 1e3:.1f} ({found['three'] / found['gram']:.1f})")
        exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        table.add_row(name, *cells, f"{exponent:.2f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
