"""How sure a prediction is, on the command line: `predict --std`, and what `complete` and its report say."""

import csv
import io
import json

import numpy as np
import pytest
from cli_runs import FAST, fails, ratings, run

import rankfold as rf

PAIRS = 'user,film\nu1,"film, 2"\nnobody,"film, 3"\n'


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("std") / "ratings.csv"
    path.write_text(ratings())
    return path


def test_a_column_of_deviations_is_asked_for(tmp_path, table):
    model, page = tmp_path / "m", tmp_path / "report.html"
    words = (table, *FAST, "--bayesian", "--holdout", "0.2", "-o", model, "--report", page)
    said = run("complete", *words).stdout
    assert "Intervals for 90% of the entries hold" in said
    assert "Calibration: how many held-out entries" in page.read_text("utf-8")
    lines = list(csv.DictReader(io.StringIO(run("predict", model, "-", "--std", stdin=PAIRS).stdout)))
    assert list(lines[0]) == ["user", "film", "prediction", "std"]
    pairs = [(line["user"], line["film"]) for line in lines]
    values, deviations = rf.load(model).predict(pairs, return_std=True)
    np.testing.assert_array_equal([float(line["prediction"]) for line in lines], values)
    np.testing.assert_array_equal([float(line["std"]) for line in lines], deviations)
    assert "std" not in run("predict", model, "-", stdin=PAIRS).stdout
    told = json.loads(run("complete", *words[:-4], "--json").stdout)
    promised, held = zip(*told["coverage"], strict=True)
    assert promised == (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    assert sorted(held) == list(held)
    assert 0.75 < held[4] <= 1


def test_a_model_that_does_not_know_says_so(tmp_path, table):
    model = tmp_path / "m"
    told = json.loads(run("complete", table, *FAST, "--holdout", "0.2", "-o", model, "--json").stdout)
    assert told["coverage"] == []
    assert "does not know how sure it is: --std is for models" in fails(
        "predict", model, "-", "--std", stdin=PAIRS
    )
    run("complete", table, "--rank", "2", "--no-bayesian", "-o", model)
    assert rf.load(model).posterior_ is None


def test_deviations_are_for_pairs(tmp_path):
    path, model = tmp_path / "t.csv", tmp_path / "m"
    rng = np.random.default_rng(0)
    rows = [",".join(f"{x:.3f}" for x in row) for row in rng.standard_normal((30, 4))]
    path.write_text("\n".join(["a,b,y1,y2", *rows]))
    run("regress", path, "--target", "y1", "--target", "y2", "-o", model, "--rank", "1")
    assert "--std" in fails("predict", model, path, "--std")
