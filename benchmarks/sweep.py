"""What to choose when: `auto` beside each method that it is made of, over sampling, condition, rank and size.

    python -m benchmarks.sweep [--jobs 16] [--sizes 100 300] [--ranks 1 5] [--seeds 2] [--out FILE] [--table]
        [--again auto]

Square matrices with at least r entries per row and column; a success is a relative error of the whole W of at
most 1e-6. All methods begin at the spectral start, whose time is not counted, with one thread each. `auto`
runs first; a method that needs more than three times as long as an `auto` that succeeded is ended, and counts
as a failure: it would not be chosen. Where `auto` fails, the others have as long as it may have had.

Every run is written to docs/figures/sweep.csv, or the file given, as soon as its instance is done, and those
found there are not repeated, but for methods that `--again` names. `--table` runs nothing. Prints, for each ρ
and κ, successes and times of all methods, then the cells (size, rank, ρ, κ) in which another method succeeded
more often than `auto`, or as often in less than 1/1.3 of its CPU seconds.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

for _name in ("OMP_NUM_THREADS", "RANKFOLD_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import rankfold as rf  # noqa: E402
from rankfold.kernels.layout import are_few  # noqa: E402
from rankfold.linalg.primitives import LEAST, grams, sums  # noqa: E402
from rankfold.solvers.averaged import averaged  # noqa: E402
from rankfold.solvers.shrunk import shrunk  # noqa: E402

OUT = Path(__file__).parent.parent / "docs" / "figures" / "sweep.csv"
SMALL = (1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 4.0), (1.0, 1e2, 1e5, 1e10), (1, 2, 5, 10, 30)
LARGE = (1.3, 1.5, 2.0, 4.0), (1.0, 1e5), (5,)
GRID = {
    100: SMALL,
    300: SMALL,
    1000: ((1.1, 1.3, 1.5, 2.0, 3.0, 4.0), (1.0, 1e2, 1e5, 1e10), (1, 5, 30)),
    3000: LARGE,
    10000: LARGE,
}
SECONDS = {100: 1.5, 300: 3.0, 1000: 6.0, 3000: 12.0, 10000: 25.0}  # of a run of `auto`, at most
SEEDS = {3000: 1, 10000: 1}  # at most so many there
FULLEST = 0.9  # the part of all entries that may be known
PATIENCE, UNFELT = 3.0, 0.02  # times `auto`, and CPU seconds that nobody notices
BEHIND = 1.3
METHODS: dict[str, Any] = {
    "auto": "auto",
    "CG": rf.ConjugateGradient(),
    "GaussNewton": rf.GaussNewton(),
    "RankContinuation": rf.RankContinuation(),
    "Reweighted": rf.ReweightedContinuation(),
    "Reweighted, GN": rf.ReweightedContinuation(rf.GaussNewton(), rf.GaussNewton()),
    "Trimmed": rf.TrimmedContinuation(),
}
FIELDS = (
    "size", "rank", "rho", "kappa", "seed", "method", "error", "value", "cpu_seconds", "iterations", "notes"
)  # fmt: skip
Run = dict[str, Any]


class Cell(NamedTuple):
    """Matrices of this size and rank, with ρ entries per degree of freedom and condition number κ."""

    size: int
    rank: int
    rho: float
    kappa: float

    @property
    def entries(self) -> float:
        """How many entries are known."""
        return self.rho * self.rank * (2 * self.size - self.rank)


def cells(sizes: Iterable[int]) -> Iterator[Cell]:
    """The cells of the grid, those that take longest first."""
    for size in sorted(sizes, reverse=True):
        for rho, kappa, rank in product(*GRID[size]):
            cell = Cell(size, rank, rho, kappa)
            # A matrix of rank 1 has one singular value, and no condition number.
            if cell.entries <= FULLEST * size**2 and (rank > 1 or kappa == 1):
                yield cell


def solved(problem: rf.Problem, method: Any, x0: Any, tolerance: float, seconds: float) -> tuple[Any, float]:
    began = time.process_time()
    result = rf.minimize(
        problem, method, x0, tolerance=tolerance, max_iterations=5000,
        callback=lambda _: time.process_time() - began > seconds,
    )  # fmt: skip
    return result, time.process_time() - began


def runs_of(cell: Cell, seed: int, names: Iterable[str] = tuple(METHODS)) -> list[Run]:
    """Run all methods on one instance, `auto` first, with the kernels of its ranks at hand."""
    warm(cell.rank, are_few(round(cell.entries) + 2 * cell.size))
    shape, kappa = (cell.size, cell.size), cell.kappa
    data = rf.data.random_completion(shape, cell.rank, cell.rho, seed, condition=kappa, min_per_line=True)
    problem = rf.Problem.of(rf.Completion.from_triples(data), cell.rank)
    x0, seconds, runs = problem.start(), SECONDS[cell.size], []
    for name in names:
        method = METHODS[name]
        # The last pairs of an ill-conditioned matrix are seen in the last digits only.
        result, cpu = solved(problem, method, x0, 1e-20 if kappa < 1e3 else 1e-24, seconds)
        error = data.relative_error(*result.factors)
        notes = [row.note for row in result.trace if row.note and not row.note.startswith("rank ")]
        runs.append(
            {
                **cell._asdict(), "seed": seed, "method": name, "error": f"{error:.3g}",
                "value": f"{result.value / problem.cost.value_at_zero:.3g}", "cpu_seconds": f"{cpu:.4g}",
                "iterations": result.iterations, "notes": "; ".join(notes),
            }
        )  # fmt: skip
        if name == "auto" and error <= 1e-6:
            seconds = PATIENCE * cpu + UNFELT
    return runs


_warm: set[tuple[int, bool]] = set()


def warm(rank: int, few: bool) -> None:
    """Let every kernel that rank and those below need be compiled, or read from disk, before it is timed."""
    for k in range(1, rank + 1):
        if (k, few) in _warm:
            continue
        _warm.add((k, few))
        tall = np.ones((LEAST // k + 1, k))  # of fewer rows than these BLAS takes the Grams
        grams([(tall, tall)])
        sums([(tall, np.eye(k))])
        # The kernels for few entries are others than those for many.
        shape, rho = ((70, 80), 1.3) if few else ((350, 350), 105_000 / (k * (700 - k)))
        data = rf.data.random_completion(shape, k, rho, seed=0, min_per_line=True)
        problem = rf.Problem.of(rf.Completion.from_triples(data), k)
        methods = [*METHODS.values(), rf.TrustRegion(), rf.ConjugateGradient(metric="geometry")]
        for method in [*methods, rf.RankContinuation(start=max(k - 1, 1), settled=0.02, slow=0.9)]:
            rf.minimize(problem, method, max_iterations=4)
        if k > 1:
            averaged(problem, problem.start())
            shrunk(problem, problem.start())


def compile_one(rank: int, few: bool) -> None:
    """Compile the kernels of one rank, so that other processes find them on disk."""
    _warm.update((k, few) for k in range(1, rank))
    warm(rank, few)


def load(path: Path) -> list[Run]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {key: text if key in ("method", "notes") else float(text) for key, text in row.items()}
            for row in csv.DictReader(file)
        ]


def without(path: Path, names: list[str]) -> list[Run]:
    """Take the runs of these methods out of the file, and return the others."""
    if names:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["method"] not in names]
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return load(path)


def measure(todo: list[tuple[Cell, int, tuple[str, ...]]], jobs: int, path: Path) -> None:
    """Run what is to be done, several processes at a time, and write down what has ended."""
    kinds = {(k, are_few(round(c.entries) + 2 * c.size)) for c, *_ in todo for k in range(1, c.rank + 1)}
    new = not path.exists()
    spawn = multiprocessing.get_context("spawn")
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        if jobs > 1 and kinds:
            with ProcessPoolExecutor(jobs, mp_context=spawn, max_tasks_per_child=1) as pool:
                list(pool.map(compile_one, *zip(*sorted(kinds, reverse=True), strict=True)))
        with ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
            for future in as_completed([pool.submit(runs_of, *each) for each in todo]):
                writer.writerows(future.result())
                file.flush()


class Score(NamedTuple):
    """How often a method succeeded in a cell, and the median of its CPU seconds where it did."""

    wins: int
    seconds: float


def scores(runs: list[Run]) -> dict[Cell, dict[str, Score]]:
    grouped: dict[Cell, dict[str, list[Run]]] = {}
    for run in runs:
        cell = Cell(int(run["size"]), int(run["rank"]), run["rho"], run["kappa"])
        grouped.setdefault(cell, {}).setdefault(run["method"], []).append(run)
    return {cell: {name: _score(mine) for name, mine in by.items()} for cell, by in sorted(grouped.items())}


def _score(runs: list[Run]) -> Score:
    times = [run["cpu_seconds"] for run in runs if run["error"] <= 1e-6]
    return Score(len(times), float(np.median(times)) if times else np.inf)


def better(by: dict[str, Score]) -> str:
    """Name the method that does better than `auto` in a cell; the fastest of those that succeed most."""
    auto, most = by["auto"], max(score.wins for score in by.values())
    name = min((name for name in by if by[name].wins == most), key=lambda name: by[name].seconds)
    slow = auto.seconds > BEHIND * by[name].seconds + UNFELT
    return name if most > auto.wins or (most and slow) else ""


def print_tables(found: dict[Cell, dict[str, Score]], seeds: dict[Cell, int]) -> None:
    names = [name for name in METHODS if all(name in by for by in found.values())]
    print("| ρ | κ | runs | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 3) + "|")
    for rho, kappa in sorted({(cell.rho, cell.kappa) for cell in found}):
        mine = [cell for cell in found if (cell.rho, cell.kappa) == (rho, kappa)]
        total = sum(seeds[cell] for cell in mine)
        texts = [
            f"{sum(found[cell][name].wins for cell in mine)}{_times(found, mine, name)}" for name in names
        ]
        print(f"| {rho:g} | {kappa:g} | {total} | " + " | ".join(texts) + " |")
    behind = {cell: name for cell, by in found.items() if (name := better(by))}
    print(f"\n`auto` is behind in {len(behind)} of {len(found)} cells:\n")
    print("| size | r | ρ | κ | runs | `auto` | best | |\n" + "|---" * 8 + "|")
    for cell, name in behind.items():
        pair = (f"{found[cell][each].wins}, {found[cell][each].seconds:.2g} s" for each in ("auto", name))
        where = f"{cell.size} | {cell.rank} | {cell.rho:g} | {cell.kappa:g} | {seeds[cell]}"
        print(f"| {where} | " + " | ".join(pair) + f" | {name} |")


def _times(found: dict[Cell, dict[str, Score]], mine: list[Cell], name: str) -> str:
    """The median of a method's time over that of `auto`, in the cells that both solve."""
    ratios = [
        found[cell][name].seconds / found[cell]["auto"].seconds
        for cell in mine
        if found[cell][name].wins and found[cell]["auto"].wins
    ]
    return f", {np.median(ratios):.1f}×" if ratios and name != "auto" else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--sizes", type=int, nargs="+", choices=GRID, default=list(GRID))
    parser.add_argument("--ranks", type=int, nargs="+", help="of these ranks only")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--again", nargs="+", choices=METHODS, default=[], help="run these anew")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.table:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        kept = without(options.out, options.again)
        done = {(*(run[key] for key in FIELDS[:4]), run["seed"], run["method"]) for run in kept}
        every = [
            (cell, seed, tuple(name for name in METHODS if (*cell, seed, name) not in done))
            for cell in cells(options.sizes)
            if options.ranks is None or cell.rank in options.ranks
            for seed in range(min(options.seeds, SEEDS.get(cell.size, options.seeds)))
        ]
        measure([each for each in every if each[2]], options.jobs, options.out)
    runs = load(options.out)
    found = {cell: by for cell, by in scores(runs).items() if len(by) == len(METHODS)}
    seeds = {
        cell: len({run["seed"] for run in runs if Cell(*(run[k] for k in FIELDS[:4])) == cell})
        for cell in found
    }
    print_tables(found, seeds)


if __name__ == "__main__":
    main()
