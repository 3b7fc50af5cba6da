"""What a run shows: to the letter in logs, and a live line on terminals alone."""

import io
import sys
from contextlib import contextmanager

import pytest

from rankfold.run import display
from rankfold.run.trace import TraceRow

ROW = TraceRow(iteration=7, value=1234.5678, gradient_norm=1.26e-3, seconds=9.87654, note="a note")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def live(monkeypatch):
    """What live lines are asked for, and shown."""
    asked = []

    @contextmanager
    def line(work, sentence):
        asked.append(work)
        yield lambda thing: asked.append(sentence(thing))

    monkeypatch.setattr(display, "_live", line)
    return asked


def shown(monkeypatch, verbose, stderr):
    monkeypatch.setattr(sys, "stderr", stderr)
    with display.display(verbose, "Method") as show:
        show(ROW)
    with display.progress(verbose, "some work") as tell:
        tell("half of it")
    return stderr.getvalue() if stderr else ""


@pytest.mark.parametrize(
    ("verbose", "stderr"), [(0, Terminal()), (-1, Terminal()), (1, io.StringIO()), (1, None), (0, None)]
)
def test_nothing_is_shown_unless_asked_for_and_on_a_terminal(monkeypatch, live, verbose, stderr):
    assert shown(monkeypatch, verbose, stderr) == ""
    assert live == []


def test_a_terminal_has_a_live_line(monkeypatch, live):
    assert shown(monkeypatch, 1, Terminal()) == ""
    sentence = "9.9 s  iteration 7  value 1.235e+03  grad 1e-03"
    assert live == ["Method", sentence, "some work", "half of it"]


@pytest.mark.parametrize("verbose", [2, 3])
@pytest.mark.parametrize("stderr", [Terminal, io.StringIO])
def test_logs_have_a_line_for_each_iteration(monkeypatch, live, verbose, stderr, capsys):
    assert shown(monkeypatch, verbose, stderr()).splitlines() == [
        "Method: iteration, value, gradient norm, seconds",
        "     7  1.2345678000e+03  1.2600e-03       9.877  a note",
        "some work: half of it",
    ]
    assert display._plain(ROW._replace(note="")).endswith("  1.2600e-03       9.877")
    assert (live, capsys.readouterr().out) == ([], "")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0"), (99.94, "99.9"), (99.99, "100.0"), (100.0, "100"), (123.6, "124")]
)
def test_seconds_of_a_live_line_have_a_decimal_below_a_hundred(seconds, text):
    assert display._sentence(ROW._replace(seconds=seconds)).startswith(f"{text} s  iteration 7  ")


def test_a_live_line_says_the_last_that_it_was_told(monkeypatch):
    from rich import live

    made = {}

    @contextmanager
    def drawn(**settings):
        made.update(settings)
        yield

    monkeypatch.setattr(live, "Live", drawn)
    with display._live("some work", "part {}".format) as show:
        line = made["get_renderable"]
        assert line().plain == "some work  starting"
        for k in (1, 2):
            show(k)
            assert line().plain == f"some work  part {k}"
        assert line().no_wrap
        assert made["console"].file is sys.stderr
