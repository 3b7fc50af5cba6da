"""Runs that must be the same on any number of processes: each a function of what makes a cost of triples."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import rankfold as rf
from geometry.variants import VARIANTS
from rankfold.costs.offsets import GivenOffsets

SOLVERS = {"cg": rf.ConjugateGradient(), "gd": rf.GradientDescent(), "tr": rf.TrustRegion()}
STEPS = 8


def run(cost: rf.Cost, geometry: rf.Geometry, solver: Any, **options: Any) -> rf.Result:
    options = {"tolerance": 1e-14, "max_iterations": STEPS} | options
    return rf.minimize(rf.Problem(cost, geometry), solver, **options)


def on_variant(name: str, solver: str):
    def case(make):
        data = VARIANTS[name].completion((60, 40), rank=2, oversampling=5, seed=1, noise=0.1)
        return run(make(data), VARIANTS[name](data.shape, 2), SOLVERS[solver])

    return case


def preconditioned(data, rank):
    return rf.FullRank(data.shape, rank, metric="preconditioned")


def ill_conditioned():
    return rf.data.random_completion((70, 50), 3, 5, seed=2, condition=1e3)


def with_solver(solver, steps=25, make_data=ill_conditioned):
    def case(make):
        data = make_data()
        return run(make(data), preconditioned(data, 3), solver, max_iterations=steps)

    return case


def with_penalty(penalty, solver="cg"):
    def case(make):
        data = ill_conditioned()
        cost = make(data)
        return run(cost + penalty(cost), preconditioned(data, 2), SOLVERS[solver])

    return case


def with_loss(loss, solver="cg"):
    def case(make):
        data = rf.data.random_completion((60, 40), 2, 6, seed=3)
        values = (data.values > 0) * 1.0 if loss in ("logistic", "squared_hinge") else data.values
        if loss == "poisson":
            values = np.floor(np.abs(values) * 3)
        return run(make(data, values, loss=loss), rf.Embedded(data.shape, 2), SOLVERS[solver])

    return case


def euclidean(make):
    data = ill_conditioned()
    cost = make(data) + rf.FactorPenalty(0.01, 0.02)
    return run(cost, rf.FullRank(data.shape, 2, metric="euclidean"), rf.ConjugateGradient())


def weighted(make):
    data = ill_conditioned()
    weights = np.random.default_rng(0).uniform(0.5, 2, len(data.values))
    return run(make(data, weights=weights), preconditioned(data, 2), rf.ConjugateGradient())


def offsets(solver="cg", **ridges):
    def case(make):
        data = ill_conditioned()
        cost = rf.WithOffsets(make(data, data.values + data.rows % 5 + 0.1 * data.cols), **ridges)
        return run(cost, preconditioned(data, 2), SOLVERS[solver])

    return case


def given_offsets(make):
    data = ill_conditioned()
    rows, cols = (np.linspace(-1, 1, d) for d in data.shape)
    return run(GivenOffsets(make(data), rows, cols), rf.Embedded(data.shape, 2), rf.ConjugateGradient())


def wide_offsets(make):
    data = rf.data.random_completion((15, 90), 1, 4, seed=4)
    return run(rf.WithOffsets(make(data)) + rf.Nuclear(1e-3), preconditioned(data, 1), rf.ConjugateGradient())


def crowded(make):
    """One row has most of the entries, so that on three processes one has no row at all."""
    rng = np.random.default_rng(6)
    rows, cols = np.append(np.zeros(90, int), np.arange(1, 13)), np.append(np.arange(90), np.arange(0, 72, 6))
    L, R = rng.standard_normal(13), rng.standard_normal(90)
    data = SimpleNamespace(rows=rows, cols=cols, values=L[rows] * R[cols], shape=(13, 90))
    return run(make(data), preconditioned(data, 1), rf.ConjugateGradient())


def wide(make):
    """Fewer rows than columns, and a start by a dense decomposition."""
    data = rf.data.random_completion((12, 90), 2, 3, seed=4)
    return run(make(data), preconditioned(data, 2), rf.ConjugateGradient())


def in_stripes(make):
    """R comes in four parts, the next while one is computed with."""
    data = ill_conditioned()
    cost = make(data, stripes=4) + rf.Nuclear(1e-2)
    return run(cost, preconditioned(data, 2), rf.TrustRegion(), max_iterations=4)


def from_random_point(make):
    data = ill_conditioned()
    cost = make(data)
    geometry = rf.Polar(data.shape, 2)
    x = geometry.random_point(seed=5, like=cost.start(2)[0])
    return run(cost, geometry, rf.ConjugateGradient(), x0=x)


CASES = {
    **{
        f"{name}, {solver}": on_variant(name, solver)
        for k, name in enumerate(VARIANTS)
        for solver in ("tr", ("cg", "gd")[k % 2])
    },
    "continuation": with_solver(rf.RankContinuation()),
    "continuation, settled": with_solver(rf.RankContinuation(settled=0.02)),
    "reweighted": with_solver(rf.ReweightedContinuation(), 30),
    "auto": with_solver(rf.Auto()),
    "Gauss-Newton": with_solver(rf.GaussNewton(), 8),
    "metric of the data": with_solver(rf.TrustRegion(metric="data"), 6),
    "Frobenius": with_penalty(lambda cost: rf.Frobenius(1e-3)),
    "Nuclear": with_penalty(lambda cost: rf.Nuclear(1e-2)),
    "Nuclear, tr": with_penalty(lambda cost: rf.Nuclear(1e-2), "tr"),
    "Nuclear by counts": with_penalty(lambda cost: rf.Nuclear.by_counts(1e-2, cost)),
    **{loss: with_loss(loss) for loss in ("logistic", "huber", "poisson", "squared_hinge")},
    "huber, tr": with_loss("huber", "tr"),
    "factor penalty": euclidean,
    "weights": weighted,
    "wide": wide,
    "crowded": crowded,
    "offsets": offsets(),
    "offsets, tr": offsets("tr", rows=None, by_counts=True),
    "given offsets": given_offsets,
    "offsets of a wide matrix": wide_offsets,
    "random point": from_random_point,
    "stripes": in_stripes,
}


def crossed(name: str, what: str):
    """A geometry with what is tested on one geometry above."""

    def case(make):
        data = VARIANTS[name].completion((60, 40), rank=3, oversampling=5, seed=1, noise=0.1)
        geometry = VARIANTS[name](data.shape, 2)
        if what in ("continuation", "auto"):
            solver = rf.RankContinuation() if what == "continuation" else rf.Auto()
            return run(make(data), geometry, solver, max_iterations=20)
        if what == "huber":
            return run(make(data, loss="huber"), geometry, SOLVERS["cg"])
        cost = make(data)
        cost = rf.WithOffsets(cost) if what == "offsets" else cost + rf.Nuclear(1e-2)
        return run(cost, geometry, SOLVERS["cg"])

    return case


# Every geometry with every solver and cost: too many for each run of the tests; `make soak` does them.
CROSSED = {
    f"{name} x {what}": crossed(name, what)
    for name in VARIANTS
    for what in ("continuation", "auto", "Nuclear", "offsets", "huber")
} | {
    f"{name}, {solver}": on_variant(name, solver)
    for name in VARIANTS
    for solver in SOLVERS
    if f"{name}, {solver}" not in CASES
}  # fmt: skip
# Those that the tests do in processes; the others are threads there, since what they compute is the same.
ON_TWO = ("offsets", "huber, tr")
ON_THREE = ("crowded", "wide", "stripes")
