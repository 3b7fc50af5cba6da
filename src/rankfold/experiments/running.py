"""How figures are run: every method in CPU seconds of one thread, from what the paper leaves open."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import process_time
from typing import Any

from rankfold.costs import Completion
from rankfold.data import random_completion
from rankfold.experiments.curves import OVERSAMPLING, RANK, TARGET, Competitor, Curves, Figure, Run, Scale
from rankfold.problem import Problem
from rankfold.run import stopping
from rankfold.run.blas import one_blas_thread
from rankfold.run.driver import minimize
from rankfold.run.result import Progress
from rankfold.run.trace import Trace
from rankfold.solvers import GradientDescent

STARTS = "scaled", "plain"


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open: the start's factor, and Armijo's constant of its gradient descents.

    `"plain"`: the dominant SVD of the zero-filled data as it is; `"scaled"`: times d1·d2/|Ω|, so that its
    size is that of W*.
    """

    start: str = "scaled"
    armijo: float = 0.25

    def __post_init__(self) -> None:
        if self.start not in STARTS:
            raise ValueError(f"start must be one of {', '.join(STARTS)}, not {self.start!r}")
        if not 0 < self.armijo < 1:
            raise ValueError(f"armijo must be between 0 and 1, not {self.armijo}")

    @property
    def suffix(self) -> str:
        """What is added to the names of files."""
        return "" if self == Setting() else f".{self.start}-{self.armijo:g}"

    @property
    def options(self) -> str:
        """The options of the command."""
        return f"--start {self.start} --armijo {self.armijo:g}"

    def __str__(self) -> str:
        return f"{self.start} start, Armijo {self.armijo:g}"


@dataclass(frozen=True)
class Plan:
    """Which instances are run, how often, from what setting, and in how many processes."""

    scale: Scale
    setting: Setting
    seed: int
    jobs: int = 1


Job = tuple[Figure, int, int]  # a figure, the side of its matrices, and the seed of one


def run_figures(
    figures: list[Figure], plan: Plan, show: Callable[[str], None]
) -> dict[str, tuple[Curves, float]]:
    """Run every figure on every instance; return their curves, with the CPU seconds that they took.

    An instance of a figure is one job: its methods run one after the other in one process, so that whatever
    else the machine does falls on all of them. Large matrices first, that none is left for the end.
    """
    seeds = range(plan.seed, plan.seed + plan.scale.instances)
    work = [(figure, figure.side(plan.scale), seed) for figure in figures for seed in seeds]
    work.sort(key=lambda job: -job[1] * len(job[0].competitors))
    runs: dict[str, list[Run]] = {figure.name: [] for figure in figures}
    took = dict.fromkeys(runs, 0.0)
    for (figure, _, seed), traces, cpu in _finished(work, plan):
        took[figure.name] += cpu
        for label, trace in traces.items():
            runs[figure.name].append(Run(label, seed - plan.seed, trace))
            last = trace[-1]
            show(
                f"{figure.name}  instance {seed - plan.seed}  {label:<28} "
                f"{last.iteration:4d} iterations  f = {last.value:.1e}  {last.seconds:.2f} s"
            )
    return {
        name: (Curves(tuple(sorted(of, key=lambda run: run.instance))), took[name])
        for name, of in runs.items()
    }


def _finished(work: list[Job], plan: Plan) -> Iterator[tuple[Job, dict[str, Trace], float]]:
    """Do the work, in this process or in others; yield what each job gave as it ends."""
    if plan.jobs == 1:
        yield from (_done(job, plan) for job in work)
        return
    # Not forked: a child would have the locks of threads that it does not have.
    pool = ProcessPoolExecutor(plan.jobs, multiprocessing.get_context("spawn"))
    try:
        futures: list[Future[tuple[Job, dict[str, Trace], float]]] = [
            pool.submit(_done, job, plan) for job in work
        ]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _done(job: Job, plan: Plan) -> tuple[Job, dict[str, Trace], float]:
    figure, side, seed = job
    with _one_thread():
        cost, start = _instance(120, 0, plan.setting)
        for competitor in figure.competitors:  # compile, or load, every kernel before the clock runs
            _trace(replace(competitor, limit=3), cost, start, plan.setting)
        began = process_time()
        cost, start = _instance(side, seed, plan.setting)
        best: dict[str, Trace] = {}
        for _ in range(plan.scale.repeats):  # in turns: the steps are the same each time, the seconds not
            for competitor in figure.competitors:
                trace = _trace(competitor, cost, start, plan.setting)
                known = best.setdefault(competitor.label, trace)
                if trace[-1].seconds < known[-1].seconds:
                    best[competitor.label] = trace
        return job, best, process_time() - began


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let kernels and BLAS have one thread: CPU seconds of several threads count their waiting too."""
    name = "RANKFOLD_NUM_THREADS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        with one_blas_thread():
            yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _instance(side: int, seed: int, setting: Setting) -> tuple[Completion, Any]:
    cost = Completion.from_triples(random_completion((side, side), RANK, OVERSAMPLING, seed))
    U, s, V = cost.start(RANK)
    known = cost.observed.size / side**2  # `Completion.start` has divided by it
    return cost, (U, s * known if setting.start == "plain" else s, V)


def _trace(competitor: Competitor, cost: Completion, start: Any, setting: Setting) -> Trace:
    """Run a method; return its trace with CPU seconds in place of the clock's."""
    geometry = competitor.geometry(cost.shape, RANK)
    x0 = geometry.from_svd(*start)
    if competitor.imbalance != 1:
        root = competitor.imbalance**0.5
        x0 = type(x0)(x0[0] / root, x0[1] * root)
    solver = competitor.solver
    if isinstance(solver, GradientDescent):
        solver = replace(solver, decrease=setting.armijo)
    times: list[float] = []

    def look(progress: Progress) -> None:
        times.append(process_time() - began)

    began = process_time()
    result = minimize(
        Problem(cost, geometry),
        solver,
        x0=x0,
        max_iterations=competitor.limit,
        tolerance=0,
        stop=stopping.ValueBelow(TARGET),
        callback=look,
    )
    if result.error is not None:
        raise result.error
    if result.stop.kind is stopping.StopKind.INTERRUPTED:
        raise KeyboardInterrupt  # a curve that ends early claims what it did not measure
    return Trace([row._replace(seconds=t) for row, t in zip(result.trace, times, strict=True)])
