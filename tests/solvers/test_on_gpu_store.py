"""Every geometry and solver over the store of a GPU: the numbers of the CPU, in arrays that stay there.

Where there is no GPU the store is in torch on the CPU, its passes in Triton's interpreter, matrices small.
"""

import numpy as np
import pytest
import torch
from array_api_compat import is_torch_array
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from entries.stores import draw, on_gpu
from geometry.variants import VARIANTS
from rankfold.costs.offsets import GivenOffsets

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu
HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
SHAPE, RANK = ((60, 45), 3) if HAS_GPU else ((7, 6), 2)
STEPS = 12 if HAS_GPU else 1
SOLVERS = {
    "gd": rf.GradientDescent(),
    "cg": rf.ConjugateGradient(),
    "cg, geometry's metric": rf.ConjugateGradient(metric="geometry"),
    "tr": rf.TrustRegion(),
    "gn": rf.GaussNewton(),
}
# In the interpreter a pass takes a tenth of a second: there a few stand for all.
FEW = [("GH-preconditioned", "cg"), ("UBV-spd", "tr")]
GRID = [(variant, solver) for variant in VARIANTS for solver in SOLVERS] if HAS_GPU else FEW
LOSSES = ["logistic", "huber", "poisson", "squared_hinge"] if HAS_GPU else ["logistic"]


only_there = pytest.mark.skipif(not HAS_GPU, reason="too much for the interpreter")


def both(shape=SHAPE, **options):
    """The same cost on the CPU, and on the device."""
    loss = options.pop("loss", "square")
    entries = draw(3, *shape, 0.7, loss=loss, **options)
    named = rf.Loss.named(loss)
    given = entries.rows, entries.cols, entries.values, entries.shape, entries.weights
    plain = rf.Completion(*given, loss=named, duplicates="keep")
    return plain, rf.Completion.from_observed(on_gpu(entries, DEVICE), named)


def moved(x):
    return type(x)(*(torch.as_tensor(np.array(part), device=DEVICE) for part in x))


def agree(problems, solver, x0, rtol=1e-10, **limits):
    one = rf.minimize(problems[0], solver, x0, tolerance=0, **limits)
    two = rf.minimize(problems[1], solver, moved(x0), tolerance=0, **limits)
    assert all(isinstance(part, torch.Tensor) and part.device.type == DEVICE for part in two.x)
    assert_allclose(two.trace["value"], one.trace["value"], rtol=rtol)
    return two


@pytest.mark.parametrize(("variant", "solver"), GRID)
def test_the_same_values_at_equal_iterations(variant, solver):
    shape = VARIANTS[variant].shape(SHAPE)
    problems = [rf.Problem(cost, VARIANTS[variant](shape, RANK)) for cost in both(shape)]
    x0 = problems[0].geometry.random_point(0)
    agree(problems, SOLVERS[solver], x0, max_iterations=STEPS)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_and_weights(loss):
    problems = [rf.Problem.of(cost, RANK) for cost in both(loss=loss, weighted=True)]
    agree(problems, "cg", problems[0].geometry.random_point(0), max_iterations=STEPS)


@only_there
@pytest.mark.parametrize("solver", [rf.RankContinuation(), rf.ReweightedContinuation()])
def test_continuation(solver):
    problems = [rf.Problem.of(cost, RANK) for cost in both()]
    x0 = problems[0].start()
    result = rf.minimize(problems[1], solver, moved(x0), max_iterations=30)
    expected = rf.minimize(problems[0], solver, x0, max_iterations=30)
    assert all(part.device.type == DEVICE for part in result.x)
    assert_allclose(result.value, expected.value, rtol=1e-6)


@only_there
def test_bits_repeat():
    cost = both()[1]
    problem = rf.Problem.of(cost, RANK)
    x0 = moved(rf.Problem.of(both()[0], RANK).geometry.random_point(0))
    runs = [rf.minimize(problem, "cg", x0, max_iterations=STEPS).x for _ in range(2)]
    for one, two in zip(*runs, strict=True):
        assert_array_equal(one.cpu(), two.cpu())


REGULARISED = {
    "frobenius": lambda cost: cost + rf.Frobenius(0.01),
    "nuclear": lambda cost: cost + rf.Nuclear.by_counts(0.1, cost),
    "unobserved": lambda cost: cost + rf.Unobserved(0.001, cost),
    "offsets": lambda cost: rf.WithOffsets(cost, 0.0, 1.0, 2.0),
    "offsets by counts": lambda cost: rf.WithOffsets(cost, None, 0.0, 2.0, by_counts=True),
    "given offsets": lambda cost: GivenOffsets(cost, np.arange(SHAPE[0]) / 9, np.ones(SHAPE[1])),
}


# In the interpreter these take seconds, and the others have the same terms.
long = () if HAS_GPU else pytest.mark.soak


@pytest.mark.parametrize(
    "change", [pytest.param(name, marks=long) if name == "offsets" else name for name in REGULARISED]
)
def test_other_terms_are_there_too(change, monkeypatch):
    monkeypatch.setattr("rankfold.costs.offset_system.MAX_FACTORED", 0)
    monkeypatch.setattr("rankfold.costs.offset_system.TOLERANCE", 1e-3)
    costs = [REGULARISED[change](cost) for cost in both(repeat=2, weighted=True)]
    problems = [rf.Problem.of(cost, RANK) for cost in costs]
    x0 = problems[0].geometry.random_point(0)
    if HAS_GPU:
        agree(problems, "cg", x0, rtol=1e-9, max_iterations=STEPS)
    L, R = problems[0].geometry.factors(x0)
    tensors = [torch.as_tensor(Z, device=DEVICE) for Z in (L, R)]
    found = [
        (*cost.evaluate(*x)[1:], *cost.derivative(*x, *x))
        for cost, x in zip(costs, ((L, R), tensors), strict=True)
    ]
    for one, two in zip(*found, strict=True):
        assert_allclose(torch.as_tensor(two).cpu(), one, rtol=1e-9, atol=1e-12)
    monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)
    blocks = zip(costs[0].line_blocks(L, R), costs[1].line_blocks(*tensors), strict=True)
    for one, two in blocks:
        assert_allclose(two.cpu(), one, rtol=1e-9, atol=1e-12)
    if costs[0].quadratic:
        A, B = tensors
        assert_allclose(costs[1].polynomial((A, A), (B, B)), costs[0].polynomial((L, L), (R, R)), rtol=1e-9)
    assert_allclose(costs[1].value_at_zero, costs[0].value_at_zero, rtol=1e-10)


def test_offsets_come_back_as_numpy_and_start_from_what_they_leave():
    costs = [rf.WithOffsets(cost) for cost in both()]
    zero = [np.zeros((d, 1)) for d in SHAPE]
    for one, two in zip(*(cost.offsets(*zero) for cost in costs), strict=True):
        assert isinstance(two, (float, np.ndarray))
        assert_allclose(two, one, rtol=1e-9, atol=1e-11)
    (U, s, V), (U2, s2, V2) = (cost.start(1, seed=0) for cost in costs)
    assert s2.device.type == DEVICE
    assert_allclose(((U2 * s2) @ V2.T).cpu(), (U * s) @ V.T, atol=1e-8)


def test_zeros_have_each_position_once():
    entries = draw(3, 6, 5, 0.5, repeat=4, weighted=True)
    zeros = on_gpu(entries, DEVICE).zeros()
    assert zeros.size == len(set(zip(entries.rows.tolist(), entries.cols.tolist(), strict=True)))
    assert not zeros.weighted
    assert float(zeros.by_row.value.abs().sum()) == 0


@only_there
def test_a_run_is_resumed(tmp_path):
    problem = rf.Problem.of(both()[1], RANK)
    x0 = moved(rf.Problem.of(both()[0], RANK).geometry.random_point(0))
    path = tmp_path / "run.ckpt"
    rf.minimize(problem, "cg", x0, max_iterations=1, tolerance=0, checkpoint=path)
    resumed = rf.minimize(problem, "cg", resume=path, max_iterations=2, tolerance=0)
    whole = rf.minimize(problem, "cg", x0, max_iterations=2, tolerance=0)
    assert resumed.x[0].device.type == DEVICE
    assert_allclose(resumed.trace["value"], whole.trace["value"], rtol=1e-12)
