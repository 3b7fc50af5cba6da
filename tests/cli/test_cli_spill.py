"""`rankfold complete` of several files, and of more than memory holds."""

import json

import pytest
from cli_runs import FAST, fails, ratings, run
from numpy.testing import assert_array_equal

import rankfold as rf
from rankfold.cli import spilling


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of ratings in three files, and in one."""
    folder = tmp_path_factory.mktemp("spill")
    header, *lines = ratings().splitlines(keepends=True)
    for k in range(3):
        (folder / f"part{k}.csv").write_text(header + "".join(lines[k::3]))
    (folder / "all.csv").write_text(header + "".join(lines))
    return folder


def same(one, two):
    one, two = rf.load(one), rf.load(two)
    assert_array_equal(one.row_labels_, two.row_labels_)
    for ours, theirs in zip((*one.factors_, *one.biases_), (*two.factors_, *two.biases_), strict=True):
        assert_array_equal(ours, theirs)
    return one


def test_several_files_and_patterns_are_one_table(files, tmp_path):
    names = [files / f"part{k}.csv" for k in range(3)]
    for words, name in (([files / "all.csv"], "all"), (names, "several"), ([files / "part*.csv"], "pattern")):
        run("complete", *words, *FAST, "-o", tmp_path / name)
    same(tmp_path / "all", tmp_path / "several")
    same(tmp_path / "all", tmp_path / "pattern")


def test_a_spilled_fit_is_that_of_memory_and_its_sort_is_used_again(files, tmp_path):
    command = ["complete", files / "part*.csv", "--rank", "2"]
    run(*command, "-o", tmp_path / "memory")
    spilled = [*command, "--spill", tmp_path / "sorted", "-o", tmp_path / "disk", "--json"]
    first, again = run(*spilled), run(*spilled)
    assert "sorted already" not in first.stderr
    assert "sorted is sorted already: its sources have not changed" in again.stderr
    model = same(tmp_path / "memory", tmp_path / "disk")
    assert model.posterior_ is not None
    told = json.loads(again.stdout)
    assert (told["entries"], told["shape"], told["duplicates"]) == (600, [40, 30], 0)
    lines = run("predict", tmp_path / "disk", files / "part0.csv", "--row", "user", "--col", "film").stdout
    assert len(lines.splitlines()) == 201
    assert "prediction" in run("recommend", tmp_path / "disk", "--for", "u1", "-n", "2").stdout


def test_a_part_is_held_out_while_sorting(files, tmp_path):
    words = ["complete", files / "all.csv", *FAST, "--bias", "--spill", tmp_path / "s", "--holdout", "0.2"]
    told = json.loads(run(*words, "--json", "--report", tmp_path / "r.html", "--memory", "50MB").stdout)
    assert 80 < told["held_out"] < 160
    assert told["entries"] + told["held_out"] == 600
    mean, offsets, ours = told["errors"].values()
    assert ours < 0.3 < offsets < mean
    assert "offsets of rows and columns" in (tmp_path / "r.html").read_text("utf-8")


def test_a_file_is_held_out(files, tmp_path):
    words = [
        "complete",
        files / "part0.csv",
        *FAST,
        "--spill",
        tmp_path / "s",
        "--holdout",
        files / "part1.csv",
    ]
    told = json.loads(run(*words, "--json").stdout)
    assert (told["entries"], told["held_out"]) == (200, 200)


def test_errors_are_measured_on_a_sample_of_many(files, tmp_path, monkeypatch):
    folder = rf.data.sort_into(tmp_path / "s", files / "all.csv", held_out=0.5)
    whole = spilling.measured(folder, seed=0)
    monkeypatch.setattr(spilling, "MEASURED", 40)
    rows, cols, values = spilling.measured(folder, seed=0)
    assert len(values) == 40 < len(whole[2])
    pairs = {(i, j): y for i, j, y in zip(*(part.tolist() for part in whole), strict=True)}
    assert [pairs[i, j] for i, j in zip(rows.tolist(), cols.tolist(), strict=True)] == values.tolist()


def test_a_finish_that_outgrows_memory_is_said_to_be_left_out(files, tmp_path, monkeypatch):
    monkeypatch.setattr(spilling, "wanted", lambda model, cost: False)
    words = ["complete", files / "all.csv", "--rank", "2", "--spill", tmp_path / "s"]
    assert "the Bayesian finish was left out: its covariances outgrow --memory" in run(*words).stderr
    assert "left out" not in run(*words, "--regularization", "1").stderr
    assert "left out" not in run(*words, "--no-bayesian").stderr


def test_repeated_pairs(files, tmp_path):
    (tmp_path / "twice.csv").write_text("a,x,1\nb,x,2\na,y,3\na,x,4\n")
    words = [
        "complete",
        tmp_path / "twice.csv",
        "--rank",
        "1",
        "--regularization",
        "1",
        "--spill",
        tmp_path / "s",
    ]
    assert "warning: 1 entries repeat a pair; each counts" in run(*words).stderr
    assert "entry ('a', 'x') is given more than once" in fails(*words, "--duplicates", "error")


def test_what_cannot_be_spilled_is_refused(files, tmp_path):
    spill = ["--spill", tmp_path / "s"]
    assert "without --spill: name files" in fails("complete", "-", *spill, code=2, stdin="a,b,1\n")
    assert "name files" in fails("complete", "-", files / "all.csv", code=2)
    assert "no file has such a name" in fails("complete", files / "none*.csv", *spill)
    assert "memory must be a number of bytes" in fails(
        "complete", files / "all.csv", *spill, "--memory", "some"
    )
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").write_text("x")
    assert "holds other files, such as 'thesis.tex'" in fails("complete", files / "all.csv", *spill)
