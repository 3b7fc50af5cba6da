"""`rankfold impute` and `regress`, and how they fail."""

import csv
import io
import json

import numpy as np
import pytest
from cli_runs import fails, run

import rankfold as rf


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) * [1, 10, 100]
    Y = X / [1, 10, 100] @ np.outer([1, -1, 2], [1, 3]) + 1 + 0.01 * rng.standard_normal((60, 2))
    path = tmp_path_factory.mktemp("tables") / "samples.csv"
    lines = [",".join(f"{number:.6f}" for number in row) for row in np.hstack([X, Y])]
    path.write_text("\n".join(["a,b,c,y1,y2", *lines]))
    return path


TARGETS = ("--target", "y1", "--target", "y2")


def test_regress_finds_coefficients_in_the_units_of_the_data(tmp_path, samples):
    out = tmp_path / "coefficients.csv"
    told = json.loads(run("regress", samples, *TARGETS, "--coefficients", out, "--json").stdout)
    assert told["rank"] == 1
    assert told["r2"] > 0.99
    lines = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [line["feature"] for line in lines] == ["a", "b", "c", "(intercept)"]
    found = np.array([[float(line[name]) for name in ("y1", "y2")] for line in lines])
    truth = np.vstack([np.outer([1, -0.1, 0.02], [1, 3]), [[1, 1]]])
    np.testing.assert_allclose(found, truth, atol=0.02)


def test_what_auto_goes_by(tmp_path):
    rng = np.random.default_rng(1)
    X, noise = rng.standard_normal((60, 4)), rng.standard_normal((60, 4))
    Y = X @ np.outer([1, -1, 2, 0], [1, 3, 1, 0]) + 0.25 * X @ rng.standard_normal((4, 4)) + noise
    names = [f"{letter}{k}" for letter in "xy" for k in range(4)]
    path = tmp_path / "weak.csv"
    np.savetxt(path, np.hstack([X, Y]), delimiter=",", header=",".join(names), comments="")

    def rank(criterion):
        targets = (word for name in names[4:] for word in ("--target", name))
        told = run("regress", path, *targets, "--criterion", criterion, "--json").stdout
        return json.loads(told)["rank"]

    assert rank("bic") == 1 < rank("aic")


def test_regress_takes_other_losses(tmp_path):
    """Counts whose logarithm is linear: predictions are expected counts, and the file knows the loss."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(80)
    y = rng.poisson(np.exp(1 + x))
    table, file = tmp_path / "counts.csv", tmp_path / "model.rankfold"
    table.write_text("\n".join(["x,y", *(f"{a},{b}" for a, b in zip(x, y, strict=True))]))
    options = ("--target", "y", "--loss", "poisson", "--rank", "1", "--regularization", "0", "-o", file)
    run("regress", table, *options)
    fitted = rf.load(file)
    assert fitted.loss == "poisson"
    assert fitted.coef_[0, 0] == pytest.approx(1, abs=0.1)
    assert fitted.intercept_[0] == pytest.approx(1, abs=0.1)
    new = tmp_path / "new.csv"
    new.write_text("x\n2.0")
    (_, told) = run("predict", file, new).stdout.split()
    assert float(told) == pytest.approx(np.exp(fitted.intercept_[0] + 2 * fitted.coef_[0, 0]))
    assert "loss must be one of 'square'" in fails("regress", table, "--target", "y", "--loss", "cubic")


def test_regress_predicts(samples):
    told = run("regress", samples, *TARGETS, "--rank", "1", "--regularization", "0", "--predict", samples)
    predicted = np.array(
        [list(map(float, row)) for row in csv.reader(io.StringIO(told.stdout)) if row[0] != "y1"]
    )
    truth = np.loadtxt(samples, delimiter=",", skiprows=1)[:, 3:]
    assert np.abs(predicted - truth).max() < 0.1
    assert "cross-validated" in told.stderr


def test_a_kept_model_predicts_the_same(tmp_path, samples):
    model, out = tmp_path / "model.rankfold", tmp_path / "p.csv"
    to = ("--predictions", out)
    told = run("regress", samples, *TARGETS, "--rank", "1", "-o", model, "--predict", samples, *to)
    assert "cross-validated" in told.stderr
    assert run("predict", model, samples).stdout == out.read_text()
    shuffled = "y1,c,b,a\n9,100,10,1\n"  # columns are found by name, and others ignored
    line = json.loads(run("predict", model, "-", "--json", stdin=shuffled).stdout)
    assert list(line) == ["y1", "y2"]
    np.testing.assert_allclose([line["y1"], line["y2"]], [3, 7], atol=0.02)  # 1 - 1 + 2 times 1 and 3, plus 1
    told = json.loads(run("info", model, "--json").stdout)
    assert (told["model"], told["rank"]) == ("ReducedRankRegression", 1)
    assert (told["feature_names_in"], told["target_names"]) == (["a", "b", "c"], ["y1", "y2"])
    assert "this command needs a model of `rankfold complete`" in fails("recommend", model, "--for", "x")
    assert "there is no column 'a'" in fails("predict", model, "-", stdin="b,c\n1,2\n")
    assert "line 2: column 'b' is empty" in fails("predict", model, "-", stdin="a,b,c\n1,,2\n")


def test_options_of_pair_models_are_refused_for_a_regression(tmp_path, samples):
    model = tmp_path / "model.rankfold"
    told = run("regress", samples, *TARGETS, *TARGETS, "--rank", "1", "-o", model, "--json").stdout
    assert json.loads(told)["targets"] == list(TARGETS[1::2])  # a target named twice is one
    for words in (["--strict"], ["--no-header"], ["--row", "user"]):
        assert "models of pairs" in fails("predict", model, samples, *words)
    table = _with_first_value(samples, tmp_path, "-999")
    assert "is empty" in fails("predict", model, table, "--missing", "-999")


def _with_first_value(samples, folder, value):
    lines = samples.read_text().splitlines()
    lines[1] = ",".join([value, *lines[1].split(",")[1:]])
    path = folder / "changed.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_model_without_names_takes_columns_in_order(tmp_path):
    X = np.random.default_rng(0).standard_normal((30, 2))
    rf.save(rf.ReducedRankRegression(1).fit(X, X @ [[2.0], [3.0]]), tmp_path / "model")
    lines = list(
        csv.DictReader(io.StringIO(run("predict", tmp_path / "model", "-", stdin="p,q\n1,1\n").stdout))
    )
    assert float(lines[0]["y1"]) == pytest.approx(5)


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ("a,b,y\n1,2,3\n", ("--target", "z"), "there is no column 'z'; there are: 'a', 'b', 'y'"),
        ("a,b,y\n1,2,3\n4,5,six\n", ("--target", "y"), "line 3: column 'y' is not a number: 'six'"),
        ("a,b,y\n", ("--target", "y"), "nothing below the header"),
        ("", ("--target", "y"), "mpty"),
        ("a,b,y\n1,2\n", ("--target", "y"), "Expected 3 columns, got 2"),
        ("a,b,y\n1,,3\n4,5,6\n", ("--target", "y"), "line 2: column 'b' is empty"),
    ],
)
def test_regress_says_what_is_wrong(tmp_path, content, words, message):
    path = tmp_path / "x.csv"
    path.write_text(content)
    assert message in fails("regress", path, *words)


def test_files(tmp_path, samples):
    assert "No such file" in fails("regress", tmp_path / "no.csv", *TARGETS)
    for option in ("--coefficients", "-o"):
        assert "no folder" in fails("regress", samples, *TARGETS, option, tmp_path / "no" / "x")
    fails("regress", samples, code=2)
    fails("regress", samples, *TARGETS, "--rank", "best", code=2)
    fails("regress", samples, *TARGETS, "--criterion", "best", code=2)


@pytest.fixture(scope="module")
def sensors(tmp_path_factory):
    """A table of rank two with holes, a column of text and one of nothing; and the truth."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5)) * [1, 10, 100, 1, 1] + [0, 5, 0, 9, 1]
    known = rng.random(truth.shape) < 0.85
    path = tmp_path_factory.mktemp("impute") / "sensors.csv"
    lines = [
        ",".join(
            ["ab"[k % 2], "", *(f"{x:.6f}" if seen else "NA" for x, seen in zip(row, mask, strict=True))]
        )
        for k, (row, mask) in enumerate(zip(truth, known, strict=True))
    ]
    path.write_text("\n".join(["site,note,t,u,v,w,x", *lines]))
    return path, truth, known


def test_impute_fills_holes_and_keeps_the_rest(tmp_path, sensors):
    path, truth, known = sensors
    out = tmp_path / "filled.csv"
    told = json.loads(run("impute", path, "--rank", "2", "-o", out, "--json").stdout)
    assert told["filled"] == np.count_nonzero(~known)
    assert told["copied_columns"] == ["site", "note"]
    lines = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [line["site"] for line in lines[:3]] == ["a", "b", "a"]
    filled = np.array([[float(line[name]) for name in "tuvwx"] for line in lines])
    np.testing.assert_array_equal(filled[known], truth.round(6)[known])
    scale = truth.std(axis=0)
    assert np.abs((filled - truth) / scale)[~known].mean() < 0.1


def test_impute_to_standard_output_with_names_for_nothing(sensors):
    text = sensors[0].read_text().replace("NA", "-999")
    told = run("impute", "-", "--missing", "", "--missing", "-999", stdin=text)
    assert "-999" not in told.stdout
    assert "values filled" in told.stderr


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ("a,b\n1,2\n3,x\n", ("--column", "b"), "line 3: column 'b' is not a number: 'x'"),
        ("a,b\n1,2\n3,\n", ("--column", "c"), "there is no column 'c'"),
        ("a,b\nx,y\n", (), "no column of numbers"),
        ("a,b\n", (), "nothing below the header"),
        ("", (), "mpty"),
    ],
)
def test_impute_says_what_is_wrong(tmp_path, content, words, message):
    path = tmp_path / "x.csv"
    path.write_text(content)
    assert message in fails("impute", path, *words)


def test_impute_files_and_options(tmp_path, sensors):
    assert "No such file" in fails("impute", tmp_path / "no.csv")
    assert "no folder" in fails("impute", sensors[0], "-o", tmp_path / "no" / "c.csv")
    fails("impute", sensors[0], "--rank", "many", code=2)


def test_impute_can_take_rows_for_ordered(tmp_path):
    rng = np.random.default_rng(0)
    drift = np.cumsum(rng.standard_normal((200, 3)), axis=0)
    table = np.where(np.repeat(rng.uniform(size=(25, 3)) < 0.1, 8, axis=0), np.nan, drift)
    source, target = tmp_path / "drift.csv", tmp_path / "filled.csv"
    cells = [",".join("" if np.isnan(x) else repr(float(x)) for x in row) for row in table]
    source.write_text("\n".join(["a,b,c", *cells]) + "\n")
    run("impute", source, "--rank", "1", "--ordered", "-o", target)
    filled = np.loadtxt(target, delimiter=",", skiprows=1)
    expected = rf.LowRankImputer(1, order="rows", random_state=0).fit_transform(table)
    np.testing.assert_allclose(filled, expected, rtol=1e-9)
