"""A small benchmark for everyone's own machine: rankfold beside other methods on one completion problem."""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

from rankfold.baselines import LMaFit
from rankfold.costs import Completion
from rankfold.data import CompletionInstance, random_completion
from rankfold.problem import Problem
from rankfold.run.driver import minimize
from rankfold.run.stopping import StopKind
from rankfold.solvers import GradientDescent

TOLERANCE = 1e-20  # of the squared error on known entries, over that of W = 0
REPEATS = 3  # of which the median counts
LIMIT = 1000  # iterations of each method
SMALL = (300, 300)  # where everything is compiled before the clock runs


class Timing(NamedTuple):
    """One method: seconds from sorted entries to the end, iterations, and how far from the truth it ended."""

    method: str
    seconds: float
    iterations: int
    error: float


def compare(shape: tuple[int, int], rank: int, oversampling: float, seed: int) -> list[Timing]:
    """Time all methods on one instance, rankfold's default first; each is compiled beforehand.

    Examples
    --------
    >>> [run.method for run in compare((60, 60), 1, 8.0, 0)][:2]
    ['rankfold', 'LMaFit']
    """
    methods = {"rankfold": "auto", "LMaFit": LMaFit(), "gradient descent": GradientDescent()}
    small = random_completion(SMALL, rank, oversampling, seed)
    data = random_completion(shape, rank, oversampling, seed)
    for name, solver in methods.items():
        _timed(name, solver, small, rank)
    # in turn, so that whatever else this machine does hits all alike
    runs = [[_timed(*method, data, rank) for method in methods.items()] for _ in range(REPEATS)]
    by_method = zip(*runs, strict=True)
    return [sorted(same, key=lambda run: run.seconds)[REPEATS // 2] for same in by_method]


def _timed(name: str, solver: Any, data: CompletionInstance, rank: int) -> Timing:
    problem = Problem.of(Completion.from_triples(data), rank)
    began = perf_counter()
    result = minimize(problem, solver, tolerance=TOLERANCE, max_iterations=LIMIT)
    seconds = perf_counter() - began
    if result.stop.kind is StopKind.INTERRUPTED:
        raise KeyboardInterrupt  # half of a comparison is none
    return Timing(name, seconds, result.iterations, float(data.relative_error(*result.factors)))
