"""Type checkers know what methods return: their annotations say more than "anything"."""

import inspect
from typing import get_overloads

import pytest

import rankfold as rf
from rankfold.estimators.model_files import ESTIMATORS

ANSWERS = ("predict", "predict_proba", "predict_interval", "decision_function", "transform", "fit_transform")


def returned(function):
    """What a function, or each of its overloads, is annotated to return."""
    return [inspect.signature(each).return_annotation for each in get_overloads(function) or [function]]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_answers_have_types(name):
    cls = ESTIMATORS[name]
    methods = [inspect.unwrap(getattr(cls, method)) for method in ANSWERS if hasattr(cls, method)]
    ours = [method for method in methods if method.__module__.startswith("rankfold")]
    assert ours
    for method in ours:
        assert "Any" not in returned(method), method
        assert inspect.Signature.empty not in returned(method), method


def test_what_load_returns():
    assert returned(rf.load) == ["Estimator", "Kind"]


def test_a_model_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "m.rankfold"
    rf.save(rf.MatrixCompletion(rank=3), path)
    assert rf.load(path, rf.MatrixCompletion).rank == 3
    with pytest.raises(rf.ModelFileError, match="holds a MatrixCompletion, no LowRankImputer"):
        rf.load(path, rf.LowRankImputer)
