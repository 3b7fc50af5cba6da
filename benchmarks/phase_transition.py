"""Success rates over sampling × condition number and sampling × rank, as a plot.

    python -m benchmarks.phase_transition [--size 150] [--seeds 3] [--seconds 5]

For `auto`, the paper's trust region (UBVᵀ) and LRGeom (embedded, conjugate gradients with the linearised
step). Success: a relative error of the whole W of at most 1e-6; at least r entries per row and column;
every run has the same seconds. Writes docs/figures/phase_transition.csv and .png.
"""

from __future__ import annotations

import argparse
import csv
import functools
from pathlib import Path
from typing import Any

import numpy as np

import rankfold as rf

FOLDER = Path(__file__).parent.parent / "docs" / "figures"
SAMPLING = (1.3, 1.6, 2.0, 3.0, 4.0)
CONDITIONS = (1.0, 10.0, 1e3, 1e5)
RANKS = (2, 5, 8)
RANK, CONDITION = 5, 10.0  # where the other one varies
BOUND = 1e-6
METHODS: dict[str, tuple[Any, Any]] = {
    "auto": (lambda shape, r: rf.FullRank(shape, r, metric="preconditioned"), "auto"),
    "paper's trust region": (rf.Polar, rf.TrustRegion()),
    "LRGeom": (rf.Embedded, rf.ConjugateGradient()),
}


@functools.cache
def succeeds(
    name: str, size: int, rank: int, sampling: float, condition: float, seed: int, seconds: float
) -> bool:
    geometry, solver = METHODS[name]
    shape = (size, size)
    data = rf.data.random_completion(shape, rank, sampling, seed, condition=condition, min_per_line=True)
    cost = rf.Completion(data.rows, data.cols, data.values, data.shape)
    problem = rf.Problem(cost, geometry(shape, rank))
    # At condition number κ the smallest pair's part of the value is about κ⁻²: go well below it.
    tolerance = max(1e-16 / condition**2, 1e-26)
    stop = rf.stopping.Seconds(seconds)
    result = rf.minimize(problem, solver, tolerance=tolerance, max_iterations=100_000, stop=stop)
    return data.relative_error(*problem.geometry.factors(result.x)) <= BOUND


def measure(size: int, seeds: int, seconds: float) -> list[dict[str, Any]]:
    cells = [("condition", condition, RANK, condition) for condition in CONDITIONS]
    cells += [("rank", rank, rank, CONDITION) for rank in RANKS]
    rows = []
    for axis, at, rank, condition in cells:
        for sampling in SAMPLING:
            for name in METHODS:
                case = (name, size, rank, sampling, condition)
                wins = [succeeds(*case, seed, seconds) for seed in range(seeds)]
                row = {"axis": axis, "at": at, "sampling": sampling, "method": name, "seeds": seeds}
                rows.append({**row, "success": float(np.mean(wins))})
                print(rows[-1], flush=True)
    return rows


def draw(rows: list[dict[str, Any]], size: int, path: Path) -> None:
    import matplotlib.pyplot as plt

    axes = {"condition": CONDITIONS, "rank": RANKS}
    figure, panels = plt.subplots(2, len(METHODS), figsize=(10, 5.4), layout="constrained")
    for line, (axis, values) in zip(panels, axes.items(), strict=True):
        for panel, name in zip(line, METHODS, strict=True):
            rates = {(row["at"], row["sampling"]): row["success"] for row in rows
                     if row["axis"] == axis and row["method"] == name}  # fmt: skip
            table = np.array([[rates[at, sampling] for sampling in SAMPLING] for at in values])
            image = panel.imshow(table, vmin=0, vmax=1, cmap="viridis", origin="lower", aspect="auto")
            panel.set_xticks(range(len(SAMPLING)), [f"{sampling:g}" for sampling in SAMPLING])
            panel.set_yticks(range(len(values)), [f"{at:g}" for at in values])
            panel.set_xlabel("entries per degree of freedom")
            panel.set_ylabel("condition number" if axis == "condition" else "rank")
            panel.set_title(name)
    figure.colorbar(image, ax=panels, label="success rate")
    figure.suptitle(f"{size}×{size}; above: rank {RANK}; below: condition number {CONDITION:g}")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each run")
    options = parser.parse_args()
    rows = measure(options.size, options.seeds, options.seconds)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "phase_transition.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, options.size, FOLDER / "phase_transition.png")


if __name__ == "__main__":
    main()
