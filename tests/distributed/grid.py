"""Every geometry with every solver and cost: `PYTHONPATH=tests:src python -m distributed.grid --ranks 2 3 4`.

Each run must be that of one process: the same iterations, values to 1e-10, and equal bits in all processes.
The tests do a part of this on two and three.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from distributed.cases import CASES, CROSSED
from distributed.launching import on_ranks
from distributed.worker import one_process, summary

EVERY = CASES | CROSSED


def main() -> None:
    """Compare all runs, and say what is not the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--only", default="", help="a part of the names of runs")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help="the K-th of N parts of the runs")
    options = parser.parse_args()
    first, step = options.part
    names = [name for name in EVERY if options.only in name][first::step]
    alone = {name: summary(EVERY[name](one_process)) for name in names}
    for size in options.ranks:
        with tempfile.TemporaryDirectory() as folder:
            found = on_ranks(size, Path(folder) / "runs", *names)
        worst, wrong = 0.0, []
        for name in names:
            one, ranks = alone[name], [rank[name] for rank in found]
            alike = ranks[0]["notes"] == one["notes"] and len(ranks[0]["values"]) == len(one["values"])
            error = np.inf
            if alike:
                error = float(np.abs(ranks[0]["values"] - one["values"]).max() / one["values"][0])
                worst = max(worst, error)
            if not alike or error > 1e-10 or len({rank["bits"] for rank in ranks}) > 1:
                wrong.append(f"{name} ({error:.1e})")
        print(
            f"{size} processes: {len(names)} runs, values to {worst:.1e}; not the same: {wrong}", flush=True
        )


if __name__ == "__main__":
    main()
