"""The Bayesian finish on a GPU, or on what stands for one: the sweeps of the CPU, and nothing tall leaves."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from gpu_stand_in import DEVICE, HAS_GPU, nothing_tall_leaves, stand_in
from rankfold.costs.offsets import Offsets
from rankfold.estimators.completion.bayes import finishing
from rankfold.estimators.completion.bayes.judging import Verdict
from rankfold.estimators.completion.bayes.variational import Variational
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.side.expecting import Expecting, Ridges
from rankfold.linalg.primitives import on_host

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu
ROWS, COLS = (130, 110) if HAS_GPU else (13, 11)


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    stand_in(monkeypatch)


def completion(weighted=False, dtype=np.float64):
    """Noisy entries of all rows but the last, which has none."""
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.uniform(size=(ROWS - 1, COLS)) < 0.4)
    values = rng.standard_normal((ROWS, 2))[rows] * rng.standard_normal((COLS, 2))[cols]
    values = values.sum(axis=1) + 2.0 + 0.3 * rng.standard_normal(rows.size)
    weights = rng.uniform(0.5, 2.0, rows.size) if weighted else None
    with pytest.warns(UserWarning, match="row"):
        return rf.Completion(rows, cols, values.astype(dtype), (ROWS, COLS), weights)


def models(cost, bias, traits=False):
    """The model of some entries in memory and on a GPU, and a point to begin at."""
    from rankfold.estimators.completion.bayes.on_gpu import GpuVariational

    rng = np.random.default_rng(1)
    point = rng.standard_normal((ROWS, 2 + bias)), rng.standard_normal((COLS, 2 + bias))
    expecting = (None, None)
    if traits:
        Z = np.column_stack([point[0][:, 0], rng.standard_normal(ROWS)])  # the one tells, the other does not
        expecting = Expecting(Z, cost.observed.counts[0].astype(float), Ridges(1.0, 1.0)), None
    plain = Variational.of(cost.observed, bias, expecting)
    return plain, GpuVariational.of_entries(plain, cost.on("cuda").store), point


@pytest.mark.parametrize(("bias", "weighted", "traits"), [(True, False, True), (False, True, False)])
def test_sweeps_are_those_of_the_cpu(bias, weighted, traits):
    plain, there, point = models(completion(weighted), bias, traits)
    state, moved = plain.start(point), there.start(point)
    for _ in range(3 if HAS_GPU else 1):
        state = plain.swept(state)
        with nothing_tall_leaves(ROWS, ROWS - 1, COLS):
            moved = there.swept(moved)
            bound = there.bound(moved)
    assert moved.finite
    assert {part.device.type for side in moved.sides for part in side} == {DEVICE}
    assert_allclose(bound, plain.bound(state), rtol=1e-10)
    assert_allclose([moved.noise, moved.error], [state.noise, state.error], rtol=1e-10)
    for side, other in zip(there.home(moved).sides, state.sides, strict=True):
        for one, two in zip(side, other, strict=True):
            assert type(one) is np.ndarray
            assert_allclose(one, two, rtol=1e-8, atol=1e-10)
    if traits:
        assert np.abs(state.coefficients[0]).max() > 0.1
        assert_allclose(moved.coefficients[0], state.coefficients[0], rtol=1e-8, atol=1e-12)


def test_some_columns_and_some_lines_at_a_time(monkeypatch):
    """In parts, of which the last is shorter, the sums are the same; done again, the bits are."""
    _, there, point = models(completion(), bias=True)
    start = there.start(point)
    whole = there.swept(start)
    again = there.swept(start)
    monkeypatch.setattr("rankfold.estimators.completion.bayes.on_gpu._WIDTH", 8)
    monkeypatch.setattr("rankfold.estimators.completion.bayes.on_gpu._AT_ONCE", 9 * 4)
    parts = there.swept(start)
    assert whole.error == again.error
    for one, two, three in zip(whole.sides, again.sides, parts.sides, strict=True):
        assert_array_equal(on_host(one.covariances), on_host(two.covariances))
        assert_array_equal(on_host(one.means), on_host(two.means))
        assert_allclose(on_host(three.means), on_host(one.means), rtol=1e-10, atol=1e-12)


def test_float32_is_kept():
    _, there, point = models(completion(dtype=np.float32), bias=True)
    found = there.home(there.swept(there.start(point)))
    plain, _, _ = models(completion(), bias=True)  # of which there are kernels in tests already
    expected = plain.swept(plain.start(point))
    assert {part.dtype for side in found.sides for part in side} == {np.dtype(np.float32)}
    assert_allclose(found.sides[1].means, expected.sides[1].means, rtol=1e-3, atol=1e-4)


def test_pivots_that_are_rounding_leave_their_unknown_out():
    from rankfold.estimators.completion.bayes.on_gpu import _inverse_roots

    Q = np.array([[[4.0, 2.0], [2.0, 1.0]], [[4.0, 2.0], [2.0, 3.0]], [[0.0, 0.0], [0.0, 2.0]]])
    X = on_host(_inverse_roots(torch.as_tensor(Q, device=DEVICE)))
    assert_allclose(X[0], [[0.5, 0.0], [0.0, 0.0]])
    assert_allclose(X[1].T @ X[1], np.linalg.inv(Q[1]), rtol=1e-12)
    assert_allclose(X[2], [[0.0, 0.0], [0.0, 0.5**0.5]])


@pytest.mark.parametrize("sweeps", [0, 1])
def test_the_finish_of_a_fit(sweeps):
    """What a model takes from the finish: factors, offsets and the posterior, all of it NumPy's."""
    joint = Joint.of(completion(), 1.0, Shrinkage(2.0, 2.0))
    rng = np.random.default_rng(2)
    factors = rng.standard_normal((ROWS, 1)), rng.standard_normal((COLS, 1))
    offsets = Offsets(2.0, 0.1 * rng.standard_normal(ROWS), 0.1 * rng.standard_normal(COLS))
    verdict = Verdict(sweeps, np.empty(0), None)
    found = [finishing._swept(joint, factors, offsets, verdict, device) for device in ("cpu", "cuda")]
    for (one, own, posterior, _), (two, other, expected, _) in [found[::-1]]:
        assert {type(part) for part in (*one, *own[1:], *posterior.covariances)} == {np.ndarray}
        assert_allclose(one[0] @ one[1].T, two[0] @ two[1].T, rtol=1e-8, atol=1e-10)
        assert_allclose(own.rows, other.rows, rtol=1e-8, atol=1e-10)
        assert_allclose(posterior.cols, expected.cols, rtol=1e-8, atol=1e-10)
        assert_allclose(posterior.noise, expected.noise, rtol=1e-10)
        assert posterior.sweeps == sweeps


@pytest.mark.skipif(not HAS_GPU, reason="too much for the interpreter")
def test_a_model_with_a_bayesian_finish():
    data = rf.data.random_completion((90, 80), 2, 4.0, seed=0, noise=0.3)
    settings = {"rank": 2, "bayesian": True, "geometry": "full_rank", "random_state": 0}
    models = [rf.MatrixCompletion(device=device, **settings).fit(data) for device in ("cpu", "cuda")]
    one, two = (model.posterior_ for model in models)
    assert one.sweeps == two.sweeps > 0
    assert type(two.rows) is np.ndarray
    one_guess, other = (model.predict_at(data.rows, data.cols) for model in models)
    assert_allclose(other, one_guess, rtol=1e-3, atol=1e-3)
    assert_allclose(two.noise, one.noise, rtol=1e-3)
