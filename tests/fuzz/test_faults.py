"""A short run of the fault injection; `make soak` is the long one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from broken_disk import failures
from written_files import writers

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that fork")
NAMES = [
    "model.rankfold",
    "run.ckpt",
    "report.html",
    "table.csv",
    "table.parquet",
    "factors.npz",
    "triples.mtx",
]


@pytest.fixture(scope="module")
def written():
    return writers()


@pytest.mark.parametrize("fault", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("name", NAMES)
def test_a_disk_that_fails_at_any_operation(name, fault, written, tmp_path):
    count, wrong = failures(written[name], tmp_path / name, fault)
    assert count >= 6  # the draft, its permissions, a write, two syncs and the replacement
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_writes_that_end_short(name, written, tmp_path):
    assert failures(written[name], tmp_path / name, "short") == (0, [])


@pytest.mark.parametrize(
    "words", [("signals", "--kill", "1", "--sigint", "1", "--sigterm", "1"), ("forks", "--count", "2")]
)
def test_signals_at_random_moments_and_forks_while_fits_run(words):
    words = [sys.executable, Path(__file__).with_name("faults.py"), *words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
