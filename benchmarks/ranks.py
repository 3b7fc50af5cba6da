"""CPU time of each of several processes beside that of one, on the same entries.

    python -m benchmarks.ranks [--entries 1.6e7] [--ranks 2] [--iterations 10]

Conjugate gradients on FullRank, ten rows to a column, rank 10, one thread each: the median of iterations. The
ratio should be little above 1/ranks. Also the exchanges and bytes of an iteration.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from time import process_time

import numpy as np

import rankfold as rf
from rankfold.distributed import spread_triples, start

RANK = 10


def measured(entries: float, iterations: int) -> dict[str, float]:
    """CPU seconds of iterations, and what was sent, in this process."""
    group = start(timeout=600)
    columns = round(entries / 800)
    shape = 10 * columns, columns
    data = rf.data.random_completion(shape, RANK, entries / RANK / (sum(shape) - RANK), seed=0, noise=0.1)
    own = np.arange(len(data.values)) % group.size == group.rank
    if group.size > 1:
        triples = data.rows[own], data.cols[own], data.values[own]
        cost = rf.Completion.from_observed(spread_triples(*triples, shape, group=group))
    else:
        cost = rf.Completion.from_triples(data)
    del data
    problem, traffic = rf.Problem.of(cost, RANK), group.traffic
    seen = []

    def note(progress):
        seen.append((process_time(), traffic.small, traffic.large, traffic.bytes))

    method = rf.ConjugateGradient(metric="geometry")
    rf.minimize(problem, method, tolerance=0, max_iterations=iterations + 2, callback=note)
    # the first iterations may compile kernels; of the others, a median, for what happens once in a while
    steps = np.median(np.diff(seen[2:], axis=0), axis=0).tolist()
    names = "seconds", "small exchanges", "large exchanges", "bytes"
    return {**dict(zip(names, steps, strict=True)), "limit": 3 * columns * RANK * 8}


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
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.entries, options.iterations)))
        return
    arguments = ["--entries", str(options.entries), "--iterations", str(options.iterations)]
    (alone,) = processes(1, arguments)
    print(f"one process: {alone['seconds']:.3f} s of CPU an iteration")
    for k, rank in enumerate(processes(options.ranks, arguments)):
        part, sent = rank["seconds"] / alone["seconds"], rank["bytes"] / rank["limit"]
        print(
            f"process {k} of {options.ranks}: {rank['seconds']:.3f} s, {part:.2f} of one process's;", end=" "
        )
        print(
            f"{rank['small exchanges']:.1f} small and {rank['large exchanges']:.1f} large exchanges, ", end=""
        )
        print(f"{sent:.3f} of 3·d2·r·8 bytes")


if __name__ == "__main__":
    main()
