"""Completion of Euclidean distance matrices, side by side with Pymanopt's `PSDFixedRank` on the same cost.

    python -m benchmarks.distances [--points 1000] [--dimension 3] [--part 0.2] [--runs 5]

A part of the squared distances of random points is known, and ‖Y_i − Y_j‖² is fitted to them until the mean
square of the errors is 1e-20 of that of the data. All start from the same point. Pymanopt's optimisers run
with the cost as one writes it in NumPy and SciPy (gathered rows, a sparse matrix of weights), gradient and
Hessian by hand; and with the passes of `rankfold.Distances`, so that only geometry and solver differ. Methods
take turns, each run with another instance; times are medians, of the processor's and of the clock.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pymanopt
from pymanopt.manifolds import PSDFixedRank
from pymanopt.optimizers import ConjugateGradient, TrustRegions
from scipy import sparse

import rankfold as rf

Floats = np.ndarray[Any, Any]
RELATIVE = 1e-20
LIMIT = 60.0  # seconds, for one run


@dataclass(frozen=True, eq=False)
class Instance:
    """Points, and the squared distances of some pairs of them."""

    points: Floats
    pairs: np.ndarray[Any, Any]
    values: Floats

    @staticmethod
    def random(count: int, dimension: int, part: float, seed: int) -> Instance:
        """Return normal points, and the distances of a part of the pairs."""
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((count, dimension))
        every = np.stack(np.triu_indices(count, 1), axis=1)
        pairs = every[rng.choice(len(every), round(part * len(every)), replace=False)]
        return Instance(points, pairs, squared(points, pairs))

    def error(self, Y: Floats) -> float:
        """Relative error of all distances."""
        every = np.stack(np.triu_indices(len(self.points), 1), axis=1)
        exact = squared(self.points, every)
        return float(np.linalg.norm(squared(Y, every) - exact) / np.linalg.norm(exact))


def squared(Y: Floats, pairs: np.ndarray[Any, Any]) -> Floats:
    differences = Y[pairs[:, 0]] - Y[pairs[:, 1]]
    return np.asarray(np.einsum("kr,kr->k", differences, differences))


class Reached(Exception):  # noqa: N818  (no error)
    """The value is low enough: out of whatever optimiser is at work."""


def plain(instance: Instance) -> tuple[Callable[..., Any], ...]:
    """Value, gradient and Hessian in NumPy and SciPy."""
    (i, j), y, n = instance.pairs.T, instance.values, len(instance.points)
    m = len(y)

    def laplacian(weights: Floats, Z: Floats) -> Floats:
        half = sparse.csr_array((weights, (i, j)), shape=(n, n))
        whole = half + half.T
        return np.asarray(whole.sum(axis=1)[:, None] * Z - whole @ Z)

    def value(Y: Floats) -> float:
        return float(np.mean((squared(Y, instance.pairs) - y) ** 2))

    def gradient(Y: Floats) -> Floats:
        return laplacian(4 / m * (squared(Y, instance.pairs) - y), Y)

    def hessian(Y: Floats, H: Floats) -> Floats:
        change = 2 * np.einsum("kr,kr->k", Y[i] - Y[j], H[i] - H[j])
        return laplacian(4 / m * (squared(Y, instance.pairs) - y), H) + laplacian(4 / m * change, Y)

    return value, gradient, hessian


def ours(cost: rf.Cost) -> tuple[Callable[..., Any], ...]:
    """The same by the passes of `rankfold.Distances`."""
    return (
        lambda Y: cost.value(Y, Y),
        lambda Y: 2 * cost.evaluate(Y, Y).f_L,
        lambda Y, H: 2 * cost.derivative(Y, Y, H, H)[0],
    )


def by_pymanopt(
    optimizer: Any, functions: tuple[Callable[..., Any], ...], Y: Floats, enough: float
) -> Floats:
    manifold = PSDFixedRank(*Y.shape)
    reached: list[Floats] = []
    value, gradient, hessian = functions

    def told(Y: Floats) -> float:
        found = value(Y)
        if found <= enough:
            reached.append(Y)
            raise Reached
        return float(found)

    wrapped = [pymanopt.function.numpy(manifold)(f) for f in (told, gradient, hessian)]
    problem = pymanopt.Problem(
        manifold, wrapped[0], euclidean_gradient=wrapped[1], euclidean_hessian=wrapped[2]
    )
    run = optimizer(
        verbosity=0, min_gradient_norm=0, min_step_size=0, max_iterations=10**6, max_time=LIMIT
    ).run
    try:
        return np.asarray(run(problem, initial_point=Y).point)
    except Reached:
        return reached[0]


def by_rankfold(solver: Any, metric: str, cost: rf.Cost, Y: Floats) -> Floats:
    problem = rf.Problem(cost, rf.PositiveSemidefinite((len(Y), len(Y)), Y.shape[1], metric=metric))
    x0 = problem.geometry.point_type(Y)
    return np.asarray(rf.minimize(problem, solver, x0, tolerance=RELATIVE, max_iterations=10_000).x.Y)


def methods(instance: Instance) -> dict[str, Callable[[], Floats]]:
    cost = rf.Distances(instance.pairs, instance.values, len(instance.points))
    start = rf.Problem(cost, rf.PositiveSemidefinite(cost.shape, instance.points.shape[1])).start().Y
    enough = RELATIVE * cost.value_at_zero
    found: dict[str, Callable[[], Floats]] = {}
    for metric in ("preconditioned", "euclidean", "invariant"):
        for name, solver in (("CG", rf.ConjugateGradient()), ("trust region", rf.TrustRegion())):
            found[f"rankfold {metric}, {name}"] = lambda s=solver, m=metric: by_rankfold(s, m, cost, start)
    for words, functions in (("NumPy cost", plain(instance)), ("rankfold's passes", ours(cost))):
        for name, optimizer in (("CG", ConjugateGradient), ("trust region", TrustRegions)):
            found[f"Pymanopt PSDFixedRank, {name}, {words}"] = lambda o=optimizer, f=functions: by_pymanopt(
                o, f, start, enough
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--dimension", type=int, default=3)
    parser.add_argument("--part", type=float, default=0.2)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    times: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(-1, options.runs):  # the first compiles, and does not count
        instance = Instance.random(options.points, options.dimension, options.part, max(seed, 0))
        for name, method in methods(instance).items():
            clock, processor = time.perf_counter(), time.process_time()
            Y = method()
            spent = time.process_time() - processor, time.perf_counter() - clock
            if seed >= 0:
                times.setdefault(name, []).append((*spent, instance.error(Y)))
    print(f"{'':54}  {'CPU s':>7}  {'wall s':>7}  {'worst error':>11}")
    for name, rows in times.items():
        cpu, wall, errors = zip(*rows, strict=True)
        print(f"{name:54}  {median(cpu):7.3f}  {median(wall):7.3f}  {max(errors):11.1e}")


if __name__ == "__main__":
    main()
