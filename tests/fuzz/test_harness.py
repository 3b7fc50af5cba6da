"""What the harness must notice, and what it must not."""

import os
import signal
import sys
import threading
import warnings

import numpy as np
import pytest

pytest.importorskip("resource")
if not sys.platform.startswith("linux"):
    pytest.skip("the peak of memory is read from /proc", allow_module_level=True)

from random import Random

from fuzz import harness
from fuzz.harness import Fuzzer, run_cases
from fuzz.mutator import Mutator


def allocate(path):
    with path.open("rb") as file:
        file.seek(-2, os.SEEK_END)
        np.ones(int(file.read()) << 17)  # that many MB, written to


BAD = {
    "raises": lambda path: {}["x"],
    "raises Traceback": lambda path: np.empty(10**12),
    "dies by SIGTRAP": lambda path: os.kill(os.getpid(), signal.SIGTRAP),
    "ends the process with code 3": lambda path: os._exit(3),
    "names no file": lambda path: int("x"),
    "Warning": lambda path: warnings.warn("careless", RuntimeWarning, stacklevel=1),
}


def verdicts(read, *files, allowed=(ValueError,)):
    outcome = run_cases(read, [(str(k), data) for k, data in enumerate(files)], allowed)
    return (
        outcome.counts,
        [verdict for _, verdict in outcome.failures],
        [name for (name, _), _ in outcome.failures],
    )


@pytest.mark.parametrize("verdict", BAD)
def test_what_is_wrong_is_said_and_the_next_cases_are_still_read(verdict):
    def read(path):
        if path.read_bytes() == b"bad":
            BAD[verdict](path)

    counts, said, names = verdicts(read, b"good", b"bad", b"good", b"bad", b"good")
    assert counts == {"read": 3, "failed": 2}
    assert names == ["1", "3"]
    assert all(verdict in text for text in said)


def test_no_case_is_lost_between_children(monkeypatch):
    monkeypatch.setattr(harness, "BATCH", 3)
    assert verdicts(lambda path: None, *[b""] * 10)[0] == {"read": 10}


def test_a_documented_error_that_names_the_file_is_right():
    def read(path):
        raise ValueError(f"{path}: bad")

    assert verdicts(read, b"x")[0] == {"refused": 1}
    assert verdicts(read, b"x", allowed=(KeyError,))[0] == {"failed": 1}


def test_memory_counts_beyond_the_size_of_the_file_and_for_each_case_alone(monkeypatch):
    monkeypatch.setattr(harness, "MEMORY", 30 << 20)
    counts, said, names = verdicts(allocate, b"20", b"60", b"20", b" " * (40 << 20) + b"60")
    assert names == ["1"]
    assert "MB for a file of 2 bytes" in said[0]
    assert counts == {"read": 3, "failed": 1}


@pytest.mark.parametrize(("limit", "says"), [("SECONDS", "processor time"), ("PATIENCE", "waits")])
def test_a_case_that_does_not_end_is_ended(monkeypatch, limit, says):
    monkeypatch.setattr(harness, limit, 0.2)

    def read(path):
        if path.read_bytes() == b"bad":
            while limit == "SECONDS":
                pass
            threading.Event().wait()

    counts, said, _ = verdicts(read, b"bad", b"good")
    assert counts == {"read": 1, "failed": 1}
    assert says in said[0]


def test_cases_are_the_same_every_time_and_differ_from_each_other():
    fuzzer = Fuzzer("some", lambda: [b"1,2,3\n" * 50, b"a,b,c\n" * 50], lambda path: None, ())
    cases = list(fuzzer.cases(200))
    assert cases == list(fuzzer.cases(200))
    assert len({data for _, data in cases}) > 150
    assert cases[:100] == list(fuzzer.cases(100))
    assert cases != list(fuzzer.cases(200, seed=1))


@pytest.mark.parametrize("change", Mutator().changes[:-1], ids=lambda change: change.__name__)
def test_every_change_changes(change):
    changed = set()
    for seed in range(20):
        data = bytearray(b"ann,Heat,5\nbob,Ran,17\n")
        change(Random(seed), data)
        changed.add(bytes(data))
        change(Random(seed), bytearray())  # an empty file is no error
    assert len(changed) > 5
