"""Other ways to solve the instances of `benchmarks.hard`: other software, and what else we tried.

Each takes an instance, its problem, the spectral start and a seed, and returns L, R and the iterations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import rankfold as rf
from rankfold.solvers.growth import truncated

Found = tuple[Any, Any, int]
TOLERANCE = 1e-20


def cmfrec(data: Any, problem: rf.Problem, x0: Any, seed: int) -> Found:
    """Alternating least squares."""
    from cmfrec import CMF

    triples = sparse.coo_array((data.values, (data.rows, data.cols)), shape=data.shape)
    options = {"user_bias": False, "item_bias": False, "center": False, "use_cg": False, "use_float": False}
    model = CMF(k=problem.geometry.rank, lambda_=1e-12, niter=200, random_state=seed, **options)
    model.fit(triples)
    return model.A_, model.B_, 200


def gnmr(data: Any, problem: rf.Problem, x0: Any, seed: int) -> Found:
    """Gauss-Newton steps of least norm, by the code of Zilber and Nadler, with the options of their demo."""
    from GNMR_completion import GNMR_completion

    known, X, r = np.zeros(data.shape), np.zeros(data.shape), problem.geometry.rank
    known[data.rows, data.cols], X[data.rows, data.cols] = 1.0, data.values
    W, iterations, _, _ = GNMR_completion(X, known, r, verbose=False, stop_relRes=5e-14, stop_relDiff=5e-14)
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    return U[:, :r] * s[:r], Vt[:r].T, iterations


def starts(data: Any, problem: rf.Problem, x0: Any, seed: int) -> Found:
    """The trust region from the spectral start and from four random ones, until one solves the problem."""
    rng, r = np.random.default_rng(seed), problem.geometry.rank
    scale = (problem.cost.value_at_zero / r) ** 0.25  # so that W has entries as large as the data
    results: list[Any] = []
    for k in range(5):
        if k:
            x0 = problem.geometry.from_factors(*(scale * rng.standard_normal((d, r)) for d in data.shape))
        results.append(minimized(problem, x0, iterations=100))
        if results[-1].converged:
            break
    best = min(results, key=lambda result: float(result.value))
    return *best.factors, sum(result.iterations for result in results)


def minimized(problem: rf.Problem, x0: Any, iterations: int) -> Any:
    solver = rf.TrustRegion(max_inner=400)
    return rf.minimize(problem, solver, x0, tolerance=TOLERANCE, max_iterations=iterations)


def overparameterised(data: Any, problem: rf.Problem, x0: Any, seed: int) -> Found:
    """Conjugate gradients at rank r + 2, cut to rank r, then the trust region."""
    r = problem.geometry.rank
    wide = problem.with_rank(r + 2)
    first = rf.minimize(wide, rf.ConjugateGradient(), tolerance=TOLERANCE, max_iterations=500)
    result = minimized(problem, truncated(wide, first.x, r), iterations=200)
    return *result.factors, first.iterations + result.iterations


METHODS = {"cmfrec": cmfrec, "gnmr": gnmr, "starts": starts, "overparameterised": overparameterised}
