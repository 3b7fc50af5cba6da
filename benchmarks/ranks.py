"""CPU time of each of several processes for its part of the entries, beside that of one process for all.

    python -m benchmarks.ranks [--entries 1.6e7] [--ranks 2] [--iterations 10] [--rounds 3]
    python -m benchmarks.ranks --rows 2e4 --columns 1e6 [--stripes 1] [--room 0]

Conjugate gradients on FullRank, ten rows to a column, rank 10, one thread each: medians of iterations. Each
process does both in turn, `rounds` times: all entries by itself, as the others do at the same time, and then
its part with them. So both are measured with as many cores busy, and whatever else a machine does at the time
it does to both. The ratio should be little above 1/ranks. Also the exchanges and bytes of an iteration, and
the memory that the iterations take beside the entries. Many columns of R come in stripes, of which two are
held with `--room 0`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rankfold as rf
from rankfold.distributed import Group, spread_triples, start
from rankfold.distributed.collectives import ROOM

RANK = 10


def measured(options: argparse.Namespace) -> dict[str, float]:
    """CPU seconds of iterations by oneself and together, what was sent, and the most memory."""
    group, entries = start(timeout=600, room=options.room), options.entries
    columns = round(options.columns or entries / 800)
    shape = round(options.rows or 10 * columns), columns
    data = rf.data.random_completion(shape, RANK, entries / RANK / (sum(shape) - RANK), seed=0, noise=0.1)
    own = np.arange(len(data.values)) % group.size == group.rank
    triples = data.rows[own], data.cols[own], data.values[own]
    store = spread_triples(*triples, shape, group=group, stripes=options.stripes)
    costs = rf.Completion.from_triples(data), rf.Completion.from_observed(store)
    del data, triples, store
    problems = [rf.Problem.of(cost, RANK) for cost in costs]
    starts = [problem.start() for problem in problems]
    seen: list[list[NDArray[np.float64]]] = [[], []]
    for _ in range(options.rounds):
        for k in range(2):
            group.recent.clear()
            ctypes.CDLL(None).malloc_trim(
                0
            )  # or iterations would take what was free, and seem to take nothing
            before = memory("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # forget the most memory so far
            group.most(0.0)  # all begin at a time
            seen[k].append(iterations(problems[k], starts[k], group, options.iterations))
    alone, together = (np.median(np.concatenate(each), axis=0).tolist() for each in seen)
    names = "seconds", "small exchanges", "large exchanges", "bytes"
    found = {"matrix": columns * RANK * 8, "memory": memory("VmHWM") - before, "alone": alone[0]}
    return dict(zip(names, together, strict=True)) | found


def iterations(problem: rf.Problem, x0: Any, group: Group, count: int) -> NDArray[np.float64]:
    """CPU seconds, exchanges and bytes of each iteration, but the first two, which may compile kernels."""
    seen, traffic = [], group.traffic

    def note(progress: Any) -> None:
        seen.append((process_time(), traffic.small, traffic.large, traffic.bytes))

    method = rf.ConjugateGradient(metric="geometry")
    rf.minimize(problem, method, x0=x0, tolerance=0, max_iterations=count + 2, callback=note)
    return np.diff(seen[2:], axis=0)


def memory(kind: str) -> int:
    """Bytes of this process: those that it has ("VmRSS"), or has had at most ("VmHWM")."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(kind))


def processes(size: int, arguments: list[str]) -> list[dict[str, float]]:
    """Start so many processes of this module, and return what each measured."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.ranks", "--measure", *arguments]
    root = Path(__file__).parents[1]
    started = [
        subprocess.Popen(
            command, env=os.environ | common | threads | {"RANK": str(k)}, cwd=root, stdout=subprocess.PIPE
        )
        for k in range(size)
    ]
    return [json.loads(process.communicate()[0]) for process in started]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=float, default=1.6e7)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=float)
    parser.add_argument("--columns", type=float)
    parser.add_argument("--stripes", type=int)
    parser.add_argument("--room", type=float, default=ROOM)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options)))
        return
    for k, rank in enumerate(processes(options.ranks, sys.argv[1:])):
        part, sent = rank["seconds"] / rank["alone"], rank["bytes"] / rank["matrix"]
        print(
            f"process {k} of {options.ranks}: {rank['alone']:.3f} s of CPU an iteration by itself;", end=" "
        )
        print(f"{rank['seconds']:.3f} s together, {part:.2f} of that;", end=" ")
        print(
            f"{rank['small exchanges']:.1f} small and {rank['large exchanges']:.1f} large exchanges, ", end=""
        )
        print(f"{sent:.2f}·d2·r·8 bytes; {rank['memory'] / 1e6:.0f} MB beside the entries")


if __name__ == "__main__":
    main()
