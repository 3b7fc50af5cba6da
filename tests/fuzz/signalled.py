"""Fits on the command line that get a signal at a random moment, and are resumed.

Each runs in a fork of a process that has imported and compiled everything, so that moments of the fit, and
not of imports, are hit. Checkpoints are written after every iteration.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from unittest import mock

import rankfold as rf
from rankfold.cli import ENDING, leave, main
from rankfold.run.checkpoint import Checkpoint

WORDS = ("--rank", "3", "--no-bias", "--regularization", "0.01", "--tol", "0", "--max-iter", "25")
OLD = b"the file of an earlier run"
CODES = {"SIGKILL": -9, "SIGINT": 130, "SIGTERM": 143}


class Trials:
    """Signals to one command, whose undisturbed run is known."""

    def __init__(self, folder, seed):
        self.folder, self.random, self.endings = folder, random.Random(seed), Counter()
        Checkpoint.__init__.__defaults__ = (1, None)
        self.data = folder / "data.npz"
        rf.data.write_triples(self.data, rf.data.random_completion((300, 300), 3, 5, seed=0, noise=0.1))
        with mock.patch.dict(os.environ, RANKFOLD_NUM_THREADS="1"):  # a fork takes no threads along
            self._in_place(folder, "warm")
        began = time.monotonic()
        self._ended(self._started(folder, "whole"))
        self.seconds = time.monotonic() - began
        self.whole = self._bits(folder / "whole.rankfold")

    def run(self, name, count):
        """Yield what is wrong after each of `count` signals."""
        for k in range(count):
            where = self.folder / f"{name}{k}"
            where.mkdir()
            yield from (f"{name} {k}: {problem}" for problem in self._trial(where, name))

    def _trial(self, where, name):
        model = where / "m.rankfold"
        model.write_bytes(OLD)
        child = self._started(where, "m")
        time.sleep(self.random.uniform(0, 1.1 * self.seconds))
        os.kill(child, getattr(signal, name))
        code = self._ended(child)
        self.endings[name, code] += 1
        said = (where / "m.txt").read_text()
        if code not in (0, CODES[name]) or "Traceback" in said or "defect" in said:
            yield f"ended with {code}: {said}"
        content, saved = model.read_bytes(), where / "m.ckpt"
        if content != OLD:
            yield from self._unless_finite(model)
        elif code == 0 or (name != "SIGKILL" and saved.exists()):  # which is written before the first step
            yield f"ended with {code} and no model: {said}"
        if name != "SIGKILL":
            yield from self._leftovers(where)
        yield from self._resumed(where, saved)

    def _resumed(self, where, saved):
        code = self._ended(self._started(where, "m", *(("--resume", saved) if saved.exists() else ())))
        if code:
            yield f"resumed, ended with {code}: {(where / 'm.txt').read_text()}"
        elif self._bits(where / "m.rankfold") != self.whole:
            yield "resumed to other bits"
        yield from self._leftovers(where)

    def _leftovers(self, where):
        if left := [name for name in os.listdir(where) if name.endswith(".tmp")]:
            yield f"{left} are left"

    def _unless_finite(self, path):
        try:
            if not abs(rf.load(path).predict([(0, 0)])[0]) < 1e9:
                yield "the model predicts nonsense"
        except (OSError, ValueError) as error:
            yield f"the model is broken: {error}"

    def _bits(self, path):
        model = rf.load(path)
        return [*(part.tobytes() for part in model.factors_), model.trace_["value"].tobytes()]

    def _words(self, where, name, *more):
        files = "-o", where / f"{name}.rankfold", "--checkpoint", where / f"{name}.ckpt"
        return ["rankfold", *map(str, ("complete", self.data, *WORDS, *files, *more))]

    def _in_place(self, where, name, *more):
        sys.argv = self._words(where, name, *more)
        try:
            main()
        except SystemExit as done:
            return int(done.code or 0)
        return 0

    def _started(self, where, name, *more):
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until the child is the command, and not a test
        child = os.fork()
        if child:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            return child
        code = 99
        try:
            log = os.open(where / f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            for number in ENDING:
                signal.signal(number, leave)  # as `main` does first of all
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            code = self._in_place(where, name, *more)
            sys.stdout.flush()
        finally:
            os._exit(code)

    def _ended(self, child):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
