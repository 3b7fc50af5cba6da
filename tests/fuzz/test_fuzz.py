"""A short run of every fuzzer, the same each time; `make fuzz` is the long one."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("the peak of memory is read from /proc", allow_module_level=True)

from fuzz.__main__ import fuzzers
from fuzz.harness import CORPUS

HERE = Path(__file__).parent
MODULES = sorted(path.stem for path in HERE.glob("fuzz_*.py"))


def test_only_documented_errors():
    names = [fuzzer.name for module in MODULES for fuzzer in import_module(f"fuzz.{module}").FUZZERS]
    # A process of its own: children are forked from it, and it has no threads. Time for a case to compile
    # kernels, on any machine: files that only take long are found by the long runs, endless ones here.
    words = [sys.executable, "-m", "fuzz", "--count", "4", "--seconds", "30", *names]
    paths = os.pathsep.join([str(HERE.parent), *sys.path])
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == names


def test_every_case_of_the_corpus_belongs_to_a_fuzzer():
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} <= set(fuzzers())
