"""What rows and columns are called changes nothing but names; `shape` says that they are positions."""

import functools
import pickle
import uuid

import numpy as np
import pandas as pd
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score

import rankfold as rf
from estimators.completion.rating_data import model, ratings
from rankfold.estimators.completion import entries
from rankfold.estimators.completion.entries import completion_of, refuse_without_room

X, Y, _ = ratings((12, 9), 1, 70)
ROWS, COLS = np.unique(X[:, 0]), np.unique(X[:, 1])
LARGE = [0, 7, 10**9, 10**12, 2**53 + 1, 2**60, 2**62, 2**63 - 4, 2**63 - 3, 2**63 - 2, 2**63 - 1]


def fitted(pairs, y=Y, **options):
    """Without offsets, where they do not matter: their shrinkage is most of the work."""
    return model(**{"rank": 1, "regularization": 1.0, "bias": False} | options).fit(pairs, y)


@functools.cache
def of_numbers():
    """The model whose labels are the numbers in X."""
    return fitted(X)


def renamed(rows, cols, X=X):
    """The pairs as a list, with the labels of rows and columns in the place of their numbers."""
    return [(rows[i], cols[j]) for i, j in X.tolist()]


def test_gaps_signs_and_size_of_integers_cost_nothing():
    expected = fitted(X, bias=True).predict(X)
    signed, unsigned = [-(2**63), *LARGE], [2**63 + 5 * k for k in range(9)]
    found = fitted(renamed(signed, unsigned), bias=True)
    np.testing.assert_array_equal(found.predict(renamed(signed, unsigned)), expected)
    assert found.shape_ == (12, 9)
    assert found.row_labels_.tolist() == signed
    assert found.col_labels_.tolist() == unsigned
    mean, b, c = found.biases_
    unknown = [(5, unsigned[3]), (2**63, unsigned[3]), (signed[4], 2**63 + 1)]
    np.testing.assert_allclose(found.predict(unknown), [mean + c[3], mean + c[3], mean + b[4]])
    np.testing.assert_allclose(found.predict([(-7, -7), (signed[0], 7)]), [mean, mean + b[0]])
    best = found.recommend(signed, n=9)
    assert set(best.rows.tolist()) <= set(signed)
    assert set(best.cols.tolist()) <= set(unsigned)
    assert set(found.similar([-(2**63)], n=11, side="row").neighbours.tolist()) == set(LARGE)


ids = {
    "integers": st.integers(-(2**63), 2**63 - 1),
    "close": st.integers(-20, 20),
    "unsigned": st.integers(0, 2**64 - 1),
    "strings": st.text(max_size=4),
    "uuids": st.integers(0, 2**128 - 1).map(lambda number: str(uuid.UUID(int=number))),
}


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_names_in_the_same_order_change_no_bit(data):
    rows, cols = (
        sorted(data.draw(st.sets(data.draw(st.sampled_from(list(ids.values()))), min_size=d, max_size=d)))
        for d in (12, 9)
    )
    found, expected = fitted(renamed(rows, cols)), of_numbers()
    assert found.row_labels_.tolist() == rows
    np.testing.assert_array_equal(found.predict(renamed(rows, cols)), expected.predict(X))
    best, numbers = found.recommend(rows, n=2), expected.recommend(np.arange(12), n=2)
    assert best.cols.tolist() == [cols[j] for j in numbers.cols]


@settings(max_examples=10, deadline=None)
@given(rows=st.permutations(range(12)), cols=st.permutations(range(9)))
def test_names_in_another_order_change_rounding_only(rows, cols):
    # Offsets would be shrunk by what entries held out say, which are others in another order.
    options = {"tol": 1e-14}
    found = fitted(renamed(rows, cols), **options)
    np.testing.assert_allclose(found.predict(renamed(rows, cols)), fitted(X, **options).predict(X), rtol=1e-5)


@pytest.mark.parametrize(
    "form",
    [
        *(lambda X, t=t: X.astype(t) for t in ("i1", "u2", "i4", ">i4", "u8", ">u8", "f4", "f8", object)),
        np.asfortranarray,
        lambda X: [tuple(pair) for pair in X],
        lambda X: pd.DataFrame(X).astype("category"),
        lambda X: pd.DataFrame(X).astype("Int64"),
        lambda X: pd.DataFrame(X).astype("int64[pyarrow]"),
        polars.DataFrame,
    ],
)
def test_equal_integers_are_equal_labels_whatever_their_array(form):
    found, expected = fitted(form(X)), of_numbers()
    for mine, theirs in ((found.row_labels_, ROWS), (found.col_labels_, COLS)):
        assert mine.dtype == np.int64
        assert mine.tolist() == theirs.tolist()
    assert found.data_fingerprint_ == expected.data_fingerprint_
    np.testing.assert_array_equal(expected.predict(X), found.predict(form(X)))


@pytest.mark.parametrize(
    "form",
    [
        pd.DataFrame,
        lambda names: pd.DataFrame(names).astype("string[pyarrow]"),
        lambda names: pd.DataFrame(names).astype("category"),
        lambda names: polars.DataFrame(names, orient="row"),
        lambda names: np.array(names, dtype=object),
        lambda names: np.array(names, dtype=np.dtypes.StringDType()),
    ],
)
def test_strings_are_exact_in_every_table(form):
    rows = ["a", "a\0", "a\0\0", "ä", *"bcdefgh", "z" * 300]
    names = renamed(sorted(rows), list("123456789"))
    found = fitted(form(names))
    assert found.row_labels_.tolist() == sorted(rows)
    np.testing.assert_array_equal(found.predict(form(names)), of_numbers().predict(X))
    np.testing.assert_array_equal(found.recommend("a\0").cols, found.recommend(["a\0"]).cols)
    assert found.data_fingerprint_ == fitted(form(names)).data_fingerprint_


def test_times_are_labels():
    days = np.datetime64("2024-02-28") + np.arange(12).astype("m8[D]")
    pairs = pd.DataFrame({"day": days[X[:, 0]], "item": X[:, 1]})
    found = fitted(pairs)
    assert found.row_labels_.astype("M8[D]").tolist() == days.tolist()
    np.testing.assert_array_equal(found.predict(pairs), of_numbers().predict(X))
    assert found.recommend(days[:1].astype("M8[s]"), n=1).rows.astype("M8[D]") == days[0]
    with pytest.raises(KeyError, match="the row label '2030-01-01' is not in this model"):
        found.recommend(np.datetime64("2030-01-01"))
    with pytest.raises(TypeError, match=r"the row labels of this model are like '2024-02-28.*; got 3"):
        found.recommend(3)


@pytest.mark.parametrize(
    ("rows", "cols"),
    [
        ([-(2**63), *LARGE], [2**63 + k for k in range(9)]),
        (["a", "a\0", *"bcdefghijk"], np.datetime64("2024-02-28") + np.arange(9).astype("m8[D]")),
    ],
)
def test_labels_are_kept_in_files_and_pickles(tmp_path, rows, cols):
    pairs = pd.DataFrame({"r": [rows[i] for i in X[:, 0]], "c": np.array(cols)[X[:, 1]]})
    found = fitted(pairs)
    rf.save(found, tmp_path / "model")
    for loaded in (rf.load(tmp_path / "model"), pickle.loads(pickle.dumps(found))):
        for mine, theirs in zip(labels_of(loaded), labels_of(found), strict=True):
            assert mine.dtype == theirs.dtype
            assert mine.tolist() == theirs.tolist()
        np.testing.assert_array_equal(loaded.predict(pairs), found.predict(pairs))
        np.testing.assert_array_equal(loaded.recommend(rows[1]).cols, found.recommend(rows[1]).cols)


def labels_of(found):
    return found.row_labels_, found.col_labels_


def test_positions_are_those_of_a_matrix_with_a_shape():
    found = fitted(X, shape=(14, 11), bias=True)
    assert found.shape_ == (14, 11)
    assert labels_of(found) == (None, None)
    mean, _, c = found.biases_
    np.testing.assert_allclose(found.predict([(13, 3), (13, 10)]), [mean + c[3], mean])
    for bad, message in (((14, 0), "0 to 13"), ((-1, 0), "0 to 13"), ((0, 11), "0 to 10")):
        side = int(bad[0] == 0)
        match = rf"X\[1, {side}\] is {bad[side]}: .* positions here, counted from {message}; .*shape="
        for call in (found.predict, lambda pairs: found.partial_fit(pairs, [1.0, 2.0])):
            with pytest.raises(ValueError, match=match):
                call([(0, 0), bad])
        with pytest.raises(ValueError, match=match):
            fitted([(0, 0), bad], [1.0, 2.0], shape=(14, 11))
    with pytest.raises(ValueError, match=r"rows\[0\] is 14"):
        found.recommend(14)
    assert found.recommend([]).cols.size == 0


@pytest.mark.parametrize("shape", [(3,), (3, 0), "ab", (3.5, 2), 5])
def test_a_shape_is_two_positive_integers(shape):
    with pytest.raises(ValueError, match="shape must be two positive integers"):
        fitted([(0, 0)], [1.0], shape=shape)


def test_absurd_shapes_are_refused_with_the_numbers():
    vast = (10**15, 10**14)
    message = (
        r"1,000,000,000,000,000 × 100,000,000,000,000 at rank 1 takes at least 44,000,000 GB.*has \d+ GB"
    )
    with pytest.raises(ValueError, match=message):
        fitted([(0, 0), (1, 1)], [1.0, 2.0], shape=vast)
    one = np.arange(2), np.arange(2), np.ones(2)
    with pytest.raises(ValueError, match=message):
        model(rank=1).fit(rf.data.Triples(*one, vast))
    with pytest.raises(ValueError, match=r"shape=\(2, 3\) is for pairs of positions; .* shape \(2, 2\)"):
        model(rank=1, shape=(2, 3)).fit(rf.data.Triples(*one, (2, 2)))
    with pytest.raises(ValueError, match=r"these Triples have labels"):
        model(rank=1, shape=(2, 2)).fit(rf.data.Triples(*one, (2, 2), np.array([3, 4])))


@pytest.mark.parametrize(("rank", "counted"), [(2, 2), (np.int64(3), 3), (99, 3), ("auto", 1)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_shape_is_refused_from_the_first_byte_too_much(monkeypatch, rank, counted, dtype):
    """Of factors, a gradient and a direction: three numbers for each line and pair, 16 bytes beside."""
    shape, size = (3, 40), np.dtype(dtype).itemsize
    for some, fewer in (
        (counted, lambda: refuse_without_room(shape, rank, dtype)),
        (1, lambda: cost(shape, dtype)),
    ):
        needed = 43 * (3 * some * size + 16)
        monkeypatch.setattr(entries, "machine_memory", lambda needed=needed: float(needed))
        fewer()
        monkeypatch.setattr(entries, "machine_memory", lambda needed=needed: float(needed - 1))
        with pytest.raises(ValueError, match=f"a matrix of 3 × 40 at rank {some} takes at least 0 GB"):
            fewer()


def cost(shape, dtype):
    return completion_of(
        rf.data.Triples(np.arange(2), np.arange(2), np.ones(2), shape), None, "square", dtype
    )


def test_labels_of_triples_must_differ_and_be_labels():
    one = np.arange(3), np.arange(3), np.ones(3), (3, 3)
    with pytest.raises(ValueError, match=r"col_labels\[0\] and col_labels\[2\] are both 5"):
        model(rank=1).fit(rf.data.Triples(*one, None, np.array([5, 4, 5])))
    with pytest.raises(ValueError, match=r"row_labels\[1\] is None"):
        model(rank=1).fit(rf.data.Triples(*one, np.array(["a", None, "b"], dtype=object)))


def test_columns_without_entries_are_never_returned():
    y = Y - Y.max() - 5  # every known column is predicted below the mean of nothing
    used = X[:, 1] != 4
    for options in ({}, {"bias": True}):
        found = fitted(X[used], y[used], shape=(12, 11), **options)
        folded = found.fold_in([(77, 3), (77, 2)], [-9.0, -9.0])
        for best in (found.recommend(np.arange(12), n=11, exclude_seen=False), folded.recommend(77, n=11)):
            assert not {4, 9, 10} & set(best.cols.tolist())
        assert not {4, 9, 10} & set(found.similar([3, 4], n=11).neighbours.tolist())
        assert len(set(found.recommend(0, n=11, exclude_seen=False).cols)) == 8
        found.partial_fit([(0, 4), (3, 9)], [-1.0, -2.0])
        assert set(found.recommend(1, n=11, exclude_seen=False).cols.tolist()) == set(range(10))
        assert found.counts_[1].tolist() == [*np.bincount(X[used, 1]) + np.eye(9, dtype=int)[4], 1, 0]


@pytest.mark.parametrize("options", [{}, {"shape": (12, 9)}])
def test_one_new_id_makes_one_new_row(options):
    found = fitted(X, **options)
    folded = found.fold_in([(10**12, 0), (10**12, 3), (-4, 1)], [1.0, 2.0, 3.0])
    assert folded.shape_ == (2, 9)
    assert folded.row_labels_.tolist() == [-4, 10**12]
    assert folded.counts_[0].tolist() == [1, 2]
    assert folded.predict([(10**12, 0)]) != folded.predict([(5, 0)])
    if not options:
        found.partial_fit([(10**12, -(2**40))], [4.0])
        assert found.shape_ == (13, 10)
        assert found.row_labels_[-1] == 10**12


def test_new_labels_beyond_64_signed_bits():
    found = fitted(X).partial_fit([(2**63 + 1, 3)], [4.0])
    assert found.row_labels_.tolist() == [*range(12), 2**63 + 1]
    with pytest.raises(ValueError, match="the labels -3 and 9223372036854775809 of one side do not fit"):
        found.partial_fit([(-3, 3)], [4.0])


def test_ids_that_a_fold_lacks_get_the_fallback():
    pairs = np.array(renamed([-(2**63), *LARGE], [10**k for k in range(9)]))
    scores = cross_val_score(
        model(rank=1, regularization=1.0, bias=False), pairs, Y, cv=35
    )  # some folds lack a row
    assert np.isfinite(scores).all()
