"""What several processes do together in `test_control`; each returns what can be compared."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import rankfold as rf
from rankfold.distributed import Group, Places, Sharded, group, read, spread_triples
from rankfold.distributed.sharded import even_cuts
from rankfold.fingerprint import fingerprint
from rankfold.linalg.rows import whole

LIMIT = 200.0
SOLVERS = (rf.ConjugateGradient(), rf.TrustRegion(), rf.RankContinuation(), rf.Auto())


def bits(result):
    return fingerprint(*map(whole, result.factors), result.trace["value"], result.trace["step"])


def refusal(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@dataclass
class Tasks:
    group: Group
    folder: Path

    @property
    def data(self):
        return rf.data.random_completion((70, 50), 3, 5, seed=2, condition=1e2)

    def share(self, data, dtype=np.float64, **options):
        own = np.arange(len(data.values)) % self.group.size == self.group.rank
        triples = data.rows[own], data.cols[own], data.values[own].astype(dtype)
        return spread_triples(*triples, data.shape, group=self.group, **options)

    def problem(self, data=None):
        data = self.data if data is None else data
        return rf.Problem.of(rf.Completion.from_observed(self.share(data)), rank=3)

    def run(self, solver=SOLVERS[0], **options):
        options = {"tolerance": 0, "max_iterations": 12} | options
        return rf.minimize(self.problem(), solver, **options)

    def resumed(self, solvers=SOLVERS[:1]):
        found = {}
        for solver in solvers:
            path = self.folder / type(solver).__name__
            entire = bits(self.run(solver))
            self.run(solver, max_iterations=7, checkpoint=rf.Checkpoint(path, every=3))
            found[path.name] = entire, bits(self.run(solver, resume=path))
        return found

    def resumed_elsewhere(self):
        entire = self.run()
        result = self.run(resume=self.folder / "ConjugateGradient")
        begins = []
        self.run(resume=self.folder / "ConjugateGradient", callback=lambda p: begins.append(p.iteration))
        difference = np.abs(result.trace["value"] - entire.trace["value"]).max() / entire.trace["value"][0]
        return {"error": difference, "begins": begins[0] - 1}

    def damaged(self):
        folder = self.folder / f"damaged-{self.group.rank}"
        folder.mkdir()
        (folder / "manifest.json").write_text('{"format": 1, "files": "../other", "processes": 2}')
        file = self.folder / f"file-{self.group.rank}"
        file.write_bytes(b"")
        alone = rf.Problem.of(rf.Completion.from_triples(self.data), rank=3)
        return {
            "manifest": refusal(lambda: self.run(resume=folder)),
            "file": refusal(lambda: self.run(resume=file)),
            "alone": refusal(lambda: rf.minimize(alone, resume=self.folder / "ConjugateGradient")),
        }

    def callback(self):
        result = self.run(callback=lambda progress: progress.iteration == 3 and self.group.rank == 1)
        return result.stop_reason, result.seconds

    def interrupt(self):
        def pressed(progress):
            if progress.iteration == 2 and self.group.rank == 1:
                signal.raise_signal(signal.SIGINT)

        return self.run(callback=pressed).stop_reason

    def arguments(self):
        return refusal(lambda: self.run(tolerance=1e-3 * (1 + self.group.rank)))

    def alike(self):
        group._FAILING = LIMIT  # seconds for the others to fail alike: a busy machine takes more than a few
        problem = self.problem()
        cost, calls = problem.cost, []

        def failing(*curve):
            calls.append(curve)
            if len(calls) > 2:
                raise ArithmeticError("everywhere")
            return type(cost).polynomial(cost, *curve)

        cost.polynomial = failing
        result = rf.minimize(problem, SOLVERS[0], tolerance=0, max_iterations=9)
        return result.stop_reason, result.iterations

    def dtype(self):
        return refusal(lambda: self.share(self.data, (np.float32, np.float64)[self.group.rank % 2]))

    def places(self):
        cost = rf.Completion.from_observed(self.share(self.data))
        cuts = even_cuts(70, self.group.size)
        L = Sharded(np.ones((cuts[self.group.rank + 1] - cuts[self.group.rank], 3)), Places(self.group, cuts))
        return refusal(lambda: cost.value(L, np.ones((50, 3)))).partition(":")[0]

    def traffic(self):
        """Iterations without new blocks of the metric, of data that are sampled for step-sizes."""
        data = rf.data.random_completion((300, 6000), 3, 9, seed=0, noise=0.1)
        problem, method = self.problem(data), rf.ConjugateGradient(metric="geometry")
        per_iteration, rounding = {}, 0.0
        for wire in (None, np.dtype(np.float32)):
            self.group.wire = wire
            seen = []
            result = rf.minimize(problem, method, tolerance=0, max_iterations=6, callback=self.noting(seen))
            per_iteration[wire] = np.diff(seen, axis=0)[1:].max(axis=0)
            rounding = abs(result.value - rounding)
        self.group.wire = None
        (small, large, nbytes), (_, _, halved) = per_iteration.values()
        found = {"small": small, "large": large, "bytes": nbytes, "wire": halved, "rounding": rounding}
        return found | {"d2": 6000, "r": 3}

    def noting(self, seen):
        """A callback that counts what was sent so far."""
        traffic = self.group.traffic
        return lambda _: seen.append((traffic.small, traffic.large, traffic.bytes))

    def loaded(self):
        """Shards of labelled triples, and models of them."""
        data = read(f"{self.folder}/shards/*", ("user", "item", "stars"), group=self.group)
        store = data.store
        first, last = store.rows.bounds
        entries = store.block.by_row
        plain = rf.MatrixCompletion(rank=2, bias=False, regularization=0.0, random_state=0).fit(data)
        shrunk = rf.MatrixCompletion(rank=2, regularization=2.0, tol=1e-9, max_iter=300, random_state=0)
        shrunk.fit(data)
        return {
            "labels": (data.row_labels, data.col_labels),
            "cuts": store.rows.cuts,
            "entries": (entries.keys + first, entries.indices, entries.data[:, 0], last),
            "plain": plain,
            "shrunk": shrunk,
            "refused": [
                refusal(lambda: rf.MatrixCompletion(rank=1, bayesian=True).fit(data)),
                refusal(lambda: rf.MatrixCompletion(rank=1, loss="huber").fit(data)),
                refusal(lambda: rf.MatrixCompletion(rank=1, warm_start=True).fit(data)),
                refusal(lambda: read(f"{self.folder}/nothing/*", group=self.group)),
                refusal(lambda: read(f"{self.folder}/broken/*", group=self.group)),
            ],
        }

    def endless(self, callback=lambda _: time.sleep(0.05)):
        """A run that takes a while, and goes on from where another one was killed."""
        path = self.folder / "run"
        resume = path if (path / "manifest.json").exists() else None
        checkpoint = rf.Checkpoint(path, every=1)
        result = self.run(max_iterations=40, checkpoint=checkpoint, resume=resume, callback=callback)
        return bits(result), result.iterations

    def at_once(self):
        return self.endless(None)

    def killed(self):
        """The same, of which the last process ends in the middle, as by the kernel's hand."""

        def ended(progress):
            if progress.iteration == 3 and self.group.rank == self.group.size - 1:
                (self.folder / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)

        return self.endless(ended)

    def one_fails(self):
        group._FAILING = 0.2  # seconds for the others to fail alike, which they do not

        def failing(progress):
            if progress.iteration == 2 and self.group.rank == 1:
                raise ValueError("only here")

        return refusal(lambda: self.run(callback=failing))

    def on_gpus(self):
        from distributed.on_gpus import together

        return together(self.group)

    def with_nccl(self):
        from distributed.on_gpus import with_nccl

        return with_nccl()
