"""What more cores bring: an evaluation beside a C loop on as many threads, and whole solves.

    python -m benchmarks.cores [--threads 16,8,4,2,1] [--entries 5e7] [--parts]

For P2 and for a square matrix of rank 10 with `--entries` entries at oversampling 5, by threads: an
evaluation (value, f_L and f_R), what it gains over the fewest threads, the same in C with OpenMP, and all to
f ≤ 1e-20 · f(0), with the start point: an evaluation's share of an iteration, and the rest. P2 also from
triples. With `--parts`, what the kernels of a solve take, each. The most threads come first, so
that a run which is cut short has said what matters.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import os
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

import rankfold as rf
from benchmarks.instances import P2, Instance
from benchmarks.iteration import Timed, seconds
from benchmarks.kernels import c_floor
from rankfold.kernels import pool
from rankfold.linalg.memory import reused
from rankfold.run.blas import one_blas_thread

COLUMNS = (
    "threads",
    "evaluate, ms",
    "gain",
    "C, ms",
    "ours / C",
    "build, s",
    "start, s",
    "solve, s",
    "iterations",
    "passes / iteration, ms",
    "rest / iteration, ms",
)


class Parts:
    """Seconds by kernel of all that the pool runs within a `with`."""

    def __enter__(self):
        self.seconds, self.run = {}, pool.run
        pool.run = self.timed
        return self

    def __exit__(self, *_):
        pool.run = self.run

    def timed(self, kernel, *args):
        """Run a kernel as the pool does, and note how long it took."""
        began = perf_counter()
        self.run(kernel, *args)
        inner = kernel.func if isinstance(kernel, functools.partial) else kernel
        name = inner.py_func.__qualname__.partition(".")[0].partition("-")[0].lstrip("_")
        taken, calls = self.seconds.get(name, (0.0, 0))
        self.seconds[name] = taken + perf_counter() - began, calls + 1

    def __str__(self):
        largest = sorted(self.seconds.items(), key=lambda item: -item[1][0])
        return ", ".join(f"{name} {taken * 1e3:.1f} ms in {calls}" for name, (taken, calls) in largest)


def with_threads(count):
    """Let kernels, and the C loop, use so many threads from now on."""
    os.environ["RANKFOLD_NUM_THREADS"] = str(count)
    with contextlib.suppress(OSError):  # without the library there is no C loop either
        ctypes.CDLL("libgomp.so.1").omp_set_num_threads(count)


def solved(store, rank):
    """Return the seconds of the start and of a solve with it, iterations, passes, the rest, and by kernel."""
    timed = Timed(rf.Completion.from_observed(store))
    problem = rf.Problem.of(timed.cost, rank)
    start, x0 = seconds(problem.start, 1)
    timed.seconds.update(dict.fromkeys(timed.seconds, 0.0))
    with Parts() as parts, timed.blocks():
        total, result = seconds(lambda: rf.minimize(problem, x0=x0, tolerance=1e-20), 1)
    assert result.converged, result
    passes = sum(timed.seconds.values())
    return start, start + total, result.iterations, passes, total - passes, parts


def measure(name, instance, threads, repeats, parts, folder):
    """Print a table for one instance."""
    data, rank = instance.draw(seed=0), instance.rank
    with_threads(threads[0])
    build, cost = seconds(lambda: rf.Completion.from_triples(data), 1)
    L, R = (np.random.default_rng(k).standard_normal((d, rank)) for k, d in enumerate(cost.shape))
    floor = c_floor(cost, L, R, folder)
    cost.evaluate(L, R), solved(cost.store, rank)  # compiles
    table, rows = Table(*COLUMNS, title=f"{name}: {cost.store.size:,} entries, rank {rank}"), []
    for count in threads:
        with_threads(count)
        ours, _ = seconds(lambda: cost.evaluate(L, R), 4 * repeats)
        theirs = seconds(floor, 4 * repeats)[0] if floor else np.nan
        if repeats > 1:
            build, _ = seconds(lambda: rf.Completion.from_triples(data), repeats)
        start, total, iterations, passes, rest, by_kernel = min(
            (solved(cost.store, rank) for _ in range(repeats)), key=lambda found: found[1]
        )
        each = 1e3 * passes / iterations, 1e3 * rest / iterations
        rows.append((count, 1e3 * ours, 1e3 * theirs, build, start, total, iterations, *each))
        print(name, *(f"{number:.4g}" for number in rows[-1]), flush=True)
        if parts:
            print(f"  {count} threads: {by_kernel}", flush=True)
    slowest = rows[-1][1]
    for count, ours, theirs, *others in rows:
        ratios = f"{ours:.2f}", f"{slowest / ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}"
        table.add_row(str(count), *ratios, *(f"{number:.3g}" for number in others))
    Console(width=150).print(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="16,8,4,2,1")
    parser.add_argument("--entries", type=float, default=5e7)
    parser.add_argument("--parts", action="store_true", help="seconds by kernel")
    options = parser.parse_args()
    threads = [int(count) for count in options.threads.split(",")]
    d = round(options.entries / 5 / 10 / 2)
    # as in a run; the C loop has memory of its own, too
    with tempfile.TemporaryDirectory() as folder, one_blas_thread(), reused():
        measure("P2", P2, threads, 3, options.parts, Path(folder))
        measure("large", Instance((d, d), 10, 5), threads, 1, options.parts, Path(folder))


if __name__ == "__main__":
    main()
