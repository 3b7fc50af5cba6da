"""`rankfold complete`, `predict`, `recommend`, `info` and `export`, and how each of them fails."""

import csv
import io
import json
import os

import numpy as np
import pyarrow.parquet as parquet
import pytest
from cli_runs import FAST, fails, ratings, run

import rankfold as rf
from rankfold.estimators.completion.alternating import Alternating


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def table(folder):
    path = folder / "ratings.csv"
    path.write_text(ratings())
    return path


@pytest.fixture(scope="module")
def model(folder, table):
    path = folder / "model.rankfold"
    run("complete", table, *FAST, "-o", path)
    return path


def complete(*words):
    return json.loads(run("complete", *words, "--json").stdout)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_from_a_csv_with_labels_to_a_model_a_plot_and_a_report(tmp_path, table):
    files = [tmp_path / name for name in ("m.rankfold", "fit.png", "report.html")]
    words = ("--row", "user", "--col", "film", "--value", "stars", "--holdout", "0.1", *FAST, "--bias")
    told = complete(table, *words, "-o", files[0], "--plot", files[1], "--report", files[2])
    assert (told["entries"], told["held_out"], told["rank"]) == (540, 60, 2)
    mean, offsets, ours = told["errors"].values()
    assert ours < 0.5 * offsets < offsets < mean
    assert all(path.stat().st_size > 1000 for path in files)
    assert "below offsets of rows and columns" in files[2].read_text("utf-8")
    assert rf.load(files[0]).row_labels_[0] == "u0"


def test_the_table_is_readable(table):
    told = run("complete", table, *FAST, "--holdout", "0.1")
    assert "rankfold, rank 2" in told.stdout
    assert "-o model.rankfold" in told.stderr


def test_rank_is_chosen(table):
    # a column of its own for each film, and the product of two traits
    assert complete(table, "--rank", "auto", "--regularization", "0.1", "--no-bias")["rank"] == 2


def test_a_test_file_is_predicted_also_where_labels_are_new(tmp_path, table):
    test = tmp_path / "test.csv"
    test.write_text('who,what,value\nu1,"film, 1",3\nnobody,"film, 2",4\n')
    result = run("complete", table, *FAST, "--holdout", test, "--json")
    assert json.loads(result.stdout)["held_out"] == 2
    assert "1 of 2 entries are of rows or columns never seen" in result.stderr


def test_positions_of_columns_delimiter_and_standard_input(table):
    text = "\n".join(";".join(reversed(row)) for row in csv.reader(io.StringIO(ratings())))
    words = ("--row", "2", "--col", "1", "--value", "0", "--delimiter", ";", *FAST, "--json")
    swapped = json.loads(run("complete", "-", *words, stdin=text).stdout)
    assert swapped["cost"] == complete(table, *FAST)["cost"]


@pytest.mark.parametrize("loss", ["huber", "logistic", "poisson"])
def test_losses(tmp_path, loss):
    rng = np.random.default_rng(0)
    path = tmp_path / "x.csv"
    lines = [f"{i},{j},{rng.integers(0, 2)}" for i in range(20) for j in range(15)]
    path.write_text("\n".join(lines))
    told = complete(
        path, "--loss", loss, "--rank", "1", "--regularization", "5", "--no-bias", "--holdout", "0.2"
    )
    assert 0 < list(told["errors"].values())[-1] < 1


def test_without_offsets_the_baseline_is_still_offsets(table):
    told = complete(table, *FAST, "--holdout", "0.1")
    assert "offsets of rows and columns" in told["errors"]


def test_resumed_runs_end_at_the_same_numbers(tmp_path, table):
    words = (table, *FAST, "--tol", "1e-9", "--checkpoint", tmp_path / "run.ckpt")
    whole = complete(*words)
    first = run("complete", *words, "--max-iter", "3", "--json")
    assert "without convergence" in first.stderr
    assert complete(*words, "--resume", tmp_path / "run.ckpt")["cost"] == whole["cost"]


def test_integer_ids_with_gaps_are_completed_as_well_as_positions(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((120, 2)) @ rng.standard_normal((2, 90))
    truth += 3 + rng.standard_normal((120, 1)) + rng.standard_normal(90)
    known = rng.random(truth.shape) < 0.25
    ids = 5_000_000_000 + 17 * np.arange(120), 3 * np.arange(90) - 40
    for name, which in (("known.csv", known), ("hidden.csv", ~known)):
        lines = [f"{ids[0][i]},{ids[1][j]},{float(truth[i, j])!r}" for i, j in np.argwhere(which)]
        (tmp_path / name).write_text("user,film,stars\n" + "\n".join(lines) + "\n")
    found = complete(tmp_path / "known.csv", "--holdout", tmp_path / "hidden.csv")
    assert found["rank"] == 2
    assert list(found["errors"].values())[-1] <= 1e-6 * truth.std()


def test_repeated_pairs_are_counted_or_refused(tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text(ratings() + 'u1,"film, 1",3\n' * 2)
    kept = run("complete", path, *FAST, "--json")
    assert json.loads(kept.stdout)["duplicates"] >= 1
    assert "repeat a pair, first ('u1', 'film, 1')" in kept.stderr
    told = fails("complete", path, "--duplicates", "error")
    assert "('u1', 'film, 1')" in told
    assert "lines 386 and 602 are both of" in told
    text = path.read_text()
    assert "entries 385 and 601 are both of" in fails("complete", "-", "--duplicates", "error", stdin=text)
    assert "--duplicates keep" in told


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ("", (), "the file is empty"),
        ("a,b,c\n", (), "nothing below the header"),
        ("u,f,s\nann,Heat,4\nbob,Heat,four\n", (), "line 3: column 's' is not a number: 'four'"),
        ("u,f,s\nann,Heat,4\nbob,Heat\n", (), "line 3: 2 columns where the first line has 3"),
        ("u,f,s\nann,Heat,4\nbob,Heat,inf\n", (), "line 3"),
        ("u,f,s\nann,Heat,4\n", ("--value", "stars"), "there is no column 'stars'; there are: 'u', 'f', 's'"),
        ("u,f,s\nann,Heat,4\nbob,Ran,2\n", ("--rank", "0"), "rank must be 'auto' or an integer from 1 to 2"),
        ("u,f,s\nann,Heat,4\nbob,Ran,2\n", ("--loss", "cubic"), "cubic"),
    ],
)
def test_bad_data_names_file_line_and_remedy(tmp_path, content, words, message):
    path = tmp_path / "x.csv"
    path.write_text(content)
    told = fails("complete", path, *words)
    assert message in told
    assert told.startswith("rankfold: ")


def test_bad_files_and_options(tmp_path, table, model):
    missing = tmp_path / "no.csv"
    assert f"{missing}: No such file or directory" in fails("complete", missing)
    assert "No such file" in fails("complete", table, *FAST, "--holdout", missing)
    assert "No such file" in fails("predict", missing, table)
    assert "No such file" in fails("info", missing)
    assert "stands for no known format" in fails("complete", tmp_path / "x.xlsx")
    fails("complete", table, "--rank", "many", code=2)
    fails("complete", table, "--duplicates", "maybe", code=2)
    fails("complete", table, "--holdout", "2", code=2)
    fails("export", model, "--format", "xls", code=2)
    for command in ("predict", "recommend", "export", "info"):
        extra = {"predict": (table,), "recommend": ("--for", "u1")}.get(command, ())
        assert "is not a model" in fails(command, table, *extra)


@pytest.mark.parametrize("option", ["-o", "--plot", "--report", "--checkpoint"])
def test_outputs_are_checked_before_the_work(tmp_path, table, option):
    assert "there is no folder" in fails("complete", table, option, tmp_path / "none" / "x.png")
    assert "is a folder" in fails("complete", table, option, tmp_path)


def test_a_picture_of_unknown_format_is_refused_before_the_work(tmp_path, table):
    assert "ends in one of" in fails("complete", table, "--plot", tmp_path / "fit.docx")


def test_an_output_that_may_not_be_written(tmp_path, table, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everything
    assert "may not be written" in fails("complete", table, "-o", tmp_path / "m.rankfold")


def test_ctrl_c_keeps_the_best_model(tmp_path, table, monkeypatch):
    step, count = Alternating.step, []

    def interrupted(self, problem, state):
        count.append(1)
        if len(count) > 3:
            raise KeyboardInterrupt
        return step(self, problem, state)

    monkeypatch.setattr(Alternating, "step", interrupted)
    path, saved = tmp_path / "m.rankfold", tmp_path / "run.ckpt"
    words = "complete", table, *FAST, "--no-bias", "--tol", "1e-12", "-o", path
    told = run(*words, "--checkpoint", saved, code=130)
    kept = f"interrupted after iteration 3; the best model so far is in {path}"
    assert told.stderr.endswith(f"{kept}; --resume {saved} goes on\n")
    assert rf.load(path).n_iter_ == 3
    assert np.isfinite(rf.load(path).predict([("u1", "film, 2")])).all()


@pytest.mark.parametrize("chosen", [("--rank", "auto"), ("--rank", "2")])
def test_ctrl_c_before_there_is_a_model(tmp_path, table, monkeypatch, chosen):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Alternating, "step", interrupted)  # again and again: at once, it would end the choice
    path = tmp_path / "m.rankfold"
    assert "before there was a model" in run("complete", table, *chosen, "-o", path, code=130).stderr
    assert not path.exists()


PAIRS = 'user,film\nu1,"film, 2"\nnobody,"film, 3"\nu2,unheard\n'


def test_predictions_are_those_of_the_model(tmp_path, model):
    path = tmp_path / "pairs.csv"
    path.write_text(PAIRS)
    result = run("predict", model, path)
    lines = rows_of(result.stdout)
    pairs = [(line["user"], line["film"]) for line in lines]
    assert pairs == [("u1", "film, 2"), ("nobody", "film, 3"), ("u2", "unheard")]
    np.testing.assert_array_equal(
        [float(line["prediction"]) for line in lines], rf.load(model).predict(pairs)
    )
    assert "2 of 3 pairs" in result.stderr
    assert f"{path}, line 3: the model does not know the user 'nobody'" in result.stderr


def test_pairs_of_which_nothing_is_known_are_likely_the_wrong_columns(model):
    said = run("predict", model, "-", "--no-header", stdin="x,y\nz,w\n").stderr
    assert "2 of 2 pairs have a row or column that the model does not know" in said
    assert "None of the 2 has one that it knows, so that all predictions are the same" in said
    assert "likely 'row' and 'column' are the wrong columns; name others by --row and --col. First: " in said
    for known in ("u1,y", 'x,"film, 2"'):
        said = run("predict", model, "-", "--no-header", stdin=f"x,y\n{known}\n").stderr
        assert "leave it out. First: standard input, line 1: the model does not know the user 'x'" in said


def test_columns_called_as_in_the_data_of_the_model_are_taken(tmp_path, table):
    odd, model = tmp_path / "odd.csv", tmp_path / "m.rankfold"
    odd.write_text(table.read_text().replace("user,film,stars", "north,south,z"))
    run("complete", odd, *FAST, "-o", model)
    pairs = "".join(f'{j},"film, {j}",u{j},1\n' for j in range(3))
    found = run("predict", model, "-", stdin=f"k,south,north,user\n{pairs}")
    assert list(rows_of(found.stdout)[0]) == ["north", "south", "prediction"]
    assert [line["north"] for line in rows_of(found.stdout)] == ["u0", "u1", "u2"]
    assert "rankfold" not in found.stderr
    there = run("predict", model, "-", "--row", "north", stdin=f"k,south,north,north\n{pairs}", code=1)
    assert "two columns are called 'north'" in there.stderr


def test_a_first_line_that_may_be_a_header_is_named(model):
    assert "taken for a header" not in run("predict", model, "-", stdin=PAIRS).stderr  # the model's own names
    told = run("predict", model, "-", stdin=PAIRS.replace("user", "who", 1)).stderr
    assert "the first line, 'who', 'film', is taken for a header" in told
    for words in (("--row", "user", "--col", "film"), ("--header",)):
        assert "taken for a header" not in run("predict", model, "-", *words, stdin=PAIRS).stderr
    alone = "nobody,unheard\n"
    assert "nothing below the header, 'nobody', 'unheard'" in fails("predict", model, "-", stdin=alone)
    assert rows_of(run("predict", model, "-", "--no-header", stdin=alone).stdout)[0]["row"] == "nobody"


def test_strict_refuses_unknown_labels_and_writes_nothing(tmp_path, model):
    out = tmp_path / "out.csv"
    told = fails("predict", model, "-", "--strict", "-o", out, stdin=PAIRS)
    assert "standard input, line 3" in told
    assert not out.exists()


def test_predictions_in_other_formats(tmp_path, model):
    expected = [float(line["prediction"]) for line in rows_of(run("predict", model, "-", stdin=PAIRS).stdout)]
    run("predict", model, "-", "-o", tmp_path / "p.parquet", stdin=PAIRS)
    assert parquet.read_table(tmp_path / "p.parquet")["prediction"].to_pylist() == expected
    lines = run("predict", model, "-", "--json", stdin=PAIRS).stdout.splitlines()
    assert [json.loads(line)["prediction"] for line in lines] == expected
    columns = ("--row", "user", "--col", "film")
    run("predict", model, "-", *columns, "-o", tmp_path / "p.tsv", stdin=PAIRS)
    assert (tmp_path / "p.tsv").read_text().startswith("user\tfilm\tprediction\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "is empty"), ("u1\n", "two columns"), ("user,film\nu1\n", "line 2"), ("u1,\n", "line 1")],
)
def test_bad_pairs(model, text, message):
    assert message in fails("predict", model, "-", stdin=text)


def test_integer_labels(tmp_path):
    path = tmp_path / "m.rankfold"
    text = "\n".join(f"{7 * i},{j},{i * j % 5}" for i in range(20) for j in range(9))
    run("complete", "-", "--rank", "1", "--regularization", "1", "-o", path, stdin=text)
    result = run("predict", path, "-", stdin="7,3\n8,3\nseven,2\n")
    assert [line["row"] for line in rows_of(result.stdout)] == ["7", "8", "seven"]
    assert "2 of 3 pairs" in result.stderr


def test_info(model):
    told = json.loads(run("info", model, "--json").stdout)
    assert told["model"] == "MatrixCompletion"
    assert (told["shape"], told["rank"], told["entries"]) == ([40, 30], 2, 600)
    assert told["settings"]["regularization"] == 0.5
    assert "MatrixCompletion" in run("info", model).stdout


def test_exported_factors_make_the_predictions(tmp_path, model):
    pairs = [("u1", "film, 2"), ("u39", "film, 0")]
    expected = rf.load(model).predict(pairs)
    lines = rows_of(run("export", model, "--format", "csv").stdout)
    sides = {(line.pop("side"), line.pop("label")): np.array(list(line.values()), float) for line in lines}
    for (row, col), value in zip(pairs, expected, strict=True):
        (b, *L), (c, *R) = sides["row", row], sides["column", col]
        assert b + c + np.dot(L, R) == pytest.approx(value, abs=1e-12)
    run("export", model, "-o", tmp_path / "f.parquet")
    assert parquet.read_table(tmp_path / "f.parquet").num_rows == 70
    run("export", model, "-o", tmp_path / "f.npz")
    with np.load(tmp_path / "f.npz") as arrays:
        np.testing.assert_array_equal(arrays["L"], rf.load(model).factors_[0])
        assert arrays["col_labels"][0] == "film, 0"


def test_recommendations_are_the_best_unseen_columns(table, model):
    told = json.loads(run("recommend", model, "--for", "u1", "--for", "u2", "-n", "4", "--json").stdout)
    assert list(told) == ["u1", "u2"]
    seen = {row[1] for row in csv.reader(io.StringIO(table.read_text())) if row[0] == "u1"}
    others = [(f"film, {j}") for j in range(30) if f"film, {j}" not in seen]
    scores = rf.load(model).predict([("u1", film) for film in others])
    assert [line["film"] for line in told["u1"]] == [others[k] for k in np.argsort(-scores)[:4]]
    assert "for u1" in run("recommend", model, "--for", "u1", "--include-seen").stdout


def test_a_misspelt_label_is_answered_with_the_nearest(model):
    told = fails("recommend", model, "--for", "u 1")
    assert "the user label 'u 1' is not in this model: did you mean 'u1'" in told


def test_positions_of_a_matrix_file_stay_in_its_shape(tmp_path):
    entries = "".join(f"{i + 1} {j + 1} {i + j}.5\n" for i in range(6) for j in range(5) if (i + j) % 3)
    (tmp_path / "known.mtx").write_text(f"%%MatrixMarket matrix coordinate real general\n8 7 20\n{entries}")
    run("complete", tmp_path / "known.mtx", *FAST, "-o", tmp_path / "model")
    assert "5,4," in run("predict", tmp_path / "model", "-", stdin="5,4\n7,6\n").stdout
    said = fails("predict", tmp_path / "model", "-", stdin="5,4\n5,7\n")
    assert "line 2: 7 is no column of this model, which knows them by position, from 0 to 6" in said
    found = json.loads(run("recommend", tmp_path / "model", "--for", "7", "-n", "9", "--json").stdout)
    assert sorted(line["column"] for line in found["7"]) == [0, 1, 2, 3, 4]
    (tmp_path / "vast.mtx").write_text(
        f"%%MatrixMarket matrix coordinate real general\n{4 * 10**9} 7 20\n{entries}"
    )
    assert "4,000,000,000 × 7 at rank 2 takes at least" in fails("complete", tmp_path / "vast.mtx", *FAST)


def test_integer_ids_of_files_are_labels(tmp_path):
    lines = [f"{10**15 + 7 * i},{-j},{i * j % 5}" for i in range(8) for j in range(6) if (i + 2 * j) % 3]
    (tmp_path / "known.csv").write_text("\n".join(lines))
    run("complete", tmp_path / "known.csv", *FAST, "-o", tmp_path / "model")
    found = json.loads(
        run("recommend", tmp_path / "model", "--for", f"{10**15 + 7}", "-n", "99", "--json").stdout
    )
    assert {line["column"] for line in found[f"{10**15 + 7}"]} <= set(range(-5, 1))
    unknown = run("predict", tmp_path / "model", "-", "--no-header", stdin=f"{10**15},-3\n{10**40},-3\n")
    assert "1 of 2 pairs have a row or column that the model does not know" in unknown.stderr


FOUR = "user,film,stars\nann,Heat,5\nann,Dune,3\nbob,Heat,4\ncat,Heat,2\n"


def test_four_ratings_leave_none_to_hold_out(tmp_path):
    path = tmp_path / "four.csv"
    path.write_text(FOUR)
    said = fails("complete", path, *FAST, "--holdout", "0.1")
    assert "--holdout 0.1 of 4 entries is none: hold out a larger part, or nothing" in said


def test_a_rank_beyond_the_matrix_is_said_to_be_the_largest(tmp_path):
    path = tmp_path / "four.csv"
    path.write_text(FOUR)
    told = run("complete", path, "--rank", "5", "--regularization", "1", "--json")
    assert "a 3 × 2 matrix has no higher rank than 2: that is taken" in told.stderr
    assert json.loads(told.stdout)["rank"] == 2
    told = run("complete", path, "--rank", "2", "--regularization", "1", "--json")
    assert "no higher rank" not in told.stderr


def test_a_misspelt_user_is_no_defect(tmp_path):
    path, model = tmp_path / "four.csv", tmp_path / "m.rankfold"
    path.write_text(FOUR)
    run("complete", path, "--rank", "1", "--regularization", "1", "-o", model)
    said = fails("recommend", model, "--for", "anne")
    assert said == "rankfold: the user label 'anne' is not in this model: did you mean 'ann'?\n"
