"""A second process finds every kernel on disk, unless something that it calls has changed."""

import os
import subprocess
import sys

from rankfold.kernels import compiling, sweeps

SCRIPT = """
import numpy as np
from rankfold.costs import Completion
from rankfold.kernels import sorting, sweeps

rng = np.random.default_rng(0)
where = rng.choice(400, 200, replace=False)
cost = Completion(where // 20, where % 20, rng.standard_normal(200), (20, 20))
L, R = rng.standard_normal((2, 20, 2))
cost.value(L, R)
kernels = sweeps.value(2, 0, False), sorting._count, sorting._split, sorting._sort_buckets
print(*(sum(kernel.stats.cache_misses.values()) for kernel in kernels))
"""


def test_kernels_are_cached_between_processes(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    misses = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    first, second = misses
    assert "0" not in first
    assert second == ["0"] * 4


def test_the_name_on_disk_changes_with_what_kernels_call():
    kernel = sweeps.value(3, 0, False)
    assert compiling.SOURCES in kernel._cache._cache_file._index_path
