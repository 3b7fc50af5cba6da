"""Planted ranks 1 to 15 under noise of 1e-3 to 1e-1: how often `choose_rank` finds them, and at what cost.

    python -m benchmarks.choose_rank [--seeds 20]

Work is in CPU seconds (which do not count what else the machine does), relative to fitting the true rank to
all entries in turn, both warm: as `minimize` does by default (until rounding hides any decrease), and until
an iteration gains less than 1e-4. Prints the table of docs/hard-instances.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import rankfold as rf

NOISES = (1e-3, 1e-2, 1e-1)
REPEATS = 3


def timed(task: Callable[[], Any]) -> float:
    began = time.process_time()
    task()
    return time.process_time() - began


def measured(cost: rf.Completion, rank: int) -> tuple[rf.RankPath, Any]:
    """Return the path, and the median seconds of finding it, of a fit and of a loose fit, run in turn."""
    problem, loose = rf.Problem.of(cost, rank), rf.stopping.RelativeChange(1e-4)
    tasks: list[Callable[[], Any]] = [
        lambda: rf.choose_rank(cost),
        lambda: rf.minimize(problem),
        lambda: rf.minimize(problem, stop=loose),
    ]
    path, *_ = [task() for task in tasks]  # compiles
    return path, np.median([[timed(task) for task in tasks] for _ in range(REPEATS)], axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    found, ratios = 0, []
    print(
        "| seed | rank | noise | chosen | ranks tried | times a fit | times a fit to 1e-4 |\n"
        + "|---" * 7
        + "|"
    )
    for seed in range(seeds):
        rank, noise = 1 + (7 * seed) % 15, NOISES[seed % 3]
        data = rf.data.random_completion((400, 300), rank, 4, seed, noise=noise, min_per_line=1)
        cost = rf.Completion.from_triples(data)
        path, times = measured(cost, rank)
        found += path.chosen == rank
        ratios.append(times[0] / times[1:])
        told = " | ".join(f"{ratio:.1f}" for ratio in ratios[-1])
        print(f"| {seed} | {rank} | {noise:g} | {path.chosen} | {len(path.ranks)} | {told} |", flush=True)
    middle, largest = np.median(ratios, axis=0), np.max(ratios, axis=0)
    print(f"{found} of {seeds}; times a fit: median {middle[0]:.2f}, largest {largest[0]:.2f}; "
          f"times a fit to 1e-4: median {middle[1]:.2f}, largest {largest[1]:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
