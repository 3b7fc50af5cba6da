"""Pairs and regression on a GPU, or what stands for one: the numbers of the CPU, and nothing tall leaves."""

import numpy as np
import pytest
import torch
from array_api_compat import is_torch_array
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import rankfold as rf
from gpu_stand_in import DEVICE, HAS_GPU, nothing_tall_leaves, stand_in
from rankfold.costs.mapped import Features, Mapped
from rankfold.entries.gpu import GpuObserved
from rankfold.linalg.primitives import on_host

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu
LEFT, RIGHT, N1, N2 = 13, 11, 17, 19  # features and entities of both sides: sizes that nothing small has


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    stand_in(monkeypatch)


def features(rows, columns, seed, few=False):
    X = np.random.default_rng(seed).standard_normal((rows, columns))
    return sparse.csr_array(np.where(np.abs(X) > 1.2, X, 0.0)) if few else X


def pairs_cost(loss, few=False, dtype=np.float64, **options):
    rng = np.random.default_rng(5)
    pairs = rng.integers(0, (N1, N2), size=(23, 2))
    y = rng.standard_normal(23)
    y = y if loss in ("square", "huber") else (y > 0).astype(float)
    X, Z = features(N1, LEFT - 1, 1, few).astype(dtype), features(N2, RIGHT - 1, 2).astype(dtype)
    return rf.Pairs(X, Z, y, loss, pairs, rng.uniform(0.5, 2.0, 23), linear=True, **options)


def regression_cost(loss, rows, holes=0.0, few=False):
    rng = np.random.default_rng(6)
    Y = rng.standard_normal((rows, RIGHT))
    Y[rng.uniform(size=Y.shape) < holes] = np.nan
    return rf.Regression(features(rows, LEFT, 3, few), Y, loss)


def ranked_cost(loss="logistic"):
    rng = np.random.default_rng(7)
    pairs = rng.integers(0, (N1, N2), size=(9, 2))
    pairs[3] = pairs[5]  # one that comes twice
    better, worse = rng.integers(0, 9, size=(2, 12))
    X, Z = features(N1, LEFT, 1), features(N2, RIGHT, 2)
    return rf.RankedPairs(X, Z, pairs, better, worse, loss, rng.uniform(0.5, 2.0, 12))


def classes_cost(few=False):
    rng = np.random.default_rng(8)
    pairs, codes = rng.integers(0, (N1, N2), size=(7, 2)), rng.integers(0, 3, 7)
    pairs[2] = pairs[4]
    X, Z = features(N1, LEFT, 1), features(N2, 4, 2, few)
    return rf.MultinomialPairs(X, Z, codes, 3, pairs, rng.uniform(0.5, 2.0, 7), linear=False)


COSTS = {
    "pairs": lambda: pairs_cost("square"),
    "sparse pairs, logistic": lambda: pairs_cost("logistic", few=True),
    "comparisons": ranked_cost,
    "classes": classes_cost,
    "regression, many rows": lambda: regression_cost("square", 31),
    "sparse regression, few rows": lambda: regression_cost("square", 7, few=True),
    "regression with holes, huber": lambda: regression_cost("huber", 7, holes=0.7),
}


@pytest.fixture(params=COSTS)
def costs(request):
    plain = COSTS[request.param]()
    return plain, plain.on("cuda")


def factors(kind=np.float64, seed=0, shape=(LEFT, RIGHT)):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((d, 2)).astype(kind) for _ in range(2) for d in shape]


def there(*arrays):
    return [torch.as_tensor(array, device=DEVICE) for array in arrays]


def test_all_that_a_cost_says(costs):
    plain, moved = costs
    L, R, dL, dR = factors(shape=plain.shape)
    tall = there(L, R, dL, dR)
    with nothing_tall_leaves(LEFT, RIGHT, N1, N2):
        value, *partials = moved.evaluate(*tall[:2])
        found = [*partials, *moved.derivative(*tall), *moved.gauss_newton(*tall)]
        alone, at_zero = moved.value(*tall[:2]), moved.value_at_zero
    expected, *sides = plain.evaluate(L, R)
    assert_allclose([value, alone, at_zero], [expected, expected, plain.value_at_zero], rtol=1e-12)
    assert {part.device.type for part in found} == {DEVICE}
    for one, two in zip(
        found, [*sides, *plain.derivative(L, R, dL, dR), *plain.gauss_newton(L, R, dL, dR)], strict=True
    ):
        assert_allclose(on_host(one), two, rtol=1e-10, atol=1e-12)
    if plain.quadratic:
        terms = [(L, dL), (R, dR)]
        with nothing_tall_leaves(LEFT, RIGHT, N1, N2):
            line = moved.polynomial((tall[0], tall[2]), (tall[1], tall[3]))
        assert_allclose(line, plain.polynomial(*terms), rtol=1e-10, atol=1e-12)


def test_the_start_and_the_solve(costs):
    """The same values at equal iterations; the same bits when it is done again; all stays on the device."""
    plain, moved = costs
    if not (HAS_GPU or plain.quadratic):
        pytest.skip("too much for the interpreter")
    quick = HAS_GPU or not isinstance(moved.core, rf.Completion)  # the interpreter is slow
    ridge, runs, most = rf.Frobenius(0.01), [], 5 if quick else 1
    for _ in range(2 if quick else 1):
        problem = rf.Problem.of(moved + ridge, 2)
        with nothing_tall_leaves(LEFT, RIGHT, N1, N2):
            runs.append(rf.minimize(problem, "cg", problem.start(), max_iterations=most))
    result = rf.minimize(rf.Problem.of(plain + ridge, 2), "cg", max_iterations=most)
    assert_allclose(runs[0].trace["value"], result.trace["value"], rtol=1e-10)
    assert {part.device.type for part in runs[0].factors} == {DEVICE}
    for one, two in zip(runs[0].factors, runs[-1].factors, strict=True):
        assert_array_equal(on_host(one), on_host(two))


def test_offsets_of_responses():
    """What `ReducedRankRegression` minimises where responses are missing."""
    rng = np.random.default_rng(1)
    rows, cols = np.nonzero(rng.uniform(size=(5, 4)) < 0.7)
    core = rf.Completion(rows, cols, rng.standard_normal(rows.size), (5, 4))
    X, L, R = features(5, 3, 1), rng.standard_normal((3, 1)), rng.standard_normal((4, 1))
    plain, moved = (
        Mapped(rf.WithOffsets(each, None, None, 0.0), Features(X, 3), Features(None, 4))
        for each in (core, core.on("cuda"))
    )
    value, f_L, f_R = moved.evaluate(*there(L, R))
    assert_allclose(value, plain.value(L, R), rtol=1e-9)
    assert_allclose(on_host(f_L), plain.evaluate(L, R).f_L, rtol=1e-7, atol=1e-9)
    assert f_R.device.type == DEVICE


def test_answers_are_of_the_kind_of_the_factors():
    plain, (L, R, *_) = pairs_cost("square"), factors()
    moved = plain.on("cuda")
    assert moved.on("cuda") is moved
    value, f_L, _ = moved.evaluate(L, R)
    assert type(f_L) is np.ndarray
    assert_allclose(f_L, plain.evaluate(L, R).f_L, rtol=1e-10)
    assert value == pytest.approx(moved.value(*there(L, R)), rel=1e-12)
    assert moved_fingerprint(plain) == pytest.approx(plain.fingerprint()["value at a fixed W"], rel=1e-10)


def moved_fingerprint(plain):
    return plain.on("cuda").fingerprint()["value at a fixed W"]


@pytest.mark.parametrize(("held", "given"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_two_precisions(held, given):
    """Features and factors of two types: products are of the better one, partials of the factors' own."""
    L, R, *_ = factors(given)
    rng = np.random.default_rng(1)
    X, Y = features(31, LEFT, 3).astype(held), rng.standard_normal((31, RIGHT)).astype(held)
    tolerance = 1e-12 if given == np.float64 else 1e-5
    for plain in (pairs_cost("square", dtype=held), rf.Regression(X, Y)):
        value, f_L, _ = plain.on("cuda").evaluate(*there(L, R))
        expected = plain.evaluate(L, R)
        assert_allclose(value, expected.value, rtol=tolerance)
        assert on_host(f_L).dtype == given
        assert_allclose(on_host(f_L), expected.f_L, rtol=tolerance, atol=tolerance)


def tensors_count_as_on_a_gpu(monkeypatch):
    """Costs built from tensors on the CPU are then built as from those on a GPU."""
    if HAS_GPU:
        return
    monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)

    def built(rows, cols, values, shape, weights=None, loss="square", duplicates="error", device=None):
        store = GpuObserved.from_triples(rows, cols, values, shape, weights, duplicates, "cpu")
        loss = rf.Loss.named(loss) if isinstance(loss, str) else loss
        return rf.Completion.from_observed(store, loss)

    for module in ("pairs", "regression"):
        monkeypatch.setattr(f"rankfold.costs.{module}.Completion", built)


@pytest.mark.parametrize("holes", [0.0, 0.5])
def test_built_from_tensors(holes, monkeypatch):
    rng = np.random.default_rng(2)
    X, Z, Y = features(N1, LEFT, 1), features(N1, RIGHT, 2), rng.standard_normal((N1, RIGHT))
    y = Y[:, 0].copy()
    Y[rng.uniform(size=Y.shape) < holes] = np.nan
    Y[: round(6 * holes)] = np.nan  # rows of which nothing is known
    expected = [rf.Pairs(X, Z, y), rf.Regression(X, Y)]
    tensors_count_as_on_a_gpu(monkeypatch)
    found = [rf.Pairs(*there(X, Z, y)), rf.Regression(*there(X), Y)]
    found += [rf.Pairs(X, *there(Z), y), rf.Regression(X, *there(Y))]
    L, R, *_ = factors()
    for one, two in zip(found, expected * 2, strict=True):
        assert one.device == there(L)[0].device
        value, f_L, f_R = one.evaluate(*there(L, R))
        assert_allclose(value, two.value(L, R), rtol=1e-10)
        assert_allclose(on_host(f_R), two.evaluate(L, R).f_R, rtol=1e-9, atol=1e-12)
        assert f_L.device.type == DEVICE


def test_a_closed_form_of_tensors_is_that_of_the_cpu(monkeypatch):
    X, Y = features(31, LEFT, 1), features(31, RIGHT, 2)
    U, s, V = rf.Regression(X, Y).closed_form(3, ridge=0.1)
    tensors_count_as_on_a_gpu(monkeypatch)
    A, d, B = rf.Regression(*there(X, Y)).closed_form(3, ridge=0.1)
    assert_allclose(on_host(A * d @ B.T), U * s @ V.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), "X must be a matrix with a row per entity"),
        (np.full((2, 2), np.nan), "X has entries that are NaN or infinite"),
        (np.full((2, 2), 1j), "X must hold real numbers; got torch.complex128"),
        (np.full((2, 2), 1e90), r"X\[0, 0\] is 1e\+90, and in float64 products"),
    ],
)
def test_tensors_that_are_no_features_are_refused(X, message, monkeypatch):
    tensors_count_as_on_a_gpu(monkeypatch)
    with pytest.raises((ValueError, TypeError), match=message):
        rf.Pairs(*there(X), np.eye(2), [1.0, 2.0])


def test_responses_on_a_gpu_are_checked_there(monkeypatch):
    tensors_count_as_on_a_gpu(monkeypatch)
    with pytest.raises(ValueError, match="Y must be finite, with NaN for unknown"):
        rf.Regression(*there(np.eye(2), np.full((2, 2), np.inf)))
    with pytest.raises(ValueError, match="Y must be a matrix with 2 rows"):
        rf.Regression(*there(np.eye(2), np.ones((3, 2))))
    with pytest.raises(ValueError, match="divide Y by"):
        rf.Regression(*there(np.eye(2), np.array([[1e90, 1.0], [np.nan, 1.0]])))


def test_sparse_predictors_beside_responses_on_a_gpu(monkeypatch):
    X, Y = features(7, LEFT, 3, few=True), features(7, RIGHT, 2)
    expected = rf.Regression(X, Y).value(*factors()[:2])
    tensors_count_as_on_a_gpu(monkeypatch)
    cost = rf.Regression(X, *there(Y))
    assert cost.device == there(Y)[0].device
    assert_allclose(cost.value(*there(*factors()[:2])), expected, rtol=1e-12)


@pytest.mark.parametrize("loss", ["square", "huber", "poisson", "squared_hinge"])
def test_other_losses_of_comparisons(loss):
    plain = ranked_cost(loss)
    L, R, dL, dR = factors()
    moved = plain.on("cuda")
    value, f_L, _ = moved.evaluate(*there(L, R))
    assert_allclose(value, plain.value(L, R), rtol=1e-12)
    assert_allclose(on_host(f_L), plain.evaluate(L, R).f_L, rtol=1e-10, atol=1e-12)
    change, _ = moved.derivative(*there(L, R, dL, dR))
    assert_allclose(on_host(change), plain.derivative(L, R, dL, dR)[0], rtol=1e-10, atol=1e-12)


def test_a_loss_of_one_s_own_for_comparisons_is_refused():
    quartic = rf.Loss.from_functions(lambda w, y: w, lambda w, y: w, lambda w, y: w)
    with pytest.raises(TypeError, match="on a GPU the loss must be built in"):
        ranked_cost(quartic).on("cuda")


def test_columns_with_other_numbers_of_categories(monkeypatch):
    """A table of categories, without features: with its own start, in NumPy's arrays too."""
    cost = rf.Multinomial([0, 1, 2, 3], [0, 0, 1, 2], [1, 0, 3, 1], (4, 3), [2, 4, 3])
    moved, (L, R, *_) = cost.on("cuda"), factors(shape=cost.shape)
    value, f_L, f_R = moved.evaluate(L, R)
    expected = cost.evaluate(L, R)
    assert_allclose([value, moved.value_at_zero], [expected.value, cost.value_at_zero], rtol=1e-12)
    assert_allclose(f_L, expected.f_L, rtol=1e-10, atol=1e-14)
    assert_allclose(f_R, expected.f_R, rtol=1e-10, atol=1e-14)
    U, s, V = moved.start(1)
    A, t, B = cost.start(1)
    assert_allclose(on_host(U * s @ V.T), A * t @ B.T, rtol=1e-9, atol=1e-12)


def test_sparse_features_of_several_classes(monkeypatch):
    """Wide products with a sparse matrix are made by some columns at a time."""
    monkeypatch.setattr("rankfold.costs.features_on_gpu._WIDTH", 4)
    plain = classes_cost(few=True)
    L, R, *_ = factors(shape=plain.shape)
    value, _, f_R = plain.on("cuda").evaluate(*there(L, R))
    assert_allclose(value, plain.value(L, R), rtol=1e-12)
    assert_allclose(on_host(f_R), plain.evaluate(L, R).f_R, rtol=1e-10, atol=1e-14)


def test_what_has_no_kernels_there_says_so():
    cost = rf.Distances([[0, 1], [1, 2]], [1.0, 2.0])
    with pytest.raises(TypeError, match="Distances is computed on the CPU alone: leave device out"):
        cost.on("cuda")
    assert cost.on("auto") is cost
    assert cost.on("cpu") is cost
    with pytest.raises(ValueError, match="device must be"):
        cost.on("gpu")


def test_features_without_any_entry():
    cost = rf.Pairs(sparse.csr_array((3, 2)), np.eye(3), [1.0, 2.0, 3.0])
    L, R = np.ones((2, 1)), np.ones((3, 1))
    assert_allclose(cost.on("cuda").value(*there(L, R)), cost.value(L, R), rtol=1e-14)


def test_the_watch_sees_what_leaves():
    tall = torch.zeros((LEFT, 2), device=DEVICE)
    ways = [on_host, np.asarray, torch.Tensor.tolist, *([lambda A: A.to("cpu")] if HAS_GPU else [])]
    for leave in ways:
        with pytest.raises(AssertionError, match="leaves the device"), nothing_tall_leaves(LEFT):
            leave(tall)
    with nothing_tall_leaves(LEFT):
        on_host(tall.T @ tall)
