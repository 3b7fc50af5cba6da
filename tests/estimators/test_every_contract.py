"""What scikit-learn's users expect of an estimator; docs/jobs/scikit-learn.md says which has what."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from estimators.every_estimator import NAMES, example

HAS = {
    "MatrixCompletion": {"sample_weight", "warm_start", "random_state"},
    "LowRankImputer": {"warm_start", "random_state", "set_output"},
    "PairRegressor": {"sample_weight", "warm_start"},
    "PairClassifier": {"sample_weight", "warm_start"},
    "ReducedRankRegression": {"sample_weight", "random_state"},
}


@pytest.mark.parametrize("name", NAMES)
def test_each_has_what_the_page_says(name):
    model = example(name).model
    places = [*model.get_params(), *inspect.signature(model.fit).parameters]
    found = {word for word in ("sample_weight", "warm_start", "random_state") if word in places}
    assert found | ({"set_output"} if hasattr(model, "set_output") else set()) == HAS[name]
    assert "verbose" in model.get_params()


@pytest.mark.parametrize("name", NAMES)
def test_iterations_are_counted_shown_and_limited(name, capsys):
    shown = example(name, verbose=2)
    fitted = shown.fitted()
    last = capsys.readouterr().err.splitlines()[-1]
    assert str(fitted.n_iter_) in last.split()
    with pytest.warns(ConvergenceWarning, match="raise max_iterations"):
        limited = example(name, max_iterations=2, tolerance=1e-12).fitted()
    assert limited.n_iter_ == 2


@pytest.mark.parametrize("name", NAMES)
def test_the_same_settings_give_the_same_model(name):
    shown = example(name)
    first = shown.answer(shown.fitted())
    np.testing.assert_array_equal(shown.answer(clone(shown.model).fit(shown.X, shown.y)), first)


@pytest.mark.parametrize("name", [name for name in NAMES if "sample_weight" in HAS[name]])
def test_an_observation_of_weight_zero_has_no_say(name):
    shown = example(name, tolerance=1e-10)
    kept = np.arange(len(shown.X)) % 5 > 0
    weighted = clone(shown.model).fit(shown.X, shown.y, sample_weight=kept.astype(float))
    left_out = clone(shown.model).fit(shown.X[kept], shown.y[kept])
    np.testing.assert_allclose(shown.answer(weighted), shown.answer(left_out), atol=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_fit_leaves_the_model_of_the_last_one(name, monkeypatch):
    shown = example(name)
    model = shown.fitted()
    before, attributes = shown.answer(model), set(vars(model))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankfold.estimators.fitting.minimize", interrupted)
    monkeypatch.setattr("rankfold.estimators.imputer.low_rank_imputer.fit", interrupted)
    other = pd.DataFrame(shown.X).add_prefix("c").iloc[::2]
    with pytest.raises(KeyboardInterrupt):
        model.fit(other, None if shown.y is None else shown.y[::2])
    assert set(vars(model)) == attributes
    np.testing.assert_array_equal(shown.answer(model), before)


@pytest.mark.parametrize("name", NAMES)
def test_html_names_the_estimator_and_its_settings(name):
    html = example(name).fitted()._repr_html_()
    assert name in html
    assert "rank" in html
