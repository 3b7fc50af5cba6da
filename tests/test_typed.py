"""What type checkers are told of the methods that users call most."""

from typing import Any, get_overloads, get_type_hints

import pytest

import rankfold as rf
from rankfold.estimators import model_files

PREDICTORS = [name for name, cls in model_files.ESTIMATORS.items() if hasattr(cls, "predict")]


@pytest.mark.parametrize("name", PREDICTORS)
def test_predict_returns_an_array(name):
    predict = getattr(rf, name).predict
    kinds = [get_type_hints(each)["return"] for each in get_overloads(predict) or [predict]]
    assert all(kind is not Any and "ndarray" in str(kind) for kind in kinds)


def test_load_returns_one_of_the_estimators():
    without_kind = get_overloads(rf.load)[0]
    assert set(get_type_hints(without_kind)["return"].__args__) == set(model_files.ESTIMATORS.values())


def test_coordinates_are_an_array():
    assert "ndarray" in str(get_type_hints(rf.LowRankDistance.fit_transform)["return"])
