"""Which columns commands take, how they say so, and how they point to the right option or command."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from cli_runs import FAST, fails, ratings, run

import rankfold as rf

RNG = np.random.default_rng(0)
CELLS = [(i, j) for i in range(12) for j in range(9) if (i + 2 * j) % 3]


def value(i, j):
    return 1 + (i % 4) + (j % 3) / 2


def lines(form, header=None, cells=CELLS):
    """A line for each cell: {i}, {j}, {v}, {t} (a time) and {c} (the value with a decimal comma)."""
    made = [
        form.format(
            i=i, j=j, v=value(i, j), t=1_100_000_000 + 977 * i + j, c=str(value(i, j)).replace(".", ",")
        )
        for i, j in cells
    ]
    return "\n".join(made if header is None else [header, *made]) + "\n"


def completed(tmp_path, text, *words):
    """Complete a file, and return the model and what was said."""
    table, path = tmp_path / "table.csv", tmp_path / "m.rankfold"
    table.write_text(text)
    told = run("complete", table, *FAST, "-o", path, *words)
    return rf.load(path), told.stderr


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("userId,movieId,timestamp,rating", "u{i},m{j},{t},{v}"),
        ("timestamp,rating,movieId,userId", "{t},{v},m{j},u{i}"),
        ("Movie Title,User_ID,Rating", "m{j},u{i},{v}"),
        ("customer,product,date,comment,stars", "u{i},m{j},2020-01-01,fine,{v}"),
    ],
)
def test_columns_are_found_by_their_names(tmp_path, header, form):
    model, told = completed(tmp_path, lines(form, header))
    assert model.row_labels_[0] == "u0"
    assert model.col_labels_[0] == "m0"
    assert model.value_range_ == (1.0, 5.0)
    names = header.split(",")
    row, col = (next(n for n in names if n in options) for options in (
        ("userId", "User_ID", "customer"), ("movieId", "Movie Title", "product")))  # fmt: skip
    assert f"table.csv: rows from {row!r}, columns from {col!r}, values from " in told
    assert list(model.feature_names_in_) == [row, col]


def test_without_names_that_tell_the_first_three_are_taken_and_named(tmp_path):
    model, told = completed(tmp_path, lines("u{i};m{j};{v};x", "a;b;c;d"))
    assert "rows from 'a', columns from 'b', values from 'c'" in told
    assert model.shape_ == (12, 9)
    _, told = completed(tmp_path, lines("u{i};m{j};{v};x"))
    assert "rows from '0', columns from '1', values from '2'" in told


def test_what_is_chosen_stays_chosen(tmp_path):
    text = lines("u{i},m{j},{t},{v}", "userId,movieId,timestamp,rating")
    model, told = completed(tmp_path, text, "--row", "movieId", "--col", "userId", "--value", "timestamp")
    assert "rows from 'movieId', columns from 'userId', values from 'timestamp'" in told
    assert model.value_range_[0] > 1e9


def test_the_columns_are_in_the_json(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(lines("u{i},m{j},{v}", "who,film,stars"))
    assert json.loads(run("complete", table, *FAST, "--json").stdout)["columns"] == ["who", "film", "stars"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (lines("u{i},m{j},{t}", "user,film,timestamp"), "'timestamp', which would be next, like a time"),
        (lines("u{i},m{j},{t},{v}"), "column '2' looks like times (11000"),
        (lines("u{i},m{j},{t}"), "column '2' looks like times"),
        (lines("u{i},m{j},{t},{v}", "a,b,c,d"), "column 'c' looks like times"),
    ],
)
def test_times_are_not_taken_for_values(tmp_path, text, words):
    table = tmp_path / "t.csv"
    table.write_text(text)
    told = fails("complete", table, *FAST)
    assert words in told
    assert "--value" in told


def test_large_values_are_no_times(tmp_path):
    model, _ = completed(tmp_path, lines("u{i},m{j},{t}.5", "a,b,c"))
    assert model.value_range_[0] > 1e9
    model, _ = completed(tmp_path, lines("u{i},m{j},{t}", "user,film,stars"), "--value", "stars")
    assert model.value_range_[0] > 1e9


@pytest.mark.parametrize("header", [None, "user;film;stars"])
def test_decimal_commas(tmp_path, header):
    model, _ = completed(tmp_path, lines("u{i};m{j};{c}", header), "--decimal", ",")
    assert model.value_range_ == (1.0, 5.0)
    assert sorted(model.row_labels_)[0] == "u0"
    if header:
        table = tmp_path / "table.csv"
        said = fails("complete", table, *FAST)
        assert (
            "table.csv: read it with --decimal , (in Python decimal=','): line 2, column 'stars', holds"
            in said
        )
        assert "impute" not in said


def test_a_decimal_point_is_one_sign(tmp_path):
    assert "decimal must be one character" in fails("complete", "-", "--decimal", "xy", stdin="a,b,1\n")


WIDE = "hour,north,south,east\n" + "\n".join(f"{k},{k / 7:.3f},{k / 3:.3f},{k / 9:.3f}" for k in range(40))


@pytest.mark.parametrize("text", [WIDE, WIDE.replace("13,", "13,,").replace(",,1", ",1")])
def test_a_wide_table_is_for_impute(tmp_path, text):
    table = tmp_path / "sensors.csv"
    table.write_text(WIDE)
    told = fails("complete", table, *FAST)
    assert "column 'north' holds numbers such as" in told
    assert "`rankfold impute`" in told
    assert "--row, --col, --value" in told


def test_a_wide_table_with_holes_is_for_impute_too(tmp_path):
    table = tmp_path / "sensors.csv"
    table.write_text(WIDE.replace("\n3,0.429,1.000,", "\n3,0.429,,"))
    told = fails("complete", table, *FAST)
    assert "column 'south' is empty" in told
    assert "`rankfold impute`" in told
    assert "--value" in told
    assert "`rankfold impute`" not in fails("complete", table, *FAST, "--value", "south")


def test_numbers_as_labels_are_no_wide_table(tmp_path):
    model, _ = completed(tmp_path, lines("{i},{j},{v}"))
    assert model.shape_ == (12, 9)
    model, _ = completed(tmp_path, lines("{i},{j}.5,{v}", "a,b,c"), "--col", "b")
    assert model.shape_ == (12, 9)


def test_triples_are_for_complete(tmp_path):
    table = tmp_path / "ratings.csv"
    table.write_text(lines("{i},{j},{v}", "userId,movieId,rating"))
    told = fails("impute", table)
    assert "'userId', 'movieId' and 'rating' are known entries of a matrix, which `rankfold complete`" in told
    assert "--column" in told
    told = run("impute", table, "--column", "rating", "--column", "userId").stderr
    assert "Nothing was missing; if the lines hold row, column and value" in told


def test_tables_with_decimal_commas(tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "out.csv"
    rows = [[f"{k / 4:.2f}", "" if k % 5 == 0 else f"{k / 2:.2f}", f"{k + 0.25:.2f}"] for k in range(30)]
    table.write_text("\n".join(["a;b;c", *(";".join(row).replace(".", ",") for row in rows)]))
    assert "these look like decimal commas: --decimal ," in fails("impute", table)
    chosen = ("--target", "c", "--feature", "a")
    assert "column 'a' is not a number: '0,00'; read decimal commas with --decimal ," in fails(
        "regress", table, *chosen
    )
    run("impute", table, "--decimal", ",", "--rank", "1", "-o", out)
    found = np.array([[float(cell) for cell in line.split(",")] for line in out.read_text().split()[1:]])
    assert found.shape == (30, 3)
    np.testing.assert_array_equal(found[:, 2], np.arange(30) + 0.25)


def test_regress_names_the_columns_that_it_leaves_out(tmp_path):
    table = tmp_path / "t.csv"
    cells = [
        f"{a:.3f},{'north' if a > 0 else 'south'},{b:.3f},{a + b:.3f}" for a, b in RNG.normal(size=(40, 2))
    ]
    table.write_text("\n".join(["a,region,b,y", *cells]))
    told = run("regress", table, "--target", "y", "--rank", "1", "--regularization", "0").stderr
    assert "left out 'region': not numbers" in told
    chosen = ("--feature", "a", "--feature", "b", "--rank", "1", "--regularization", "0")
    assert "left out" not in run("regress", table, "--target", "y", *chosen).stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("columns")
    (folder / "ratings.csv").write_text(ratings())
    run("complete", folder / "ratings.csv", *FAST, "-o", folder / "m.rankfold")
    return folder / "m.rankfold"


def test_predictions_are_headed_as_the_pairs_are(model):
    told = run("predict", model, "-", stdin='film,when,user\n"film, 2",1,u1\n').stdout
    assert next(csv.reader(io.StringIO(told))) == ["user", "film", "prediction"]
    assert told.splitlines()[1].startswith('"u1","film, 2",')
    told = run("predict", model, "-", stdin='u1,"film, 2"\n').stdout
    assert told.startswith("row,column,prediction\n")


def test_recommendations_are_headed_as_the_file_was(model):
    assert "film for u1" in run("recommend", model, "--for", "u1").stdout
    told = json.loads(run("recommend", model, "--for", "u1", "-n", "1", "--json").stdout)
    assert list(told["u1"][0]) == ["film", "prediction"]


def test_predictions_are_clipped_on_demand(tmp_path):
    text = "\n".join(f"u{i},f{j},{min(5, max(1, i * j / 4))}" for i in range(10) for j in range(10) if i != j)
    table, path, clipped = tmp_path / "t.csv", tmp_path / "m.rankfold", tmp_path / "c.rankfold"
    table.write_text(text)
    pairs = "".join(f"u{i},f{i}\n" for i in range(10))
    run("complete", table, *FAST, "--bias", "-o", path)
    run("complete", table, *FAST, "--bias", "--clip", "-o", clipped)

    def predictions(*words):
        told = run("predict", *words, "-", "--no-header", stdin=pairs).stdout
        return [float(line["prediction"]) for line in csv.DictReader(io.StringIO(told))]

    plain = predictions(path)
    assert max(plain) > 5
    assert predictions(path, "--clip") == predictions(clipped) == list(np.clip(plain, 1, 5))
    best = json.loads(run("recommend", path, "--for", "u9", "-n", "1", "--clip", "--json").stdout)["u9"][0]
    assert best["prediction"] == 5.0
    everything = "recommend", path, "--for", "u9", "-n", "10", "--include-seen"
    said = run(*everything, "--clip").stderr
    assert "the range of the data, 1 to 5, are shown as its end; their order is that before" in said
    order = [[line["column"] for line in json.loads(run(*everything, *clip, "--json").stdout)["u9"]]
             for clip in ((), ("--clip",))]  # fmt: skip
    assert order[0] == order[1]
    assert run(*everything).stderr == ""
    assert run("recommend", clipped, "--for", "u2", "-n", "1").stderr == ""  # none is at an end


def test_clipping_needs_a_range(tmp_path, model):
    old = rf.load(model)
    old.value_range_ = None
    rf.save(old, tmp_path / "old.rankfold")
    assert "does not know the range of its data" in fails(
        "predict", tmp_path / "old.rankfold", "-", "--clip", stdin="a,b\n"
    )


@pytest.mark.parametrize("command", ["complete", "clicks", "impute", "regress"])
def test_a_sign_of_life_comes_before_the_library_is_loaded(command, tmp_path):
    """On a terminal: what takes seconds to import must not be imported before something is shown."""
    table = tmp_path / "t.csv"
    table.write_text("user,film,stars\n")
    script = (
        "import sys\n"
        "from contextlib import contextmanager\n"
        "@contextmanager\n"
        "def shown(text):\n"
        "    heavy = {'numba', 'pyarrow', 'sklearn', 'scipy'} & set(sys.modules)\n"
        "    print(text, sorted(heavy), flush=True)\n"
        "    sys.exit(3)\n"
        "    yield\n"
        "import rankfold.cli.console\n"
        "rankfold.cli.console.working = shown\n"
        "from rankfold.cli.app import app\n"
        f"app(['{command}', {str(table)!r}, *sys.argv[1:]])\n"
    )
    words = ["--target", "stars"] if command == "regress" else []
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert done.stdout == "starting []\n", done.stderr
