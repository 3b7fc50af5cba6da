"""The same code on NumPy, torch and array-api-strict, in float64 and float32, agrees to rounding."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import torch

import rankfold as rf
from dense import DenseCost
from geometry.variants import VARIANTS, every, well_conditioned_point
from rankfold.geometry.base import scale

BACKENDS = {"numpy": np, "torch": torch, "strict": array_api_strict}
TOLERANCE = {"float64": 1e-10, "float32": 2e-4}


def to(xp, dtype, z):
    return type(z)(*(xp.asarray(np.asarray(part), dtype=getattr(xp, dtype)) for part in z))


def matrix_along(geometry, x, xi):
    (L, R), (dL, dR) = geometry.factors(x), geometry.tangent_factors(x, xi)
    return dL @ R.T + L @ dR.T


def everything(problem, x, xi):
    """Return the result of every operation of the contract, by name, as tuples of arrays or floats."""
    geometry, here = problem.geometry, problem.at(x)
    y = geometry.retract(x, scale(0.1, xi))
    L, R = geometry.factors(x)
    return {
        "inner": (geometry.inner(x, xi, here.gradient),),
        "gradient": here.gradient,
        "hessian": here.hessian(xi),
        "horizontal": geometry.to_horizontal(x, geometry.to_tangent(x, here.gradient)),
        "factors": (L @ R.T,),
        "retract": ((lambda L, R: L @ R.T)(*geometry.factors(y)),),
        # as a matrix, for singular vectors at y have signs of their own
        "transported": (matrix_along(geometry, y, geometry.transport(x, xi, y)),),
        "act": geometry.act(x, geometry.random_symmetry(1)),
        "line": [*geometry.line(x, xi)[0], *geometry.line(x, xi)[1]],
        "valid": geometry.validate(x),
    }


@every
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [((9, 7), 3), ((4, 6), 4), ((5, 5), 1)])
def test_every_operation_agrees_with_numpy_float64(name, dtype, backend, size):
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    problem = rf.Problem(DenseCost(geometry.shape), geometry)
    x = well_conditioned_point(problem.geometry, 0)
    xi = problem.geometry.random_tangent(x, 1)
    truth = everything(problem, x, xi)
    xp = BACKENDS[backend]
    found = everything(problem, to(xp, dtype, x), to(xp, dtype, xi))
    for key, parts in truth.items():
        for part, like in zip(found[key], parts, strict=True):
            if not isinstance(part, float):
                assert part.dtype == getattr(xp, dtype), key
            np.testing.assert_allclose(
                np.asarray(part),
                np.asarray(like),
                atol=TOLERANCE[dtype] * (1 + np.abs(like).max()),
                err_msg=key,
            )


@every
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("backend", BACKENDS)
def test_random_points_and_tangents_are_made_like_the_array_given(name, dtype, backend):
    geometry = VARIANTS[name]((6, 5), 2)
    xp = BACKENDS[backend]
    like = xp.zeros((1,), dtype=getattr(xp, dtype))
    x = geometry.random_point(0, like=like)
    xi = geometry.random_tangent(x, 1)
    assert all(type(part) is type(like) and part.dtype == like.dtype for part in [*x, *xi])
    assert geometry.norm(x, xi) == pytest.approx(1, abs=1e-5)
