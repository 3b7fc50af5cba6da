"""What scikit-learn's users expect of an estimator; docs/jobs/scikit-learn.md says which has what."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from estimators.every_estimator import NAMES, example

SETTINGS = {"rank", "max_iter", "tol", "warm_start", "random_state", "verbose"}
WEIGHTED = [name for name in NAMES if name != "LowRankImputer"]


@pytest.mark.parametrize("name", NAMES)
def test_each_has_what_the_page_says(name):
    model = example(name).model
    assert set(model.get_params()) >= SETTINGS
    assert ("regularization" in model.get_params()) == (name != "LowRankImputer")
    assert ("sample_weight" in inspect.signature(model.fit).parameters) == (name in WEIGHTED)
    assert hasattr(model, "set_output") == (name == "LowRankImputer")


COMMON = {"warm_start": False, "random_state": None, "verbose": 0}
ITERATIVE = COMMON | {"geometry": "auto", "solver": "auto", "max_iter": 500}
PAIRS = {"rank": "auto", "n_left": None, "left": None, "right": None, "regularization": 0.1, "tol": 1e-13}
PAIRS |= {"device": "cpu"}
DEFAULTS = {
    "MatrixCompletion": ITERATIVE
    | {
        "rank": "auto",
        "bias": True,
        "regularization": "auto",
        "loss": "square",
        "row_features": None,
        "col_features": None,
        "tol": "auto",
        "dtype": "float64",
    }
    | {"shape": None, "bayesian": "auto", "clip": False, "device": "cpu"},
    "ImplicitFeedback": COMMON
    | {"rank": "auto", "alpha": 4.0, "regularization": "auto", "tol": 1e-4, "max_iter": 200}
    | {"dtype": "float64", "shape": None},
    "LowRankImputer": COMMON
    | {"order": None}
    | {"rank": "auto", "missing_values": "nan", "keep_empty_features": False, "add_indicator": False}
    | {"max_iter": 50, "tol": 1e-2},
    "LowRankDistance": COMMON
    | {"rank": "auto", "points": None, "loss": "auto", "regularization": 0.1}
    | {"solver": "auto", "max_iter": 500, "tol": 1e-13},
    "PairRegressor": ITERATIVE | PAIRS,
    "PairClassifier": ITERATIVE | PAIRS,
    "PairRanker": ITERATIVE | PAIRS | {"max_comparisons": 1_000_000},
    "CategoricalCompletion": COMMON
    | {"rank": "auto", "shared": False, "regularization": 1.0, "solver": "tr", "max_iter": 500, "tol": 1e-6},
    "ReducedRankRegression": ITERATIVE
    | {
        "rank": "auto",
        "criterion": "cv",
        "regularization": "auto",
        "fit_intercept": True,
        "cv": 5,
        "tol": 1e-10,
        "loss": "square",
        "device": "cpu",
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_each_setting_is_kept_as_it_is_given(name):
    kind = type(example(name).model)
    for setting in kind().get_params():
        given = object()
        assert getattr(kind(**{setting: given}), setting) is given, setting


@pytest.mark.parametrize("name", NAMES)
def test_settings_left_out_are_those_documented(name):
    settings = type(example(name).model)().get_params()
    settings = {key: str(value) if value is np.nan else value for key, value in settings.items()}
    assert settings == DEFAULTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_iterations_are_counted_shown_and_limited(name, capsys):
    shown = example(name, verbose=2)
    fitted = shown.fitted()
    last = capsys.readouterr().err.splitlines()[-1]
    assert str(fitted.n_iter_) in last.split()
    assert fitted.converged_
    assert fitted.trace_[-1].iteration == fitted.n_iter_
    with pytest.warns(ConvergenceWarning, match="raise max_iter, or loosen tol"):
        limited = example(name, max_iter=2, tol=1e-12).fitted()
    assert limited.n_iter_ == 2 == len(limited.trace_) - 1
    assert not limited.converged_
    assert limited.stop_reason_ == "2 iterations done, the limit is 2"


@pytest.mark.parametrize("name", NAMES)
def test_a_rank_that_no_such_matrix_has_is_refused_with_the_largest(name):
    # The rank of a completion is a most: the default is more than a small matrix has.
    for rank in (
        (0, 1.5, "best") if name in ("MatrixCompletion", "ImplicitFeedback") else (0, 1000, 1.5, "best")
    ):
        with pytest.raises(
            ValueError, match=rf"rank must be 'auto' or an integer from 1 to \d+, .*; got {rank!r}"
        ):
            example(name, rank=rank).fitted()


@pytest.mark.parametrize("name", NAMES)
def test_a_rank_is_chosen_by_held_out_data(name):
    chosen = example(name, rank="auto", random_state=0).fitted()
    assert chosen.rank_ == example(name, rank="auto", random_state=0).fitted().rank_
    assert chosen.rank_ in chosen.rank_path_.ranks
    assert str(chosen.rank_path_).count("<- chosen") == 1
    assert example(name).fitted().rank_path_ is None


@pytest.mark.parametrize("name", NAMES)
def test_the_same_settings_give_the_same_model(name):
    shown = example(name)
    first = shown.answer(shown.fitted())
    np.testing.assert_array_equal(shown.answer(clone(shown.model).fit(shown.X, shown.y)), first)


@pytest.mark.parametrize("name", WEIGHTED)
def test_an_observation_of_weight_zero_has_no_say(name):
    shown = example(name, tol=1e-10)
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


ASKED = ("predict", "predict_proba", "decision_function", "transform", "score", "predict_interval")


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_is_not_fitted_says_so(name):
    shown = example(name)
    asked = [method for method in ASKED if hasattr(shown.model, method)]
    assert asked
    for method in asked:
        with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
            getattr(shown.model, method)(*[shown.X, shown.y][: 1 + (method == "score")])
