"""What 90% intervals hold of planted data with noise, over a grid of sizes, ranks and noise.

    python -m benchmarks.intervals [--seeds 12]

W = L Rᵀ / √r with Gaussian factors, for odd seeds with offsets of rows and columns; each entry is known
with the probability given, with Gaussian noise; all others are new. `MatrixCompletion` has the true rank, and
all else by default. A quantile of n errors held out is itself uncertain, and so is the part of m new entries
that an interval holds: by chance alone, 0.9 ± √(0.09/n + 0.09/m) or so.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np

import rankfold as rf

CASES = ((100, 80, 2, 0.3), (200, 150, 2, 0.17), (200, 150, 5, 0.3), (400, 300, 3, 0.1))
NOISES = 0.3, 1.0


def held(rows: int, cols: int, rank: int, part: float, noise: float, seed: int) -> tuple[float, int]:
    """Return the part of new entries in intervals, and how many errors calibrated these."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((rows, rank)) @ rng.standard_normal((cols, rank)).T / np.sqrt(rank)
    if seed % 2:
        W += rng.standard_normal((rows, 1)) + rng.standard_normal(cols)
    Y = W + noise * rng.standard_normal(W.shape)
    known = rng.random(W.shape) < part
    model = rf.MatrixCompletion(rank, random_state=0, shape=W.shape).fit(np.argwhere(known), Y[known])
    low, high = model.predict_interval(np.argwhere(~known), coverage=0.9)
    assert model.posterior_ is not None
    assert model.posterior_.calibration is not None
    inside = (low <= Y[~known]) & (Y[~known] <= high)
    return float(inside.mean()), model.posterior_.calibration.held_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    options = parser.parse_args()
    print(f"| {options.seeds} seeds | noise | held by 90% | least | largest | errors held out |")
    print("|---|---|---|---|---|---|")
    everything: list[float] = []
    for case, noise in product(CASES, NOISES):
        found = [held(*case, noise, seed) for seed in range(options.seeds)]
        parts = [part for part, _ in found]
        everything += parts
        name = f"{case[0]} × {case[1]}, rank {case[2]}, {case[3]:.0%} known"
        print(
            f"| {name} | {noise} | {np.mean(parts):.4f} | "
            f"{min(parts):.4f} | {max(parts):.4f} | {np.mean([errors for _, errors in found]):.0f} |",
            flush=True,
        )
    good = sum(0.88 <= part <= 0.92 for part in everything)
    print(f"{good} of {len(everything)} cases between 88% and 92%")


if __name__ == "__main__":
    main()
