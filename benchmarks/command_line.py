"""Where the time and the memory of `rankfold complete` go, for a CSV of many triples.

    python -m benchmarks.command_line [--triples 10000000] [--rank 5] [--cpu]

Makes the CSV (integer labels of 100,000 rows and 20,000 columns, values of rank 5 with offsets and noise) in
a temporary folder, runs `rankfold complete` on it with defaults and a model file, and prints: the seconds of
reading, indexing (sorting the entries both ways), solving and writing; the share of all but solving; and the
peak of memory above that of the same command on a hundred triples, in bytes per triple. `--cpu` counts
seconds of all cores instead of the wall's, for a machine on which much else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import rankfold as rf

SHAPE = 100_000, 20_000
CHUNK = 1_000_000


def write_csv(path: Path, count: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    L, R = (rng.standard_normal((d, 5)) for d in SHAPE)
    b, c = (0.5 * rng.standard_normal(d) for d in SHAPE)
    keys = np.unique(rng.integers(0, SHAPE[0] * SHAPE[1], int(1.02 * count) + 10))
    keys = rng.permutation(keys)[:count]
    with path.open("wb") as file:
        for start in range(0, count, CHUNK):
            i, j = np.divmod(keys[start : start + CHUNK], SHAPE[1])
            values = (
                3 + b[i] + c[j] + np.einsum("pk,pk->p", L[i], R[j]) / 3 + 0.3 * rng.standard_normal(len(i))
            )
            part = rf.data.Triples(i + 1000, j + 1, values.round(2), (SHAPE[0] + 1000, SHAPE[1] + 1))
            lines = Path(f"{path}.part.csv")
            rf.data.write_triples(lines, part)
            file.write(lines.read_bytes()[0 if start == 0 else len(b"row,column,value\n") :])
            lines.unlink()


# The peak that wait4 tells of a child may be its parent's, from before the child became another program.
CHILD = """
import sys, time
if CPU:
    time.perf_counter = time.process_time
from rankfold.cli import app
try:
    app()
finally:
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(time.process_time(), peak.split()[1], file=sys.stderr)
"""


def run(path: Path, rank: int, cpu: bool) -> tuple[dict, float, int]:
    """Return what the command says, its seconds, and its peak of memory in bytes."""
    words = ["complete", str(path), "--rank", str(rank), "-o", f"{path}.rankfold", "--json"]
    began = perf_counter()
    command = [sys.executable, "-c", f"CPU = {cpu}{CHILD}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *_, used, peak = done.stderr.split()
    seconds = float(used) if cpu else perf_counter() - began
    return json.loads(done.stdout), seconds, 1024 * int(peak)


def index_seconds(path: Path, cpu: bool) -> float:
    triples, clock = rf.data.read_triples(path), process_time if cpu else perf_counter
    began = clock()
    rf.Completion(triples.rows, triples.cols, triples.values, triples.shape, duplicates="keep")
    return clock() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--triples", type=int, default=10_000_000)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="count seconds of all cores")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.csv", Path(folder) / "large.csv"
        write_csv(small, 100)
        write_csv(large, options.triples)
        run(small, options.rank, options.cpu)  # compiles
        _, _, baseline = run(small, options.rank, options.cpu)
        told, wall, peak = run(large, options.rank, options.cpu)
        index = index_seconds(large, options.cpu)
        size = large.stat().st_size
    seconds = {
        "start and imports": wall - sum(told["seconds"].values()),
        "reading": told["seconds"]["read"],
        "indexing": index,
        "solving": told["seconds"]["fit"] - index,
        "writing": told["seconds"]["write"],
    }
    load = os.getloadavg()[0]
    print(f"{options.triples:,} triples, {size / 1e6:.0f} MB of CSV, rank {options.rank}, load {load:.1f}")
    for name, value in seconds.items():
        print(f"  {name:<18}{value:8.2f} s  {value / wall:6.1%}")
    print(f"  {'in all':<18}{wall:8.2f} s; outside the solver {1 - seconds['solving'] / wall:.1%}")
    held = (peak - baseline) / options.triples
    print(f"  iterations {told['iterations']}, peak of memory {held:.1f} bytes per triple")


if __name__ == "__main__":
    main()
