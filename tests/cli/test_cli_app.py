"""The command line as a whole: help, version, what it imports, and the commands that show rankfold."""

import json
import re
import subprocess
import sys

import pytest
from cli_runs import run

from rankfold import __version__
from rankfold.cli import console
from rankfold.kernels import layout

HEAVY = {"numpy", "scipy", "numba", "sklearn", "pyarrow", "torch", "matplotlib", "pandas"}


def test_help_imports_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-m", "rankfold.cli", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert not imported & HEAVY


def test_every_command_has_help_with_an_example():
    listed = re.findall(r"^│ (\w+) ", run("--help").output.partition("Commands")[2], re.MULTILINE)
    assert {"demo", "bench", "reproduce"} <= set(listed)
    for name in listed:
        assert f"rankfold {name}" in " ".join(run(name, "--help").output.split()), name


def test_version():
    assert run("--version").output == f"rankfold {__version__}\n"


def test_wrong_use_exits_with_2():
    run("nonsense", code=2)
    run("reproduce", "no-such-figure", code=2)
    run("bench", "--size", "many", code=2)


def test_demo_writes_picture_report_and_data(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "FEW", 10**7)  # so that it takes the kernels of other tests
    told = json.loads(run("demo", "-o", tmp_path / "d.png", "--json").stdout)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.csv", "d.html", "d.png"]
    *others, ours = told["errors"].values()
    assert ours < 1 < 20 < min(others)  # levels of 255
    page = (tmp_path / "d.html").read_text("utf-8")
    assert "below means of rows and columns" in page
    assert page.count('src="data:image/png;base64,') == 3
    assert (tmp_path / "d.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_demo_refuses_another_format_before_the_work(tmp_path):
    assert "name it .png" in run("demo", "-o", tmp_path / "d.svg", code=1).stderr
    assert list(tmp_path.iterdir()) == []


def test_reproduce_asks_for_its_extra_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "find_spec", lambda name: None)
    out = run("reproduce", "gh", "-o", tmp_path / "out", code=1)
    assert "this needs matplotlib: pip install 'rankfold[plot]'" in out.stderr
    assert list(tmp_path.iterdir()) == []


def test_bench_compares():
    told = json.loads(run("bench", "--size", "100", "--rank", "1", "--json").stdout)
    methods = {method["method"]: method for method in told["methods"]}
    assert {"rankfold", "LMaFit", "gradient descent"} <= methods.keys()
    assert methods["rankfold"]["error"] < 1e-6
    assert "relative error" in run("bench", "--size", "100", "--rank", "1").stdout


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ValueError("x.csv, line 3: no"), 1, "rankfold: x.csv, line 3: no\n"),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 1, "rankfold: x.csv: No such file"),
        (ModuleNotFoundError(name="matplotlib"), 1, "pip install 'rankfold[plot]'"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("odd"), 1, "RANKFOLD_DEBUG=1"),
    ],
)
def test_errors_are_one_line_and_a_code(error, code, words, capsys):
    @console.guarded
    def command():
        raise error

    with pytest.raises(console.typer.Exit) as exit_:
        command()
    assert exit_.value.exit_code == code
    told = capsys.readouterr()
    assert words in told.err
    assert told.out == ""
    assert "Traceback" not in told.err


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("RANKFOLD_DEBUG", "1")

    @console.guarded
    def command():
        raise ValueError("here")

    with pytest.raises(ValueError, match="here"):
        command()


def test_a_file_that_is_spelt_wrong_is_answered_with_the_nearest(tmp_path):
    (tmp_path / "ratings.csv").touch()
    missing = FileNotFoundError(2, "No such file", str(tmp_path / "rating.csv"))
    assert console.explained(missing).endswith(
        f"rating.csv: No such file; did you mean '{tmp_path / 'ratings.csv'}'?"
    )
    for other in (
        FileNotFoundError(2, "No such file", str(tmp_path / "films.csv")),
        FileNotFoundError(2, "No such file", str(tmp_path / "nowhere" / "rating.csv")),
        PermissionError(13, "Permission denied", str(tmp_path / "rating.csv")),
    ):
        assert "did you mean" not in console.explained(other)
