"""torch tensors in and out of every estimator; pandas and polars tables in."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone

from estimators.every_estimator import NAMES, example

WEIGHTED = [name for name in NAMES if name != "LowRankImputer"]


def tensor(array):
    return None if array is None else torch.from_numpy(np.array(array))


@pytest.mark.parametrize("name", NAMES)
def test_tensors_in_and_out(name):
    shown = example(name)
    expected = shown.answer(shown.fitted())
    X = tensor(shown.X)
    model = clone(shown.model).fit(X, tensor(shown.y))
    answer = shown.answer(model, X)
    assert isinstance(answer, torch.Tensor)
    assert answer.device == X.device
    np.testing.assert_array_equal(answer.numpy(), expected)
    assert isinstance(shown.answer(model), np.ndarray)  # an array gives an array


@pytest.mark.parametrize("name", WEIGHTED)
def test_tensors_of_weights_and_scores_of_tensors(name):
    shown = example(name)
    if name == "ReducedRankRegression":
        shown = shown._replace(y=np.nan_to_num(shown.y))  # scores need every response
    weights = np.linspace(1, 2, len(shown.X))
    model = clone(shown.model).fit(tensor(shown.X), tensor(shown.y), sample_weight=tensor(weights))
    by_arrays = clone(shown.model).fit(shown.X, shown.y, sample_weight=weights)
    np.testing.assert_array_equal(shown.answer(model), shown.answer(by_arrays))
    assert model.score(tensor(shown.X), tensor(shown.y)) == by_arrays.score(shown.X, shown.y)


@pytest.mark.parametrize("name", ["LowRankImputer", "PairClassifier", "ReducedRankRegression"])
def test_tensors_that_are_part_of_a_graph(name):
    shown = example(name)
    X = tensor(shown.X).requires_grad_()
    answer = shown.answer(clone(shown.model).fit(X, tensor(shown.y)), X)
    assert not answer.requires_grad
    np.testing.assert_array_equal(answer.numpy(), shown.answer(shown.fitted()))


@pytest.mark.parametrize("name", WEIGHTED)
def test_targets_and_weights_that_are_part_of_a_graph(name):
    shown = example(name)
    if name == "ReducedRankRegression":
        shown = shown._replace(y=np.nan_to_num(shown.y))
    y, weights = tensor(shown.y), torch.linspace(1, 2, len(shown.X), dtype=torch.float64).requires_grad_()
    if y.is_floating_point():
        y.requires_grad_()
    model = clone(shown.model).fit(tensor(shown.X), y, weights)
    expected = clone(shown.model).fit(shown.X, shown.y, weights.detach().numpy())
    np.testing.assert_array_equal(shown.answer(model), shown.answer(expected))
    assert model.score(tensor(shown.X), y) == expected.score(shown.X, shown.y)


def test_every_answer_of_a_classifier_is_a_tensor_unless_it_is_text():
    shown = example("PairClassifier")
    X, model = tensor(shown.X), shown.fitted()
    assert isinstance(model.predict_proba(X), torch.Tensor)
    assert isinstance(model.decision_function(X), torch.Tensor)
    named = clone(model).fit(X, np.where(shown.y, "yes", "no"))
    assert set(named.predict(X).tolist()) == {"yes", "no"}


def test_tensors_of_features_and_single_precision():
    shown = example("PairRegressor")
    left = tensor(shown.model.left)
    model = clone(shown.model).set_params(left=left).fit(shown.X, shown.y)
    np.testing.assert_array_equal(shown.answer(model), shown.answer(shown.fitted()))
    table = example("LowRankImputer")
    assert table.answer(table.fitted(), tensor(table.X).float()).dtype == torch.float32


def test_set_output_comes_before_tensors():
    shown = example("LowRankImputer")
    model = shown.model.set_output(transform="pandas").fit(tensor(shown.X))
    assert isinstance(shown.answer(model, tensor(shown.X)), pd.DataFrame)


def test_new_entries_and_questions_as_tensors():
    shown = example("MatrixCompletion")
    model, arrays = shown.fitted(), clone(shown.model).fit(shown.X, shown.y)
    assert model.recommend(torch.tensor([3, 1])).rows.tolist() == arrays.recommend([3, 1]).rows.tolist()
    folded = model.fold_in(torch.tensor([[0, 1], [0, 2]]), torch.tensor([1.0, 2.0]))
    expected = arrays.fold_in([[0, 1], [0, 2]], [1.0, 2.0])
    np.testing.assert_array_equal(folded.factors_[0], expected.factors_[0])


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
@pytest.mark.parametrize("name", NAMES)
def test_tables_in(name, library):
    shown = example(name)
    columns = [f"c{k}" for k in range(shown.X.shape[1])]
    frame = library.DataFrame(dict(zip(columns, shown.X.T, strict=True)))
    y = shown.y
    if y is not None:
        y = library.Series(y) if y.ndim == 1 else library.DataFrame(dict(zip("abcdef", y.T, strict=True)))
    model = clone(shown.model).fit(frame, y)
    assert model.feature_names_in_.tolist() == columns
    # Tables are stored by column, and sums round differently by column.
    np.testing.assert_allclose(shown.answer(model, frame), shown.answer(shown.fitted()), atol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        shown.answer(model, frame[columns[::-1]])


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_tables_of_features(library):
    shown = example("PairRegressor")
    left = library.DataFrame(dict(zip("abc", shown.model.left.T, strict=True)))
    model = clone(shown.model).set_params(left=left).fit(shown.X, shown.y)
    np.testing.assert_array_equal(shown.answer(model), shown.answer(shown.fitted()))


def test_responses_that_polars_calls_null_are_missing():
    shown = example("ReducedRankRegression")
    y = pl.DataFrame(dict(zip("abcdef", shown.y.T, strict=True))).fill_nan(None)
    model = clone(shown.model).fit(shown.X, y)
    assert model.target_names_.tolist() == list("abcdef")
    assert shown.fitted().target_names_ is None
    np.testing.assert_allclose(shown.answer(model), shown.answer(shown.fitted()), atol=1e-9)
