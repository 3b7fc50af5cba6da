"""The entries that a model is fitted to: what they are called and must be, and what is noted of them."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import rankfold as rf
from rankfold.data.triples import Triples
from rankfold.distributed import spread_triples
from rankfold.estimators.completion import entries, fit_steps, spread_entries
from rankfold.estimators.completion.entries import (
    completion_of,
    machine_memory,
    named_entries,
    note_columns,
    training_entries,
    training_triples,
    warn_if_all_equal,
)

PAIRS, VALUES = [(5, 1), (3, 1), (5, 2)], [1.0, 2.0, 4.0]


def triples(shape=(2, 2), rows=None, cols=None, names=None, values=VALUES):
    places = np.array([1, 0, 1]), np.array([0, 0, 1])
    return Triples(*places, np.array(values), shape, rows, cols, names)


@pytest.mark.parametrize(
    ("columns", "y", "names"),
    [
        (["who", "what"], pd.Series(VALUES, name="stars"), ("who", "what", "stars")),
        (["who", "what"], pd.Series(VALUES), ("who", "what", "value")),
        (["who", "what"], pd.Series(VALUES, name=7), ("who", "what", "7")),
        (["who", "what"], VALUES, ("who", "what", "value")),
        (["who", 3], pd.Series(VALUES, name="stars"), None),
        (None, pd.Series(VALUES, name="stars"), None),
    ],
)
@pytest.mark.parametrize("shape", [None, (6, 3)])
def test_entries_have_the_names_of_their_table_if_all_are_names(columns, y, names, shape):
    X = np.array(PAIRS) if columns is None else pd.DataFrame(PAIRS, columns=columns)
    found = training_entries(X, y, shape)
    assert found.names == names
    if shape is None:
        assert (found.row_labels.tolist(), found.col_labels.tolist()) == ([3, 5], [1, 2])
        assert (found.rows.tolist(), found.cols.tolist(), found.shape) == ([1, 0, 1], [0, 0, 1], (2, 2))
    else:
        assert (found.row_labels, found.col_labels, found.shape) == (None, None, (6, 3))
        assert (found.rows.tolist(), found.cols.tolist()) == ([5, 3, 5], [1, 1, 2])


@pytest.mark.parametrize(
    ("names", "noted"),
    [
        (("who", "what", "stars"), ["who", "what"]),
        (("0", "1", "2"), None),
        (("0", "b", "2"), ["0", "b"]),
        (None, None),
    ],
)
def test_columns_of_a_file_are_noted_if_they_have_names(names, noted):
    model = rf.MatrixCompletion()
    note_columns(model, triples(names=names))
    assert model.n_features_in_ == 2
    found = getattr(model, "feature_names_in_", None)
    assert (None if found is None else found.tolist()) == noted


def test_triples_of_the_shape_said_are_taken_and_labels_that_differ():
    assert training_triples(triples(), None, (2, 2)).shape == (2, 2)
    found = training_triples(triples(rows=np.array(["b", "a"])), None)
    assert (found.row_labels.tolist(), found.col_labels) == (["b", "a"], None)
    thrice = triples((2, 4), cols=np.array([8, 7, 8, 8]))
    with pytest.raises(ValueError, match=r"col_labels\[0\] and col_labels\[2\] are both 8: all must differ"):
        training_triples(thrice, None)
    with pytest.raises(ValueError, match="Triples hold their values: leave out y"):
        training_triples(triples(), VALUES)


def test_triples_go_by_their_labels_or_else_by_their_positions():
    (rows, cols), values = named_entries(triples(rows=np.array(["b", "a"])), None)
    assert (rows.tolist(), cols.tolist(), values.tolist()) == (["a", "b", "a"], [0, 0, 1], VALUES)


@pytest.mark.parametrize("y", [[True, False, True], np.array([1, 2, 3], "u1"), np.array([1.5, 2, 3], object)])
def test_values_of_every_kind_of_number_are_taken(y):
    assert named_entries(PAIRS, y)[1].tolist() == [float(each) for each in y]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, 2.0], "X has 3 pairs and y has 2 values: there must be one for each"),
        ([1.0, 2.0, np.inf], r"y\[2\] is inf \(NaN or infinity\): leave unknown entries out"),
        ([1.0, np.nan, np.inf], r"y\[1\] is nan"),
        ([1.0, 1e200, 2.0], r"y\[1\] is 1e\+200"),
        (
            np.array([1.0, "high", "low"], object),
            "real numbers, .*; it holds 'high': give the column of values",
        ),
        (np.array([1.0, (2,), 3.0], object), r"real numbers, .*; it holds 1\.0"),
        (["high", "low", "1"], "real numbers, the value of each pair; got <U4"),
    ],
)
def test_values_that_are_none_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        named_entries(PAIRS, y)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["who", "what"], "is None: give the values of the pairs as y, or rankfold.data.Triples"),
        (["who", "what", "stars"], r"fit\(X\[\['who', 'what'\]\], X\['stars'\]\), or rankfold"),
    ],
)
def test_without_values_it_is_said_how_to_give_them(columns, message):
    table = pd.DataFrame(np.ones((2, len(columns))), columns=columns)
    with pytest.raises(ValueError, match=message):
        named_entries(table, None)


def test_values_too_large_for_single_precision_are_refused_there_alone():
    large = triples(values=[1.0, 1e25, 2.0])
    assert completion_of(large, None, "square", "float64").observed.dtype == np.float64
    with pytest.raises(ValueError, match=r"y\[1\] is 1e\+25"):
        completion_of(large, None, "square", "float32")
    assert completion_of(triples(), [1.0, 2.0, 3.0], "square", "float32").observed.dtype == np.float32
    with pytest.raises(ValueError, match="dtype must be 'float64' or 'float32', not 'int64'"):
        completion_of(triples(), None, "square", "int64")


@pytest.mark.parametrize(("values", "told"), [([4.0] * 7, True), ([4.0] * 6 + [5.0], False), ([4.0], False)])
def test_values_that_are_all_equal_are_found_block_by_block(monkeypatch, values, told):
    monkeypatch.setattr(entries, "BLOCK", 3)
    if told:
        with pytest.warns(UserWarning, match="all 7 values are 4.0"):
            warn_if_all_equal(np.array(values))
    else:
        warn_if_all_equal(np.array(values))


@pytest.mark.parametrize("error", [AttributeError, OSError, ValueError])
def test_a_machine_that_does_not_tell_its_memory_has_enough(monkeypatch, error):
    assert 1e8 < machine_memory() < 1e16

    def sysconf(name):
        raise error(name)

    monkeypatch.setattr("os.sysconf", sysconf, raising=False)
    assert machine_memory() == np.inf


def test_a_fit_notes_values_counts_and_positions_and_not_their_weights():
    model = SimpleNamespace(
        loss="square", dtype="float64", regularization="auto", rank="auto", geometry="auto"
    )
    data = triples((3, 2))
    cost = fit_steps.begun(model, data, [7.0, 0.5, 9.0])
    assert model.value_range_ == (1.0, 4.0)
    assert (model.shape_, [n.tolist() for n in model.counts_]) == ((3, 2), [[1, 2, 0], [2, 1]])
    assert [part.tolist() for part in model.observed_] == [[0, 1, 3, 3], [0, 0, 1]]
    assert model._entries is data
    assert cost.observed.weighted
    one = model.data_fingerprint_
    fit_steps.begun(model, data, [7.0, 0.5, 9.5])
    assert model.data_fingerprint_ != one
    with pytest.raises(ValueError, match="geometry"):
        fit_steps.begun(SimpleNamespace(**vars(model) | {"geometry": "flat"}), data, None)


@pytest.mark.parametrize(
    ("limit", "least", "rows"), [(24, 4, 6), (23, 4, 5), (12, 2, 3), (11, 2, 2), (3, 2, 2), (3, 9, 6)]
)
def test_rows_of_a_sample_are_as_many_as_hold_the_limit_and_not_too_few(monkeypatch, limit, least, rows):
    """Of six rows with four entries each."""
    monkeypatch.setattr(spread_entries, "MIN_LINES", least)
    store = spread_triples(*np.indices((6, 4)).reshape(2, -1), np.arange(24.0), (6, 4))
    chosen = spread_entries.chosen_rows(store, limit, 0)
    assert len(set(chosen.tolist())) == len(chosen) == rows
    assert (np.diff(chosen) > 0).all()
    if rows == 3:
        others = [spread_entries.chosen_rows(store, limit, seed).tolist() for seed in range(1, 9)]
        assert any(each != chosen.tolist() for each in others)


def test_a_model_notes_of_spread_entries_what_each_process_needs():
    rows, cols, values = np.array([0, 2, 2, 3]), np.array([1, 0, 1, 1]), np.array([3.0, -1.0, 2.0, 5.0])
    store = spread_triples(rows, cols, values, (4, 2), [9.0, 8.0, 7.0, -0.0 + 6.0])
    data = rf.distributed.SpreadTriples(store, np.array(list("abcd")), np.array(["x", "y"]))
    model = SimpleNamespace()
    spread_entries.note_data(model, data)
    assert (model.value_range_, model.shape_) == ((-1.0, 5.0), (4, 2))
    assert [part.tolist() for part in model.observed_] == [[0, 1, 1, 3, 4], [1, 0, 1, 1]]
    assert [n.tolist() for n in model.counts_] == [[1, 0, 2, 1], [1, 3]]
    assert (model.features_, model.information_, model._entries) == ((None, None), None, None)
    assert (model.row_labels_ is data.row_labels, model.col_labels_ is data.col_labels) == (True, True)
