"""A geometry, a cost and methods small enough to see through, for tests of the driver alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from math import nan
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

import rankfold
from rankfold.costs.base import Cost, Evaluation
from rankfold.problem import Here, Problem
from rankfold.solvers.base import StepReport

HERE, SOURCE = Path(__file__).parent, Path(rankfold.__file__).parent.parent


def run_python(code, cwd):
    """Start a Python process that sees this folder and the library."""
    header = f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(SOURCE)!r}]\n"
    return subprocess.Popen(
        [sys.executable, "-c", header + code],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Pair(NamedTuple):
    G: Any
    H: Any


@dataclass(frozen=True)
class Flat:
    """Pairs of factors in the Euclidean metric."""

    point_type = tangent_type = Pair

    shape: tuple[int, int]
    rank: int
    metric: str = "euclidean"
    has_factors: ClassVar = False
    symmetric: ClassVar = False
    small_fields: ClassVar = None

    def factors(self, x):
        return x

    def tangent_factors(self, x, xi):
        return xi

    def validate(self, x):
        if [len(A) for A in x] != list(self.shape):
            raise ValueError("G and H have the wrong numbers of rows")
        return x

    def from_svd(self, U, s, V):
        return Pair(U * s, V)

    nearest = from_svd

    def gradient(self, x, f_L, f_R):
        return Pair(f_L, f_R)

    def norm(self, x, xi):
        return float(np.sqrt((xi.G**2).sum() + (xi.H**2).sum()))


class Target(Cost):
    """Half the mean squared distance to a given matrix."""

    def __init__(self, A):
        self.A, self.shape = A, A.shape

    def evaluate(self, L, R):
        S = (L @ R.T - self.A) / self.A.size
        return Evaluation(float((S**2).sum() * self.A.size / 2), S @ R, S.T @ L)

    def derivative(self, L, R, dL, dR):
        raise NotImplementedError

    def start(self, rank, seed=0):
        rng = np.random.default_rng(seed)
        return (
            rng.standard_normal((self.shape[0], rank)),
            np.ones(rank),
            rng.standard_normal((self.shape[1], rank)),
        )

    @property
    def value_at_zero(self):
        return float((self.A**2).mean() / 2)


def make_problem(shape=(7, 5), rank=2, seed=1, metric="euclidean") -> Problem:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    return Problem(Target(A), Flat(shape, rank, metric))


@dataclass(frozen=True)
class Draws:
    """A nested record, as a stochastic method's state would hold."""

    seed: int
    last: np.float64
    scales: tuple[float, ...] = ()


@dataclass(frozen=True)
class HeavyBallState:
    here: Here
    momentum: Pair | None
    draws: Draws
    report: StepReport = field(default_factory=StepReport)
    stalled: str = ""

    @property
    def x(self):
        return self.here.x

    @property
    def value(self):
        return self.here.value

    @property
    def gradient_norm(self):
        return self.here.gradient_norm


@dataclass(frozen=True)
class HeavyBall:
    """Gradient descent with momentum and a random step: its state has a bit of everything."""

    state_types = (HeavyBallState, Draws)

    step_size: float = 2.0
    memory: float = 0.6

    def init(self, problem, x0):
        return HeavyBallState(problem.at(x0), None, Draws(0, np.float64(nan)))

    def step(self, problem, state):
        scale = np.random.default_rng(state.draws.seed).uniform(0.5, 1.0) * self.step_size
        past = state.momentum or Pair(0.0, 0.0)
        move = Pair(*(self.memory * m - scale * g for m, g in zip(past, state.here.gradient, strict=True)))
        x = Pair(*(a + b for a, b in zip(state.x, move, strict=True)))
        # A transposed copy and a slice of a larger array: their layout has to survive a checkpoint.
        x = Pair(np.asfortranarray(x.G), np.hstack([x.H, x.H])[:, : x.H.shape[1]])
        problem.value(x)
        draws = Draws(state.draws.seed + 1, np.float64(scale), (*state.draws.scales[-2:], float(scale)))
        length = problem.geometry.norm(x, move)
        return HeavyBallState(
            problem.at(x), move, draws, StepReport(step=length, note="é" * (draws.seed % 3))
        )


@dataclass(frozen=True)
class ScriptState:
    x: Pair
    value: float
    gradient_norm: float = 1.0
    report: StepReport = field(default_factory=StepReport)
    stalled: str = ""
    stationary: bool = False
    gradient_free: bool = False
    index: int = 0


@dataclass(frozen=True)
class Script:
    """Follows a script: each entry gives fields of the state, or is an exception to raise."""

    state_types = (ScriptState,)

    entries: tuple[Any, ...] = field(compare=False)

    def init(self, problem, x0):
        return self._play(ScriptState(x0, nan), 0)

    def step(self, problem, state):
        return self._play(state, state.index + 1)

    def _play(self, state, index):
        entry = self.entries[min(index, len(self.entries) - 1)]
        if isinstance(entry, BaseException):
            raise entry
        x = Pair(state.x.G + 1.0, state.x.H)
        return replace(state, x=x, index=index, **(entry if isinstance(entry, dict) else {"value": entry}))
