"""How time grows with the number of entries, up to a hundred million (14 GB of memory, ten minutes).

    python -m benchmarks.scale [--largest 1e8]

First one evaluation (value, f_L and f_R) of `--largest` entries at rank 10, four rows to a column, per entry,
beside that of P2 (32000², rank 5) in the same run, and the construction of the cost in evaluations. Then fits
with defaults to f ≤ 1e-20 · f(0) of square matrices of rank 10 at oversampling 6, with ten times the entries
each time.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

import rankfold as rf
from benchmarks.instances import P2

RANK = 10


def completion(data):
    return rf.Completion.from_triples(data)


def seconds(task, repeats):
    """Median seconds of a task that has run once before."""
    times = []
    for _ in range(repeats + 1):
        began = perf_counter()
        task()
        times.append(perf_counter() - began)
    return float(np.median(times[1:]))


def per_entry(cost, rank, repeats):
    L, R = (np.random.default_rng(0).standard_normal((d, rank)) for d in cost.shape)
    return seconds(lambda: cost.evaluate(L, R), repeats) / cost.observed.size


def evaluation(largest):
    """Print construction in evaluations, nanoseconds per entry, and that over P2's."""
    small = completion(P2.draw(seed=0))
    shape = round(largest / 50), round(largest / 200)
    data = rf.data.random_completion(shape, RANK, largest / RANK / (sum(shape) - RANK), seed=0)
    began = perf_counter()
    cost = completion(data)
    construction = perf_counter() - began
    size, held = cost.observed.size, cost.observed.nbytes / cost.observed.size
    del data
    rounds = [(per_entry(cost, RANK, 3), per_entry(small, 5, 20)) for _ in range(3)]
    large, p2 = np.median(rounds, axis=0)
    ratio = float(np.median([a / b for a, b in rounds]))
    print(
        f"{size:,} entries of a {shape[0]:,} × {shape[1]:,} matrix, rank {RANK}: {held:.1f} bytes held each"
    )
    print(f"construction: {construction / (large * size):.1f} evaluations")
    print(f"an evaluation: {large * 1e9:.1f} ns per entry, {ratio:.2f} times P2's {p2 * 1e9:.1f}")


def fit(entries):
    """Return entries, iterations, seconds, and nanoseconds per iteration and entry, start point included."""
    d = round(entries / 6 / RANK / 2)
    problem = rf.Problem.of(completion(rf.data.random_completion((d, d), RANK, 6, seed=0)), RANK)
    result = rf.minimize(problem, tolerance=1e-20)
    assert result.converged, result
    size = problem.cost.observed.size
    return size, result.iterations, result.seconds, result.seconds / result.iterations / size * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=float, default=1e8)
    largest = parser.parse_args().largest
    evaluation(largest)
    table = Table("entries", "iterations", "seconds", "ns per iteration and entry")
    fit(1e5)  # compiles
    for entries in 10.0 ** np.arange(5, np.log10(largest) + 0.5):
        size, iterations, total, each = fit(entries)
        table.add_row(f"{size:,}", str(iterations), f"{total:.2f}", f"{each:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
