"""Signals and streams that go away, at every moment of a command."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from cli_runs import FAST, forked, ratings, run

import rankfold as rf
from devices import device
from rankfold.cli import completing
from rankfold.interrupts import KEEP, Scope

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX signals")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
# A child begins with Python's handlers, also where the tests run in the background of a script.
START = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
"""


@pytest.fixture(autouse=True)
def handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("signals") / "ratings.csv"
    path.write_text(ratings())
    return path


def command(code, *words):
    """Run a command in a process that imports anew, after some code."""
    script = f"{START}\nsys.argv[0] = 'rankfold'\n{code}\nfrom rankfold.cli import main\nmain()"
    words = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)


def test_signals_while_modules_are_imported_end_in_a_word():
    for number, code in CODES.items():
        done = command(
            f"""
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            signal.raise_signal({int(number)})
sys.meta_path.insert(0, Finder())
""",
            "--version",
        )
        assert (done.returncode, done.stdout, done.stderr) == (code, "", "rankfold: interrupted\n")


def test_signals_while_a_command_imports_end_in_a_word(table):
    done = command(
        f"""
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "numba":
            signal.raise_signal({int(signal.SIGTERM)})
sys.meta_path.insert(0, Finder())
""",
        "complete", table, *FAST,
    )  # fmt: skip
    assert done.returncode == 143
    last = done.stderr.splitlines()[-1]  # the columns that were taken may come first
    early = "rankfold: interrupted before there was a model"
    assert last == "rankfold: interrupted" or last.startswith(early)


def test_ignored_signals_stay_ignored():
    done = command(
        """
signal.signal(signal.SIGINT, signal.SIG_IGN)
import rankfold.cli.app as app
app._version.__globals__["typer"].echo = lambda text: print(signal.getsignal(signal.SIGINT))
""",
        "--version",
    )
    assert done.stdout.strip() == str(signal.SIG_IGN)


STEPS = """
from rankfold.estimators.completion import last_fit
from rankfold.estimators.completion.alternating import Alternating
step, swept, count = Alternating.step, last_fit.by_sweeps, []
def by_sweeps(*arguments):
    count.append("in the last fit")
    return swept(*arguments)
def signalled(self, problem, state):
    if count:
        count.append("a step")
    if len(count) == 5:
        signal.raise_signal(signal.SIGTERM)
    return step(self, problem, state)
last_fit.by_sweeps, Alternating.step = by_sweeps, signalled
"""


def test_sigterm_keeps_the_best_model(tmp_path, table):
    path = tmp_path / "m.rankfold"
    done = forked(START + STEPS, "complete", table, *FAST, "--tol", "1e-12", "-o", path)
    assert done.returncode == 143, done.stderr
    assert f"interrupted after iteration 3; the best model so far is in {path}" in done.stderr
    assert "Traceback" not in done.stderr
    assert rf.load(path).n_iter_ == 3


KILL = """
def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = killed
"""


def test_a_process_that_is_killed_while_it_saves_leaves_the_old_model_intact(tmp_path, table):
    path = tmp_path / "m.rankfold"
    path.write_bytes(b"the model of an earlier run")
    assert forked(START + KILL, "complete", table, *FAST, "-o", path).returncode == -signal.SIGKILL
    assert path.read_bytes() == b"the model of an earlier run"
    assert len(list(tmp_path.iterdir())) == 2  # and what was written so far beside it


@pytest.mark.parametrize("where", ["write_model", "report_of", "write_pages", "tell"])
def test_ctrl_c_after_the_fit_loses_no_file(tmp_path, table, monkeypatch, where):
    honest, files = getattr(completing, where), [tmp_path / "m.rankfold", tmp_path / "r.html"]

    def pressed(*arguments):
        signal.raise_signal(signal.SIGINT)
        return honest(*arguments)

    monkeypatch.setattr(completing, where, pressed)
    told = run("complete", table, *FAST, "-o", files[0], "--report", files[1], code=130)
    assert f"interrupted after the fit; the best model so far is in {files[0]}" in told.stderr
    assert np.isfinite(rf.load(files[0]).predict([("u1", "film, 2")])).all()
    assert files[1].exists()


def test_a_second_ctrl_c_ends_at_once(tmp_path, table, monkeypatch):
    honest, path = completing.write_model, tmp_path / "m.rankfold"

    def pressed(*arguments):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return honest(*arguments)

    monkeypatch.setattr(completing, "write_model", pressed)
    assert run("complete", table, *FAST, "-o", path, code=130).stderr.endswith("rankfold: interrupted\n")
    assert not path.exists()


def test_the_model_is_kept_where_the_report_fails(tmp_path, table, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "r.html")

    monkeypatch.setattr(completing, "write_report", full)
    path = tmp_path / "m.rankfold"
    told = run("complete", table, *FAST, "-o", path, "--report", tmp_path / "r.html", code=1)
    assert "r.html: No space left on device" in told.stderr
    assert rf.load(path).rank_ == 2


def test_a_table_that_was_imputed_by_a_fit_that_ended_early_says_so(tmp_path, monkeypatch):
    from rankfold.cli import table_files

    honest = table_files.write_table

    def pressed(*arguments):
        with Scope(KEEP) as fit:
            signal.raise_signal(signal.SIGINT)
            assert fit.answer()
        return honest(*arguments)

    monkeypatch.setattr(table_files, "write_table", pressed)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{k},{k}\n" for k in range(9)) + "1,\n")
    told = run("impute", path, "--rank", "1", "-o", tmp_path / "o.csv", code=130)
    assert "a fit ended early" in told.stderr


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.rankfold"
    run("complete", table, *FAST, "-o", path)
    return path


def test_a_reader_that_has_seen_enough(model, table):
    """As `| head` does: the other end of the pipe is closed."""
    read, write = os.pipe()
    os.close(read)
    done = forked(START, "predict", model, table, "--header", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_closed_standard_output(model, table, tmp_path):
    done = forked(START, "predict", model, table, "--header", closed=1)
    assert (done.returncode, done.stderr) == (1, "rankfold: standard output is closed: name a file with -o\n")
    out = tmp_path / "out.csv"
    done = forked(START, "predict", model, table, "-o", out, closed=1)
    assert done.returncode == 0, done.stderr
    assert out.read_text().startswith("user,film,prediction\n")


def test_a_closed_standard_error(model, table, tmp_path):
    out = tmp_path / "m.rankfold"
    done = forked(START, "complete", table, *FAST, "-o", out, closed=2)
    assert done.returncode == 0
    assert rf.load(out).rank_ == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is full")
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("predict", "--header"), id="batches"),
        pytest.param(("info",), id="a table", marks=pytest.mark.soak),
    ],
)
def test_a_full_disk_below_standard_output_is_named(model, table, words):
    name, *options = words
    with open("/dev/full", "wb") as full:
        done = forked(START, name, model, *([table] if options else []), *options, stdout=full.fileno())
    assert (done.returncode, done.stderr) == (1, "rankfold: standard output: No space left on device\n")


@pytest.mark.parametrize("name", ["full", "null"])
def test_devices_are_written_to(name, table, tmp_path):
    place = device(name, tmp_path)
    told = run("complete", table, *FAST, "-o", place, code=1 if name == "full" else 0)
    if name == "full":
        assert f"rankfold: {place}: No space left on device" in "".join(told.stderr.splitlines())
    assert not os.path.isfile(place)
