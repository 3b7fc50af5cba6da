"""Success rates over sampling × condition number and sampling × rank, as a plot.

    python -m benchmarks.phase_transition [--size 80] [--seeds 5] [--work 1500] [--axes condition rank]

For `auto`, the paper's trust region (UBVᵀ) and LRGeom (embedded, conjugate gradients with the linearised
step). Success: a relative error of the whole W of at most 1e-6; at least r entries per row and column;
every run may take as many gradients and Hessian products (where the rank grows, a pair of products with the
gradient counts as one), so that the figure does not depend on the
machine. Writes docs/figures/phase_transition.csv and .png; cells found there are not run again.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

import rankfold as rf

FOLDER = Path(__file__).parent.parent / "docs" / "figures"
SAMPLING = (1.2, 1.5, 1.8, 2.2, 3.0, 4.0)
AXES = {"condition": (1.0, 10.0, 1e2, 1e3, 1e5), "rank": (2.0, 3.0, 5.0, 8.0)}
RANK, CONDITION = 5, 10.0  # where the other one varies
BOUND = 1e-6
METHODS: dict[str, tuple[Any, Any]] = {
    "auto": (lambda shape, r: rf.FullRank(shape, r, metric="preconditioned"), "auto"),
    "paper's trust region": (rf.Polar, rf.TrustRegion(metric="geometry")),
    "LRGeom": (rf.Embedded, rf.ConjugateGradient(metric="geometry")),
}
FIELDS = ("axis", "at", "sampling", "method", "size", "seeds", "work", "success")


def succeeds(
    name: str, size: int, rank: int, sampling: float, condition: float, seed: int, work: int
) -> bool:
    geometry, solver = METHODS[name]
    shape = (size, size)
    data = rf.data.random_completion(shape, rank, sampling, seed, condition=condition, min_per_line=True)
    cost = rf.Completion.from_triples(data)
    problem = rf.Problem(cost, geometry(shape, rank))
    # At condition number κ the smallest pair's part of the value is about κ⁻²: go well below it.
    tolerance = max(1e-16 / condition**2, 1e-26)
    done = 0

    def worked(progress: Any) -> bool:
        nonlocal done
        done += progress.trace[-1].gradients + progress.trace[-1].hessians
        return done >= work

    result = rf.minimize(problem, solver, tolerance=tolerance, max_iterations=work, callback=worked)
    return data.relative_error(*result.factors) <= BOUND


def load(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            {key: value if key in ("axis", "method") else float(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def measure(axes: list[str], size: int, seeds: int, work: int, path: Path) -> None:
    done = {tuple(row[key] for key in FIELDS[:-1]) for row in load(path)}
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(FIELDS)
        for axis in axes:
            for at in AXES[axis]:
                rank, condition = (RANK, at) if axis == "condition" else (int(at), CONDITION)
                for sampling in SAMPLING:
                    for name in METHODS:
                        cell = (axis, at, sampling, name, size, seeds, work)
                        if cell in done:
                            continue
                        case = (name, size, rank, sampling, condition)
                        wins = [succeeds(*case, seed, work) for seed in range(seeds)]
                        writer.writerow((*cell, f"{np.mean(wins):.3g}"))
                        file.flush()


def draw(rows: list[dict[str, Any]], size: int, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, len(METHODS), figsize=(10.5, 6), layout="constrained")
    for line, (axis, values) in zip(panels, AXES.items(), strict=True):
        for panel, name in zip(line, METHODS, strict=True):
            rates = {(row["at"], row["sampling"]): row["success"] for row in rows
                     if row["axis"] == axis and row["method"] == name}  # fmt: skip
            table = np.array([[rates.get((at, rho), np.nan) for rho in SAMPLING] for at in values])
            image = panel.imshow(table, vmin=0, vmax=1, cmap="viridis", origin="lower", aspect="auto")
            for (i, j), rate in np.ndenumerate(table):
                colour = "black" if rate > 0.6 else "white"
                panel.text(j, i, f"{rate:.0%}", ha="center", va="center", fontsize=7, color=colour)
            panel.set_xticks(range(len(SAMPLING)), [f"{rho:g}" for rho in SAMPLING])
            panel.set_yticks(range(len(values)), [f"{at:g}" for at in values])
            panel.set_xlabel("entries per degree of freedom, ρ")
            panel.set_ylabel("condition number κ" if axis == "condition" else "rank r")
            panel.set_title(name)
    figure.colorbar(image, ax=panels, label="success rate")
    figure.suptitle(f"{size}×{size}; above: rank {RANK}; below: condition number {CONDITION:g}")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--work", type=int, default=1500, help="gradients and Hessian products of a run")
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "phase_transition.csv"
    measure(options.axes, options.size, options.seeds, options.work, path)
    draw(load(path), options.size, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
