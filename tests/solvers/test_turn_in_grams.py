"""Conjugate gradients written out in Grams: the numbers that the geometry gives, formula by formula."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from array_api_compat import is_torch_array
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from entries.stores import draw, in_memory, on_gpu
from rankfold.costs.base import LineBlocks
from rankfold.costs.factor_ridge import FactorRidge
from rankfold.linalg.exchange import Desk
from rankfold.linalg.primitives import on_host
from rankfold.problem import Here
from rankfold.solvers import conjugate_gradient, turn_in_grams
from rankfold.solvers.metric import Metric
from rankfold.solvers.turn_in_grams import fits, turned_in_grams

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def tensors_count_as_on_a_gpu(monkeypatch):
    """Without one, products are torch's: Triton's interpreter takes half a second for those of a step."""
    monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)
    monkeypatch.setattr(turn_in_grams, "turned_on_gpu", lambda *_: (None, None))  # see test_turn_on_gpu.py
    if DEVICE == "cpu":
        monkeypatch.setattr("rankfold.linalg.on_gpu.grams", grams)
        monkeypatch.setattr("rankfold.linalg.on_gpu.sums", sums)


def grams(sides):
    products = [(A.T @ B).reshape(-1) for pairs in sides for A, B in pairs]
    return SimpleNamespace(numbers=lambda: torch.cat(products).numpy())


def sums(sides):
    def product(A, S):
        return S * A if isinstance(S, float) else A @ torch.as_tensor(S)

    return [sum(product(A, S) for A, S in terms) for terms in sides]


class InTensors(rf.Completion):
    """Entries in memory whose blocks come, like all else, in the arrays that they were asked in."""

    def line_blocks(self, L, R):
        return LineBlocks(*map(torch.as_tensor, super().line_blocks(L, R)))


@pytest.fixture(params=["numpy", pytest.param("torch", marks=pytest.mark.gpu)])
def problem(request):
    entries = draw(1, 7, 6, 0.8)
    if request.param == "numpy":
        return rf.Problem.of(rf.Completion.from_observed(in_memory(entries)), 2)
    if DEVICE == "cuda":
        return rf.Problem.of(rf.Completion.from_observed(on_gpu(entries)), 2)
    return rf.Problem.of(InTensors.from_observed(in_memory(entries)), 2)


def tensors(x):
    return type(x)(*(torch.as_tensor(part, device=DEVICE) for part in x))


def drawn(problem):
    """A point where the entries are."""
    x = problem.geometry.random_point(0)
    return x if type(problem.cost) is rf.Completion and problem.cost.device is None else tensors(x)


def begun(problem, metric):
    solver = rf.ConjugateGradient(metric=metric)
    return solver, solver.init(problem, drawn(problem))


@pytest.mark.parametrize("metric", ["geometry", "data"])
def test_steps_are_those_of_the_geometry(problem, metric, monkeypatch):
    solver, first = begun(problem, metric)
    assert fits(first.here, first.direction)
    quick = [solver.step(problem, first)]
    quick.append(solver.step(problem, quick[0]))
    assert quick[1].known is not None
    assert (quick[1].known.seen is None) == (metric == "geometry")
    monkeypatch.setattr(conjugate_gradient, "fits", lambda *_: False)
    slow = first
    for state in quick:
        slow = solver.step(problem, slow)
        for name in ("value", "gradient_norm", "squared", "slope", "t", "calibration"):
            assert_allclose(getattr(state, name), getattr(slow, name), rtol=1e-9, err_msg=name)
        assert_allclose(state.report.step, slow.report.step, rtol=1e-9)
        assert state.steepest == slow.steepest
        for one, two in zip((*state.x, *state.direction), (*slow.x, *slow.direction), strict=True):
            assert_allclose(on_host(one), on_host(two), rtol=1e-8, atol=1e-10)


def assert_known(known, x, direction, bases):
    """Whether small matrices are the Grams of what they are said to be those of."""
    for k, (y, d) in enumerate(zip(x, direction, strict=True)):
        pairs = {"squares": (y, y), "x_d": (y, d), "d_d": (d, d)}
        for B in bases[k]:
            pairs |= {"seen": (B, y), "ahead": (B, d)}
        for name, (A, C) in pairs.items():
            assert_allclose(getattr(known, name)[k], on_host(A.T @ C), rtol=1e-9, atol=1e-11, err_msg=name)
        assert (known.seen is None) == (not bases[k])


@pytest.mark.parametrize("metric", ["geometry", "data"])
def test_grams_of_directions_follow_from_those_of_what_they_are_made_of(problem, metric):
    solver, state = begun(problem, metric)
    for _ in range(4):
        state = solver.step(problem, state)
        assert_known(state.known, state.x, state.direction, state.metric.bases)


@pytest.mark.gpu
def test_an_iteration_waits_twice(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)
    problem = rf.Problem.of(rf.Completion.from_observed(on_gpu(draw(1, 7, 6, 0.8), DEVICE)), 1)
    solver, state = begun(problem, "geometry")
    state = solver.step(problem, state)
    waits, wait = [], Desk.wait
    monkeypatch.setattr(Desk, "wait", lambda self: (waits.append(1), wait(self)))
    state = solver.step(problem, state)
    assert np.isfinite([state.value, state.gradient_norm]).all()
    assert len(waits) == 2


def test_a_sample_that_misleads_is_made_good_by_all_the_data(problem, monkeypatch):
    _, state = begun(problem, "geometry")
    given = state.here, state.direction, state.metric
    exact = turned_in_grams(*given, 0.0, None)
    monkeypatch.setattr(Here, "sampled_polynomial", lambda self, xi: np.array([0.0, -2e3, 1.0, 0.0, 0.0]))
    misled = turned_in_grams(*given, 1.0, None)
    assert misled.t == exact.t
    monkeypatch.setattr(Here, "sampled_polynomial", lambda self, xi: self.polynomial(xi))
    assert_allclose(turned_in_grams(*given, 0.5, None).t, 0.5 * exact.t, rtol=1e-12)


def test_no_step_where_the_line_rises(problem, monkeypatch):
    _, state = begun(problem, "geometry")
    monkeypatch.setattr(Here, "polynomial", lambda self, xi: np.array([1.0, 1.0, 1.0, 0.0, 0.0]))
    assert turned_in_grams(state.here, state.direction, state.metric, 0.0, None) is None


def test_blocks_that_no_longer_fit_are_formed_anew(problem, monkeypatch):
    _, state = begun(problem, "data")
    given = state.here, state.direction, state.metric, 0.0, None
    monkeypatch.setattr("rankfold.solvers.metric._TURNED", -1.0)
    turn = turned_in_grams(*given)
    assert turn.metric.formed is turn.here
    direction, known = turn.directions(0.5)
    assert_known(known, turn.here.x, direction, Metric(turn.here).bases)
    monkeypatch.setattr("rankfold.solvers.metric._TURNED", 1.0)
    assert turned_in_grams(*given).metric == Metric(state.here, 1)


def test_a_restart_goes_down_the_gradient(problem):
    solver, state = begun(problem, "data")
    after = solver.step(problem, replace(state, squared=0.0))  # nothing to divide by
    assert after.steepest
    assert after.calibration == 0
    uphill = after.metric.gradient(after.here)
    for one, two in zip(after.direction, uphill, strict=True):
        assert_allclose(on_host(one), -on_host(two), rtol=1e-8, atol=1e-10)


def test_ill_conditioned_points_take_the_long_way(problem, monkeypatch):
    _, state = begun(problem, "geometry")
    quick = turned_in_grams(state.here, state.direction, state.metric, 0.0, None)
    monkeypatch.setattr(turn_in_grams, "quick_inverse", lambda M: None)
    slow = turned_in_grams(state.here, state.direction, state.metric, 0.0, None)
    assert_allclose(slow.directions(0.0)[1].inverses, quick.directions(0.0)[1].inverses, rtol=1e-10)
    assert_allclose(slow.squared, quick.squared, rtol=1e-10)


def test_others_ask_the_geometry(problem):
    _, state = begun(problem, "geometry")
    here = state.here
    assert fits(here, state.direction)
    for metric in ("invariant", "euclidean"):
        other = replace(problem, geometry=rf.FullRank(problem.geometry.shape, 2, metric=metric))
        assert not fits(other.at(here.x), state.direction)
    ridge = replace(problem, cost=FactorRidge(problem.cost, np.ones(2)))
    assert not fits(ridge.at(here.x), state.direction)
    one, two = problem.geometry.random_point(0), tensors(problem.geometry.random_point(0))
    for x in (
        type(one)(*(part.astype(np.float32) for part in one)),
        type(one)(one[0], two[1]),
        type(two)(*(part.T.contiguous().T for part in two)),
    ):
        assert not fits(problem.at(x), x)


def test_a_resumed_run_has_the_same_bits(problem, tmp_path):
    x0, path = drawn(problem), tmp_path / "run"
    solver = rf.ConjugateGradient(metric="data")
    limits = {"tolerance": 0.0}
    rf.minimize(problem, solver, x0, max_iterations=1, checkpoint=path, **limits)
    resumed = rf.minimize(problem, solver, resume=path, max_iterations=2, **limits)
    whole = rf.minimize(problem, solver, x0, max_iterations=2, **limits)
    assert_array_equal(resumed.trace["value"], whole.trace["value"])
    for one, two in zip(resumed.x, whole.x, strict=True):
        assert_array_equal(on_host(one), on_host(two))
