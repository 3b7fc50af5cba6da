"""Below ρ = 1.3: bad minima, lines with r entries or identifiability, and what restarts do about them.

    python -m benchmarks.limit [--jobs 16] [--seeds 20] [--rhos 1.1 1.2] [--out FILE] [--table]

300×350, rank 5, condition number 10, at least r entries per row and column. Each run of `auto` is solved (a
relative error of W of at most 1e-6), another solution (it fits to 1e-16, and is wrong), a wrong minimum, or
not determined (`rankfold.selection.retrying`). From a wrong minimum each kind of restart has two tries.
Lines of r entries are counted, and the lines that are wrong in another solution. Every instance is written to
docs/figures/limit.csv, or the file given, as soon as it is done, and not repeated.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

for _name in ("OMP_NUM_THREADS", "RANKFOLD_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import rankfold as rf  # noqa: E402
from rankfold.selection.retrying import FITS, WRONG, judged, perturbed  # noqa: E402
from rankfold.solvers.averaged import averaged  # noqa: E402

OUT = Path(__file__).parent.parent / "docs" / "figures" / "limit.csv"
SHAPE, RANK, CONDITION = (300, 350), 5, 10.0
RHOS = (1.1, 1.15, 1.2, 1.25, 1.3)
SECONDS, TRIES = 8.0, 2
SOLVED, ANOTHER = "solved", "another solution"
OFF = 0.1  # the relative error of a line that is wrong


def from_averaged(problem: rf.Problem, seed: int) -> tuple[Any, Any]:
    """Averaged least squares from other random factors, and Gauss–Newton from there."""
    found = averaged(problem, problem.start(), seed)
    if found is None:
        return rf.TrimmedContinuation(), problem.start()
    return rf.TrimmedContinuation(start=found.pairs, slow=(0.02,)), found.x


RESTARTS: dict[str, Callable[[rf.Problem, Any, np.random.Generator], tuple[Any, Any]]] = {
    "other paths": lambda problem, x, rng: (
        rf.TrimmedContinuation(slow=tuple(10 ** rng.uniform(-2.5, -0.7, 1))),
        problem.start(),
    ),
    "perturbed": lambda problem, x, rng: (
        rf.TrimmedContinuation(start=RANK, slow=(0.02,)),
        perturbed(problem, x, rng),
    ),
    "averaged": lambda problem, x, rng: from_averaged(problem, int(rng.integers(1, 2**31))),
}
FIELDS = (
    "rho", "seed", "kind", "error", "misfit", "cpu_seconds", "away", "short", "wrong_lines", "wrong_entries",
    *RESTARTS,
)  # fmt: skip


def fitted(problem: rf.Problem, solver: Any, x0: Any = None) -> Any:
    began = time.process_time()
    return rf.minimize(
        problem, solver, x0, tolerance=1e-20, max_iterations=3000,
        callback=lambda _: time.process_time() - began > SECONDS,
    )  # fmt: skip


def instance(rho: float, seed: int) -> dict[str, Any]:
    """Run `auto`, judge what it found, and try to do better where that is wrong."""
    data = rf.data.random_completion(SHAPE, RANK, rho, seed, condition=CONDITION, min_per_line=True)
    cost = rf.Completion.from_triples(data)
    problem = rf.Problem.of(cost, RANK)
    began = time.process_time()
    result = fitted(problem, "auto")
    cpu = time.process_time() - began
    (L, R), verdict = result.factors, judged(cost, *result.factors)
    error = data.relative_error(L, R)
    kind = SOLVED if error <= 1e-6 else ANOTHER if verdict.kind == FITS else verdict.kind
    counts = np.concatenate([cost.observed.by_row.counts, cost.observed.by_column.counts])
    W = data.L @ data.R.T
    off = (
        np.concatenate([np.linalg.norm(L @ R.T - W, axis=k) / np.linalg.norm(W, axis=k) for k in (1, 0)])
        > OFF
    )
    row = {
        "rho": rho, "seed": seed, "kind": kind, "error": f"{error:.3g}", "misfit": f"{verdict.misfit:.3g}",
        "cpu_seconds": f"{cpu:.3g}", "away": verdict.lines, "short": int(np.sum(counts == RANK)),
        "wrong_lines": int(off.sum()), "wrong_entries": f"{counts[off].mean():.3g}" if off.any() else "0",
    }  # fmt: skip
    for name, restart in RESTARTS.items():
        row[name] = tries_of(data, problem, result, restart, seed) if kind == WRONG else ""
    return row


def tries_of(data: Any, problem: rf.Problem, result: Any, restart: Any, seed: int) -> str:
    """Say at which try a kind of restart solved the instance, and the CPU seconds of all tries."""
    began = time.process_time()
    for k in range(TRIES):
        again = fitted(problem, *restart(problem, result.x, np.random.default_rng((seed, k))))
        if data.relative_error(*again.factors) <= 1e-6:
            return f"{k + 1} {time.process_time() - began:.3g}"
    return f"0 {time.process_time() - began:.3g}"


def load(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def measure(todo: list[tuple[float, int]], jobs: int, path: Path) -> None:
    new = not path.exists()
    spawn = multiprocessing.get_context("spawn")
    with (
        path.open("a", newline="", encoding="utf-8") as file,
        ProcessPoolExecutor(jobs, mp_context=spawn) as pool,
    ):
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        for future in as_completed([pool.submit(instance, *each) for each in todo]):
            writer.writerow(future.result())
            file.flush()


def print_table(rows: list[dict[str, str]]) -> None:
    kinds = SOLVED, ANOTHER, WRONG, "not determined"
    heads = "ρ", "runs", *kinds, "CPU seconds", "lines of r entries", *(f"{name} solve" for name in RESTARTS)
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for rho in sorted({float(row["rho"]) for row in rows}):
        mine = [row for row in rows if float(row["rho"]) == rho]
        cells = [f"{rho:g}", len(mine), *(sum(row["kind"] == kind for row in mine) for kind in kinds)]
        cells += [f"{np.median([float(row[key]) for row in mine]):.2g}" for key in ("cpu_seconds", "short")]
        wrong = [row for row in mine if row["kind"] == WRONG]
        cells += [f"{sum(row[name][0] != '0' for row in wrong)} of {len(wrong)}" for name in RESTARTS]
        print("| " + " | ".join(map(str, cells)) + " |")
    for row in rows:
        if row["kind"] == ANOTHER:
            where = f"another solution at ρ = {row['rho']}, seed {row['seed']}: error {row['error']}"
            lines = f"{row['wrong_lines']} wrong lines, of {row['wrong_entries']} entries on average"
            print(f"{where}, misfit {row['misfit']}, {lines}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rhos", type=float, nargs="+", default=RHOS)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.table:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        done = {(float(row["rho"]), int(row["seed"])) for row in load(options.out)}
        wanted = [(rho, seed) for rho in options.rhos for seed in range(options.seeds)]
        measure([each for each in wanted if each not in done], options.jobs, options.out)
    print_table(load(options.out))


if __name__ == "__main__":
    main()
