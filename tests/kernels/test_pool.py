"""Threads of the pool: never more than the setting asks for."""

import subprocess
import sys

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


def test_callers_share_the_threads_of_the_setting(monkeypatch):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", "3")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["2", "0"], done.stderr


def test_a_higher_setting_gets_more_threads(monkeypatch):
    from rankfold.kernels import pool

    monkeypatch.setattr(pool, "_executor", None)
    monkeypatch.setattr(pool, "_size", 0)
    assert [pool._pool(helpers)._max_workers for helpers in (1, 3, 2)] == [1, 3, 3]
