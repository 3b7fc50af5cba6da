"""Every part of what a model file holds has a rule: anything else in its place is refused, by its name."""

import copy
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

import rankfold as rf
from estimators.every_estimator import NAMES, example
from rankfold.costs.offsets import Offsets
from rankfold.estimators.completion.bayes.beliefs import Prior
from rankfold.estimators.completion.bayes.calibration import Calibration
from rankfold.estimators.completion.bayes.posterior import Posterior
from rankfold.estimators.completion.joint import Shrinkage
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.regularization_path import RegularizationPath
from rankfold.estimators.completion.streaming import Information
from rankfold.estimators.imputer.ordered import Smoothing
from rankfold.estimators.rank_errors import RankErrors
from rankfold.estimators.regression.criteria import SelectionPath
from rankfold.estimators.schemas import FITTED, SETTINGS, check
from rankfold.selection.rank import RankPath

COMPLETION, SIZES = FITTED["MatrixCompletion"], {"rows": 4, "columns": 5, "rank": 2}
RANKS = {"ranks": (1, 2, 4), "errors": (0.5, 0.25, np.inf), "standard_errors": (0.1, 0.2, 0.3), "chosen": 2}
PRIOR = Prior(np.ones(2), np.ones(2), np.eye(2), 0.5)
# A rule, sizes that are known, and a value that obeys it.
RECORDS = {
    "rank path": (COMPLETION["rank_path_"], {}, RankPath(**RANKS, fits=(0.1, 0.2, 0.3))),
    "rank errors": (FITTED["PairRanker"]["rank_path_"], {}, RankErrors(**RANKS)),
    "weights": (
        COMPLETION["regularization_path_"],
        {},
        RegularizationPath((0.5, 2.0), (1.0, np.nan), 2.0, (0.1, 0.2)),
    ),
    "selection": (
        FITTED["ReducedRankRegression"]["rank_path_"],
        {},
        SelectionPath("cv", np.array([1, 2, 3]), np.array([0.0, 0.5]), np.full((3, 2), np.inf)),
    ),
    "offsets": (COMPLETION["biases_"], SIZES, Offsets(0.5, np.ones(4), np.ones(5))),
    "shrinkage": (COMPLETION["shrinkage_"], {}, Shrinkage(0.5, 0.0)),
    "smoothing": (
        FITTED["LowRankImputer"]["smoothing_"], {"features": 3}, Smoothing(np.ones(3), np.zeros(3)),
    ),
    "pattern": (
        COMPLETION["observed_"],
        SIZES,
        Pattern(np.array([0, 1, 1, 2, 3]), np.array([4, 0, 2], np.uint32)),
    ),
    "information": (
        COMPLETION["information_"],
        SIZES,
        Information(np.ones((4, 3)), np.ones((5, 3)), np.ones(4), np.ones(5)),
    ),
    "prior": (
        COMPLETION["posterior_"],
        SIZES,
        Posterior(
            np.ones((4, 3)), np.ones((5, 3)), (PRIOR, PRIOR), 0.5, 7, Calibration(1.0, np.ones(3), 9)
        ),
    ),
    "loss": (SETTINGS["loss"], {}, rf.Loss.named("huber")),
}  # fmt: skip


def parts(value):
    names = [field.name for field in fields(value)] if is_dataclass(value) else list(value._fields)
    return {name: getattr(value, name) for name in names}


def changed(value, name, part):
    return replace(value, **{name: part}) if is_dataclass(value) else value._replace(**{name: part})


@pytest.mark.parametrize("name", RECORDS)
def test_each_field_of_a_record_has_a_rule(name):
    rule, sizes, value = RECORDS[name]
    rule(value, "it", dict(sizes))
    for field, part in parts(value).items():
        if name == "loss" and field != "parameter":
            continue
        with pytest.raises(ValueError, match=rf"^it\.{field}"):
            rule(changed(value, field, object()), "it", dict(sizes))
        if isinstance(part, np.ndarray):
            with pytest.raises(ValueError, match=r"^it"):
                rule(changed(value, field, part[None]), "it", dict(sizes))
        if isinstance(part, np.ndarray) and (name, field) != ("pattern", "indptr"):
            longer = np.concatenate([part, part[-1:]])
            if (name, field) in {("selection", "ranks"), ("selection", "regularizations")}:
                longer = longer[None]
            with pytest.raises(ValueError, match=r"^it"):
                rule(changed(value, field, longer), "it", dict(sizes))
    with pytest.raises(ValueError, match=r"^it is"):
        rule(tuple(parts(value).values()), "it", dict(sizes))


@pytest.fixture(scope="module")
def models():
    return {name: example(name).fitted() for name in NAMES}


FREE = {("LowRankImputer", "indicated_features_", 0), ("LowRankDistance", "factor_", 0)}


@pytest.mark.parametrize("name", NAMES)
def test_each_attribute_has_a_rule(models, name):
    check(models[name])
    for attribute in FITTED[name]:
        if attribute == "observed_" or not hasattr(models[name], attribute):
            continue  # a property, which takes a pattern alone
        for wrong in (object(), [1.0], np.ones((1, 1, 1, 1))):
            model = copy.copy(models[name])
            setattr(model, attribute, wrong)
            with pytest.raises(ValueError, match=rf"^{attribute}"):
                check(model)


@pytest.mark.parametrize("name", NAMES)
def test_each_array_has_the_size_of_the_others(models, name):
    for attribute in FITTED[name]:
        array = getattr(models[name], attribute, None)
        for axis in range(array.ndim if isinstance(array, np.ndarray) else 0):
            model = copy.copy(models[name])
            setattr(model, attribute, np.concatenate([array, array.take([-1], axis)], axis))
            if (name, attribute, axis) not in FREE:
                with pytest.raises(ValueError, match=rf"^{attribute}|has a length of|must be"):
                    check(model)


@pytest.mark.parametrize("name", NAMES)
def test_no_number_of_a_model_is_infinite_or_nan(models, name):
    for attribute in FITTED[name]:
        array = getattr(models[name], attribute, None)
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            for number in (np.nan, np.inf, -np.inf):
                model = copy.copy(models[name])
                setattr(
                    model,
                    attribute,
                    np.where(np.arange(array.size).reshape(array.shape) == array.size - 1, number, array),
                )
                with pytest.raises(ValueError, match=f"^{attribute}"):
                    check(model)


@pytest.mark.parametrize("name", NAMES)
def test_each_setting_has_a_rule(models, name):
    for setting in models[name].get_params(deep=False):
        model = copy.copy(models[name])
        setattr(model, setting, object())
        with pytest.raises(ValueError, match=f"^{setting} is"):
            check(model)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_fit_finds_is_there_or_nothing(models, name):
    check(type(models[name])())
    for attribute in ("n_features_in_", "trace_", "n_iter_", "data_fingerprint_"):
        if hasattr(models[name], attribute):
            model = copy.copy(models[name])
            delattr(model, attribute)
            with pytest.raises(ValueError, match=f"^{attribute} is missing"):
                check(model)
