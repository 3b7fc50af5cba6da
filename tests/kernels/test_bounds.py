"""With NUMBA_BOUNDSCHECK=1 (`make bounds`) no kernel leaves its arrays unnoticed."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from rankfold.kernels import compiling, registers, sorting, sweeps
from rankfold.kernels.compiling import compiled
from rankfold.kernels.pool import run

bounds = np.array([0, 2], np.uint64)
indptr, indices = np.array([0, 1, 2], np.uint64), np.array([0, 7], np.uint32)
A = np.ones((2, 3))

def store_beyond():
    @compiled
    def kernel(A):
        registers.store(A, np.uint64(2), registers.load(A, np.uint64(1), 3))
    kernel(A)

def four_beyond():
    @compiled
    def kernel(x, p):
        return registers.lane(registers.load_four(x, p), 3)
    x = np.arange(7.0)
    assert kernel(x, np.uint64(3)) == 6
    kernel(x, np.uint64(4))

def first_beyond():
    @compiled
    def kernel(A, i, out):
        registers.store(out, i - np.uint64(1), registers.load_first(A, i, 3, 2))
    out = np.ones((1, 2))
    kernel(2 * A, np.uint64(1), out)
    assert out.tolist() == [[2, 2]]
    kernel(A, np.uint64(2), np.ones((2, 2)))

def wide_beyond():
    @compiled
    def kernel(A, i, out):
        registers.store(out, np.uint64(0), registers.load_wide(A, i, 3))
    A, out = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((1, 3))
    kernel(A, np.uint64(1), out)
    assert out.tolist() == [[3, 4, 5]]
    kernel(A, np.uint64(2), out)

def gather_beyond():
    run(sweeps.product(3), 1, 1e9, (bounds, indptr, indices, np.uint64(0), np.ones(2), A, A.copy()))

def count_beyond():
    edges, counts = np.array([0, 2], np.uint64), np.zeros((1, 2), np.uint64)
    run(sorting._count, 1, 1, (edges, indices, np.uint64(0), counts))

for attempt in (store_beyond, four_beyond, first_beyond, wide_beyond, gather_beyond, count_beyond):
    try:
        attempt()
    except IndexError as error:
        print(attempt.__name__, error)
print(compiling.SOURCES)
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    environment = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("numba")),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "attempt",
    ["store_beyond", "four_beyond", "first_beyond", "wide_beyond", "gather_beyond", "count_beyond"],
)
def test_an_index_beyond_the_array_raises(checked, attempt):
    """In numba's own indexing, and in the rows that go through registers, which numba knows nothing of."""
    assert f"{attempt} index is out of bounds" in checked


def test_checked_kernels_have_names_of_their_own_on_disk(checked):
    """numba's cache does not ask for it: unchecked code would be found, and no index checked."""
    assert checked[-1].endswith("-checked")
