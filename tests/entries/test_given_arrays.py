"""What is said of arrays that are given: limits of size, masks, formats of sparse matrices."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from rankfold.entries import given_arrays
from rankfold.entries.given_arrays import (
    check_size,
    frozen,
    own_indices,
    own_numbers,
    own_sparse,
    plain,
    real_vector,
    unmasked,
    vector_of,
    with_holes,
)

LIMITS = {np.float64: (1e60, 1e-75), np.float32: (1e12, 1e-18)}


def masked(*shape):
    mask = np.zeros(shape, bool)
    mask[-1] = True
    return np.ma.MaskedArray(np.arange(np.prod(shape)).reshape(shape), mask)


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("check", [check_size, own_numbers])
def test_numbers_from_the_smallest_to_the_largest_are_taken(kind, sign, check):
    largest, smallest = LIMITS[kind]
    for size in (largest, smallest * 1.001, 1.0, 0.0):
        check("y", (sign * np.array([0.0, size, size / 3])).astype(kind))
    for factor, word in ((1.001 * largest, "overflow"), (0.999 * smallest, "vanish")):
        numbers = (sign * np.array([0.0, factor / 3, factor])).astype(kind)
        with pytest.raises(ValueError, match=f"{np.dtype(kind)} .* {word}: divide y by 1e"):
            check("y", numbers)


def test_the_smallest_number_that_is_taken_is_itself():
    check_size("y", np.array([0.0, 1e-75]))
    with pytest.raises(ValueError, match="vanish"):
        check_size("y", np.array([0.0, np.nextafter(1e-75, 0)]))


def test_numbers_are_measured_in_the_type_that_they_will_be_computed_in():
    numbers = np.array([1e30, 2.0])
    check_size("y", numbers)
    with pytest.raises(ValueError, match=r"y\[0\] is 1e\+30, and in float32 .* above 1e\+12 .* by 1e\+30"):
        check_size("y", numbers, np.float32)
    with pytest.raises(ValueError, match="in float64 products of numbers above"):
        check_size("y", np.array([10**80, 1], np.longdouble))
    check_size("y", np.array([1e30, 1], np.longdouble))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([1.0, np.nan, 1e70, 2.0], r"y\[1\] is nan \(NaN or infinity\)"),
        ([1.0, 1e70, -1e71, 2.0], r"y\[2\] is -1e\+71, and in float64"),
        ([[1.0, 2.0, 3.0], [4.0, -np.inf, 5.0]], r"y\[1, 1\] is -inf"),
        ([[1.0, 2.0, 3.0], [4.0, 5.0, 1e61]], r"y\[1, 2\] is 1e\+61"),
        ([3e-80, -7e-77], "y holds no number beyond 7e-77 in size, .* below 1e-75 vanish: divide y by 1e-77"),
    ],
)
def test_the_number_that_is_refused_is_named(numbers, words):
    numbers = np.array(numbers)
    with pytest.raises(ValueError, match=words):
        check_size("y", numbers)
    if numbers.ndim == 1:
        with pytest.raises(ValueError, match=words):
            own_numbers("y", numbers)


def test_holes_are_passed_over_but_nothing_else():
    check_size("y", np.array([np.nan, -3.0, np.nan]), holes=True)
    check_size("y", np.full(2, np.nan), holes=True)
    for numbers, words in (
        ([np.nan, -1e61, 2.0], r"y\[1\] is -1e\+61"),
        ([np.nan, 2.0, np.inf], r"y\[2\] is inf"),
        ([np.nan, -1e-80, 0.0], "no number beyond 1e-80"),
    ):
        with pytest.raises(ValueError, match=words):
            check_size("y", np.array(numbers), holes=True)
    with pytest.raises(ValueError, match=r"y\[0\] is nan"):
        check_size("y", np.array([np.nan, 2.0]))


def test_copies_of_numbers_are_of_the_type_that_was_asked_for():
    for given, kind in ((np.float32, np.float32), (np.float64, np.float64), (np.int8, np.float64)):
        numbers = np.array([1, 2, 3], given)
        own = own_numbers("y", numbers)
        assert own.dtype == kind
        assert not np.shares_memory(own, numbers)
        out = np.empty(3, np.float32)
        assert own_numbers("y", numbers, out) is out
        assert_array_equal(out, numbers)
        assert vector_of("y", numbers, 3).dtype == kind
    with pytest.raises(ValueError, match=r"y\[1\] is 1e\+20, and in float32"):
        own_numbers("y", np.array([1.0, 1e20]), np.empty(2, np.float32))
    with pytest.raises(ValueError, match="y must be a vector of 4 numbers, one per entry; got 3"):
        vector_of("y", np.ones(3), 4)


@pytest.mark.parametrize("block", [1, 2, 100])
def test_the_largest_of_all_blocks_counts(block, monkeypatch):
    monkeypatch.setattr(given_arrays, "BLOCK", block)
    assert own_numbers("y", np.array([2.0, 1e-90, 0.0])).tolist() == [2.0, 1e-90, 0.0]
    assert own_indices("rows", np.array([4, 0, 2], ">i8"), 5, np.uint32).tolist() == [4, 0, 2]
    assert own_indices("rows", [], 5, np.uint32).dtype == np.uint32


def test_masked_numbers_are_refused_or_become_holes():
    assert unmasked("y", given := np.arange(3.0)) is given
    clean = np.ma.MaskedArray(np.arange(3.0), False)
    assert type(unmasked("y", clean)) is np.ndarray
    with pytest.raises(ValueError, match=r"y\[3\] is masked, and so are 0 more: leave masked entries out"):
        unmasked("y", masked(4))
    with pytest.raises(ValueError, match=r"y\[1, 0\] is masked, and so are 2 more"):
        unmasked("y", masked(2, 3))
    assert_array_equal(with_holes(masked(2, 2)), [[0, 1], [np.nan, np.nan]])
    assert_array_equal(with_holes(masked(2, 2), -1), [[0, 1], [-1, -1]])
    assert with_holes(given) is given


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (np.array(3.0), ValueError, r"y must have one dimension or two; got shape \(\)"),
        (np.ones((2, 1, 1)), ValueError, r"one dimension or two; got shape \(2, 1, 1\)"),
        (np.ones(2, complex), ValueError, "Complex data not supported: y must be real numbers"),
        *(
            (np.zeros(2, kind), TypeError, "y must be real numbers; got")
            for kind in ("V4", "M8[s]", "m8[s]", "S3", "U3")
        ),
        (masked(3), ValueError, r"y\[2\] is masked"),
    ],
)
def test_arrays_that_scikit_learn_says_too_little_of(given, error, words):
    with pytest.raises(error, match=words):
        plain("y", given)


@pytest.mark.parametrize(
    "given", [np.ones(2), np.ones((2, 3), bool), np.array(["a", None], object), [[1]], "no", None]
)
def test_what_is_left_to_scikit_learn(given):
    assert plain("y", given) is given


@pytest.mark.parametrize("kind", ["V4", "M8[s]", "U3", "S3", "O", "c16"])
def test_a_vector_is_of_real_numbers(kind):
    with pytest.raises(TypeError, match="y must be real numbers; got"):
        real_vector("y", np.zeros(2, kind))
    for real in "?bBhefdg":
        assert real_vector("y", np.zeros(2, real)).dtype == real


MATRIX = np.array([[0.0, 2, 0], [3, 0, 4]])


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
@pytest.mark.parametrize("wanted", ["csr", "coo"])
def test_sparse_matrices_of_any_format_are_copied(form, wanted):
    given = sparse.coo_array(MATRIX).asformat(form)
    own = own_sparse("X", given, wanted)
    assert own.format == wanted
    assert_array_equal(own.toarray(), MATRIX)
    own.data[:] = 0
    assert_array_equal(given.toarray(), MATRIX)
    assert own_sparse("X", given).format == "csr"


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo"])
@pytest.mark.parametrize("wrong", [7, -1])
@pytest.mark.parametrize("wanted", ["csr", "coo"])
def test_sparse_matrices_whose_indices_were_changed_are_refused(form, wrong, wanted):
    given = sparse.coo_array(MATRIX).asformat(form)
    (given.coords[1] if form == "coo" else given.indices)[0] = wrong
    with pytest.raises(ValueError, match="X is not a valid sparse matrix: "):
        own_sparse("X", given, wanted)


def test_what_is_frozen_stays_so():
    array = np.arange(3.0)
    once = frozen(array)
    assert frozen(once) is once
    assert np.shares_memory(once, array)
    view = np.asarray(memoryview(bytearray(8)))
    assert view.flags.writeable
    assert not frozen(view).flags.writeable
