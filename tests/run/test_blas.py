"""BLAS is held to one thread while anything runs, and gets its threads back after the last run."""

import itertools
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from run_toys import HeavyBall, make_problem, run_python

from rankfold.run import blas
from rankfold.run.blas import one_blas_thread
from rankfold.run.driver import minimize

WAIT = 60


class Library:
    """A BLAS as threadpoolctl shows it."""

    def __init__(self, filepath, num_threads):
        self.filepath, self.num_threads = filepath, num_threads

    def set_num_threads(self, count):
        self.num_threads = count


@pytest.fixture
def libraries(monkeypatch):
    found = [Library("one", 8), Library("other", 4)]
    monkeypatch.setattr(blas, "_libraries", lambda: found)
    return found


def threads(libraries):
    return [library.num_threads for library in libraries]


def orders(runs):
    """Every order in which runs may enter and leave, each leaving after it entered."""
    events = [name for name in runs for _ in range(2)]
    return sorted(set(itertools.permutations(events)))


@pytest.mark.parametrize("order", orders("AB") + orders("ABC")[::7], ids="".join)
def test_runs_in_threads_that_overlap_in_any_order(libraries, order):
    workers = {name: ThreadPoolExecutor(1) for name in set(order)}
    inside = {}
    for name in order:
        if name in inside:
            workers[name].submit(inside.pop(name).__exit__, None, None, None).result(WAIT)
        else:
            inside[name] = one_blas_thread()
            workers[name].submit(inside[name].__enter__).result(WAIT)
        assert threads(libraries) == ([1, 1] if inside else [8, 4])
    for worker in workers.values():
        worker.shutdown()


def test_a_run_within_a_run(libraries):
    with one_blas_thread():
        with one_blas_thread():
            assert threads(libraries) == [1, 1]
        assert threads(libraries) == [1, 1]
    assert threads(libraries) == [8, 4]


def test_a_run_that_fails(libraries):
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert threads(libraries) == [8, 4]


def test_a_library_that_is_loaded_during_a_run_is_held_from_the_next_thread_s_on(libraries):
    def other():
        with one_blas_thread():
            return threads(libraries)

    with one_blas_thread():
        libraries.append(Library("late", 6))
        with one_blas_thread():  # a part of the same run: it does not look again
            assert threads(libraries) == [1, 1, 6]
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(other).result(WAIT) == [1, 1, 1]
    assert threads(libraries) == [8, 4, 6]


def test_what_is_set_between_runs_counts(libraries):
    with one_blas_thread():
        pass
    libraries[0].set_num_threads(2)
    with one_blas_thread():
        assert threads(libraries) == [1, 1]
    assert threads(libraries) == [2, 4]


def test_fits_that_overlap_give_the_threads_back(libraries):
    """The second begins while the first runs, and ends after it."""
    began, ended = threading.Event(), threading.Event()

    def first(progress):
        assert began.wait(WAIT)

    def second(progress):
        began.set()
        assert ended.wait(WAIT)
        assert threads(libraries) == [1, 1]

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(minimize, make_problem(), HeavyBall(), max_iterations=2, callback=first)
        other = pool.submit(minimize, make_problem(), HeavyBall(), max_iterations=2, callback=second)
        assert one.result(WAIT).error is None
        ended.set()
        assert other.result(WAIT).error is None
    assert threads(libraries) == [8, 4]


FORKS = """
import os, signal, threading
from test_blas import Library, threads
from rankfold.run import blas
from rankfold.run.blas import one_blas_thread

libraries = [Library("one", 8)]
blas._libraries = lambda: libraries
entered, leave = threading.Event(), threading.Event()

def other():
    with one_blas_thread():
        entered.set()
        leave.wait()

thread = threading.Thread(target=other)
thread.start()
entered.wait()

def child():
    signal.alarm(60)
    {child}

def forked():
    pid = os.fork()
    if pid == 0:
        try:
            child()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

{fork}
leave.set()
thread.join()
print(code, threads(libraries))
"""
OUTSIDE = """
    assert threads(libraries) == [8], libraries[0].num_threads
    with one_blas_thread():
        assert threads(libraries) == [1]
    assert threads(libraries) == [8]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that fork")
@pytest.mark.parametrize(
    ("child", "fork"),
    [
        (OUTSIDE, "code = forked()"),
        ("    assert threads(libraries) == [1]", "with one_blas_thread(): code = forked()"),
        ("    blas._guard.leave()\n" + OUTSIDE, "with one_blas_thread(): code = forked()"),
    ],
    ids=["by a thread without a run", "within a run", "within a run that ends"],
)
def test_a_child_forked_while_another_thread_runs(tmp_path, child, fork):
    """The other thread is not in the child: what it held is given back there, and what it locked is free."""
    process = run_python(FORKS.replace("{child}", child.strip()).replace("{fork}", fork), tmp_path)
    output, errors = process.communicate(timeout=600)
    assert output.split("\n")[0] == "0 [8]", errors


def test_a_fork_waits_for_whoever_is_entering(libraries, monkeypatch):
    """So that the child never sees BLAS limited with no one to give it back."""
    guard = blas._Guard()
    found, entering, go_on = blas._libraries(), threading.Event(), threading.Event()

    def slow():
        entering.set()
        assert go_on.wait(WAIT)
        return found

    monkeypatch.setattr(blas, "_libraries", slow)
    with ThreadPoolExecutor(2) as pool:
        entered = pool.submit(guard.enter)
        assert entering.wait(WAIT)
        fork = pool.submit(guard.lock.acquire)
        assert not fork.done()
        go_on.set()
        entered.result(WAIT)
        fork.result(WAIT)
    guard.forget_others()  # in this thread, which holds nothing
    assert threads(libraries) == [8, 4]


def test_libraries_are_looked_for_again_after_imports_alone(monkeypatch):
    looks = []

    class Controller:
        lib_controllers = ()

        def select(self, user_api):
            looks.append(user_api)
            return self

    monkeypatch.setattr(blas, "ThreadpoolController", Controller)
    blas._found_after.cache_clear()
    blas._libraries(), blas._libraries()
    assert looks == ["blas"]
    monkeypatch.setitem(sys.modules, "a_module_of_this_test", None)
    blas._libraries()
    assert looks == ["blas", "blas"]
    blas._found_after.cache_clear()
