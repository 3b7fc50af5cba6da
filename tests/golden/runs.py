"""Short runs of every method, on every geometry and with every loss: the numbers that they come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rankfold as rf
from geometry.variants import VARIANTS

LABELLED = ("logistic", "squared_hinge")
LOSSES = ("logistic", "huber", "poisson", "squared_hinge")


def run(
    method: Any, rank: int = 2, steps: int = 6, variant: str = "GH-preconditioned", loss: str = "square",
    weights: bool = False, term: Any = None, **data: Any,
) -> dict[str, Any]:  # fmt: skip
    """The first values of a run on few entries."""
    options = {"oversampling": 3.0, "seed": 0, "noise": 0.1} | data
    given = VARIANTS[variant].completion((20, 15), rank, **options)
    values = np.abs(given.values) if loss == "poisson" else given.values
    values = (values > 0) * 1.0 if loss in LABELLED else values
    weigh = np.random.default_rng(0).uniform(0.5, 2, len(values)) if weights else None
    cost = rf.Completion(given.rows, given.cols, values, given.shape, weigh, loss)
    problem = rf.Problem(cost if term is None else cost + term, VARIANTS[variant](given.shape, rank))
    trace = rf.minimize(problem, method, max_iterations=steps, tolerance=0.0).trace
    values = trace["value"]
    return {
        "value": np.append(values[: min(steps // 2, 12) + 1], values[-1]),
        "norm": trace["gradient_norm"][:4],
        "step": trace["step"][1:4],
    }


METHODS = {
    "gd": rf.GradientDescent(),
    "cg": rf.ConjugateGradient(),
    "cg, geometry's metric": rf.ConjugateGradient(metric="geometry"),
    "tr": rf.TrustRegion(),
    "gn": rf.GaussNewton(),
    "rank continuation": rf.RankContinuation(),
    "reweighted": rf.ReweightedContinuation(),
    "trimmed": rf.TrimmedContinuation(),
    "auto": "auto",
}
# What a method is told, beside what it does by itself.
TOLD = {
    "gd, told": rf.GradientDescent(decrease=0.1, first_step=0.5, update=0.5, metric="data"),
    "cg, told": rf.ConjugateGradient(beta="HS", curvature=0.4, decrease=1e-3, metric="data"),
    "tr, told": rf.TrustRegion(initial_radius=0.5, kappa=0.3, theta=0.5, max_inner=4, metric="data"),
    "gn, told": rf.GaussNewton(damping=0.1, inner_tolerance=0.3, max_inner=5),
    "continuation, told": rf.RankContinuation(grow=2, slow=0.3, settled=0.02),
    "reweighted, told": rf.ReweightedContinuation(slow=0.05),
    "trimmed, told": rf.TrimmedContinuation(slow=(0.2, 0.1, 0.3), start=2),
}
RUNS = {
    **{f"run {name}": (method, {}) for name, method in METHODS.items()},
    **{f"run {name}": (method, {}) for name, method in TOLD.items()},
    **{f"{v}, {name}": (METHODS[name], {"variant": v}) for v in VARIANTS for name in ("gd", "cg", "tr")},
    **{f"{loss}, {name}": (METHODS[name], {"loss": loss, "weights": True})
       for loss in ("square", *LOSSES) for name in ("cg", "tr", "gn")},
    **{f"{name} with a norm": (METHODS[name], {"term": 0.1 * rf.Nuclear(0.3)}) for name in ("cg", "tr")},
}  # fmt: skip
HARD = {"rank": 3, "steps": 12, "noise": 0.0, "condition": 30.0, "oversampling": 1.6}
LONG = HARD | {"steps": 60}
RUNS |= {f"long run {name}": (TOLD[name], LONG) for name in ("reweighted, told", "trimmed, told")}
RUNS |= {f"hard run {name}": (method, HARD) for name, method in (METHODS | TOLD).items()}
RUN_CASES: dict[str, Callable[[], dict[str, Any]]] = {
    name: lambda what=what: run(what[0], **what[1]) for name, what in RUNS.items()
}
