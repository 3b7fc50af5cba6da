"""scikit-learn's own checks.

They fit on tables of features, which are no pairs. So most run on a model whose pairs are made from the
features first, and those that fail on the model itself are listed below, with the reason.
"""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

import rankfold as rf
from estimators.completion.rating_data import model, ratings

NO_PAIRS = "it fits on features, which are no pairs (row, column); the check passes on OnFeatures"
EXPECTED = dict.fromkeys(
    [
        "check_fit_score_takes_y",
        "check_dont_overwrite_parameters",
        "check_n_features_in_after_fitting",
        "check_estimators_dtypes",
        "check_sample_weights_list",
        "check_all_zero_sample_weights_error",
        "check_sample_weight_equivalence_on_dense_data",
        "check_complex_data",
        "check_dtype_object",
        "check_estimators_empty_data_messages",
        "check_pipeline_consistency",
        "check_estimators_nan_inf",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_regressors_train",
        "check_regressor_data_not_an_array",
        "check_regressors_no_decision_function",
        "check_supervised_y_2d",
        "check_regressors_int",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_fit2d_1sample",
        "check_dict_unchanged",
        "check_fit2d_predict1d",
    ],
    NO_PAIRS,
) | {
    "check_non_transformer_estimators_n_iter": "it fits on features; test_every_contract counts iterations",
    "check_positive_only_tag_during_fit": "it gives three features; test_ids gives negative ids",
}


def pairs_of(X):
    """Take the signs of the features for the row, and the first feature, in steps, for the column."""
    signs = X[:, 1:4] > 0
    rows = signs @ np.array([1, 2, 4])[: signs.shape[1]]
    return np.stack([rows, np.clip(np.floor(3 * X[:, 0]) + 12, 0, 24)], axis=1).astype(int)


class OnFeatures(RegressorMixin, BaseEstimator):
    """A completion of pairs that are made of features."""

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, y_numeric=True)
        self.model_ = model(rank=1, regularization=0.1, bias=False).fit(pairs_of(X), y, sample_weight)
        return self

    def predict(self, X):
        check_is_fitted(self)
        return self.model_.predict(pairs_of(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@parametrize_with_checks(
    [model(rank=1, regularization=1.0, bias=False)], expected_failed_checks=lambda _: EXPECTED
)
def test_checks(estimator, check):
    if check.func.__name__ not in EXPECTED:
        return check(estimator)
    try:
        check(estimator)
    except Exception as error:  # pytest would spend most of a second to show where
        raise AssertionError(repr(error)) from None


@parametrize_with_checks([OnFeatures()])
def test_checks_on_features(estimator, check):
    check(estimator)


def test_in_a_pipeline():
    X, y, _ = ratings()
    plain = model(regularization=1.0, bias=False)
    moved = make_pipeline(FunctionTransformer(lambda pairs: pairs - 5), clone(plain)).fit(X + 5, y)
    np.testing.assert_array_equal(moved.predict(X + 5), plain.fit(X, y).predict(X))


def test_clones_have_the_settings_and_nothing_else():
    X, y, _ = ratings()
    cloned = clone(model(rank=1, regularization=2.0, geometry=rf.Polar).fit(X, y))
    assert cloned.get_params() == model(rank=1, regularization=2.0, geometry=rf.Polar).get_params()
    assert not hasattr(cloned, "factors_")


def test_out_of_fold_predictions_for_every_entry():
    X, y, _ = ratings(noise=0.1)
    assert np.corrcoef(cross_val_predict(model(regularization=1.0), X, y, cv=3), y)[0, 1] > 0.8


def test_another_number_of_columns_is_refused():
    X, y, _ = ratings()
    fitted = model(regularization=1.0).fit(X, y)
    with pytest.raises(ValueError, match="two columns"):
        fitted.predict(np.zeros((3, 3), int))
