"""Entries beyond memory: shards of Parquet sorted on disk and fitted at rank 10, under a limit of memory.

    python -m benchmarks.spill [--entries 2e8] [--limit 1.5GB] [--memory 500MB] [--folder FOLDER] [--fit]

Writes the shards, then does the rest in a process with the limit: a cgroup of its own where one can be made,
else the kernel's limit of a process's own memory. Prints the seconds of the sort, then three times in turn
the speed of reading all sorted files end to end, past the cache, and of an evaluation (value, f_L and f_R),
which reads the same bytes; with `--fit`, iterations and seconds of `MatrixCompletion` as well. All files are
removed in the end. `--entries 2e8` takes 15 GB of disk.
"""

from __future__ import annotations

import argparse
import mmap
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import rankfold as rf
from rankfold.data.spill.sorting import bytes_of

RANK, SHARDS, BATCH = 10, 16, 1 << 20
PIECE = 1 << 23  # bytes read at a time, past the cache


def write_shards(folder, entries):
    """Write random entries of a noisy matrix of rank 10, ten rows to a column, 400 entries to a row."""
    rng = np.random.default_rng(0)
    shape = max(entries // 400, 100), max(entries // 4000, 50)
    L, R = (rng.standard_normal((d, RANK)) for d in shape)
    names = "row", "column", "value"
    for k in range(SHARDS):
        writer = None
        for start in range(entries * k // SHARDS, entries * (k + 1) // SHARDS, BATCH):
            count = min(BATCH, entries * (k + 1) // SHARDS - start)
            rows, cols = (rng.integers(d, size=count, dtype=np.int32) for d in shape)
            values = np.einsum("pk,pk->p", L[rows], R[cols]) + 0.5 * rng.standard_normal(count)
            batch = pa.record_batch([pa.array(part) for part in (rows, cols, values)], names)
            writer = writer or parquet.ParquetWriter(folder / f"shard-{k:02}.parquet", batch.schema)
            writer.write_batch(batch)
        writer.close()


@contextmanager
def limited(limit):
    """Yield what a child does before it begins, to have its memory limited, and what the limit is called."""
    group = own_group()
    try:
        if group is None:
            raise OSError("there is no cgroup of memory")
        group.mkdir()
    except OSError as error:
        yield lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)), f"RLIMIT_DATA ({error})"
        return
    try:
        name = "memory.limit_in_bytes" if (group / "memory.limit_in_bytes").exists() else "memory.max"
        (group / name).write_text(str(limit))
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid())), "a memory cgroup"
    finally:
        group.rmdir()


def own_group():
    """Return a folder for a group below this process's own, of the first or the second kind."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        root = Path("/sys/fs/cgroup", "memory" if kinds else "")
        if (kinds == "memory" or not kinds) and root.is_dir():
            return root.joinpath(path.lstrip("/"), f"rankfold-spill-{os.getpid()}")
    return None


class Watch:
    """The most memory of its own, not that of files, that this process has had."""

    def __init__(self):
        self.peak, self.over = 0, threading.Event()
        threading.Thread(target=self.look, daemon=True).start()

    def look(self):
        """Look twenty times a second."""
        while not self.over.wait(0.05):
            lines = Path("/proc/self/status").read_text().splitlines()
            self.peak = max(self.peak, *(int(line.split()[1]) << 10 for line in lines if "RssAnon" in line))


def read_past_the_cache(paths):
    """Return the seconds that the disk takes for whole files, one after the other."""
    room, began = mmap.mmap(-1, PIECE), perf_counter()  # at the start of a page, as such reads must be
    for path in paths:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        while os.readv(file, [room]) == PIECE:
            pass
        os.close(file)
    return perf_counter() - began


def forget(paths):
    """Have no page of these files in memory."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def work(shards, spilled, memory, fit):
    """What is done within the limit."""
    watch, began = Watch(), perf_counter()
    folder = rf.data.sort_into(spilled, str(shards / "*.parquet"), memory=memory, tell=telling)
    seconds = perf_counter() - began
    size, (d1, d2) = len(folder), folder.shape
    stripes = ", ".join(str(side.stripes) for side in folder.store.sides)
    print(f"{size:,} entries of {d1:,} × {d2:,}, in {stripes} stripes; own memory {watch.peak / 1e6:.0f} MB")
    print(f"sorted in {seconds:.0f} s, {size / seconds / 1e6:.2f} million entries a second", flush=True)
    paths = [spilled / f"{side}.{what}" for side in ("rows", "columns") for what in ("indices", "data")]
    bytes_read = sum(path.stat().st_size for path in paths)
    L, R = (np.random.default_rng(1).standard_normal((d, RANK)) for d in folder.shape)
    cost = rf.Completion.from_observed(folder.store)
    cost.value(L, R)
    for _ in range(3):
        forget(paths)
        alone = read_past_the_cache(paths)
        forget(paths)
        began, before = perf_counter(), process_time()
        cost.evaluate(L, R)
        took, busy = perf_counter() - began, process_time() - before
        speeds = [f"{seconds:.2f} s, {bytes_read / seconds / 1e6:.0f} MB/s" for seconds in (took, alone)]
        print(f"{bytes_read / 1e9:.2f} GB: an evaluation {speeds[0]}, {busy:.2f} s of processors; the disk "
              f"{speeds[1]}: {alone / took:.0%}", flush=True)  # fmt: skip
    if fit:
        began = perf_counter()
        model = rf.MatrixCompletion(rank=RANK, regularization=1.0, random_state=0).fit(folder)
        print(f"fitted in {perf_counter() - began:.0f} s, {model.n_iter_} iterations ({model.stop_reason_})")
    print(f"most memory of its own: {watch.peak / 1e6:.0f} MB", flush=True)


def telling(text, news):
    """Show progress on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text:<100}", end="", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=float, default=2e8)
    parser.add_argument("--limit", type=bytes_of, default=1_500_000_000)
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.within:
        work(options.folder, options.folder / "spilled", options.memory, options.fit)
        return
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        began = perf_counter()
        write_shards(folder, int(options.entries))
        print(f"{SHARDS} shards written in {perf_counter() - began:.0f} s", flush=True)
        with limited(options.limit) as (limit, name):
            print(f"limit: {options.limit / 1e9:.2f} GB by {name}", flush=True)
            command = [sys.executable, "-m", "benchmarks.spill", "--within", "--folder", str(folder)]
            command += ["--memory", options.memory, *(["--fit"] if options.fit else [])]
            subprocess.run(command, preexec_fn=limit, check=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
