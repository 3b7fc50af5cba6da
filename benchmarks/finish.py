"""What the Bayesian finish costs on many ratings: processor seconds and memory, beside the plain fit.

    python -m benchmarks.finish [--entries 10000000] [--rows 60000] [--cols 20000] [--rank 20]

Planted ratings of rank 5 with offsets and noise, at random places. Each fit is made in a process of its own
(`bayesian=False`, then the default), with the rank given and all else by default; memory is the most that was
in use at once (resident) above what the process held with the triples alone. A line has r + 1 unknowns:
the unit of the last column is 8 (r + 1)² bytes for each of them, one full covariance.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from typing import Any

import numpy as np

import rankfold as rf

PLANTED, NOISE = 5, 0.8


def planted(options: argparse.Namespace) -> rf.data.Triples:
    rng = np.random.default_rng(0)
    shape = options.rows, options.cols
    L, R = (rng.standard_normal((size, PLANTED)) * PLANTED**-0.25 * 0.7 for size in shape)
    b, c = (0.4 * rng.standard_normal(size) for size in shape)
    rows, cols = (rng.integers(size, size=options.entries) for size in shape)
    values = 3.5 + b[rows] + c[cols] + NOISE * rng.standard_normal(options.entries)
    for k in range(PLANTED):
        values += L[rows, k] * R[cols, k]
    return rf.data.Triples(rows, cols, values, shape)


def peak() -> float:
    """Return the most bytes that this process has had in use at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def fitted(options: argparse.Namespace, bayesian: Any, found: Any) -> None:
    small = rf.data.random_completion((200, 150), rank=3, oversampling=4, seed=0, noise=0.5)
    rf.MatrixCompletion(options.rank, bayesian=bayesian, random_state=0).fit(small)  # compiles
    data = planted(options)
    before, began = peak(), time.process_time()
    model = rf.MatrixCompletion(options.rank, bayesian=bayesian, random_state=0).fit(data)
    seconds, most = time.process_time() - began, peak()
    sweeps = model.posterior_.sweeps if model.posterior_ is not None else 0
    found.put((seconds, before, most - before, sweeps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, size in (("entries", 10_000_000), ("rows", 60_000), ("cols", 20_000), ("rank", 20)):
        parser.add_argument(f"--{name}", type=int, default=size)
    options = parser.parse_args()
    unit = 8.0 * (options.rows + options.cols) * (options.rank + 1) ** 2
    print(f"{options.entries:,} ratings of {options.rows:,} × {options.cols:,}, rank {options.rank}")
    print("| | processor seconds | bytes for a rating | above the plain fit, MB | in covariances |")
    print("|---|---|---|---|---|", flush=True)
    context, least = multiprocessing.get_context("spawn"), None
    for name, bayesian in (("bayesian=False", False), ("default", "auto")):
        found = context.Queue()
        process = context.Process(target=fitted, args=(options, bayesian, found))
        process.start()
        seconds, _, more, sweeps = found.get()
        process.join()
        least = more if least is None else least
        print(
            f"| {name}, {sweeps} sweeps | {seconds:.1f} | {more / options.entries:.0f} | "
            f"{(more - least) / 1e6:.0f} | {(more - least) / unit:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
