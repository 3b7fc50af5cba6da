"""How entries are held: columns in 32 bits or in 16, values in float64 or in float32, side by side.

    python -m benchmarks.storage [--only P1 P2] [--ranks 10] [--seconds 8]

Evaluations and derivatives, factors in float64, on one thread and on two; all routes of an instance and a
rank take turns, and medians are compared. Prints a table for docs/benchmarks.md and writes
benchmarks/results/storage.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.instances import P1, P2, Instance
from benchmarks.kernels import one_thread, take_turns
from rankfold.costs import Completion
from rankfold.kernels.pool import threads

INSTANCES = {"P1": P1, "P2": P2, "10⁷ entries": Instance((50_000, 50_000), 10, 10)}
RANKS = [5, 10, 50]
PASSES = "evaluate", "derivative"


def held(name: str) -> dict[str, Completion]:
    """The same entries with 32 bits and float64, 16 and float64, 16 and float32."""
    data = INSTANCES[name].draw(seed=0)
    narrow, single = (Completion.from_triples(data, storage=kind) for kind in ("float64", "float32"))
    by_row, by_column = (replace(side, across=side.indices) for side in narrow.observed.sides)
    wide = replace(narrow.observed, by_row=by_row, by_column=by_column)
    return {"32, float64": Completion.from_observed(wide), "16, float64": narrow, "16, float32": single}


def measure(name: str, rank: int, costs: dict[str, Completion], seconds: float) -> dict[str, Any]:
    """Seconds of each pass, on one thread and on all, for each way to hold the entries."""
    rng = np.random.default_rng(1)
    (L, dL), (R, dR) = (rng.standard_normal((2, d, rank)) for d in INSTANCES[name].shape)
    routes: dict[str, Callable[[], Any]] = {}
    for kind, cost in costs.items():
        passes = partial(cost.evaluate, L, R), partial(cost.derivative, L, R, dL, dR)
        for what, route in zip(PASSES, passes, strict=True):
            routes[f"{what}, {kind}, one thread"] = one_thread(route)
            routes[f"{what}, {kind}"] = route
    sizes = {kind: cost.observed.nbytes / cost.observed.size for kind, cost in costs.items()}
    return {"instance": name, "rank": rank, "bytes": sizes, "seconds": take_turns(routes, seconds)}


def row(result: dict[str, Any]) -> str:
    """A line of the table: ms of the first way, and what the others take of it."""
    first, *others = result["bytes"]
    cells = [result["instance"], str(result["rank"])]
    for what in PASSES:
        for end in (", one thread", ""):
            ms = 1e3 * result["seconds"][f"{what}, {first}{end}"]
            parts = [1e3 * result["seconds"][f"{what}, {kind}{end}"] / ms for kind in others]
            cells.append(f"{ms:.1f}; " + ", ".join(f"{part:.2f}" for part in parts))
    cells.append(", ".join(f"{size:.1f}" for size in result["bytes"].values()))
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=INSTANCES, help="these instances")
    parser.add_argument("--ranks", nargs="*", type=int, default=RANKS)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each instance and rank")
    options = parser.parse_args()
    heads = [f"{what}, {count}" for what in PASSES for count in ("one thread", f"{threads()} threads")]
    print(f"| instance | rank | {' | '.join(heads)} | bytes an entry |\n|{'---|' * 7}")
    results = []
    with threadpool_limits(1, user_api="blas"):
        for name in options.only or INSTANCES:
            costs = held(name)
            for rank in options.ranks:
                results.append(measure(name, rank, costs, options.seconds))
                print(row(results[-1]), flush=True)
    out = Path(__file__).parent / "results" / "storage.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"threads": threads(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
