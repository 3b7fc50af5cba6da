"""How many threads kernels use, and that each part of the work is done once."""

import os
import subprocess
import sys
import threading

import pytest

from rankfold.kernels import pool
from rankfold.kernels.chunks import LEFT, PATIENCE

SCRIPT = """
import threading
import numpy as np
from rankfold.costs import Completion

rng = np.random.default_rng(0)
where = rng.choice(400 * 400, 40000, replace=False)
cost = Completion(where // 400, where % 400, rng.standard_normal(40000), (400, 400))
L, R = rng.standard_normal((2, 400, 5))
expected = cost.value(L, R)
most, wrong = [0], []

def work():
    for _ in range(50):
        wrong.extend([1] if cost.value(L, R) != expected else [])
        most.append(sum(thread.name.startswith("rankfold") for thread in threading.enumerate()))

callers = [threading.Thread(target=work) for _ in range(8)]
for caller in callers: caller.start()
for caller in callers: caller.join()
print(max(most), len(wrong))
"""


@pytest.mark.parametrize(
    ("ours", "openmp", "expected"),
    [("3", "5", 3), ("", "5", 5), ("0", "5", 5), ("many", "5", 5), (None, "5", 5), ("1", None, 1)],
)
def test_threads_are_as_many_as_asked_for(monkeypatch, ours, openmp, expected):
    for name, value in (("RANKFOLD_NUM_THREADS", ours), ("OMP_NUM_THREADS", openmp)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert pool.threads() == expected


def test_threads_are_otherwise_as_many_as_processors(monkeypatch):
    for name in ("RANKFOLD_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert pool.threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert pool.threads() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert pool.threads() == 1


@pytest.mark.parametrize(
    ("chunks", "work", "helpers"),
    [
        (10, 1e6, 3),
        (3, 1e6, 2),
        (1, 1e6, 0),
        (10, 59_999, 0),
        (10, 60_000, 1),
        (10, 239_999, 1),
        (10, 240_000, 2),
    ],
)
def test_as_many_threads_work_as_have_enough_to_do(monkeypatch, chunks, work, helpers):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "4")
    asked = []
    monkeypatch.setattr(pool._pool, "ask", lambda job, helpers: asked.append(helpers))
    done = []
    pool.run(lambda progress, name: done.append(name), chunks, work, ("first",), ("second",))
    assert done == ["first", "second"]
    assert asked == ([helpers] if helpers else [])


def test_helpers_work_at_the_same_time_and_no_longer_than_the_call(monkeypatch):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "3")
    together, names = threading.Barrier(3, timeout=600), []

    def kernel(progress):
        together.wait()  # three are in here at once, or this raises
        names.append(threading.current_thread().name)

    pool.run(kernel, 3, 1e9, ())
    assert len(set(names)) == 3
    assert sum(name.startswith("rankfold_") for name in names) == 2


def test_a_helper_that_comes_too_late_does_nothing_and_holds_nothing():
    calls = []
    job = pool._Job(calls.append, [("work",)])
    job.work()
    job.end()
    job.join()
    assert calls == ["work"]
    assert job.passes == []


def test_an_error_in_a_helper_reaches_the_caller(monkeypatch):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "2")
    failed = threading.Event()

    def kernel(progress):
        if threading.current_thread().name.startswith("rankfold_"):
            failed.set()
            raise ZeroDivisionError
        assert failed.wait(60)

    with pytest.raises(ZeroDivisionError):
        pool.run(kernel, 2, 1e9, ())


def test_what_a_thread_left_undone_is_done_in_the_end(monkeypatch):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "2")
    monkeypatch.setattr(pool._pool, "ask", lambda job, helpers: None)
    calls = []

    def kernel(progress):
        calls.append(int(progress[PATIENCE]))
        progress[LEFT] = len(calls) == 1

    pool.run(kernel, 2, 1e9, ())
    assert calls == [1_333_333, 1_333_333]  # a tenth of the time, in looks


def test_an_error_in_a_kernel_reaches_the_caller():
    def kernel(progress):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pool.run(kernel, 1, 1.0, ())


def test_callers_share_the_threads_of_the_setting(monkeypatch):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "3")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=600)
    assert done.stdout.split() == ["2", "0"], done.stderr


def test_a_higher_setting_gets_more_threads():
    own, job = pool._Pool(), pool._Job(lambda: None, [])
    sizes = []
    for helpers in (1, 3, 2):
        own.ask(job, helpers)
        sizes.append(own._size)
    assert sizes == [1, 3, 3]
