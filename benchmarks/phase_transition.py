"""Success rates over sampling × condition number and sampling × rank, as a plot.

    python -m benchmarks.phase_transition [--jobs 16] [--sizes 100 1000] [--seeds 5] [--axes condition rank]

For `auto`, the paper's trust region (UBVᵀ) and LRGeom (embedded, conjugate gradients with the linearised
step). Success: a relative error of the whole W of at most 1e-6; at least r entries per row and column; a run
may take 4000 gradients and Hessian products together (where the rank grows, a pair of products with the
gradient counts as one), so that the figure does not depend on the machine. `--methods GNMR` runs its
authors' code instead (`benchmarks.hard` says where from), over condition numbers, with its own limits.

Every run is written to docs/figures/phase_transition.csv as soon as it ends (`--out` takes another file), and
not repeated. A figure for each size goes beside that file: phase_transition_100.png, and so on. At 1000² they
show also where others are published to begin: see `PUBLISHED`.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

for _name in ("OMP_NUM_THREADS", "RANKFOLD_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import rankfold as rf  # noqa: E402
from benchmarks.alternatives import gnmr  # noqa: E402

OUT = Path(__file__).parent.parent / "docs" / "figures" / "phase_transition.csv"
SAMPLING = (1.1, 1.2, 1.3, 1.5, 1.8, 2.2, 3.0, 4.0)
AXES = {"condition": (1.0, 10.0, 1e2, 1e3, 1e5), "rank": (2.0, 3.0, 5.0, 8.0)}
RANK, CONDITION = 5, 10.0  # where the other one varies
BOUND = 1e-6
WORK = 4000
METHODS: dict[str, tuple[Any, Any]] = {
    "auto": (lambda shape, r: rf.FullRank(shape, r, metric="preconditioned"), "auto"),
    "paper's trust region": (rf.Polar, rf.TrustRegion(metric="geometry")),
    "LRGeom": (rf.Embedded, rf.ConjugateGradient(metric="geometry")),
}
GNMR = "GNMR"
# The least ρ that the median of their runs recovers at 1000², rank 5, by condition number: from the result
# files published with MatrixIRLS (Kümmerle and Mayrink Verdun, 2021).
PUBLISHED = {
    "MatrixIRLS": {10.0: 1.5, 1e5: 1.9},
    "R2RILS": {10.0: 1.5},
    "R3MC, rank updates": {10.0: 1.8, 1e5: 1.7},
}
PUBLISHED_SIZE = 1000
MARKS = {"MatrixIRLS": ("^", 0.33), "R2RILS": ("s", -0.33), "R3MC, rank updates": ("o", 0.33)}
FIELDS = ("axis", "at", "sampling", "method", "size", "seed", "error")
Case = tuple[str, float, float, str, int, int]


def error_of(axis: str, at: float, sampling: float, method: str, size: int, seed: int) -> float:
    """Return the relative error of W after one run."""
    rank, condition = (RANK, at) if axis == "condition" else (int(at), CONDITION)
    shape = (size, size)
    data = rf.data.random_completion(shape, rank, sampling, seed, condition=condition, min_per_line=True)
    cost = rf.Completion.from_triples(data)
    if method == GNMR:
        L, R, _ = gnmr(data, rf.Problem.of(cost, rank), None, seed)
        return data.relative_error(L, R)
    geometry, solver = METHODS[method]
    # At condition number κ the smallest pair's part of the value is about κ⁻²: go well below it.
    tolerance = max(1e-16 / condition**2, 1e-26)
    done = 0

    def worked(progress: Any) -> bool:
        nonlocal done
        done += progress.trace[-1].gradients + progress.trace[-1].hessians
        return done >= WORK

    problem = rf.Problem(cost, geometry(shape, rank))
    result = rf.minimize(problem, solver, tolerance=tolerance, max_iterations=WORK, callback=worked)
    return data.relative_error(*result.factors)


def run(case: Case) -> tuple[Case, float]:
    return case, error_of(*case)


def load(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {key: value if key in ("axis", "method") else float(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def cases(axes: list[str], methods: list[str], sizes: list[int], seeds: int) -> Iterator[Case]:
    """All runs: a seed of each first, which compiles; large ones, which take longest, before small ones."""
    for seed in range(seeds):
        for size in sorted(sizes, reverse=True):
            for axis in axes:
                for at in AXES[axis]:
                    for sampling in SAMPLING:
                        for method in methods:
                            if method != GNMR or axis == "condition":
                                yield axis, at, sampling, method, size, seed


def measure(todo: list[Case], jobs: int, path: Path) -> None:
    new = not path.exists()
    spawn = multiprocessing.get_context("spawn")
    with (
        path.open("a", newline="", encoding="utf-8") as file,
        ProcessPoolExecutor(jobs, mp_context=spawn) as pool,
    ):
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(FIELDS)
        for future in as_completed([pool.submit(run, case) for case in todo]):
            case, error = future.result()
            writer.writerow((*case, f"{error:.3g}"))
            file.flush()


def draw(rows: list[dict[str, Any]], size: int, path: Path) -> None:
    import matplotlib.pyplot as plt

    mine = [row for row in rows if row["size"] == size]
    names = [name for name in (*METHODS, GNMR) if any(row["method"] == name for row in mine)]
    size_of = (3.7 * len(names), 6)
    figure, panels = plt.subplots(2, len(names), figsize=size_of, layout="constrained", squeeze=False)
    for line, axis in zip(panels, AXES, strict=True):
        for panel, name in zip(line, names, strict=True):
            errors = [row for row in mine if (row["axis"], row["method"]) == (axis, name)]
            if not errors:
                panel.axis("off")
                continue
            image = draw_panel(panel, axis, name, errors)
            if (size, axis, name) == (PUBLISHED_SIZE, "condition", "auto"):
                draw_published(panel)
    figure.colorbar(image, ax=panels, label="success rate")
    figure.suptitle(f"{size}×{size}; above: rank {RANK}; below: condition number {CONDITION:g}")
    figure.savefig(path, dpi=130)


def draw_panel(panel: Any, axis: str, name: str, rows: list[dict[str, Any]]) -> Any:
    """Draw one method's success rates over the values of an axis."""
    values = AXES[axis]
    table, texts = np.full((len(values), len(SAMPLING)), np.nan), {}
    for (i, at), (j, rho) in ((a, b) for a in enumerate(values) for b in enumerate(SAMPLING)):
        errors = [row["error"] for row in rows if (row["at"], row["sampling"]) == (at, rho)]
        if errors:
            wins = sum(error <= BOUND for error in errors)
            table[i, j], texts[i, j] = wins / len(errors), f"{wins}/{len(errors)}"
    image = panel.imshow(table, vmin=0, vmax=1, cmap="viridis", origin="lower", aspect="auto")
    for (i, j), rate in np.ndenumerate(table):
        colour = "black" if rate > 0.6 else "white"
        panel.text(j, i, texts.get((i, j), "–"), ha="center", va="center", fontsize=7, color=colour)
    panel.set_xticks(range(len(SAMPLING)), [f"{rho:g}" for rho in SAMPLING])
    panel.set_yticks(range(len(values)), [f"{at:g}" for at in values])
    panel.set_xlabel("entries per degree of freedom, ρ")
    panel.set_ylabel("condition number κ" if axis == "condition" else "rank r")
    panel.set_title(name)
    return image


def draw_published(panel: Any) -> None:
    """Mark where the methods of others are published to begin."""
    for name, (marker, above) in MARKS.items():
        begins = PUBLISHED[name]
        xs = np.interp(list(begins.values()), SAMPLING, range(len(SAMPLING)))
        ys = [AXES["condition"].index(at) + above for at in begins]
        panel.plot(xs, ys, marker, color="red", markeredgecolor="white", label=name, markersize=7)
    panel.legend(
        fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, title="published to begin at",
        title_fontsize=6,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, GNMR], default=list(METHODS))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--draw", action="store_true", help="run nothing")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not options.draw:
        done = {tuple(row[key] for key in FIELDS[:-1]) for row in load(options.out)}
        wanted = cases(options.axes, options.methods, options.sizes, options.seeds)
        measure([case for case in wanted if case not in done], options.jobs, options.out)
    rows = load(options.out)
    for size in sorted({int(row["size"]) for row in rows}):
        draw(rows, size, options.out.with_name(f"phase_transition_{size}.png"))


if __name__ == "__main__":
    main()
