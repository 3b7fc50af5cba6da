"""Features in tables: what they may look like, and the numbers that are made of them."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.side.learnt import new_traits
from rankfold.estimators.completion.side.tables import Encoding, Table, given_table
from rankfold.estimators.completion.side.traits import MOST, Traits, _Standardised

NAMES = np.array(["ann", "bob", "cyd"])


def given(features, labels=None, axis=Axis.ROW, X=None):
    return given_table(features, axis, X, labels)


def numbers(features, **options):
    table = given(features, **options)
    return Encoding.of(table).numbers(table, "row_features")


@pytest.mark.parametrize(
    ("features", "due"),
    [
        (np.array([1, 2]), [[1], [2]]),
        (np.array([[1.5], [2.5]], np.float32), [[1.5], [2.5]]),
        (np.array([[True], [False]]), [[1], [0]]),
        (np.array([[1.0, np.nan]]), [[1, np.nan]]),
        (np.array([["a", "x"], ["b", "x"]]), [[1, 0, 1], [0, 1, 1]]),
        (pd.DataFrame({"a": [1, 2], "b": ["x", None]}), [[1, 1], [2, np.nan]]),
        (pd.DataFrame({"a": pd.array([1, None], dtype="object")}), [[1], [np.nan]]),
        (pd.DataFrame({"a": pd.array([2, None], dtype="Int64")}), [[2], [np.nan]]),
        (pd.DataFrame({"a": pd.array([None, None], dtype="object")}), np.empty((2, 0))),
        (pd.DataFrame({"a": [2, "x", None]}), [[1, 0], [0, 1], [np.nan, np.nan]]),
        (pd.DataFrame({"a": [Decimal("1.5"), None]}), [[1.5], [np.nan]]),
        (pd.DataFrame({"a": [True, None], "b": [1, 2]}, dtype=object), [[1, 1], [np.nan, 2]]),
        (pa.table({"b": [0.5, 1.5], "a": ["y", "x"]}), [[0.5, 0, 1], [1.5, 1, 0]]),
    ],
)
def test_columns_become_numbers_and_text_a_number_for_each_category(features, due):
    found = numbers(features)
    np.testing.assert_array_equal(found, np.array(due, float))
    assert found.dtype == np.float64  # what is made of them is as exact as that, however they are kept


def test_numbers_where_categories_were_are_none_of_them():
    encoding = Encoding.of(Table(None, None, [np.array(["a", "b"]), np.array([1.0, 2.0])]))
    found = encoding.numbers(Table(None, None, np.array([[5.0, 7.0]])), "row_features")
    np.testing.assert_array_equal(found, [[np.nan, np.nan, 7.0]])


def test_columns_are_found_by_name_and_else_are_as_many():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    encoding = Encoding.of(given(frame))
    turned = given(frame[["b", "a"]].assign(c=9.0))
    np.testing.assert_array_equal(encoding.numbers(turned, "it"), frame)
    np.testing.assert_array_equal(encoding.numbers(given(frame.to_numpy()), "it"), frame)
    for features, message in (
        (frame[["a"]], "it has no column 'b', which the model was fitted with"),
        (np.ones((2, 3)), "it has 3 columns, and the model was fitted with 2"),
        (np.array([["a"], ["b"]]), "it has 1 columns, and the model was fitted with 2"),
        (sparse.csr_array(np.ones((2, 3))), "it has 3 columns, and the model was fitted with 2"),
    ):
        with pytest.raises(ValueError, match=message):
            encoding.numbers(given(features), "it")


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (pd.DataFrame(index=[0, 1]), "row_features has no columns"),
        (np.ones((2, 0)), "row_features must have a line for each row and a column for each feature"),
        (np.ones((2, 2, 2)), "row_features must have a line for each row"),
        (np.array([[1j]]), "row_features must hold numbers, or strings for categories; got complex128"),
        (np.array([[np.inf]]), "features are finite, or NaN where they are missing"),
        (sparse.csr_array([[np.nan]]), "row_features is sparse, and holds NaN or infinity"),
        (sparse.csr_array([[1.0, np.nan]]), "row_features is sparse, and holds NaN or infinity"),
        (sparse.csr_array([[-np.inf]]), "row_features is sparse, and holds NaN or infinity"),
        ((np.array([0, 1]), np.ones((3, 1))), "row_features has 3 lines, and there are 2 labels for them"),
        ((np.array([0, 0]), np.ones((2, 1))), "the labels of row_features must differ from each other"),
        ((NAMES, np.ones((3, 1))), "the entries hold positions, and row_features has labels like ann"),
    ],
)
def test_what_are_no_features_is_named(features, message):
    with pytest.raises((ValueError, TypeError), match=message):
        given(features)


def test_lines_have_the_labels_that_they_are_given_or_stand_for():
    features = np.ones((3, 1))
    assert given(features).labels is None
    assert given((np.array([2, 0, 1]), features)).labels.tolist() == [2, 0, 1]
    assert given((NAMES, features), NAMES[:2]).labels.tolist() == NAMES.tolist()
    assert given(pd.DataFrame(features, index=NAMES), NAMES[:2]).labels.tolist() == NAMES.tolist()
    assert given(features, np.array([7, 5])).labels.tolist() == [0, 1, 2]  # integers may be positions
    with pytest.raises(ValueError, match="col_features must say which line belongs to which label, like ann"):
        given(features, NAMES, Axis.COLUMN)


def test_features_of_new_lines_have_labels():
    encoding = Encoding(None, None, 1)
    mine = type("Mine", (), {"implicit": False, "traits": Traits(encoding, np.zeros(1), np.eye(1))})()
    labels, Z = new_traits((NAMES, np.arange(3.0)), Axis.ROW, NAMES, mine)
    assert labels.tolist() == NAMES.tolist()
    assert Z.ravel().tolist() == [0, 1, 2]
    labels, Z = new_traits(np.arange(2.0), Axis.ROW, np.array([7]), mine)
    assert labels.tolist() == [0, 1]
    with pytest.raises(ValueError, match="this model knows rows by position: row_features of all of them"):
        new_traits(np.arange(2.0), Axis.ROW, None, mine)
    mine.implicit = True
    for none in (mine, None):
        with pytest.raises(ValueError, match="this model was fitted without col_features"):
            new_traits(np.arange(2.0), Axis.COLUMN, NAMES, none)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_products_with_standardised_features_are_those_of_the_dense_matrix(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 4)) * (rng.uniform(size=(6, 4)) < 0.7)
    given = X.copy()
    if kind is np.asarray:
        given[0, 0] = np.nan
    centre, scale = rng.standard_normal(4), rng.uniform(1, 2, 4)
    dense = np.where(np.isnan(given), 0.0, given - centre) * scale
    S = _Standardised(kind(given), centre, scale)
    assert S.shape == (6, 4)
    U, V = rng.standard_normal((6, 2)), rng.standard_normal((4, 2))
    np.testing.assert_allclose(S @ V, dense @ V, atol=1e-12)
    np.testing.assert_allclose(S.transposed_times(U), dense.T @ U, atol=1e-12)


@pytest.mark.parametrize("features", [MOST, MOST + 1])
def test_of_many_features_directions_are_kept(features):
    """Up to so many, each is a trait; of more, as many as tell lines apart."""
    X = np.random.default_rng(0).standard_normal((40, features))
    made, Z = Traits.of(given(X), "row_features")
    assert Z.shape == (
        40,
        MOST if features == MOST else 39,
    )  # one direction less than lines, about their mean
    np.testing.assert_allclose(made(given(X), "row_features"), Z)
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(Z @ Z.T, standard @ standard.T, atol=1e-9 * features)


def test_features_that_never_vary_make_no_traits():
    some = np.arange(5.0)
    X = np.column_stack([some, np.full(5, 3.0), 1e9 + 1e-3 * some, np.zeros(5), 1e-12 * some])
    Z = Traits.of(given(X), "it")[1]
    assert Z.shape == (5, 2)
    np.testing.assert_allclose(Z[:, 1], Z[:, 0], atol=1e-12)  # in whatever unit
    assert Traits.of(given(sparse.csr_array(X)), "it")[1].shape[1] >= 1


@pytest.mark.parametrize("unit", [1e-3, 1.0])
def test_of_many_lines_too_directions_are_those_in_which_they_differ(unit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((MOST + 20, 4)) @ rng.standard_normal((4, MOST + 10))
    X = unit * (X + 3e-10 * rng.standard_normal(X.shape))  # and next to nothing in all others
    Z = Traits.of(given(X), "row_features")[1]
    assert Z.shape == (MOST + 20, 4)
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(Z @ Z.T, standard @ standard.T, atol=1e-3 * MOST)


def test_features_that_one_line_or_none_has_make_no_traits():
    some = np.array([1.0, 4.0, np.nan, 3.0, 0.0])
    one, none = np.array([np.nan, 7.0, np.nan, np.nan, np.nan]), np.full(5, np.nan)
    made, Z = Traits.of(given(np.column_stack([one, some, none])), "it")
    known = np.array([1.0, 4.0, 3.0, 0.0])
    np.testing.assert_allclose(Z[[0, 1, 3, 4], 0], (known - 2.0) / known.std())
    assert Z.shape == (5, 1)
    assert Z[2, 0] == 0.0
    np.testing.assert_allclose(made(given(np.array([[9.0, 2.0, 9.0]])), "it"), [[0.0]], atol=1e-15)
