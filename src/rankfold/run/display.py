"""What a run shows while it lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rankfold.run.trace import TraceRow

Show = Callable[[TraceRow], None]
Tell = Callable[[str], None]


def display(verbose: int, method: str) -> AbstractContextManager[Show]:
    """Give what shows a row, on standard error: 1, a live line on a terminal; 2, a line per iteration."""
    if verbose >= 2:
        print(f"{method}: iteration, value, gradient norm, seconds", file=sys.stderr)
    return _shown(verbose, method, _sentence, _plain)


def progress(verbose: int, work: str) -> AbstractContextManager[Tell]:
    """Give what tells in words how some work goes, where and when `display` shows a row."""
    return _shown(verbose, work, str, lambda text: f"{work}: {text}")


@contextmanager
def _shown(
    verbose: int, work: str, sentence: Callable[[Any], str], line: Callable[[Any], str]
) -> Iterator[Callable[[Any], None]]:
    if verbose >= 2:
        yield lambda thing: print(line(thing), file=sys.stderr, flush=True)
    elif (
        verbose == 1 and sys.stderr and sys.stderr.isatty()
    ):  # a live line in a log file is noise; 2 is for logs
        with _live(work, sentence) as show:
            yield show
    else:
        yield lambda thing: None


@contextmanager
def _live(work: str, sentence: Callable[[Any], str]) -> Iterator[Callable[[Any], None]]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    shown: list[Any] = []

    def line() -> Text:
        return Text(f"{work}  {sentence(shown[0])}" if shown else f"{work}  starting", no_wrap=True)

    # A console of its own: two runs in two threads may each have a live line. It is drawn by rich's thread a
    # few times a second, so that showing costs an assignment.
    with Live(get_renderable=line, console=Console(file=sys.stderr), refresh_per_second=8):
        yield lambda thing: shown.__setitem__(slice(None), [thing])


def _sentence(row: TraceRow) -> str:
    """What a live line says: so little that it fits a terminal of 80 columns beside the longest name."""
    seconds = f"{row.seconds:.1f}" if row.seconds < 100 else f"{row.seconds:.0f}"
    return f"{seconds} s  iteration {row.iteration}  value {row.value:.3e}  grad {row.gradient_norm:.0e}"


def _plain(row: TraceRow) -> str:
    note = f"  {row.note}" if row.note else ""
    return f"{row.iteration:6d}  {row.value:.10e}  {row.gradient_norm:.4e}  {row.seconds:10.3f}{note}"
