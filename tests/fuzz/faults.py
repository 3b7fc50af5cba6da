"""Faults on purpose: disks that fail, processes that are killed, forks while fits run, fits in threads.

    python tests/fuzz/faults.py writes                             every write of every file fails once
    python tests/fuzz/faults.py signals --kill 100 --sigint 200 --sigterm 50
    python tests/fuzz/faults.py forks --count 50
    python tests/fuzz/faults.py lines                              Ctrl-C at every line of a run
    python tests/fuzz/faults.py threads                            four fits in four threads beside two in two

Each says what it did, and ends with 1 if something was lost, left, half written or hung.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def writes(arguments):
    from broken_disk import failures
    from written_files import writers

    total, wrong = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for name, write in writers().items():
            for fault in ("ENOSPC", "EIO", "short"):
                slow = 20 if name.endswith("png") else 1  # to draw takes long
                count, found = failures(write, Path(folder) / name, fault, slow)
                total, wrong = total + count, wrong + found
    print(f"{total} failures of the disk, one at every operation (of a picture, at every 20th)")
    return wrong


def signals(arguments):
    from signalled import Trials

    asked = {"SIGKILL": arguments.kill, "SIGINT": arguments.sigint, "SIGTERM": arguments.sigterm}
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(Path(folder), arguments.seed)
        wrong = [problem for name, count in asked.items() for problem in trials.run(name, count)]
        print(f"signals {asked}; how the commands ended: {trials.endings}")
    return wrong


def forks(arguments):
    """Fork while three threads fit; the child fits too, and must end within a minute."""
    from rankfold.run.blas import _libraries

    # One fit before: a child that compiles waits for nobody, but a thread that compiles holds up a fork.
    expected, before = _fitted(), [library.num_threads for library in _libraries()]
    done, wrong = threading.Event(), []
    threads = [threading.Thread(target=lambda: _fit_until(done)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(arguments.count):
        child = os.fork()
        if child == 0:
            _end_child(expected)
        if code := _waited(child, 60):
            wrong.append(f"fork {k}: {code}")
    done.set()
    for thread in threads:
        thread.join()
    if [library.num_threads for library in _libraries()] != before:
        wrong.append("BLAS has other threads than before")
    print(f"{arguments.count} forks while three threads fitted")
    return wrong


def _end_child(expected):
    try:
        os._exit(0 if _fitted() == expected else 3)
    finally:
        os._exit(4)


def _waited(child, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return f"the child ended with {status}" if status else ""
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "the child hung"


def _fit_until(done):
    while not done.is_set():
        _fitted()


def _fitted(side=300, max_iterations=20):
    import rankfold as rf

    data = rf.data.random_completion((side, side), 3, 5, seed=0, noise=0.1)
    problem = rf.Problem.of(rf.Completion.from_triples(data), 3)
    return rf.minimize(problem, "cg", max_iterations=max_iterations, tolerance=0).value


def lines(arguments):
    test = HERE.parent / "run" / "test_interrupted_runs.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test), "-k", "any_line"]
    done = subprocess.run(command, env=os.environ | {"RANKFOLD_TEST_STRIDE": "1"}, check=False)
    return [] if done.returncode == 0 else ["Ctrl-C at some line lost something"]


def threads(arguments):
    """Print how long four fits in four threads take, in units of two in two; best of five, in turn."""

    def seconds(count):
        began = time.perf_counter()
        workers = [threading.Thread(target=_fitted, args=(3000, 30)) for _ in range(count)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - began

    _fitted()
    runs = [(seconds(2), seconds(4)) for _ in range(5)]
    two, four = (min(column) for column in zip(*runs, strict=True))
    each = four / two / 2
    print(f"two fits in two threads: {two:.2f} s; four in four: {four:.2f} s, per fit {each:.2f} times")
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("writes", "signals", "forks", "lines", "threads"))
    for name, count in (("kill", 3), ("sigint", 3), ("sigterm", 3), ("count", 50), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=count)
    arguments = parser.parse_args()
    wrong = globals()[arguments.what](arguments)
    print("\n".join(wrong) or "nothing lost, nothing left, nothing half written")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
