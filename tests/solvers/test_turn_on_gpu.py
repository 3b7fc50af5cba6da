"""Iterations whose small matrices stay on a GPU: the numbers that those on the host give."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from array_api_compat import is_torch_array
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from entries.stores import draw, on_gpu
from rankfold.kernels import gpu_turn
from rankfold.linalg.exchange import Desk
from rankfold.linalg.primitives import on_host
from rankfold.solvers import turn_in_grams, turn_on_gpu
from rankfold.solvers.turn_on_gpu import KnownThere, turned_on_gpu

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
Memory = pytest.importorskip("gpu_memory").Memory
pytestmark = pytest.mark.gpu
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SOLVER = rf.ConjugateGradient(metric="data")


@pytest.fixture(autouse=True)
def tensors_count_as_on_a_gpu(monkeypatch):
    monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)


def begun(rank, size=(8, 6), dtype=np.float64):
    """A state from which the next step is one of those here: nobody looks how far its factors turn."""
    store = on_gpu(draw(1, *size, 0.8), DEVICE)
    problem = rf.Problem.of(rf.Completion.from_observed(store.astype(dtype)), rank)
    x = problem.geometry.random_point(0)
    state = SOLVER.init(problem, type(x)(*(torch.as_tensor(A.astype(dtype), device=DEVICE) for A in x)))
    state = SOLVER.step(problem, state)
    return problem, replace(state, metric=replace(state.metric, age=2))


@pytest.fixture(scope="module")
def first():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)
        return begun(3)


def assert_same_step(problem, state, monkeypatch, precision):
    """One step from a state, and one by the host."""
    with monkeypatch.context() as patch:
        Memory(patch)
        # So few rows a program that some have none of the shorter side.
        patch.setattr(gpu_turn, "beside_rows", lambda rank: {**gpu_turn.layout(rank), "ROWS": 2})
        quick = SOLVER.step(problem, state)
    assert isinstance(quick.known, KnownThere)
    with monkeypatch.context() as patch:
        patch.setattr(turn_in_grams, "turned_on_gpu", lambda *_: (None, None))
        slow = SOLVER.step(problem, state)
    for name in ("value", "gradient_norm", "squared", "slope", "t", "calibration"):
        assert_allclose(getattr(quick, name), getattr(slow, name), rtol=100 * precision, err_msg=name)
    assert_allclose(quick.report.step, slow.report.step, rtol=100 * precision)
    assert quick.metric == slow.metric
    for one, two in zip((*quick.x, *quick.direction), (*slow.x, *slow.direction), strict=True):
        two = on_host(two)
        assert_allclose(on_host(one), two, rtol=0, atol=100 * precision * np.abs(two).max())
    for name, one, two in zip(slow.known._fields, quick.known.fetched(), slow.known, strict=True):
        assert_allclose(one, two, rtol=0, atol=100 * precision * np.abs(two).max(), err_msg=name)
    return quick


def test_a_step_is_that_of_the_host(first, monkeypatch):
    after = assert_same_step(*first, monkeypatch, 1e-13)
    assert not after.steepest  # the direction before has a part in the new one


@pytest.mark.soak
@pytest.mark.parametrize(
    ("rank", "dtype"), [(1, np.float64), (3, np.float32), (5, np.float64), (16, np.float64)]
)
def test_steps_of_other_ranks_and_types_are_those_of_the_host(rank, dtype, monkeypatch):
    there = DEVICE == "cuda"  # Triton's interpreter takes a minute for one step of rank 16
    problem, state = begun(rank, (40, 30) if there else (rank + 4, rank + 3), dtype)
    for _ in range(3 if there else 1):
        after = assert_same_step(problem, state, monkeypatch, 1e-12 if dtype is np.float64 else 1e-6)
        state = replace(after, metric=state.metric)


def test_what_is_known_on_the_device_is_what_is_known_on_the_host(first):
    _problem, state = first
    both = state.known, KnownThere(torch.as_tensor(np.array(state.known), device=DEVICE))
    for one, two in zip(both[1].fetched(), both[0], strict=True):
        assert_array_equal(one, two)
    (there, one), (_, two) = [
        turned_on_gpu(state.here, state.direction, state.metric, known, 0.25) for known in both
    ]
    for name in ("squared", "overlap", "along", "report"):
        assert getattr(one, name) == getattr(two, name)
    along = sum((on_host(d) * on_host(f)).sum() for d, f in zip(state.direction, there.partials, strict=True))
    assert one.along == pytest.approx(along, rel=1e-10)
    assert along < -1e-9  # a quarter of a unit does not end at the minimum of the line, where it is 0


def test_the_host_looks_where_blocks_are_to_be_formed_or_grams_are_ill_conditioned(first, monkeypatch):
    problem, state = first
    given = state.here, state.direction, state.metric, state.known, 0.25
    monkeypatch.setattr(turn_on_gpu, "_MOST", 0.0)
    assert turned_on_gpu(*given)[1] is None
    monkeypatch.undo()
    monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)
    monkeypatch.setattr("rankfold.solvers.metric._TURNED", -1.0)
    assert turned_on_gpu(*given)[1] is not None
    looked_at = replace(state.metric, age=3)
    there, turn = turned_on_gpu(*given[:2], looked_at, *given[3:])
    assert turn is None
    for one, x, d in zip(there.x, state.x, state.direction, strict=True):  # nobody goes there again
        assert_array_equal(on_host(one), on_host(x + 0.25 * d))
    geometrys = type(state.metric)()
    assert turned_on_gpu(*given[:2], geometrys, *given[3:]) == (None, None)
    after = SOLVER.step(problem, replace(state, metric=looked_at))
    assert after.metric.formed is after.here


def test_how_far_factors_have_turned_and_their_condition_are_what_the_host_finds(first, monkeypatch):
    _, state = first
    told, kept, numbers, all_told = [], type(state.metric).kept, [], turn_on_gpu._told
    monkeypatch.setattr(turn_on_gpu, "_told", lambda *of: numbers.extend(all_told(*of)) or numbers)

    def overheard(self, problem, turned):
        told.append(turned())
        return kept(self, problem, turned)

    monkeypatch.setattr(type(state.metric), "kept", overheard)
    there, _ = turned_on_gpu(state.here, state.direction, state.metric, state.known, 4.0)
    assert_allclose(told, state.metric.data.turned(*there.x), rtol=1e-10)
    assert 1e-3 < told[0] < 1
    before, squares = ([Y.T @ Y for Y in map(on_host, x)] for x in (state.x, there.x))
    conditions = [np.linalg.cond(square, "fro") ** 2 for square in squares]
    assert numbers[5] == pytest.approx(max(conditions), rel=1e-10)
    assert conditions[0] != pytest.approx(conditions[1], rel=1e-6)
    d = map(on_host, state.direction)
    length = sum(np.sum((one @ other) * one) for one, other in zip(d, before[::-1], strict=True))
    assert numbers[2] == pytest.approx(length, rel=1e-10)


def test_it_waits_twice(first, monkeypatch):
    problem, state = first
    waits, wait = [], Desk.wait
    monkeypatch.setattr(Desk, "wait", lambda self: (waits.append(1), wait(self)))
    state = SOLVER.step(problem, state)
    assert isinstance(state.known, KnownThere)
    assert np.isfinite([state.value, state.gradient_norm]).all()
    assert len(waits) == 2


@triton.jit
def _inverted(A, out, R: tl.constexpr, RP: tl.constexpr):
    gpu_turn._kept(out, 0, gpu_turn._inverses(gpu_turn._of(A, 0, R, RP), R, RP), R, RP)


def test_pairs_are_inverted_whose_pivots_are_elsewhere():
    pair = np.array([[[0, -2, 0], [0, 0, 4], [-8, 0, 1]], [[1e-18, 1, 0], [-1, 1, 3], [0, 2, 0.5]]])
    found = torch.zeros((2, 3, 3), dtype=torch.float64, device=DEVICE)
    _inverted[(1,)](torch.as_tensor(pair, device=DEVICE), found, 3, 4)
    assert_allclose(on_host(found), np.linalg.inv(pair), rtol=1e-13, atol=1e-13)
    with np.errstate(all="ignore"):
        _inverted[(1,)](torch.as_tensor(pair * [[[1]], [[0]]], device=DEVICE), found, 3, 4)
    assert np.isfinite(on_host(found)).tolist() == [[[True] * 3] * 3, [[False] * 3] * 3]


@pytest.mark.parametrize("number", [0.0, 1.0, -1.0, 0.1, 1e300, -3e-310, np.pi])
def test_numbers_are_sent_to_the_last_bit(number):
    halves = gpu_turn.halves(number)
    assert all(0 <= half < 1 << 22 for half in halves)
    bits = (halves[0] << 42) | (halves[1] << 21) | halves[2]
    assert np.array(bits, np.uint64).view(np.float64) == number
