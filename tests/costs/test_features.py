"""Features of rows and columns as costs hold them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import rankfold as rf
from costs.suite import close, factors
from rankfold.costs.mapped import Features, Mapped


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("given", "held"),
    [(np.float32, np.float32), (np.float64, np.float64), (np.int32, np.float64), (np.bool_, np.float64)],
)
def test_single_precision_stays_and_all_else_is_double(wrap, given, held):
    features = Features.checked("X", wrap(np.eye(3, 2, dtype=given)))
    assert features.matrix.dtype == held
    assert features.size == 2
    assert features.times(np.ones((2, 1), held)).dtype == held


def test_a_constant_is_one_more_feature_on_a_gpu_too():
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    from rankfold.costs.features_on_gpu import TensorFeatures

    X = np.random.default_rng(0).standard_normal((4, 2))
    for held in (Features(X, 2).with_constant(), TensorFeatures(torch.as_tensor(X), 2).with_constant()):
        assert held.size == 3
        np.testing.assert_array_equal(held.matrix, np.column_stack([X, np.ones(4)]))


def drawn(shape, seed=0):
    """Of rank three at most, some entries zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    X[:, 0] = 0.0
    return X


FORMS = {"dense": np.asarray, "sparse": sparse.csr_array}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5), (2, 6)])
def test_a_spectrum_has_no_values_that_are_zero(form, shape):
    X = drawn(shape)
    P, d, lift = Features.checked("X", form(X)).spectrum
    rank = np.linalg.matrix_rank(X)
    assert d.shape == (rank,)
    assert_allclose(np.sort(d), np.sort(np.linalg.svd(X)[1])[-rank:], rtol=1e-8)
    assert_allclose(P.T @ P, np.eye(rank), atol=1e-8)
    Q = lift(np.eye(rank))
    assert_allclose(Q.T @ Q, np.eye(rank), atol=1e-7)
    assert_allclose((P * d) @ Q.T, X, atol=1e-7)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_features_of_several_things_of_each_entity(form):
    X, rng = drawn((5, 4)), np.random.default_rng(1)
    features = Features.checked("X", form(X)).repeated(3)
    dense = np.kron(X, np.eye(3))
    L, A = rng.standard_normal((12, 2)), rng.standard_normal((15, 2))
    assert features.size == 12
    assert_allclose(features.times(L), dense @ L, atol=1e-12)
    assert_allclose(features.transposed_times(A), dense.T @ A, atol=1e-12)
    assert features.times(L).flags.c_contiguous


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_features_of_some_entities_and_of_one_more_feature(form):
    X = drawn((5, 4))
    features = Features.checked("X", form(X))
    for made, due in (
        (features.take(np.array([3, 0, 3])), X[[3, 0, 3]]),
        (features.with_constant(), np.hstack([X, np.ones((5, 1))])),
    ):
        held = made.matrix.toarray() if sparse.issparse(made.matrix) else made.matrix
        assert_array_equal(held, due)
        assert made.size == due.shape[1]
        assert sparse.issparse(made.matrix) == (form is sparse.csr_array)
        L = np.ones((due.shape[1], 2))
        assert_allclose(made.times(L), due @ L, rtol=1e-12, atol=1e-12)
    single = Features.checked("X", form(X.astype(np.float32)))
    assert single.with_constant().matrix.dtype == np.float32


def test_without_features_entities_are_features_themselves():
    L = np.ones((3, 2))
    plain = Features(None, 3)
    assert plain.times(L) is L
    assert plain.transposed_times(L) is L


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (np.ones((0, 2)), ValueError, r"X must be a matrix with a row per entity .* got \(0, 2\)"),
        (np.ones((2, 2), complex), TypeError, "X must hold real numbers; got complex128"),
        ([[1.0, np.inf], [0, 1]], ValueError, "X has entries that are NaN or infinite: impute or drop"),
        ([[1.0, np.nan], [0, 1]], ValueError, "X has entries that are NaN or infinite: impute or drop"),
        ([[1.0, 1e70], [0, 1]], ValueError, "X.* is 1e.70, and in float64"),
        (
            np.float32([[1e-30, 0], [0, 0]]),
            ValueError,
            "X holds no number beyond 1e-30 in size, and in float32",
        ),
    ],
)
def test_features_that_are_refused(form, X, error, words):
    with pytest.raises(error, match=words):
        Features.checked("X", form(np.asarray(X)))


def test_a_cost_of_features_computes_in_the_better_precision_and_answers_in_that_of_its_factors():
    X, Z = np.random.default_rng(0).standard_normal((2, 6, 3))
    core = rf.Completion.from_dense(np.arange(36.0).reshape(6, 6) / 9)
    L, R = factors((3, 3), 2, count=1)
    cost = Mapped(core, Features(X.astype(np.float32), 3), Features(Z, 3))
    exact = cost.evaluate(L, R)
    for dtype in (np.float32, np.float64):
        found = cost.evaluate(L.astype(dtype), R.astype(dtype))
        assert found.f_L.dtype == found.f_R.dtype == dtype
        close(found.f_L, exact.f_L, 1e-4)
        close(found.f_R, exact.f_R, 1e-4)
    assert (cost.shape, cost.quadratic, cost.nonnegative, cost.device) == ((3, 3), True, True, None)
    for wrong in (L[:-1], L[:, :1]):
        with pytest.raises(ValueError, match="of a 3x3 matrix"):
            cost.value(wrong, R)


def test_a_cost_of_features_stays_where_it_is_told_to():
    core = rf.Completion.from_dense(np.ones((2, 2)))
    cost = Mapped(core, Features(np.eye(2), 2), Features(None, 2))
    assert cost.on("cpu") is cost
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'auto', not 'gpu'"):
        cost.on("gpu")


def test_what_tells_costs_of_features_apart_is_of_the_data_and_of_the_features():
    core = rf.Completion.from_dense(np.arange(4.0).reshape(2, 2))
    one, two = (Mapped(core, Features(X, 2), Features(None, 2)) for X in (np.eye(2), np.eye(2)[::-1] * 3))
    assert set(core.fingerprint()) < set(one.fingerprint())
    assert {**one.fingerprint(), **core.fingerprint()} == one.fingerprint()
    assert one.fingerprint() != two.fingerprint()
