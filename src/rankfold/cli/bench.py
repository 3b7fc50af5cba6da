"""A small benchmark for everyone's own machine: rankfold beside other methods on one completion problem."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from rankfold.baselines import LMaFit
from rankfold.costs import Completion
from rankfold.data import CompletionInstance, random_completion
from rankfold.problem import Problem
from rankfold.run.driver import minimize
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
    methods: dict[str, Callable[[CompletionInstance, int], Timing]] = {
        "rankfold": _ours("rankfold", "auto"),
        "LMaFit": _ours("LMaFit", LMaFit()),
        "gradient descent": _ours("gradient descent", GradientDescent()),
    }
    small = random_completion(SMALL, rank, oversampling, seed)
    data = random_completion(shape, rank, oversampling, seed)
    for method in methods.values():
        method(small, rank)
    # in turn, so that whatever else this machine does hits all alike
    runs = [[method(data, rank) for method in methods.values()] for _ in range(REPEATS)]
    return [_median(list(of_method)) for of_method in zip(*runs, strict=True)]


def _median(runs: list[Timing]) -> Timing:
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


def _ours(name: str, solver: Any) -> Callable[[CompletionInstance, int], Timing]:
    def run(data: CompletionInstance, rank: int) -> Timing:
        problem = Problem.of(Completion.from_triples(data), rank)
        began = perf_counter()
        result = minimize(problem, solver, tolerance=TOLERANCE, max_iterations=LIMIT)
        seconds = perf_counter() - began
        error = data.relative_error(*result.factors)
        return Timing(name, seconds, result.iterations, float(error))

    return run
