"""How many threads kernels use, and that each part of the work is done once."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from rankfold.kernels import pool, team
from rankfold.kernels.chunks import DONE, LEFT, PATIENCE, add, chunks, look
from rankfold.kernels.compiling import compiled

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
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0: {0, 3, 5}}[process], raising=False)
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
        (10, 119_999, 1),
        (10, 120_000, 2),
    ],
)
def test_as_many_threads_work_as_have_enough_to_do(monkeypatch, chunks, work, helpers):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "4")
    asked = []
    monkeypatch.setattr(pool._team, "lead", lambda jobs, helpers: asked.append(helpers))
    done = []
    pool.run(lambda progress, name: done.append(name), chunks, work, ("first",), ("second",))
    assert done == ["first", "second"]
    assert asked == ([helpers] if helpers else [])


@compiled
def meet(progress, wanted, seen, plain):  # type: ignore[no-untyped-def]
    """Wait in each chunk until so many are taken: as many threads have to be here at once."""
    for c in chunks(progress, wanted):
        add(seen.ctypes.data, 0, 1)
        looks = 0
        while look(seen.ctypes.data, 0) < wanted and looks < 10**10:
            looks += 1
        if looks == 10**10:  # nobody came
            add(seen.ctypes.data, 0, 100)
        for _ in range(10**5 * c):  # later ones take longer
            look(seen.ctypes.data, 0)
        seen[c + 1] += plain[0]
        if c == 3:
            raise ValueError


@pytest.mark.parametrize(("passes", "threads"), [(1, 3), (2, 3), (1, 2)])
def test_helpers_work_at_the_same_time_and_no_longer_than_the_call(monkeypatch, passes, threads):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", str(threads))
    for _ in range(10):  # a caller that does not wait for the others may be the last by chance
        seen = np.zeros((passes, threads + 1), np.int64)
        pool.run(meet, threads, 1e9, *((threads, own, np.ones(1, np.bool_)) for own in seen))
        assert seen.tolist() == [[threads] + [1] * threads] * passes
    assert not pool._team._desk[[team.STATE, team.FAILED]].any()


def test_a_helper_that_comes_too_late_does_nothing():
    own, seen = team.Team(), np.zeros(2, np.int64)
    pool.run(meet, 1, 0.0, (1, seen, np.ones(1, np.bool_)))
    own.lead(np.zeros((0, 2), np.int64), 2)  # both are woken, and there is nothing to do
    assert own._desk[team.STATE] == 0
    assert seen.tolist() == [1, 1]


def test_arguments_that_there_is_no_room_for_are_refused(monkeypatch):
    """An array of one dimension is seven numbers to a kernel."""

    def kernel(progress, number):
        for _ in chunks(progress, number):
            pass

    monkeypatch.setattr("rankfold.kernels.chunks._ROOM", 8)
    compiled(kernel, cache=False)(np.zeros(DONE, np.int64), 1)
    monkeypatch.setattr("rankfold.kernels.chunks._ROOM", 7)
    with pytest.raises(NotImplementedError, match="a kernel with so many arguments"):
        compiled(kernel, cache=False)(np.zeros(DONE, np.int64), 1)


@compiled
def come_in(desk):  # type: ignore[no-untyped-def]
    return team._came_in(desk)


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (0, None),
        (team.TICKET - 1, None),  # all who may are inside
        (team.TICKET, 1),
        (2 * team.TICKET + 3, team.TICKET + 4),
        (team.SLEEPS, None),
        (team.SLEEPS + 1, None),
    ],
)
def test_a_helper_comes_in_where_one_more_may(state, after):
    desk = np.zeros(8, np.int64)
    desk[team.STATE] = state
    assert come_in(np.uintp(desk.ctypes.data)) == (after is not None)
    assert desk[team.STATE] == (state if after is None else after)


@pytest.mark.parametrize(
    ("codes", "fails"), [([0, 0], False), ([-2, 0], False), ([0, -1, 0], True), ([1, 0], True), ([7], True)]
)
def test_jobs_are_done_in_their_order_and_all_of_them_even_if_one_fails(codes, fails):
    """By numba's codes, 0 and -2 are results, of which the latter is None."""
    own, seen = team.Team(), []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)
    def job(argument):
        seen.append(argument)
        return codes[argument - 5]

    address = ctypes.cast(job, ctypes.c_void_p).value
    jobs = np.array([(address, 5 + k) for k in range(len(codes))])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a kernel failed") if fails else contextlib.nullcontext():
            own.lead(jobs.copy(), 0)
    assert seen == 2 * [5 + k for k in range(len(codes))]
    own.lead(jobs[:0], 0)  # of which none fails
    assert len(seen) == 2 * len(codes)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # which this is about
def test_a_fork_has_helpers_of_its_own(monkeypatch):
    """Those of its parent are not there."""
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "2")
    seen, plain = np.zeros((2, 3), np.int64), np.ones(1, np.bool_)
    pool.run(meet, 2, 1e9, (2, seen[0], plain))
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)  # for a child that waits for ever
            pool.run(meet, 2, 1e9, (2, seen[1], plain))
            os._exit(0 if seen.tolist() == [[2, 1, 1]] * 2 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_error_in_a_kernel_with_helpers_reaches_the_caller(monkeypatch):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "4")
    arguments = np.zeros(5, np.int64), np.ones(1, np.bool_)
    with pytest.raises(RuntimeError, match="a kernel failed"):
        pool.run(meet, 4, 1e9, (4, *arguments))
    assert pool._team._desk[team.FAILED] == 0


def test_what_a_thread_left_undone_is_done_in_the_end(monkeypatch):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "2")
    offered, calls = [], []
    monkeypatch.setattr(pool._team, "lead", lambda jobs, helpers: offered.append(len(jobs)))

    def kernel(progress):
        calls.append(int(progress[PATIENCE]))
        progress[LEFT] = len(calls) == 1

    pool.run(kernel, 2, 1e9, ())
    assert calls == [1_333_333, 1_333_333]  # a tenth of the time, in looks
    assert offered == [0]  # a kernel in Python is nothing that threads without Python can call


def test_all_passes_are_gone_through_again_if_a_thread_has_left_one(monkeypatch):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "2")
    monkeypatch.setattr(pool._team, "lead", lambda jobs, helpers: None)
    calls = []

    def kernel(progress, name):
        calls.append((name, int(progress[PATIENCE])))
        progress[LEFT] = len(calls) == 2

    pool.run(kernel, 2, 120_000, ("first",), ("second",))
    assert calls == [("first", 60_000), ("second", 60_000)] * 2  # a millisecond at least


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
    own = team.Team()
    assert [own._with(helpers).size for helpers in (1, 3, 2)] == [1, 3, 2]
    assert own._locks.size == 3
    assert len(set(own._locks.tolist())) == 3
