"""PairClassifier with more than two classes: against multinomial logistic regression, and in its parts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import rankfold as rf

CLASSES = np.array(["binds", "blocks", "nothing"])


def draw(seed=0, rank=2, noise=0.0):
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((40, 4)), rng.standard_normal((30, 3))
    pairs = np.argwhere(rng.uniform(size=(40, 30)) < 0.6)
    W = 2 * rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 9))
    logits = np.einsum("pi,ijk,pj->pk", left[pairs[:, 0]], W.reshape(4, 3, 3), right[pairs[:, 1]])
    logits += noise * rng.gumbel(size=logits.shape)  # so that the logits are those of the model
    return left, right, pairs, CLASSES[logits.argmax(axis=1)]


def test_tables_and_columns_are_one_model_and_its_parts_add_up():
    left, right, pairs, y = draw()
    tables = rf.PairClassifier(rank=3, left=left, right=right).fit(pairs, y)
    columns = np.hstack([left[pairs[:, 0]], right[pairs[:, 1]]])
    plain = rf.PairClassifier(rank=3, n_left=4).fit(columns, y)
    assert tables.classes_.tolist() == CLASSES.tolist()
    assert tables.score(pairs, y) > 0.95
    assert_allclose(tables.decision_function(pairs), plain.decision_function(columns), atol=1e-3)
    L, R = tables.factors_
    assert (L.shape, R.shape) == ((5, 3), (4, 3, 3))
    assert [part.shape for part in (tables.left_coef_, tables.right_coef_)] == [(3, 4), (3, 3)]
    x, z = left[5], right[7]
    logits = [
        x @ L[:-1] @ R[:-1, k].T @ z + x @ tables.left_coef_[k] + z @ tables.right_coef_[k] + c
        for k, c in enumerate(tables.intercept_)
    ]
    assert_allclose(tables.decision_function([[5, 7]])[0], logits)
    assert_allclose(tables.predict_proba([[5, 7]])[0], np.exp(logits) / np.exp(logits).sum())
    assert tables.predict([[5, 7]])[0] == CLASSES[int(np.argmax(logits))]


def test_multinomial_regression_of_the_products_of_features():
    """Of full rank and with one side constant, the losses and the penalty are scikit-learn's."""
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((80, 3)), rng.uniform(0.5, 3, 80)
    y = CLASSES[(X @ rng.standard_normal((3, 3)) + rng.standard_normal((80, 3))).argmax(axis=1)]
    both = np.hstack([X, np.zeros((80, 1))])  # the right thing has a feature that says nothing
    model = rf.PairClassifier(rank=4, n_left=3, regularization=2.0).fit(both, y, sample_weight=weights)
    design = np.column_stack([X, np.ones(80)])
    expected = LogisticRegression(C=1 / 4, fit_intercept=False, tol=1e-10, max_iter=5000)
    expected.fit(design, y, sample_weight=weights)  # whose penalty is half the squares
    found = np.column_stack([model.left_coef_, model.intercept_])
    assert_allclose(found, expected.coef_, atol=1e-5)


def test_two_classes_are_what_they_were():
    left, right, pairs, y = draw()
    model = rf.PairClassifier(rank=2, left=left, right=right).fit(pairs, y == "binds")
    assert [np.shape(part) for part in model.factors_] == [(5, 2), (4, 2)]
    assert np.ndim(model.intercept_) == 0
    assert model.decision_function(pairs).shape == (len(pairs),)
    assert model.predict_proba(pairs).shape == (len(pairs), 2)


@pytest.mark.parametrize("rank", [1, 3])
def test_the_planted_rank_is_found(rank):
    left, right, pairs, y = draw(seed=3, rank=rank, noise=1.0)
    model = rf.PairClassifier(left=left, right=right, random_state=0).fit(pairs, y)
    assert model.rank_ == rank
    assert model.rank_path_.ranks[:4] == (1, 2, 3, 4)[: len(model.rank_path_.ranks)]


def test_warm_start_goes_on_from_the_last_fit_of_as_many_classes():
    left, right, pairs, y = draw()
    warm = rf.PairClassifier(rank=3, left=left, right=right, regularization=5.0, warm_start=True)
    cold = warm.fit(pairs, y).n_iter_
    assert warm.fit(pairs, y).n_iter_ < cold / 2
    two = clone(warm).fit(pairs, y == "binds")
    assert warm.fit(pairs, y == "binds").n_iter_ == two.n_iter_
    assert_allclose(warm.factors_[0], two.factors_[0])


def test_held_out_losses_are_those_of_the_softmax():
    left, right, pairs, y = draw()
    weights = np.linspace(1, 2, len(pairs))
    model = rf.PairClassifier(left=left, right=right, random_state=0, regularization=1.0)
    path = model.fit(pairs, y, sample_weight=weights).rank_path_
    order = np.random.RandomState(0).permutation(len(pairs))
    count = round(0.1 * len(pairs))
    test, train = order[:count], np.sort(order[count:])
    alone = clone(model).set_params(rank=2, tol=1e-6)
    alone.fit(pairs[train], y[train], sample_weight=weights[train])
    chances = alone.predict_proba(pairs[test])[np.arange(count), np.searchsorted(CLASSES, y[test])]
    assert_allclose(path.errors[path.ranks.index(2)], -(weights[test] * np.log(chances)).mean(), rtol=1e-3)


def test_a_rank_beyond_the_largest_is_refused_with_why():
    left, right, pairs, y = draw()
    with pytest.raises(ValueError, match=r"to 5, the lesser of 5 and 12, .*the right one times 3 classes"):
        rf.PairClassifier(rank=6, left=left, right=right).fit(pairs, y)


def test_several_classes_are_saved(tmp_path):
    left, right, pairs, y = draw()
    model = rf.PairClassifier(rank=2, left=left, right=right).fit(pairs, y)
    rf.save(model, tmp_path / "model")
    loaded = rf.load(tmp_path / "model")
    assert loaded.classes_.tolist() == CLASSES.tolist()
    np.testing.assert_array_equal(loaded.predict_proba(pairs), model.predict_proba(pairs))
    model.classes_ = model.classes_[:2]
    with pytest.raises(ValueError, match="classes_ has a length of 2, which must be 3"):
        rf.save(model, tmp_path / "model")
