"""Hard completion instances: ill-conditioned, few entries, or both; and what `auto` costs on easy ones.

    python -m benchmarks.hard [--seeds 20] [--only NAME ...] [--others cmfrec gnmr starts overparameterised]

Every instance samples at least r entries per row and column. A success is a relative error of the whole W
within the row's bound (and, where the row says so, f ≤ 1e-20 · f(0)). Each row with a reference runs it in
turn, seed by seed, and gives the median ratio; times exclude the start point. A run of ours ends after 100
CPU seconds, solved or not. `--others` adds other ways (`benchmarks.alternatives`) on the rows they are for,
five seeds: cmfrec (the `bench` extra), GNMR by its authors' code (github.com/pizilber/GNMR, whose folder
"Matrix completion/Python" is to be on PYTHONPATH), several starts, and an overparameterised one. Runs are
kept in docs/figures/hard.csv, and those found there are not repeated: delete it to begin anew. Prints the
tables of docs/hard-instances.md.
"""

from __future__ import annotations

import argparse
import csv
import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankfold as rf
from benchmarks.alternatives import METHODS, Found
from benchmarks.instances import P1, P2, P3, P4, P5, Instance

OUT = Path(__file__).parent.parent / "docs" / "figures" / "hard.csv"
FIELDS = ("row", "role", "seed", "seconds", "cpu_seconds", "iterations", "value", "error")
LIMIT = 100  # CPU seconds of a run
OTHERS_SEEDS = 5
Method = Callable[[Any, rf.Problem, Any, int], Found]


class Row(NamedTuple):
    """An instance for `auto`, the error that counts as success, and what its time is compared with."""

    instance: Instance
    bound: float = 1e-6
    against: Instance | None = None
    solver: str = "auto"
    others: tuple[str, ...] = ()


FEW = "gnmr", "starts", "overparameterised"  # what else there is for few entries
R10 = Instance((4000, 4000), 10, 3, 1)
HARD = {
    "P4": Row(P4, against=P1, others=("cmfrec",)),
    "r10-1e5": Row(R10._replace(condition=1e5), against=R10, others=("cmfrec",)),
    "1e5-1.8": Row(Instance((1000, 1000), 5, 1.8, 1e5, 1e-24)),
    "1e5-1.5": Row(Instance((1000, 1000), 5, 1.5, 1e5, 1e-24)),
    "10-1.8": Row(Instance((1000, 1000), 5, 1.8, 10)),
    "10-1.5": Row(Instance((1000, 1000), 5, 1.5, 10)),
    "10-1.3": Row(Instance((1000, 1000), 5, 1.3, 10)),
    "r30-1e10": Row(Instance((1000, 1000), 30, 1.5, 1e10, 1e-22), bound=1e-9),
    "300-1.8": Row(Instance((300, 350), 5, 1.8, 10), others=FEW),
    "300-1.5": Row(Instance((300, 350), 5, 1.5, 10), others=FEW),
    "300-1.3": Row(Instance((300, 350), 5, 1.3, 10), others=FEW),
}
EASY = {
    name: Row(instance, against=instance, solver="cg")
    for name, instance in {
        "easy P1": P1,
        "easy P2": P2,
        "easy P3": P3,
        "easy P5": P5,
        "easy r10": R10,
        "bad start": R10._replace(condition=10),
    }.items()
}
ROWS = HARD | EASY


def drawn(instance: Instance, seed: int) -> tuple[rf.data.CompletionInstance, rf.Problem]:
    data = instance.draw(seed, min_per_line=True)
    cost = rf.Completion.from_triples(data)
    return data, rf.Problem.of(cost, instance.rank)


def solver(name: str, tolerance: float) -> Method:
    """`minimize` with this solver."""

    def method(data: Any, problem: rf.Problem, x0: Any, seed: int) -> Found:
        began = time.process_time()
        result = rf.minimize(
            problem, name, x0, tolerance=tolerance, max_iterations=3000,
            callback=lambda _: time.process_time() - began > LIMIT,
        )  # fmt: skip
        return *result.factors, result.iterations

    return method


def run(method: Method, instance: Instance, seed: int) -> dict[str, Any]:
    data, problem = drawn(instance, seed)
    x0 = problem.start()
    began, began_cpu = time.perf_counter(), time.process_time()
    L, R, iterations = method(data, problem, x0, seed)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        "iterations": iterations,
        "value": problem.cost.value(L, R) / problem.cost.value_at_zero,
        "error": data.relative_error(L, R),
    }


def tasks(name: str, seed: int, others: Sequence[str] = ()) -> dict[str, Any]:
    """Return what is to be run in turn for one seed of a row, by its role there."""
    row = ROWS[name]
    mine = solver("auto", row.instance.tolerance)
    todo: dict[str, Any] = {"auto": lambda: run(mine, row.instance, seed)}
    if row.against is not None:
        against = row.against
        todo["reference"] = lambda: run(solver(row.solver, against.tolerance), against, seed)
    for other in row.others if seed < OTHERS_SEEDS else ():
        if other in others:
            todo[other] = functools.partial(run, METHODS[other], row.instance, seed)
    return todo


def load() -> list[dict[str, Any]]:
    if not OUT.exists():
        return []
    with OUT.open(newline="") as file:
        return [
            {key: row[key] if key in FIELDS[:2] else float(row[key]) for key in FIELDS}
            for row in csv.DictReader(file)
        ]


def keep(run: dict[str, Any]) -> None:
    new = not OUT.exists()
    with OUT.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow({key: f"{value:.4g}" if isinstance(value, float) else value
                         for key, value in run.items()})  # fmt: skip


def measure(names: Sequence[str], seeds: int, others: Sequence[str]) -> None:
    done = {(run["row"], run["role"], run["seed"]) for run in load()}
    for name in names:
        compiled = False
        for seed in range(seeds):
            todo = {role: task for role, task in tasks(name, seed, others).items()
                    if (name, role, seed) not in done}  # fmt: skip
            if todo and not compiled:
                for task in tasks(name, seed).values():
                    task()
                compiled = True
            for role, task in todo.items():
                keep({"row": name, "role": role, "seed": seed, **task()})


def line(name: str, runs: list[dict[str, Any]]) -> str:
    """Return one row of the table in Markdown."""
    row, (shape, rank, oversampling, condition, _) = ROWS[name], ROWS[name].instance
    mine = [run for run in runs if run["row"] == name and run["role"] == "auto"]
    if not mine:
        return f"| {name} | not run |"
    reference = {run["seed"]: run for run in runs if run["row"] == name and run["role"] == "reference"}
    wins = sum(run["error"] <= row.bound for run in mine)
    middle = {key: float(np.median([run[key] for run in mine])) for key in FIELDS[3:]}
    pairs = [(run, reference[run["seed"]]) for run in mine if run["seed"] in reference]
    ratios = [
        f"{np.median([run[key] / other[key] for run, other in pairs]):.2f}" if pairs else "–"
        for key in ("seconds", "cpu_seconds")
    ]
    cells = [
        name, f"{shape[0]}×{shape[1]}", rank, f"{oversampling:g}",
        "–" if condition is None else f"{condition:g}", f"{wins} of {len(mine)}",
        f"{middle['error']:.1e}", f"{max(run['value'] for run in mine):.0e}", f"{middle['iterations']:.0f}",
        f"{middle['seconds']:.2f}", f"{middle['cpu_seconds']:.2f}", *ratios,
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def report(names: Sequence[str]) -> None:
    runs = load()
    print("| row | shape | r | ρ | κ | success | median error | largest f / f(0) | iterations | seconds "
          "| CPU seconds | times the reference | in CPU seconds |\n" + "|---" * 13 + "|")  # fmt: skip
    for name in names:
        print(line(name, runs))
    for name in names:
        for other in ROWS[name].others:
            mine = [run for run in runs if run["row"] == name and run["role"] == other]
            if mine:
                errors = ", ".join(f"{run['error']:.0e}" for run in mine)
                cpu = np.median([run["cpu_seconds"] for run in mine])
                print(f"{other} on {name}: errors {errors}; {cpu:.1f} CPU seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--others", nargs="*", choices=METHODS, default=[])
    options = parser.parse_args()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    measure(options.only, options.seeds, options.others)
    report(options.only)


if __name__ == "__main__":
    main()
