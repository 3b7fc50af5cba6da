"""Memory of each of several processes that read labelled triples from files together.

    python -m benchmarks.loading [--entries 1e8] [--ranks 2] [--shards 16] [--folder FOLDER]

Writes Parquet files of users and films with names, and lets `rankfold.distributed.read` spread them. Prints
for each process the most memory that it had while it read, less what it had before, by entry of its share.
All files are removed in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import rankfold as rf
from rankfold.distributed import read, start

BATCH = 1 << 20


def write_shards(folder, entries, shards):
    """Write random triples, 400 of each user, ten users to a film; users and films have names."""
    rng = np.random.default_rng(0)
    sides = [("user", max(entries // 400, 100)), ("film", max(entries // 4000, 50))]
    schema = pa.schema([("user", pa.string()), ("film", pa.string()), ("stars", pa.float64())])
    for k in range(shards):
        first, last = entries * k // shards, entries * (k + 1) // shards
        with parquet.ParquetWriter(folder / f"shard-{k:02}.parquet", schema) as writer:
            for top in range(first, last, BATCH):
                count = min(BATCH, last - top)
                columns = [_names(name, rng.integers(size, size=count)) for name, size in sides]
                stars = pa.array(rng.integers(1, 11, count) / 2)
                writer.write_batch(pa.record_batch([*columns, stars], schema=schema))


def _names(kind, numbers):
    return pa.compute.binary_join_element_wise(kind, pa.array(numbers).cast("string"), "-")


def most_memory():
    """Bytes that this process has had at most, since it was last asked to forget that."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def measured(pattern):
    """What one process has to say."""
    group = start(timeout=600)
    rf.Completion.from_triples(rf.data.random_completion((40, 30), 2, 4, seed=0))  # loads what sorts
    Path("/proc/self/clear_refs").write_text("5")  # forget the most memory so far
    before, began, busy = most_memory(), perf_counter(), process_time()
    data = read(pattern, ("user", "film", "stars"), group=group)
    seconds, busy = perf_counter() - began, process_time() - busy
    own = data.store.block.size
    return {"bytes": (most_memory() - before) / own, "own": own, "seconds": seconds, "busy": busy}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=float, default=1e8)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure)))
        return
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        write_shards(folder, int(options.entries), options.shards)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(options.ranks)}
        common |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "benchmarks.loading", "--measure", f"{folder}/*.parquet"]
        started = [
            subprocess.Popen(command, env=os.environ | common | {"RANK": str(k)}, stdout=subprocess.PIPE)
            for k in range(options.ranks)
        ]
        for k, process in enumerate(started):
            said = json.loads(process.communicate()[0])
            print(
                f"process {k} of {options.ranks}: {said['own']:,} entries, {said['bytes']:.1f} bytes each "
                f"at most; {said['seconds']:.0f} s, {said['busy']:.0f} of processors"
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
