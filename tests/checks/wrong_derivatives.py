"""Random instances of geometry, cost, seed and size, right, and wrong in many ways: what do checks say?

`python -m checks.wrong_derivatives 200` in tests/ (with src on the path) counts over 200 instances.
"""

from __future__ import annotations

import sys
from collections import Counter
from copy import copy
from functools import partial

import numpy as np

import rankfold as rf
from dense import DenseCost
from geometry.variants import VARIANTS, minus
from rankfold.costs.base import Evaluation
from rankfold.geometry.base import lincomb, scale

LOSSES = ("square", "logistic", "poisson", "huber", "squared_hinge")
COSTS = (*LOSSES, "dense", "pairs", "regression", "nuclear")
MATERIAL = 1e-4  # relative change from which on a wrong derivative is wrong


class Spoiled(rf.Cost):
    """A cost whose derivatives are wrong."""

    def __init__(self, cost, first=lambda f_L, f_R: (f_L, f_R), second=None):
        self.cost, self.shape, self.factored = cost, cost.shape, cost.factored
        self.first, self.second = first, second

    def evaluate(self, L, R):
        value, f_L, f_R = self.cost.evaluate(L, R)
        return Evaluation(value, *self.first(f_L, f_R))

    def value(self, L, R):
        return self.cost.value(L, R)

    def derivative(self, L, R, dL, dR):
        right = self.cost.derivative(L, R, dL, dR)
        return right if self.second is None else self.second(self.cost, L, R, dL, dR)

    @property
    def value_at_zero(self):
        return self.cost.value_at_zero


def with_methods(geometry, **methods):
    """Return the geometry with other methods, each of which is given the right one first."""
    other = copy(geometry)
    other.small_fields = None  # as for a subclass: these formulas want arrays
    for name, method in methods.items():
        right = getattr(geometry, name)
        setattr(other, name, lambda *args, right=right, method=method: method(right, *args))
    return other


def without_curvature(right, x, xi, f_L, f_R, df_L, df_R):
    return right(x, xi, 0 * f_L, 0 * f_R, df_L, df_R)


def one_field(metric, x, xi, eta):
    return metric(x, xi, eta) + float(np.sum(xi[0] * eta[0]))


def beside(right, x, f_L, f_R):
    """The gradient with something that is no horizontal vector."""
    gradient = right(x, f_L, f_R)
    rng = np.random.default_rng(0)
    noise = type(gradient)(*(np.abs(part).max() * rng.standard_normal(part.shape) for part in gradient))
    return lincomb(1.0, gradient, 0.1, noise)


# by the check that must notice
WRONG_COSTS = {
    "gradient": {
        "halved": lambda cost: Spoiled(cost, first=lambda f_L, f_R: (f_L / 2, f_R / 2)),
        "of one factor": lambda cost: Spoiled(cost, first=lambda f_L, f_R: (f_L, 0 * f_R)),
        "negative": lambda cost: Spoiled(cost, first=lambda f_L, f_R: (-f_L, -f_R)),
        "one entry": lambda cost: Spoiled(cost, first=lambda f_L, f_R: (off_by_one_entry(f_L), f_R)),
    },
    "hessian": {
        "without S dR": lambda cost: Spoiled(cost, second=gauss_newton),
        "without the change of S": lambda cost: Spoiled(cost, second=without_change),
        "halved": lambda cost: Spoiled(cost, second=lambda c, *z: [d / 2 for d in c.derivative(*z)]),
        "of one factor": lambda cost: Spoiled(cost, second=of_one_factor),
    },
}
WRONG_GEOMETRIES = {
    "gradient": {
        "metric doubled": {"inner": lambda right, x, xi, eta: 2 * right(x, xi, eta)},
        "metric of one field": {"inner": one_field},
        "retraction halved": {"retract": lambda right, x, xi: right(x, scale(0.5, xi))},
        "gradient beside the tangent space": {"gradient": beside},
    },
    "hessian": {
        "without curvature": {"hessian": without_curvature},
        "retraction bent": {"retract": lambda right, x, xi: right(x, lincomb(1.0, xi, bend(xi), xi))},
    },
    "geometry": {
        "metric of one field": {"inner": one_field},
        "metric doubled": {"inner": lambda right, x, xi, eta: 2 * right(x, xi, eta)},
        "retraction halved": {"retract": lambda right, x, xi: right(x, scale(0.5, xi))},
        "retraction backwards": {"retract": lambda right, x, xi: right(x, scale(-1.0, xi))},
        "transport halved": {"transport": lambda right, x, xi, y: scale(0.5, right(x, xi, y))},
        "transport nowhere": {"transport": lambda right, x, xi, y: scale(0.0, right(x, xi, y))},
        "transport left out": {"transport": lambda right, x, xi, y: xi},
    },
}


def bend(xi):
    """A factor of order t: the curve is right to first order, and not straight."""
    return 0.3 * float(sum(np.sum(part) for part in xi))


def off_by_one_entry(f_L):
    f_L = f_L.copy()
    f_L[0, 0] += 0.05 * np.abs(f_L).max()
    return f_L


def gauss_newton(cost, L, R, dL, dR):
    return cost.gauss_newton(L, R, dL, dR)


def without_change(cost, L, R, dL, dR):
    return tuple(
        a - b for a, b in zip(cost.derivative(L, R, dL, dR), cost.gauss_newton(L, R, dL, dR), strict=True)
    )


def of_one_factor(cost, L, R, dL, dR):
    df_L, df_R = cost.derivative(L, R, dL, dR)
    return df_L, 0 * df_R


def cost_of(kind, shape, rank, seed):
    """Return a cost of one kind whose data have the very seed that the checks are given."""
    rng = np.random.default_rng(seed)
    if kind == "dense":
        return DenseCost(shape, seed)
    if kind == "pairs":
        X, Z = rng.standard_normal((15, shape[0])), rng.standard_normal((12, shape[1]))
        return rf.Pairs(X, Z, rng.standard_normal(60), pairs=rng.integers(0, 12, (60, 2)))
    if kind == "regression":
        X = rng.standard_normal((2 * shape[0], shape[0]))
        return rf.Regression(X, rng.standard_normal((2 * shape[0], shape[1])))
    data = rf.data.random_completion(shape, rank, shape[0] * shape[1] / (rank * (sum(shape) - rank)), seed)
    values = {
        "logistic": data.values > 0,
        "squared_hinge": data.values > 0,
        "poisson": np.abs(data.values).round(),
    }
    loss = kind if kind in LOSSES else "square"
    cost = rf.Completion(data.rows, data.cols, values.get(loss, data.values).astype(float), shape, loss=loss)
    return cost + 0.01 * rf.Nuclear(1.0) if kind == "nuclear" else cost


def instance(seed):
    """Return a problem whose geometry, cost and size are drawn."""
    rng = np.random.default_rng((seed, 99))
    name = list(VARIANTS)[seed % len(VARIANTS)]
    shape = tuple(int(d) for d in rng.integers(3, 31, 2))
    rank = int(rng.integers(1, min(*shape, 6) + 1))
    kind = COSTS[int(rng.integers(len(COSTS)))]
    return f"{name}, {kind}, {shape}, rank {rank}", VARIANTS[name].problem(
        cost_of(kind, shape, rank, seed), rank
    )


def is_right_too(problem, way):
    """Whether a change of the geometry does no harm: a retraction may bend, if it does not say otherwise."""
    return way == "retraction bent" and not problem.geometry.second_order


def differs(problem, wrong, seed, what):
    """Whether a derivative differs from the right one by more than nothing: some terms are zero in places."""
    geometry = problem.geometry
    x = geometry.random_point(seed)
    xi = geometry.random_tangent(x, seed + 77)
    right, other = (p.at(x).gradient if what == "gradient" else p.at(x).hessian(xi) for p in (problem, wrong))
    return geometry.norm(x, minus(right, other)) > MATERIAL * geometry.norm(x, right)


def is_wrong(geometry, name, spoiled, seed):
    """Whether a spoiled geometry is wrong: on a flat one, vectors need not be transported."""
    if name != "transport left out":
        return True
    x = geometry.random_point(seed)
    xi = geometry.random_tangent(x, seed + 1)
    y = geometry.retract(x, xi)
    gap = minus(geometry.transport(x, xi, y), spoiled.transport(x, xi, y))
    return geometry.norm(y, gap) > MATERIAL * geometry.norm(y, xi)


def cases(seed):
    """Yield (what is checked, whether it is right, a function that checks it)."""
    name, problem = instance(seed)
    checks = {"gradient": rf.check_gradient, "hessian": rf.check_hessian}
    for what, check in checks.items():
        yield f"{name}: {what}", True, partial(check, problem, seed=seed)
        for way, spoil in WRONG_COSTS[what].items():
            wrong = rf.Problem(spoil(problem.cost), problem.geometry)
            if differs(problem, wrong, seed, what):
                yield f"{name}: {what} {way}", False, partial(check, wrong, seed=seed)
        for way, methods in WRONG_GEOMETRIES[what].items():
            wrong = rf.Problem(problem.cost, with_methods(problem.geometry, **methods))
            if way != "without curvature" or differs(problem, wrong, seed, what):
                yield f"{name}: {what} {way}", is_right_too(problem, way), partial(check, wrong, seed=seed)
    yield f"{name}: geometry", True, partial(rf.check_geometry, problem.geometry, seed=seed)
    for way, methods in WRONG_GEOMETRIES["geometry"].items():
        wrong = with_methods(problem.geometry, **methods)
        if is_wrong(problem.geometry, way, wrong, seed):
            yield f"{name}: geometry {way}", False, partial(rf.check_geometry, wrong, seed=seed)


def judged(check):
    return getattr(check, "verdict", "right" if check.ok else "WRONG")


def main(count, first=0):
    """Count over instances, and print those that went wrong."""
    counts = Counter()
    for seed in range(first, first + count):
        for what, right, check in cases(seed):
            found = check()
            verdict = judged(found)
            counts["right" if right else "wrong", verdict] += 1
            if verdict != ("right" if right else "WRONG"):
                print(seed, what, verdict, found, sep=" | ", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
