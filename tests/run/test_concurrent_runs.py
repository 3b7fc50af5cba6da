"""Fits in threads do not wait for each other, nor does a process forked from one of them."""

import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from run_toys import HeavyBall, Target, make_problem, run_python

from rankfold.problem import Problem
from rankfold.run.driver import minimize

WAIT = 60  # seconds after which a barrier gives up: reached only where threads wait for each other


class Together(Target):
    """A cost that is evaluated only when all threads of the barrier evaluate theirs."""

    def __init__(self, A, barrier):
        super().__init__(A)
        self.barrier = barrier

    def evaluate(self, L, R):
        self.barrier.wait(WAIT)
        return super().evaluate(L, R)


def test_fits_in_threads_overlap():
    plain, barrier = make_problem(), threading.Barrier(4)
    problems = [Problem(Together(plain.cost.A, barrier), plain.geometry) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda p: minimize(p, HeavyBall(), max_iterations=3, tolerance=0), problems))
    alone = minimize(plain, HeavyBall(), max_iterations=3, tolerance=0)
    for result in results:
        assert result.error is None
        assert result.trace["value"].tolist() == alone.trace["value"].tolist()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that fork")
def test_a_fork_while_another_thread_evaluates_does_not_hang(tmp_path):
    process = run_python(
        """
import os, signal, threading
from run_toys import HeavyBall, Target, make_problem
from rankfold.problem import Problem
from rankfold.run.driver import minimize

inside, go_on = threading.Event(), threading.Event()

class Waiting(Target):
    def evaluate(self, L, R):
        inside.set()
        go_on.wait()
        return super().evaluate(L, R)

plain = make_problem()
waiting = Problem(Waiting(plain.cost.A), plain.geometry)
thread = threading.Thread(target=lambda: minimize(waiting, HeavyBall(), max_iterations=1))
thread.start()
inside.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(60)  # ends a child that hangs
    os._exit(0 if minimize(plain, HeavyBall(), max_iterations=3).error is None else 1)
status = os.waitpid(pid, 0)[1]
go_on.set()
thread.join()
print(os.waitstatus_to_exitcode(status))
""",
        tmp_path,
    )
    output, errors = process.communicate(timeout=600)
    assert output == "0\n", errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that fork")
def test_a_fork_while_another_thread_compiles_waits_for_it(tmp_path):
    """Or the child, where that thread is not, would wait for ever before it compiles."""
    process = run_python(
        """
import os, signal, threading
from numba.core.compiler_lock import global_compiler_lock as lock
import rankfold.kernels.pool

compiling, forking = threading.Event(), threading.Event()
os.register_at_fork(before=forking.set)  # called first, for it is registered last

def compiles():
    with lock:
        compiling.set()
        forking.wait()

thread = threading.Thread(target=compiles)
thread.start()
compiling.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(30)  # ends a child that hangs
    with lock:
        os._exit(0)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
        tmp_path,
    )
    output, errors = process.communicate(timeout=600)
    assert output == "0\n", errors


def test_a_fit_leaves_the_process_as_it_was():
    def state():
        return list(warnings.filters), warnings.showwarning, [signal.getsignal(n) for n in signals]

    signals = [signal.SIGINT, signal.SIGTERM]
    before = state()
    minimize(make_problem(), HeavyBall(), max_iterations=3, callback=lambda progress: None)
    assert state() == before
