"""What a completion cost asks of its store, and does without; and what it takes of tables."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy import sparse

import rankfold as rf
from costs.suite import all_close, close, factors
from entries.stores import draw, in_memory
from rankfold.costs import Completion
from rankfold.costs.base import Cost

ENTRIES = draw(3, 6, 5, 0.7)
SQUARE = rf.Loss.named("square")


class Passes:
    """A store with the five passes alone."""

    def __init__(self, **more):
        self.store = in_memory(ENTRIES)
        self.shape, self.size, self.dtype, self.weighted = (6, 5), self.store.size, np.dtype(float), False
        for name in (
            "evaluate",
            "value",
            "derivative",
            "polynomial",
            "gradient",
            "targets",
            "value_at_zero",
            "asarray",
        ):
            setattr(self, name, getattr(self.store, name))
        vars(self).update(more)


def test_a_store_of_the_five_passes_is_enough():
    cost, whole = Completion.from_observed(Passes()), Completion.from_observed(in_memory(ENTRIES))
    L, R, dL, dR = factors((6, 5), 2)
    assert cost.loss.is_square
    assert (cost.has_line_blocks, whole.has_line_blocks) == (False, True)
    assert (cost.places, cost.device, whole.device) == (None, None, None)
    all_close(cost.gauss_newton(L, R, dL, dR), whole.gauss_newton(L, R, dL, dR))
    all_close(cost.evaluate_ahead(L, R), whole.evaluate(L, R))
    for ask in (cost.line_blocks, cost.blocks_to_invert):
        with pytest.raises(TypeError, match="Completion knows no blocks of its second derivative"):
            ask(L, R)
    assert cost.fingerprint() == Cost.fingerprint(cost)
    assert set(whole.fingerprint()) == {*whole.observed.fingerprint, "loss"}


def test_what_a_store_has_beside_them_is_used():
    L, R = factors((6, 5), 2, count=1)
    ahead = Completion.from_observed(Passes(evaluate_ahead=lambda L, R, loss: (3.0, L, R)))
    assert ahead.evaluate_ahead(L, R).value == 3.0

    class Other(Completion):
        def evaluate(self, L, R):
            return 7.0, L, R

    other = Other.from_observed(ahead.store)
    assert type(other) is Other
    assert other.evaluate_ahead(L, R).value == 7.0  # its own
    unformed = Completion.from_observed(Passes(unformed_blocks=lambda L, R, loss: ("of rows", "of columns")))
    assert unformed.blocks_to_invert(L, R) == ("of rows", "of columns")
    assert Completion.from_observed(Passes(places=("here", "there"))).places == ("here", "there")
    assert Completion.from_observed(Passes(device="of slabs")).device == "of slabs"
    there = Completion.from_observed(Passes(on_device=True, device="wrong", asarray=torch.as_tensor))
    assert there.device == torch.device("cpu")


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("huber", rf.Loss.huber(1.0), True),
        ("huber", rf.Loss.huber(2.0), False),
        ("huber", "square", False),
    ],
)
def test_losses_are_told_apart(one, two, same):
    prints = [rf.Completion([0], [0], [1.0], (1, 1), loss=loss).fingerprint()["loss"] for loss in (one, two)]
    assert (prints[0] == prints[1]) == same


def test_entries_of_tensors_in_memory_are_in_memory():
    triples = [0, 1], [0, 1], torch.tensor([1.0, 0.0], dtype=torch.float64)
    for device in (None, "cpu", torch.device("cpu")):
        cost = rf.Completion(*triples, (2, 2), device=device)
        assert cost.observed.dtype == np.float64
        with pytest.raises(ValueError, match=r"values\[1\] is 2.0, but the logistic loss wants"):
            rf.Completion([0, 1], [0, 1], [1.0, 2.0], (2, 2), loss="logistic", device=device)
    assert rf.Completion(*triples, (2, 2), storage="float32").observed.storage == np.float32


def test_how_entries_on_a_gpu_are_held_is_not_chosen():
    for device in ("cuda", torch.device("cuda")):
        with pytest.raises(
            ValueError, match="storage is for entries in memory: leave it out with device='cuda'"
        ):
            rf.Completion([0], [0], [1.0], (1, 1), device=device, storage="float32")


@pytest.mark.parametrize(
    ("array", "error", "words"),
    [
        (np.ones((2, 2, 1)), ValueError, r"array must be two-dimensional; got shape \(2, 2, 1\)"),
        (np.ones((2, 2), complex), TypeError, "array must hold real numbers; got complex128"),
        ([["a"]], TypeError, "array must hold real numbers; got <U1"),
        (np.ones((0, 3)), ValueError, r"array is empty: it has the shape \(0, 3\)"),
    ],
)
def test_tables_that_are_refused(array, error, words):
    with pytest.raises(error, match=words):
        Completion.from_dense(array)


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.float32])
def test_tables_of_any_real_numbers(kind):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(kind)
    cost = Completion.from_dense(np.ma.MaskedArray(array, array == 2), loss="logistic")
    assert (cost.shape, cost.observed.size) == ((2, 3), 6)
    assert_array_equal(cost.observed.by_row.data[:, 0], array.ravel())


def test_a_frame_is_as_large_as_its_last_row_and_column_unless_it_is_told():
    frame = pd.DataFrame({"row": [0, 1, 2], "col": [0, 1, 0], "value": [1.0, 2.0, 3.0], "row2": [9, 9, 9]})
    assert Completion.from_frame(frame).shape == (3, 2)
    others = pd.DataFrame({"a": [0, 1], "b": [3, 0], "c": [5.0, 6.0], "d": [7, 7]})
    with pytest.warns(UserWarning, match="2 of 4 columns"):
        cost = Completion.from_frame(others)
    assert cost.shape == (2, 4)
    close(cost.value_at_zero, (25 + 36) / 2)
    with pytest.raises(ValueError, match=r"rows\[1\] is -2, out of range"):
        Completion.from_frame(pd.DataFrame({"row": [0, -2], "col": [0, 0], "value": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=r"cols\[0\] is -1, out of range"):
        Completion.from_frame(pd.DataFrame({"row": [0, 0], "col": [-1, -1], "value": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=r"rows\[0\] is -3, out of range"):
        Completion.from_frame(pd.DataFrame({"row": [-3], "col": [0], "value": [1.0]}))
    assert Completion.from_frame(pd.DataFrame({"row": [0], "col": [0], "value": [1.0]})).shape == (1, 1)
    for name in ("row", "col"):
        with pytest.raises(TypeError, match=f"{name}s must be integers"):
            Completion.from_frame(frame.assign(**{name: [0.5, 1.0, 0.0]}))
    with pytest.raises(ValueError, match=r"got \['row', 'value'\]"):
        Completion.from_frame(frame[["row", "value"]])


def test_options_are_those_of_triples_whatever_the_source():
    frame = pd.DataFrame({"row": [0, 1], "col": [0, 1], "value": [1.0, 0.0]})
    matrix = sparse.csr_array(([1.0, 0.0], ([0, 1], [0, 1])))
    options = {"loss": "logistic", "weights": [3.0, 5.0]}
    for cost in (
        Completion.from_frame(frame, **options),
        Completion.from_frame(frame, shape=(2, 2), **options),
        Completion.from_sparse(matrix, **options),
        Completion.from_dense([[1.0, np.nan], [np.nan, 0.0]], **options),
        Completion.from_triples(
            SimpleNamespace(rows=[0, 1], cols=[0, 1], values=[1.0, 0.0], shape=(2, 2)), **options
        ),
    ):
        close(cost.value_at_zero, 4 * np.log(2))


def test_factors_without_columns_are_the_zero_matrix():
    cost = Completion.from_observed(in_memory(ENTRIES))
    zeros = np.zeros((6, 1)), np.zeros((5, 1))
    for L, R in (np.empty((6, 0)), np.empty((5, 0))), (torch.empty((6, 0)), torch.empty((5, 0))):
        S = cost.gradient_matrix(L, R)
        close(S @ np.eye(5), cost.gradient_matrix(*zeros) @ np.eye(5), 1e-6)
        assert S.dtype == (np.float32 if isinstance(L, torch.Tensor) else np.float64)


@pytest.mark.parametrize("rank", [0, 6, -1, 1.5, "2", None])
def test_a_rank_is_an_integer_from_one_to_the_shorter_side(rank):
    with pytest.raises(ValueError, match=r"rank must be an integer from 1 to min\(shape\) = 5; got"):
        Completion.from_observed(in_memory(ENTRIES)).start(rank)


def test_seeds_make_other_starts_and_the_same_again():
    cost = Completion.from_observed(in_memory(draw(3, 60, 50, 0.3)))
    first, again, default, other = (
        cost.start(np.int64(2), 0), cost.start(2, seed=0), cost.start(2), cost.start(2, seed=1),
    )  # fmt: skip
    for one, two, three in zip(first, again, default, strict=True):
        assert_array_equal(one, two)
        assert_array_equal(one, three)
    assert (first[0] != other[0]).any()


def test_more_terms_than_three_are_refused_of_either_factor():
    cost = Completion.from_observed(in_memory(ENTRIES))
    L, R = factors((6, 5), 1, count=1)
    for Ls, Rs, words in (
        ([L] * 4, [R], "4 and 1"),
        ([L], [R] * 4, "1 and 4"),
        ([], [R], "0 and 1"),
        ([L], [], "1 and 0"),
    ):
        with pytest.raises(ValueError, match=f"one to three terms of each factor; got {words}"):
            cost.polynomial(Ls, Rs)


def test_a_sample_is_of_one_in_so_many_rows():
    seen = []
    store = SimpleNamespace(shape=(6, 5), size=10, sampled_entries=5, most_sampling=3)
    store.polynomial = lambda Ls, Rs, every: seen.append(every)
    cost = Completion.from_observed(store)
    for size in (9, 10, 14, 15, 100):
        store.size = size
        cost.sampled_polynomial((), ()) if size < 10 else cost.sampled_polynomial((0,), (0,))
    assert seen == [2, 2, 3, 3]
