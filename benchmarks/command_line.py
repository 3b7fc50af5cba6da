"""Where the time and the memory of `rankfold complete` go, for a CSV of many triples.

    python -m benchmarks.command_line [--triples 10000000] [--rank 5] [--cpu]

Makes the CSV (integer labels of 100,000 rows and 20,000 columns; half stars from offsets, twenty traits and
noise; more entries in some rows and columns than in others) in a temporary folder, runs `rankfold complete`
on it with defaults and a model file, and prints: the seconds of reading, indexing (sorting the entries both
ways), solving and writing; the share of all but solving; and the peak of memory above that of the same
command on a hundred triples, in bytes per triple. `--cpu` counts seconds of all cores instead of the wall's,
for a machine on which much else runs.
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
TRAITS = 20
CHUNK = 1_000_000


def write_csv(path: Path, count: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    L, R = (rng.standard_normal((d, TRAITS)) / np.sqrt(np.arange(1, TRAITS + 1)) for d in SHAPE)
    b, c = (0.4 * rng.standard_normal(d) for d in SHAPE)
    keys = _distinct(rng, count)
    with path.open("wb") as file:
        for start in range(0, count, CHUNK):
            i, j = np.divmod(keys[start : start + CHUNK], SHAPE[1])
            stars = (
                3.5
                + b[i]
                + c[j]
                + 0.35 * np.einsum("pk,pk->p", L[i], R[j])
                + 0.8 * rng.standard_normal(len(i))
            )
            stars = np.clip(np.round(2 * stars) / 2, 0.5, 5)
            part = rf.data.Triples(i + 1000, j + 1, stars, (SHAPE[0] + 1000, SHAPE[1] + 1))
            lines = Path(f"{path}.part.csv")
            rf.data.write_triples(lines, part)
            file.write(lines.read_bytes()[0 if start == 0 else len(b"row,column,value\n") :])
            lines.unlink()


def _distinct(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return distinct pairs, few of them in most rows and columns and many in some."""
    keys = np.empty(0, np.int64)
    while len(keys) < count:
        i = (SHAPE[0] * rng.random(count) ** 1.5).astype(np.int64)
        j = (SHAPE[1] * rng.random(count) ** 2).astype(np.int64)
        keys = np.unique(np.concatenate([keys, i * SHAPE[1] + j]))
    return rng.permutation(keys)[:count]


# The peak that wait4 tells of a child may be its parent's, from before the child became another program.
CHILD = """
import sys, time
if CPU:
    time.perf_counter = time.process_time
from rankfold.cli.app import app
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
    rf.Completion.from_triples(triples, duplicates="keep")
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
