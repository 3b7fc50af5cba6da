"""Hard completion instances: ill-conditioned, few entries, or noise; and what `auto` costs on easy ones.

    python -m benchmarks.hard --table --jobs 16 [--seeds 20] [--first 0] [--only NAME ...] [--others gnmr ...]
    python -m benchmarks.hard --noise --jobs 16 [--seeds 20]

Every instance samples at least r entries per row and column. A success is a relative error of the whole W
within the row's bound (and, where the row says so, f ≤ 1e-20 · f(0)). Every run has a process of its own with
one thread, which first runs the same once more, so that compiling is not counted (but for rows with noise,
whose errors alone count); times exclude the start point. A row with a reference runs it in the same process,
and gives the median ratio of CPU seconds. A run of ours ends after 100 CPU seconds, solved or not, one with
noise after 15. Rows with noise compare errors with those of a fit that starts at the truth. `--others` adds
other ways (`benchmarks.alternatives`) on the rows they are for, five seeds: cmfrec (the `bench` extra), GNMR
by its authors' code (github.com/pizilber/GNMR, whose folder "Matrix completion/Python" is to be on
PYTHONPATH), several starts, and an overparameterised one.

Runs are kept in docs/figures/hard.json, and those found there are not repeated. `--table` makes those of the
rows that something is asked of anew. Prints the tables of docs/hard-instances.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OUT = Path(__file__).parent.parent / "docs" / "figures" / "hard.json"
LIMIT, NOISY_LIMIT = 100, 15  # CPU seconds of a run, and of one with noise, which may never end
OTHERS_SEEDS = 5
for _name in ("OMP_NUM_THREADS", "RANKFOLD_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import rankfold as rf  # noqa: E402
from benchmarks.alternatives import METHODS  # noqa: E402
from benchmarks.instances import P1, P2, P3, P4, P5, Instance  # noqa: E402

Run = dict[str, Any]


class Row(NamedTuple):
    """An instance for `auto`, the error that counts as success, what is wanted, and what to compare with."""

    instance: Instance
    bound: float = 1e-6
    wins: int = 0  # of 20
    seconds: float = 0.0
    against: Instance | None = None
    solver: str = "auto"
    ratio: float = 0.0
    others: tuple[str, ...] = ()
    noise: float = 0.0


def square(size: int, rank: int, rho: float, kappa: float, tolerance: float = 1e-20) -> Instance:
    return Instance((size, size), rank, rho, kappa, tolerance)


FEW = "gnmr", "starts", "overparameterised"  # what else there is for few entries
R10 = square(4000, 10, 3, 1)
SMALL = Instance((300, 350), 5, 1.5, 10)
WANTED = {
    "1e5-1.5": Row(square(1000, 5, 1.5, 1e5, 1e-24), wins=19, seconds=1.5),
    "10-1.5": Row(square(1000, 5, 1.5, 10), wins=20, seconds=1.5),
    "10-1.3": Row(square(1000, 5, 1.3, 10), wins=17, seconds=8),
    "1e5-1.3": Row(square(1000, 5, 1.3, 1e5, 1e-24), wins=12, seconds=10),
    "300-1.3": Row(SMALL._replace(oversampling=1.3), wins=18, seconds=0.7, others=FEW),
    "300-1.2": Row(SMALL._replace(oversampling=1.2), wins=10, seconds=3, others=FEW),
    "r30-1e10": Row(square(1000, 30, 1.5, 1e10, 1e-22), bound=1e-9, wins=20, seconds=1.5),
    "P4": Row(P4, wins=20, against=P1, ratio=1.3, others=("cmfrec",)),
}
MORE = {
    "r10-1e5": Row(R10._replace(condition=1e5), against=R10, others=("cmfrec",)),
    "P4-1e7": Row(P4._replace(condition=1e7)),
    "r10-1e3": Row(R10._replace(oversampling=8, condition=1e3)),
    "r20-1e3": Row(square(2000, 20, 4, 1e3)),
    "r30-1e2": Row(square(2000, 30, 3, 1e2)),
    "1e5-1.8": Row(square(1000, 5, 1.8, 1e5, 1e-24)),
    "10-1.8": Row(square(1000, 5, 1.8, 10)),
    "10-1.2": Row(square(1000, 5, 1.2, 10)),
    "300-1.8": Row(SMALL._replace(oversampling=1.8), others=FEW),
    "300-1.5": Row(SMALL, others=FEW),
    "300-1.1": Row(SMALL._replace(oversampling=1.1)),
}
EASY = {
    name: Row(instance, against=instance, solver="cg", ratio=1.05)
    for name, instance in {
        "easy P1": P1,
        "easy P2": P2,
        "easy P3": P3,
        "easy P5": P5,
        "easy r10": R10,
        "bad start": R10._replace(condition=10),
    }.items()
}
NOISY = {
    f"noise {noise:g}, {rho:g}": Row(SMALL._replace(oversampling=rho), noise=noise)
    for rho in (1.5, 2.0, 3.0, 4.0)
    for noise in (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
}
ROWS = WANTED | MORE | EASY | NOISY


def minimised(problem: rf.Problem, solver: str, x0: Any, tolerance: float) -> Any:
    began, limit = time.process_time(), LIMIT if tolerance else NOISY_LIMIT
    return rf.minimize(
        problem, solver, x0, tolerance=tolerance, max_iterations=5000,
        callback=lambda _: time.process_time() - began > limit,
    )  # fmt: skip


def run(role: str, instance: Instance, seed: int, noise: float) -> Run:
    """Run the method of this name, or the other way of this name."""
    data = instance.draw(seed, min_per_line=True, noise=noise)
    problem = rf.Problem.of(rf.Completion.from_triples(data), instance.rank)
    x0 = problem.geometry.from_factors(data.L, data.R) if role == "gn" else problem.start()
    tolerance, notes = 0.0 if noise else instance.tolerance, []
    began, began_cpu = time.perf_counter(), time.process_time()
    if role in METHODS:
        L, R, iterations = METHODS[role](data, problem, x0, seed)
    else:
        result = minimised(problem, role, x0, tolerance)
        (L, R), iterations = result.factors, result.iterations
        notes = [row.note for row in result.trace if row.note and not row.note.startswith("rank ")]
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        "iterations": iterations,
        "value": problem.cost.value(L, R) / problem.cost.value_at_zero,
        "error": data.relative_error(L, R),
        "notes": notes,
    }


def runs_of(name: str, seed: int, others: Iterable[str]) -> list[Run]:
    """Run a row for one seed, by role, each once more before it is measured."""
    row, found = ROWS[name], []
    todo = [("auto", "auto", row.instance)]
    if row.against is not None:
        todo.append(("reference", row.solver, row.against))
    if row.noise:
        todo.append(("oracle", "gn", row.instance))
    todo += [(other, other, row.instance) for other in others if other in row.others and seed < OTHERS_SEEDS]
    for role, method, instance in todo:
        if role not in METHODS and not row.noise:  # of noise, errors alone are compared
            run(method, instance, seed, row.noise)
        found.append({"row": name, "role": role, "seed": seed, **run(method, instance, seed, row.noise)})
    return found


def load() -> list[Run]:
    return json.loads(OUT.read_text("utf-8")) if OUT.exists() else []


def keep(runs: list[Run]) -> None:
    rounded = [{k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in run.items()} for run in runs]
    lines = ",\n".join(json.dumps(run, ensure_ascii=False) for run in rounded)
    OUT.write_text(f"[\n{lines}\n]\n", "utf-8")


def measure(names: list[str], seeds: range, jobs: int, others: list[str], runs: list[Run]) -> list[Run]:
    """Run what is not among `runs`, a process each; first a seed of each row, which compiles its kernels."""
    done = {(run["row"], run["seed"]) for run in runs} if not others else set()
    todo = [(name, seed) for name in names for seed in seeds if (name, seed) not in done]
    context = multiprocessing.get_context("spawn")
    each = None if set(names) <= set(NOISY) else 1  # a process for each run that is timed
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=each) as pool:
        first = dict(reversed(todo))
        for future in as_completed([pool.submit(runs_of, name, seed, ()) for name, seed in first.items()]):
            future.result()
        for future in as_completed([pool.submit(runs_of, name, seed, others) for name, seed in todo]):
            new = future.result()
            made = {(run["row"], run["role"], run["seed"]) for run in new}
            runs = [run for run in runs if (run["row"], run["role"], run["seed"]) not in made] + new
            keep(sorted(runs, key=lambda run: (list(ROWS).index(run["row"]), run["role"], run["seed"])))
    return load()


def line(name: str, runs: list[Run]) -> str:
    """Return one row of the table in Markdown."""
    row, (shape, rank, rho, condition, _) = ROWS[name], ROWS[name].instance
    mine = [run for run in runs if run["row"] == name and run["role"] == "auto"]
    if not mine:
        return f"| {name} | not run |"
    reference = {run["seed"]: run for run in runs if run["row"] == name and run["role"] == "reference"}
    wins = sum(run["error"] <= row.bound for run in mine)
    middle = {
        key: float(np.median([run[key] for run in mine])) for key in ("error", "iterations", "cpu_seconds")
    }
    pairs = [
        run["cpu_seconds"] / reference[run["seed"]]["cpu_seconds"] for run in mine if run["seed"] in reference
    ]
    cells = [
        name, f"{shape[0]}×{shape[1]}", rank, f"{rho:g}", "–" if condition is None else f"{condition:g}",
        f"{wins} of {len(mine)}", f"{row.wins} of 20" if row.wins else "–", f"{middle['error']:.0e}",
        f"{max(run['value'] for run in mine):.0e}", f"{middle['iterations']:.0f}",
        f"{middle['cpu_seconds']:.2f}", f"{row.seconds:g}" if row.seconds else "–",
        f"{np.median(pairs):.2f}" if pairs else "–",
        f"{row.ratio:g}" if row.ratio else "–",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def report(names: list[str], runs: list[Run]) -> None:
    print("| row | shape | r | ρ | κ | success | wanted | median error | largest f / f(0) | iterations "
          "| CPU seconds | wanted | times the reference | wanted |\n" + "|---" * 14 + "|")  # fmt: skip
    for name in names:
        if name not in NOISY:
            print(line(name, runs))
    for name in names:
        for other in ROWS[name].others:
            mine = [run for run in runs if run["row"] == name and run["role"] == other]
            if mine:
                errors = ", ".join(f"{run['error']:.0e}" for run in mine)
                cpu = np.median([run["cpu_seconds"] for run in mine])
                print(f"{other} on {name}: errors {errors}; {cpu:.1f} CPU seconds")
    noisy = [name for name in names if name in NOISY and any(run["row"] == name for run in runs)]
    if noisy:
        print(
            "\n| ρ | noise | error of the oracle | error of `auto` over it, median and largest |\n"
            + "|---" * 4
            + "|"
        )
    for name in noisy:
        errors = {
            role: np.array([run["error"] for run in runs if (run["row"], run["role"]) == (name, role)])
            for role in ("auto", "oracle")
        }
        ratios = errors["auto"] / errors["oracle"]
        cells = (
            f"{ROWS[name].instance.oversampling:g} | {ROWS[name].noise:g} | {np.median(errors['oracle']):.1e}"
        )
        print(f"| {cells} | {np.median(ratios):.3f}, {ratios.max():.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", action="store_true", help="make the wanted rows, and easy ones, anew")
    parser.add_argument("--noise", action="store_true", help="the rows with noise alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--only", nargs="*", choices=ROWS)
    parser.add_argument("--others", nargs="*", choices=METHODS, default=[])
    options = parser.parse_args()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    every = NOISY if options.noise else ROWS
    names = options.only or ([*WANTED, "easy P1", "easy P2"] if options.table else list(every))
    kept = [run for run in load() if not (options.table and run["row"] in names)]
    report(
        names,
        measure(
            names, range(options.first, options.first + options.seeds), options.jobs, options.others, kept
        ),
    )


if __name__ == "__main__":
    main()
