"""Planted ranks 1 to 15 under noise of 1e-3 to 1e-1: how often `choose_rank` finds them, and at what cost.

    python -m benchmarks.choose_rank

Times are relative to fitting the true rank (`auto`, until an iteration gains less than 1e-4), both warm.
"""

from __future__ import annotations

import time

import numpy as np

import rankfold as rf

SEEDS, NOISES = 20, (1e-3, 1e-2, 1e-1)


def main() -> None:
    found, ratios = 0, []
    for seed in range(SEEDS):
        rank, noise = 1 + (7 * seed) % 15, NOISES[seed % 3]
        data = rf.data.random_completion((400, 300), rank, 4, seed, noise=noise, min_per_line=1)
        cost = rf.Completion(data.rows, data.cols, data.values, data.shape)
        problem = rf.Problem(cost, rf.FullRank(cost.shape, rank, metric="preconditioned"))
        times = []
        for _ in range(2):  # the first compiles
            began = time.perf_counter()
            path = rf.choose_rank(cost)
            between = time.perf_counter()
            rf.minimize(problem, stop=rf.stopping.RelativeChange(1e-4))
            times.append((between - began) / (time.perf_counter() - between))
        found += path.chosen == rank
        ratios.append(times[-1])
        print(
            f"rank {rank:2d}, noise {noise:g}: {path.chosen:2d} chosen, {times[-1]:.1f} times a fit",
            flush=True,
        )
    print(f"{found} of {SEEDS}; median cost {np.median(ratios):.2f}, largest {max(ratios):.2f} times a fit")


if __name__ == "__main__":
    main()
