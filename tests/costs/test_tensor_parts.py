"""What costs on a GPU are made of, on tensors of any device: losses, features, types, and what is refused."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from rankfold.costs.mapped import Features

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from rankfold.costs import features_on_gpu as gpu  # noqa: E402
from rankfold.costs.losses_on_gpu import built_in, losses  # noqa: E402
from rankfold.entries.gpu_checks import (  # noqa: E402
    checked_tensors,
    refuse_other_rows,
    refuse_outside,
    tensor_of,
)

W = np.array([-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5])
DENSE = np.random.default_rng(0).standard_normal((5, 3))


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize(
    "loss", ["square", "logistic", "huber", "poisson", "squared_hinge", rf.Loss.huber(2.0)]
)
def test_losses_of_tensors_are_those_of_arrays(loss, y):
    """Where second derivatives jump, too."""
    loss = rf.Loss.named(loss) if isinstance(loss, str) else loss
    assert built_in(loss) is loss
    found = losses(loss, torch.as_tensor(W), torch.full((W.size,), y, dtype=torch.float64))
    for one, two in zip(found, loss(W, np.full(W.size, y)), strict=True):
        assert_allclose(one.numpy(), np.broadcast_to(two, W.shape), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_features_of_tensors_are_those_of_arrays(kind):
    plain, there = Features(DENSE, 3), gpu.TensorFeatures(torch.as_tensor(DENSE), 3)
    rng = np.random.default_rng(1)
    tolerance = 1e-6 if kind == torch.float32 else 1e-13
    for one, two in (
        (there, plain), (there.take(np.array([4, 0])), plain.take(np.array([4, 0]))),
        (there.with_constant(), plain.with_constant()), (there.repeated(2), plain.repeated(2)),
    ):  # fmt: skip
        assert one.size == two.size
        L = rng.standard_normal((two.size, 2))
        due = two.times(L)
        A = rng.standard_normal(due.shape)
        for found, exact in (
            (one.times(torch.as_tensor(L, dtype=kind)), due),
            (one.transposed_times(torch.as_tensor(A, dtype=kind)), two.transposed_times(A)),
        ):
            assert found.dtype == kind
            assert_allclose(found.numpy(), exact, rtol=tolerance, atol=tolerance)
    assert there._held(kind) is there._held(kind)
    assert there.on(torch.device("cpu")) is there
    identity, L = gpu.TensorFeatures(None, 3), torch.ones((3, 1))
    assert identity.on("cuda") is identity
    assert identity.times(L) is identity.transposed_times(L) is L
    P, d, lift = there.spectrum
    assert_allclose(((P * d) @ lift(torch.eye(3, dtype=torch.float64)).T).numpy(), DENSE, atol=1e-12)
    assert gpu.sent(None, 3, "cpu").matrix is None
    assert_array_equal(gpu.sent(DENSE[:, ::-1], 3, "cpu").matrix.numpy(), DENSE[:, ::-1])


def test_stored_features_are_not_brought_to_another_device():
    S = gpu.GpuSparseMatrix(None, (torch.ones(2), torch.ones(2)))
    there = gpu.TensorFeatures(S, 3)
    assert there.on(torch.device("cpu")) is there
    with pytest.raises(ValueError, match="these features are on cpu, not on meta"):
        there.on(torch.device("meta"))


def test_wide_blocks_are_multiplied_some_columns_at_a_time(monkeypatch):
    monkeypatch.setattr(gpu, "_WIDTH", 4)
    seen = []
    for columns in (3, 4, 9):
        block = torch.arange(2.0 * columns).reshape(2, columns)
        found = gpu._some_at_a_time(lambda part: (seen.append(part.shape[1]), 2 * part)[1], block)
        assert torch.equal(found, 2 * block)
    assert seen == [3, 4, 4, 4, 1]


@pytest.mark.parametrize(
    ("numbers", "holes", "words"),
    [
        ([1e60, 0.0], False, None), ([1e-75], False, None), ([0.0, 0.0], False, None),
        ([1.001e60], False, "overflow"), ([0.999e-75, 0], False, "vanish"), ([-2e60], False, "overflow"),
        ([np.nan, 1.0], True, None), ([np.nan, -2e60], True, "overflow"),
    ],
)  # fmt: skip
def test_sizes_of_tensors_are_those_of_arrays(numbers, holes, words):
    numbers = torch.tensor(numbers, dtype=torch.float64)
    if words is None:
        gpu.check_size_on_gpu("X", numbers, holes)
        return
    with pytest.raises(ValueError, match=f"{words}: divide X by"):
        gpu.check_size_on_gpu("X", numbers, holes)


def test_sizes_in_single_precision_have_limits_of_their_own():
    gpu.check_size_on_gpu("X", torch.tensor([1e12]))
    with pytest.raises(ValueError, match="in float32 products"):
        gpu.check_size_on_gpu("X", torch.tensor([1e13]))


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (torch.ones(3), ValueError, r"X must be a matrix with a row per entity .* got \(3,\)"),
        (torch.ones((3, 0)), ValueError, r"got \(3, 0\)"),
        (torch.ones((2, 2, 2)), ValueError, r"got \(2, 2, 2\)"),
        (torch.ones((2, 2), dtype=torch.complex64), TypeError, "X must hold real numbers"),
        (torch.full((2, 2), torch.inf), ValueError, "X has entries that are NaN or infinite"),
    ],
)
def test_tensors_that_are_no_features(X, error, words):
    with pytest.raises(error, match=words):
        gpu.checked_on_gpu("X", X)


def test_tensors_of_any_real_type_are_features():
    for kind, held in (
        (torch.float32, torch.float32),
        (torch.float16, torch.float64),
        (torch.int8, torch.float64),
    ):
        found = gpu.checked_on_gpu("X", torch.ones((4, 2), dtype=kind, requires_grad=kind == torch.float32))
        assert (found.matrix.dtype, found.size) == (held, 2)
        assert not found.matrix.requires_grad


@pytest.mark.parametrize(
    ("kinds", "held"), [(("f4", "f4"), "f4"), (("f4", "f8"), "f8"), (("i4", "f4"), "f8")]
)
def test_tensors_of_one_type_are_single_precision_if_all_are(kinds, held):
    arrays = [np.asfortranarray(np.ones((3, 2), kind)) for kind in kinds]
    found = gpu.tensors_of_one_type("cpu", *arrays, torch.as_tensor(arrays[0]))
    assert {str(each.dtype) for each in found} == {"torch.float32" if held == "f4" else "torch.float64"}
    assert all(each.is_contiguous() for each in found)


def test_answers_are_arrays_of_the_library_that_asked():
    import array_api_strict

    result = torch.arange(3.0)
    assert gpu.given_back(torch.ones(1), result) is result
    assert type(gpu.given_back(np.ones(1), result)) is np.ndarray
    example = array_api_strict.asarray(np.ones(1))
    found = gpu.given_back(example, result)
    assert type(found) is type(example)
    assert np.asarray(found).tolist() == [0.0, 1.0, 2.0]


def test_arrays_become_tensors_without_a_copy_unless_they_cannot_be_written_to():
    array = np.arange(3.0)
    assert np.shares_memory(tensor_of(array).numpy(), array)
    array.setflags(write=False)
    assert not np.shares_memory(tensor_of(array).numpy(), array)
    assert not tensor_of(torch.ones(2, requires_grad=True)).requires_grad


TRIPLES = {
    "rows": [0, 1, 2],
    "cols": [1, 0, 1],
    "values": [1.0, 2.0, 3.0],
    "weights": [1.0, 0.0, 2.0],
    "shape": (3, 2),
}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"shape": (2**31, 2)}, ValueError, r"on a GPU a side has at most 2147483647 lines; shape is"),
        ({"rows": [0, 1]}, ValueError, "one length: rows has 2, cols has 3, values has 3, weights has 3"),
        ({"rows": [], "cols": [], "values": [], "weights": None}, (ValueError, TypeError), "empty|integers"),
        (
            {"rows": [0, 3, 2]},
            ValueError,
            r"rows\[1\] is 3; out of range: must be from 0 to 2 for this shape",
        ),
        ({"cols": [0, 1, -1]}, ValueError, r"cols\[2\] is -1; out of range: must be from 0 to 1"),
        ({"rows": [0.0, 1.0, 2.0]}, TypeError, "rows must be integers; got torch.float64"),
        ({"cols": [True, False, True]}, TypeError, "cols must be integers; got torch.bool"),
        ({"cols": [1j, 1, 1]}, TypeError, "cols must be integers; got torch.complex128"),
        ({"values": [1j, 1, 1]}, TypeError, "values must be real numbers; got torch.complex128"),
        (
            {"values": [[1.0], [2.0], [3.0]]},
            ValueError,
            r"values must be one-dimensional; got shape \(3, 1\)",
        ),
        ({"values": [1.0, np.nan, np.inf]}, ValueError, r"values\[1\] is nan; all must be finite: leave"),
        (
            {"weights": [1.0, 1.0, -1e-9]},
            ValueError,
            r"weights\[2\] is -1e-09; weights must be finite and zero",
        ),
        ({"weights": [1.0, np.inf, 1.0]}, ValueError, r"weights\[1\] is inf; weights must be finite"),
    ],
)
@pytest.mark.parametrize("place", [None, "cpu"])
def test_triples_that_are_refused(change, error, words, place):
    checked_tensors(**TRIPLES, place=place)
    with pytest.raises(error, match=words):
        checked_tensors(**TRIPLES | change, place=place)


def test_triples_are_copied_to_their_place_in_types_of_their_own():
    values = torch.tensor([1.0, 2.0, 3.0])
    given = copy.copy(TRIPLES) | {"values": values, "rows": np.int8([0, 1, 2]), "shape": (2**31 - 1, 2)}
    rows, cols, held, weights = checked_tensors(**given, place="cpu")
    assert (rows.dtype, cols.dtype, held.dtype, weights.dtype) == (*[torch.int64] * 2, *[torch.float32] * 2)
    assert held.data_ptr() != values.data_ptr()
    assert checked_tensors(**given, place=None)[2].data_ptr() == values.data_ptr()
    assert checked_tensors(**given | {"weights": None}, place="cpu")[3] is None
    assert checked_tensors(**given | {"values": [1, 2, 3]}, place="cpu")[2].dtype == torch.float64


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("place", [None, "cpu"])
def test_places_may_be_of_any_integers_whatever_the_shape(kind, place):
    """Also where the type has no number as large as the shape."""
    rows, cols = np.array([0, 100, 7], kind), np.array([1, 44, 0], kind)
    for size in (101, 200, 300, 2**15 + 90, 2**16 + 9, 2**31 - 1):
        found = checked_tensors(rows, cols, [1.0, 2, 3], None, (size, size), place)
        assert [each.tolist() for each in found[:2]] == [[0, 100, 7], [1, 44, 0]]
        assert found[0].dtype in (torch.int32, torch.int64)
    with pytest.raises(ValueError, match=r"rows\[1\] is 100; out of range: must be from 0 to 99"):
        checked_tensors(rows, cols, [1.0, 2, 3], None, (100, 100), place)


def test_places_and_blocks_that_do_not_fit():
    refuse_outside("rows", torch.tensor([0, 4]), 5)
    refuse_other_rows(torch.ones((5, 2)), 5)
    for X in (torch.ones((4, 2)), torch.ones(5), torch.ones((5, 2, 1))):
        with pytest.raises(ValueError, match="a block of 5 rows is needed; got shape"):
            refuse_other_rows(X, 5)
    with pytest.raises(ValueError, match=r"rows\[1\] is 5; out of range"):
        refuse_outside("rows", torch.tensor([0, 5]), 5)
