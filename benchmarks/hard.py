"""Hard completion instances: ill-conditioned, few entries, or both; success rates and times.

    python -m benchmarks.hard [--seeds 20] [--only NAME ...]

Every instance samples at least r entries per row and column. A success is a relative error of the whole W
below the instance's bound. Times exclude the start point, are medians over seeds, and are given relative to
the easy instance of the same size run in turn within the same loop. Writes docs/figures/hard.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankfold as rf

OUT = Path(__file__).parent.parent / "docs" / "figures" / "hard.json"


class Instance(NamedTuple):
    """One row of the table; `against` names the easy instance whose time it is compared with."""

    shape: tuple[int, int]
    rank: int
    oversampling: float
    condition: float
    bound: float
    tolerance: float = 1e-20
    against: str = ""


INSTANCES = {
    "P1": Instance((4000, 4000), 5, 8, 1, 1e-6),
    "P4": Instance((4000, 4000), 5, 8, 1e3, 1e-6, against="P1"),
    "r10": Instance((4000, 4000), 10, 3, 1, 1e-6),
    "r10-1e5": Instance((4000, 4000), 10, 3, 1e5, 1e-6, against="r10"),
    "1e5-1.8": Instance((1000, 1000), 5, 1.8, 1e5, 1e-6, 1e-24),
    "1e5-1.5": Instance((1000, 1000), 5, 1.5, 1e5, 1e-6, 1e-24),
    "10-1.8": Instance((1000, 1000), 5, 1.8, 10, 1e-6),
    "10-1.5": Instance((1000, 1000), 5, 1.5, 10, 1e-6),
    "10-1.3": Instance((1000, 1000), 5, 1.3, 10, 1e-6),
    "r30-1e10": Instance((1000, 1000), 30, 1.5, 1e10, 1e-9, 1e-26),
    "300-1.8": Instance((300, 350), 5, 1.8, 10, 1e-6),
    "300-1.5": Instance((300, 350), 5, 1.5, 10, 1e-6),
    "300-1.3": Instance((300, 350), 5, 1.3, 10, 1e-6),
}


def solve(instance: Instance, seed: int, solver: Any = "auto", iterations: int = 3000) -> dict[str, Any]:
    data = rf.data.random_completion(
        instance.shape, instance.rank, instance.oversampling, seed,
        condition=instance.condition, min_per_line=True,
    )  # fmt: skip
    cost = rf.Completion(data.rows, data.cols, data.values, data.shape)
    problem = rf.Problem(cost, rf.FullRank(cost.shape, instance.rank, metric="preconditioned"))
    x0 = problem.start()
    began = time.perf_counter()
    result = rf.minimize(problem, solver, x0, tolerance=instance.tolerance, max_iterations=iterations)
    return {
        "seed": seed,
        "seconds": time.perf_counter() - began,
        "iterations": result.iterations,
        "value": result.value / cost.value_at_zero,
        "error": data.relative_error(*problem.geometry.factors(result.x)),
    }


def summary(name: str, runs: list[dict[str, Any]], easy: list[dict[str, Any]] | None) -> dict[str, Any]:
    instance = INSTANCES[name]
    row = {
        "instance": name,
        **{field: getattr(instance, field) for field in ("shape", "rank", "oversampling", "condition")},
        "seeds": len(runs),
        "success": float(np.mean([run["error"] <= instance.bound for run in runs])),
        "median_error": float(np.median([run["error"] for run in runs])),
        "median_seconds": float(np.median([run["seconds"] for run in runs])),
        "median_iterations": float(np.median([run["iterations"] for run in runs])),
    }
    if easy:
        row["times_easy"] = row["median_seconds"] / float(np.median([run["seconds"] for run in easy]))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="*", choices=INSTANCES, default=list(INSTANCES))
    options = parser.parse_args()
    rows = json.loads(OUT.read_text()) if OUT.exists() else []
    for name in options.only:
        instance = INSTANCES[name]
        names = [name, instance.against] if instance.against else [name]
        for each in names:
            solve(INSTANCES[each], 0)  # compiles
        runs: dict[str, list[dict[str, Any]]] = {each: [] for each in names}
        for seed in range(options.seeds):
            for each in names:
                runs[each].append(solve(INSTANCES[each], seed))
        row = summary(name, runs[name], runs.get(instance.against))
        print(json.dumps(row), flush=True)
        rows = [old for old in rows if old["instance"] != name] + [row]
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
