"""Near the information limit: whether a fit is right, and other starts where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankfold.costs.completion import Completion
from rankfold.entries.arrays import to_numpy
from rankfold.geometry.base import Point
from rankfold.linalg import asarray_like, svd_of_product
from rankfold.problem import Problem
from rankfold.run.driver import minimize
from rankfold.run.result import Result
from rankfold.selection.identifiability import Identifiability, identifiability
from rankfold.solvers.trimmed import TrimmedContinuation
from rankfold.solvers.trimming import farthest, limit_of, without

FITS, WRONG, OPEN = "fits", "a wrong minimum", "not determined"
_STREAM = (0, 2)  # of random numbers: not one that data and points may have been drawn from
_SHAKEN = 0.3  # the part of each singular pair that a start is perturbed by


@dataclass(frozen=True)
class Verdict:
    """What a fit is: one that `FITS`, `WRONG`, or `OPEN` where other matrices near it fit as well.

    `misfit` is the value as a part of that at W = 0, and `lines` are the rows and columns that have run away
    (`rankfold.solvers.trimming`): with these, a wrong minimum is most often a bad one of few lines.
    """

    kind: str
    misfit: float
    lines: int
    identifiability: Identifiability

    def __str__(self) -> str:
        away = f"; {self.lines} lines have run away" if self.lines else ""
        return f"{self.kind}, at a misfit of {self.misfit:.1g}{away}; {self.identifiability}"


@dataclass(frozen=True)
class Retried:
    """The best fit, what it is, and how many other starts were tried."""

    result: Result
    verdict: Verdict
    tries: int


def judged(cost: Completion, L: Any, R: Any, misfit: float = 1e-16) -> Verdict:
    """Say what a fit L Rᵀ is, where the data are as exact as a misfit of this part of the value at W = 0.

    What the entries determine is the same at nearly all matrices of a rank, wrong ones included. It is asked
    at a random one: where lines have run away, the probe may not end.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((60, 50), 2, 2.0, seed=0, min_per_line=True)
    >>> cost = rf.Completion.from_triples(data)
    >>> judged(cost, data.L, data.R).kind, judged(cost, data.L + 0.1, data.R).kind
    ('fits', 'a wrong minimum')
    """
    problem = Problem.of(cost, L.shape[1])
    rng = np.random.default_rng(_STREAM)
    found = identifiability(cost, *(rng.standard_normal(Z.shape) for Z in (L, R)))
    part = cost.value(L, R) / cost.value_at_zero
    limit = limit_of(problem)
    rows, cols, most = farthest(problem, problem.geometry.from_factors(L, R), limit)
    is_open = found.known and not found.unique
    kind = OPEN if is_open else FITS if part <= misfit else WRONG
    return Verdict(kind, part, rows.size + cols.size if most > limit else 0, found)


def retried(
    cost: Completion, rank: int, tries: int = 3, misfit: float = 1e-16, seed: int = 0, **options: Any
) -> Retried:
    """Fit by `auto`, and where that ends at a wrong minimum, again from perturbed starts.

    It ends with the first fit, after so many tries, or at once where the entries do not determine W: then no
    start is better than another.

    Parameters
    ----------
    cost, rank
        What to fit, by matrices of which rank.
    tries
        How many perturbed starts there may be.
    misfit
        The part of the value at W = 0 up to which a fit is one: with noise, what the noise leaves.
    seed
        Of the perturbations.
    options
        Those of `minimize`.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((60, 50), 2, 2.0, seed=0, min_per_line=True)
    >>> found = rf.retried(rf.Completion.from_triples(data), rank=2, tolerance=1e-20)
    >>> found.verdict.kind, found.tries
    ('fits', 0)
    """
    problem = Problem.of(cost, rank)
    best = minimize(problem, **options)
    verdict, tried = _judged(cost, best, misfit), 0
    while verdict.kind == WRONG and tried < tries:
        x0 = perturbed(problem, best.x, np.random.default_rng((seed, tried)))
        tried += 1
        again = minimize(problem, TrimmedContinuation(start=rank), x0, **options)
        if again.value < best.value:
            best, verdict = again, _judged(cost, again, misfit)
    return Retried(best, verdict, tried)


def _judged(cost: Completion, result: Result, misfit: float) -> Verdict:
    L, R = to_numpy(*result.factors)
    return judged(cost, L, R, misfit)


def perturbed(problem: Problem, x: Point, rng: np.random.Generator) -> Point:
    """Return a start near x: lines that have run away set to zero, and each singular pair shaken.

    Pairs that x lacks, where the rank has not grown to the last, are drawn as large as the least it has.
    """
    present = problem.with_rank_of(x)
    limit = limit_of(present)
    rows, cols, most = farthest(present, x, limit)
    if most > limit:
        x = without(present, x, rows, cols)
    factors = present.geometry.factors(x)
    U, s, V = to_numpy(*svd_of_product(*factors))
    lacking = problem.geometry.rank - len(s)
    s = np.pad(s, (0, lacking), mode="edge")
    U, V = (np.pad(Q, ((0, 0), (0, lacking))) for Q in (U, V))
    shaken = (Q + _SHAKEN * rng.standard_normal(Q.shape) / np.sqrt(len(Q)) for Q in (U, V))
    L, R = (asarray_like(Q * np.sqrt(s), factors[0]) for Q in shaken)
    return problem.geometry.from_factors(L, R)
