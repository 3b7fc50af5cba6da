"""Threads, forks and joblib workers: right results, no crash, no hang. Each runs in a process of its own."""

import os
import subprocess
import sys

import pytest

SETUP = """
import os, sys, threading
import numpy as np
from rankfold.costs import Completion

rng = np.random.default_rng(0)
where = rng.choice(400 * 400, 40000, replace=False)
cost = Completion(where // 400, where % 400, rng.standard_normal(40000), (400, 400))
L, R = rng.standard_normal((2, 400, 5))

def work(_=0):
    for _ in range(30):
        value, f_L, f_R = cost.evaluate(L, R)
    return value, float(f_L.sum()), float(f_R.sum())

expected = work()
"""
THREADS = """
found = []
threads = [threading.Thread(target=lambda: found.append(work())) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert found == [expected] * 4, found
"""
FIRST_USE_IN_THREADS = """
found = []
def polynomial(): found.append(cost.polynomial([L, L], [R, R]).tolist())
threads = [threading.Thread(target=polynomial) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 4 and all(f == found[0] for f in found)
"""
FORK = """
child = os.fork()
if child == 0:
    os._exit(0 if work() == expected else 1)
assert os.waitpid(child, 0)[1] == 0
assert work() == expected
"""
JOBLIB = """
from joblib import Parallel, delayed
backends = ("loky", "threading") if os.environ["RANKFOLD_NUM_THREADS"] == "1" else ("multiprocessing",)
for backend in backends:
    assert Parallel(n_jobs=2, backend=backend)(delayed(work)(k) for k in range(4)) == [expected] * 4, backend
"""
EXIT = """
import atexit
atexit.register(lambda: print("at exit", work() == expected))
"""


# By threads of the kernels. One after the other in one process; a kernel's first user is one of four threads.
SCRIPTS = {
    "1": JOBLIB + EXIT,
    "3": FIRST_USE_IN_THREADS + THREADS + (FORK if hasattr(os, "fork") else "") + JOBLIB + EXIT,
}


@pytest.mark.parametrize("threads", SCRIPTS)
def test_concurrency(threads, monkeypatch):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", threads)
    # no limit of time: where the machine is busy, kernels may take minutes to compile
    done = subprocess.run([sys.executable, "-c", SETUP + SCRIPTS[threads]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "at exit True" in done.stdout, done.stderr
