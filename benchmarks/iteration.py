"""What an iteration of the default solver costs beside its passes over the entries; a whole fit, likewise.

    python -m benchmarks.iteration [--only P1 P2 1e7] [--threads 1,2] [--against CHECKOUT] [--cpu]

For each instance, all in one run: an evaluation (value, f_L and f_R) in milliseconds; and in such evaluations
what an iteration takes for its step-size, and for everything but passes over the entries (`rest`), the start
point, and all from triples to f ≤ 1e-20 · f(0). Then the derivative at rank 50. With `--against`, the time
from triples as a part of that of another checkout of this repository, in processes that run in turn.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time
from unittest import mock

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse
from scipy.sparse.linalg import svds  # now: SciPy's BLAS must be there when it is told to use one thread

import rankfold as rf
from benchmarks.instances import P1, P2, P3, P5, Instance
from rankfold.entries.block_groups import UnformedBlocks
from rankfold.run.blas import one_blas_thread

INSTANCES = {
    "300 × 200": Instance((300, 200), 5, 6),
    "P1": P1,
    "P2": P2,
    "P3": P3,
    "P5": P5,
    "1e7": Instance((83_333, 83_333), 10, 6),
    "1e8": Instance((833_333, 833_333), 10, 6),
}
USUAL = [name for name in INSTANCES if name != "1e8"]  # that one needs 14 GB, and minutes
PASSES = ("evaluate", "value", "derivative", "polynomial", "line_blocks")
STEPS = ("polynomial",)

# Names that all versions of the package have.
WHOLE = """
import sys, time
import numpy as np
import rankfold as rf
now = getattr(time, sys.argv[3])
shape, rank, oversampling = eval(sys.argv[1])
data = rf.data.random_completion(shape, rank, oversampling, 0)
times = []
for _ in range(int(sys.argv[2]) + 1):
    began = now()
    cost = rf.Completion(data.rows, data.cols, data.values, data.shape)
    result = rf.minimize(rf.Problem.of(cost, rank=rank), tolerance=1e-20)
    times.append(now() - began)
print(np.median(times[1:]))
"""


now = perf_counter


class Timed:
    """A cost whose passes over the entries are timed."""

    def __init__(self, cost):
        self.seconds = dict.fromkeys(PASSES, 0.0)
        for name in PASSES:
            setattr(cost, name, self.timed(name, getattr(cost, name)))
        self.cost = cost

    def timed(self, name, method):
        """Return a method whose time is added to that of a pass."""

        def timed(*args, **options):
            began = now()
            result = method(*args, **options)
            self.seconds[name] += now() - began
            return result

        return timed

    def blocks(self):
        """Return the context in which blocks that are inverted as they are formed count as a pass."""
        inverted = self.timed("line_blocks", UnformedBlocks.inverted)
        return mock.patch.object(UnformedBlocks, "inverted", inverted)


def seconds(task, repeats):
    """Return the least time of a task, which has run before, and its result."""
    times, result = [], None
    for _ in range(repeats):
        began = now()
        result = task()
        times.append(now() - began)
    return min(times), result


def measure(instance, repeats):
    """Return what the table says of an instance."""
    data, rank = instance.draw(seed=0), instance.rank
    build, cost = seconds(lambda: rf.Completion.from_triples(data), repeats)
    matrix = sparse.csr_array((data.values, (data.rows, data.cols)), data.shape)
    problem = rf.Problem.of(cost, rank)
    x0 = problem.start()

    def fit():
        return rf.minimize(problem, x0=x0, tolerance=1e-20)

    if repeats > 1:
        fit()  # compiles
    start, _ = seconds(problem.start, repeats)
    peer, _ = seconds(lambda: svds(matrix, rank, tol=0.1, rng=0), min(repeats, 3))
    evaluation, _ = seconds(lambda: cost.evaluate(*x0), 4 * repeats)
    best = None
    for _ in range(repeats):
        timed = Timed(rf.Completion.from_observed(cost.store))
        problem = rf.Problem.of(timed.cost, rank)
        at_zero, _ = seconds(lambda cost=timed.cost: cost.value_at_zero, 1)  # one more pass, once in a run
        with timed.blocks():
            total, result = seconds(fit, 1)
        rest = total - sum(timed.seconds.values())
        step = sum(timed.seconds[name] for name in STEPS)
        each = evaluation * result.iterations
        found = total, rest / each, step / each
        best = found if best is None else tuple(map(min, best, found))
    total, rest, step = best
    whole = (build + start + at_zero + total) / evaluation
    return result.iterations, evaluation * 1e3, step, rest, start / evaluation, peer / start, whole


def derivative(repeats):
    """Return a derivative in evaluations, at rank 50."""
    cost = rf.Completion.from_triples(rf.data.random_completion((10_000, 10_000), 50, 4, seed=0))
    L, R, dL, dR = (np.random.default_rng(k).standard_normal((10_000, 50)) for k in range(4))
    cost.derivative(L, R, dL, dR), cost.evaluate(L, R)
    one, _ = seconds(lambda: cost.derivative(L, R, dL, dR), 3 * repeats)
    other, _ = seconds(lambda: cost.evaluate(L, R), 3 * repeats)
    return one / other


def against(checkout, names, repeats):
    """Print the time from triples in this checkout as a part of that in another."""
    here = Path(__file__).parents[1]
    for name in names:
        task, times = repr(tuple(INSTANCES[name][:3])), {here: [], Path(checkout): []}
        for _ in range(3):
            for root, found in times.items():
                environment = {**os.environ, "PYTHONPATH": str(root / "src")}
                command = [sys.executable, "-c", WHOLE, task, str(repeats), now.__name__]
                done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
                found.append(float(done.stdout))
        ours, theirs = (min(found) for found in times.values())
        print(f"{name}: {ours:.3f} s from triples, {ours / theirs:.2f} of the other checkout's", flush=True)


def main():
    global now
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=INSTANCES, default=USUAL)
    parser.add_argument("--threads", default=os.environ.get("RANKFOLD_NUM_THREADS", ""))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--against", metavar="CHECKOUT")
    parser.add_argument("--cpu", action="store_true", help="CPU time, for a busy machine and one thread")
    options = parser.parse_args()
    if options.cpu:
        now = process_time
    with one_blas_thread():
        tables(options)
    if options.against:
        against(options.against, options.only, options.repeats)


def tables(options):
    """Print a table for each number of threads."""
    for threads in options.threads.split(","):
        if threads:
            os.environ["RANKFOLD_NUM_THREADS"] = threads
        columns = (
            "iterations",
            "evaluate, ms",
            "step",
            "rest",
            "start",
            "svds / start",
            "from triples",
        )
        table = Table("instance", *columns, title=f"threads: {threads or 'all'}; in evaluations")
        for name in options.only:
            iterations, *numbers = measure(INSTANCES[name], options.repeats)
            cells = name, str(iterations), *(f"{number:.3g}" for number in numbers)
            print(f"threads={threads or 'all'}", *cells, flush=True)
            table.add_row(*cells)
        Console(width=110).print(table)
        print(f"derivative at rank 50: {derivative(options.repeats):.2f} evaluations", flush=True)


if __name__ == "__main__":
    main()
