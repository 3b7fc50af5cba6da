"""`rankfold clicks`, and the commands that use its models."""

import csv
import io
import json

import numpy as np
import pytest
from cli_runs import fails, run

import rankfold as rf
from estimators.clicks.click_data import clicks

FAST = ("--rank", "3", "--regularization", "0.5")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Lines `user,film`: a click each."""
    path = tmp_path_factory.mktemp("clicks") / "clicks.csv"
    path.write_text("\n".join(["user,film", *(f"u{i},f{j}" for i, j in clicks()[0])]) + "\n")
    return path


@pytest.fixture(scope="module")
def model(table):
    run("clicks", table, *FAST, "-o", table.with_name("model.rankfold"))
    return table.with_name("model.rankfold")


def test_from_a_csv_to_a_model(model):
    loaded = rf.load(model)
    assert isinstance(loaded, rf.ImplicitFeedback)
    names = [(f"u{i}", f"f{j}") for i, j in clicks()[0]]
    alone = rf.ImplicitFeedback(3, regularization=0.5, random_state=0).fit(names)
    np.testing.assert_array_equal(loaded.predict(names), alone.predict(names))


def test_it_tells_how_good_lists_are(table):
    told = json.loads(run("clicks", table, *FAST, "--holdout", "0.2", "--json").stdout)
    assert told["shape"] == [60, 45]
    assert told["rank"] == 3
    assert told["pairs"] + round(0.2 * len(clicks()[0])) == len(clicks()[0])
    popular, ours = told["metrics"].values()
    assert ours["recall@20"] > popular["recall@20"] + 0.2
    assert ours["NDCG@20"] > popular["NDCG@20"] + 0.2
    train, apart = rf.data.split(rf.data.read_triples(table, ("user", "film")), 0.2, 0)
    fitted = rf.ImplicitFeedback(3, regularization=0.5, random_state=0).fit(train)
    lists = fitted.recommend(np.unique(apart.row_labels[apart.rows]), n=20)
    assert ours["recall@20"] == pytest.approx(rf.metrics.recall_at_k(apart, lists, 20))
    shown = run("clicks", table, *FAST, "--holdout", "0.2").output
    assert "each line is one click; numbers of clicks are read by --count" in shown
    assert "rankfold, rank 3" in shown
    assert f"{ours['NDCG@20']:.4f}" in shown
    assert "add -o model.rankfold" in shown


def test_counts_have_a_column(tmp_path):
    path = tmp_path / "plays.csv"
    lines = [f"u{i},f{j},{(i * j) % 4}" for i, j in clicks()[0]]
    path.write_text("\n".join(["who,what,plays", *lines]) + "\n")
    words = ("--row", "who", "--col", "what", "--count", "plays", "--alpha", "2", "-o", tmp_path / "m")
    assert "one click" not in run("clicks", path, *FAST, *words).stderr
    data = rf.data.read_triples(path)
    expected = rf.ImplicitFeedback(3, alpha=2.0, regularization=0.5, random_state=0).fit(data)
    np.testing.assert_array_equal(rf.load(tmp_path / "m").factors_[0], expected.factors_[0])


def test_other_commands_take_the_model(model):
    fitted = rf.load(model)
    best = json.loads(run("recommend", model, "--for", "u7", "-n", "2", "--json").stdout)
    assert [line["film"] for line in best["u7"]] == fitted.recommend("u7", n=2).cols.tolist()
    predicted = list(csv.DictReader(io.StringIO(run("predict", model, "-", stdin="u1,f2\n").stdout)))
    assert float(predicted[0]["prediction"]) == pytest.approx(fitted.predict([("u1", "f2")])[0])
    facts = json.loads(run("info", model, "--json").stdout)
    assert facts["model"] == "ImplicitFeedback"
    rows = list(csv.DictReader(io.StringIO(run("export", model, "--format", "csv").stdout)))
    assert len(rows) == 60 + 45
    assert {float(row["offset"]) for row in rows} == {0.0}
    np.testing.assert_allclose([float(row["factor_1"]) for row in rows[:60]], fitted.factors_[0][:, 0])


def test_a_file_of_pairs_is_read_with_values_of_1(tmp_path):
    data = rf.data.read_triples(io.BytesIO(b"ann,Heat\nbob,Dune\n"), (0, 1), header=False)
    assert data.values.tolist() == [1.0, 1.0]
    assert data.row_labels.tolist() == ["ann", "bob"]
    assert len(rf.data.read_triples(io.BytesIO(b"5,6\n7,8\n"), (0, 1))) == 2  # no header: 6 is a number
    with pytest.raises(ValueError, match=r"three columns .* or two"):
        rf.data.read_triples(io.BytesIO(b"5,6\n"), (0,))
    with pytest.raises(rf.data.DataFileError, match="rows of row and column are needed"):
        rf.data.read_triples(io.BytesIO(b"user,film\n"), (0, 1))
    path = tmp_path / "pairs.parquet"
    rf.data.write_triples(path, data)
    again = rf.data.read_triples(path, ("row", "column"))
    assert again.values.tolist() == [1.0, 1.0]
    assert again.col_labels.tolist() == ["Dune", "Heat"]


def test_what_is_wrong_is_said(table):
    assert "never negative" in fails("clicks", "-", "--count", "2", stdin="a,b,-1\n")
    assert "alpha must be" in fails("clicks", table, "--alpha", "0")
    assert "--rank is a number or auto" in fails("clicks", table, "--rank", "x", code=2)
