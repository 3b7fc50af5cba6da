"""CategoricalCompletion: scikit-learn's contract, tables whose columns differ, and what is new."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_wine
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

import rankfold as rf


class OnFeatures(ClassifierMixin, BaseEstimator):
    """A completion of pairs that are made of features: signs for the row, steps of the first for the column.

    scikit-learn's checks bring features along, which are no pairs (row, column).
    """

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y)
        self.model_ = rf.CategoricalCompletion(2, shared=True, regularization=0.1, tol=1e-12)
        self.model_.fit(pairs_of(X), y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        check_is_fitted(self)
        return self.model_.predict(pairs_of(validate_data(self, X, reset=False)))

    def predict_proba(self, X):
        check_is_fitted(self)
        return self.model_.predict_proba(pairs_of(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


def pairs_of(X):
    signs = X[:, 1:4] > 0
    rows = signs @ np.array([1, 2, 4])[: signs.shape[1]]
    return np.stack([rows, np.clip(np.floor(3 * X[:, 0]) + 12, 0, 24)], axis=1).astype(int)


@parametrize_with_checks([OnFeatures()])
def test_checks_on_features(estimator, check):
    check(estimator)


def quartiles():
    """The wines' measurements, each as the quarter of all wines that it is in, with a name of its own."""
    X = load_wine().data
    limits = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    codes = (X[:, None] > limits).sum(axis=1)
    pairs = np.argwhere(np.ones(codes.shape, dtype=bool))
    return pairs, np.array(["lowest", "low", "high", "highest"])[codes[tuple(pairs.T)]]


def test_real_tables_are_completed_better_than_by_the_most_frequent():
    pairs, y = quartiles()
    hidden = np.random.default_rng(0).uniform(size=len(y)) < 0.3
    model = rf.CategoricalCompletion(2).fit(pairs[~hidden], y[~hidden])
    assert model.score(pairs[hidden], y[hidden]) > 0.42  # of four equally frequent ones
    chances = model.predict_proba(pairs[hidden])
    of_truth = chances[np.arange(hidden.sum()), np.searchsorted(model.classes_, y[hidden])]
    assert -np.log(of_truth).mean() < 0.9 * np.log(4)
    assert_array_equal(model.classes_[chances.argmax(axis=1)], model.predict(pairs[hidden]))


ANSWERS = {
    ("ann", "drink"): "tea", ("ann", "pet"): "cat", ("ann", "town"): "yes",
    ("bob", "drink"): "beer", ("bob", "pet"): "dog", ("bob", "town"): "yes",
    ("cyd", "drink"): "tea", ("dan", "pet"): "dog", ("eve", "drink"): "milk", ("eve", "pet"): "cat",
}  # fmt: skip


def answers(**settings):
    options = {"regularization": 0.1, "tol": 1e-9} | settings
    return rf.CategoricalCompletion(2, **options).fit(list(ANSWERS), list(ANSWERS.values()))


def test_a_column_has_the_classes_that_it_has_in_the_data():
    model = answers()
    assert model.classes_.tolist() == ["beer", "cat", "dog", "milk", "tea", "yes"]
    assert model.col_labels_.tolist() == ["drink", "pet", "town"]
    kinds = [model.classes_[part].tolist() for part in np.split(model.categories_, model.starts_[1:-1])]
    assert kinds == [["beer", "milk", "tea"], ["cat", "dog"], ["yes"]]
    chances = model.predict_proba([("cyd", "pet"), ("dan", "drink"), ("dan", "town")])
    assert_allclose(chances.sum(axis=1), 1.0)
    assert_array_equal(chances > 0, [[0, 1, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1]])
    assert model.predict([("cyd", "pet"), ("dan", "drink")]).tolist() == ["cat", "beer"]


def test_shared_classes_can_occur_in_every_column():
    model = answers(shared=True)
    assert model.starts_.tolist() == [0, 6, 12, 18]
    assert model.categories_.tolist() == [*range(6)] * 3
    assert (model.predict_proba([("cyd", "pet")]) > 0).all()


def test_the_probabilities_are_the_softmax_of_what_the_factors_say():
    model = answers()
    L, R = model.factors_
    assert (len(L), len(R)) == (6, 6)
    logits = (L[2] + L[-1]) @ R[3:5].T  # of cyd's pet: rows are numbered in order, the last is all rows'
    found = model.predict_proba([("cyd", "pet")])[0, 1:3]
    assert_allclose(found, np.exp(logits) / np.exp(logits).sum())
    alone = L[-1] @ R[3:5].T
    found = model.predict_proba([("zoe", "pet")])[0, 1:3]
    assert_allclose(found, np.exp(alone) / np.exp(alone).sum())


def test_in_a_new_column_classes_are_as_likely_as_in_all():
    model = answers()
    found = model.predict_proba([("ann", "car"), ("zoe", "car")])
    assert_allclose(found, [[0.1, 0.2, 0.2, 0.1, 0.2, 0.2]] * 2)
    weights = np.ones(10)
    weights[0] = 3.0
    weighted = clone(model).fit(list(ANSWERS), list(ANSWERS.values()), sample_weight=weights)
    assert_allclose(weighted.class_prior_, np.array([1, 2, 2, 1, 4, 2]) / 12)


def test_the_minimum_is_that_of_the_penalised_likelihood():
    """At the minimum no small change of a logit table of lower rank is better: λ against a value by hand."""
    model = answers(regularization=0.3, tol=1e-12)
    L, R = model.factors_
    value = sum(
        -np.log(model.predict_proba([pair])[0, model.classes_.tolist().index(answer)])
        for pair, answer in ANSWERS.items()
    )
    norm = np.linalg.norm(L @ R.T, "nuc")
    assert_allclose(model.trace_[-1].value * 10, value + 2 * 0.3 * norm, rtol=1e-9)


def test_frames_go_in_by_their_cells():
    table = pd.DataFrame({"drink": ["tea", "beer", None], "pet": ["cat", None, "cat"]}, index=[3, 5, 9])
    cells = table.stack().dropna()
    model = rf.CategoricalCompletion(1, regularization=0.1).fit(list(cells.index), cells)
    assert model.row_labels_.tolist() == [3, 5, 9]
    assert model.predict([(5, "pet"), (9, "drink")]).tolist()[0] == "cat"


@pytest.mark.parametrize("rank", [1, 2])
def test_the_planted_rank_is_found(rank):
    rng = np.random.default_rng(rank)
    W = 3 * rng.standard_normal((120, rank)) @ rng.standard_normal((rank, 60))
    pairs = np.argwhere(rng.uniform(size=(120, 20)) < 0.8)
    y = (W.reshape(120, 20, 3) + rng.gumbel(size=(120, 20, 3))).argmax(axis=2)[tuple(pairs.T)]
    model = rf.CategoricalCompletion(random_state=0).fit(pairs, y)
    assert model.rank_ == rank == model.factors_[0].shape[1]


def test_held_out_errors_are_those_of_entries_held_out():
    pairs, y = quartiles()
    weights = np.linspace(1, 2, len(y))
    model = rf.CategoricalCompletion(random_state=0).fit(pairs, y, sample_weight=weights)
    order = np.random.RandomState(0).permutation(len(y))
    test, train = np.split(order, [round(0.1 * len(y))])
    alone = rf.CategoricalCompletion(2).fit(pairs[train], y[train], sample_weight=weights[train])
    chances = alone.predict_proba(pairs[test])[np.arange(test.size), np.searchsorted(alone.classes_, y[test])]
    path = model.rank_path_
    assert_allclose(path.errors[path.ranks.index(2)], -(weights[test] * np.log(chances)).mean(), rtol=1e-3)


def test_warm_start_goes_on_from_the_last_fit():
    pairs, y = quartiles()
    warm = rf.CategoricalCompletion(2, warm_start=True).fit(pairs, y)
    cold = warm.n_iter_
    assert warm.fit(pairs, y).n_iter_ < cold / 2


def test_weights_stand_for_repetitions():
    pairs, y = quartiles()
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    model = rf.CategoricalCompletion(2, tol=1e-10)
    weighted = clone(model).fit(pairs, y, sample_weight=weights).predict_proba(pairs)
    repeated = clone(model).fit(np.repeat(pairs, weights, axis=0), np.repeat(y, weights))
    assert_allclose(weighted, repeated.predict_proba(pairs), atol=1e-3)


def test_blocks_of_entries_change_nothing(monkeypatch):
    pairs, y = quartiles()
    model = rf.CategoricalCompletion(2).fit(pairs, y)
    whole = model.predict_proba(pairs)
    monkeypatch.setattr("rankfold.estimators.categories.table._BLOCK", 100)
    assert_array_equal(model.predict_proba(pairs), whole)


@pytest.mark.parametrize(
    ("X", "y", "settings", "message"),
    [
        ([("a", "b")], ["x", "y"], {}, "X has 1 pairs and y has 2 labels"),
        ([("a", "b"), ("c", "b")], ["x", "x"], {}, "two classes; it has one class only: x"),
        ([("a", "b"), ("c", "b")], ["x", "y"], {"rank": 3}, "from 1 to 2, the lesser of 3 and 2, one more"),
        ([("a", "b"), ("c", "b")], ["x", "y"], {"regularization": -1}, "regularization must be finite"),
        ([("a", "b"), ("c", "b")], [0.5, 1.5], {}, "Unknown label type: continuous"),
        ([("a", "b", "c")], ["x"], {}, "must be a pair"),
        (np.empty((0, 2), int), [], {}, "X is empty; give at least one known entry"),
    ],
)
def test_errors_name_what_is_wrong(X, y, settings, message):
    with pytest.raises(ValueError, match=message):
        rf.CategoricalCompletion(**{"rank": 1} | settings).fit(X, y)


def test_one_entry_with_a_weight_is_too_few_to_choose_a_rank():
    with pytest.raises(ValueError, match="holds out an entry, and there is 1 sample: give a rank"):
        rf.CategoricalCompletion().fit([("a", "b"), ("c", "b")], ["x", "y"], sample_weight=[1.0, 0.0])


def test_a_model_is_saved(tmp_path):
    model = answers(shared=True)
    rf.save(model, tmp_path / "model")
    loaded = rf.load(tmp_path / "model")
    assert loaded.shared
    assert_array_equal(loaded.predict_proba(list(ANSWERS)), model.predict_proba(list(ANSWERS)))
    for name, wrong, message in [
        ("starts_", model.starts_[:-1], "starts_ has a length of 3, which must be 4"),
        ("categories_", model.categories_ + 1, "categories_ must be from 0 to one less than classes"),
        ("class_prior_", model.class_prior_[1:], "class_prior_ has a length of 5"),
        ("classes_", model.classes_[1:], "classes"),
    ]:
        changed = answers(shared=True)
        setattr(changed, name, wrong)
        with pytest.raises(ValueError, match=message):
            rf.save(changed, tmp_path / "model")


def test_of_two_entries_one_is_held_out():
    found = rf.CategoricalCompletion(random_state=0).fit([("a", "x"), ("b", "x")], ["yes", "no"])
    assert found.rank_path_.ranks[0] == 1


def test_a_column_of_labels_is_taken_with_a_warning():
    pairs, y = [("a", "x"), ("b", "x"), ("a", "y")], np.array(["yes", "no", "no"])
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        found = rf.CategoricalCompletion(1, random_state=0).fit(pairs, y[:, None])
    assert found.predict(pairs).shape == (3,)
