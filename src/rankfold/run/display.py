"""What a run shows while it lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rankfold.run.trace import TraceRow

Show = Callable[[TraceRow], None]
Tell = Callable[[str], None]


@contextmanager
def display(verbose: int, method: str) -> Iterator[Show | None]:
    """Yield what shows a row, on standard error: 1, a live line on a terminal; 2, a line per iteration.

    A live line in a log file is noise, so 1 shows nothing there; 2 is for logs.
    """
    if verbose >= 2:
        print(f"{method}: iteration, value, gradient norm, seconds", file=sys.stderr)
        yield lambda row: print(_plain(row), file=sys.stderr, flush=True)
    elif verbose == 1 and sys.stderr.isatty():
        with _live(method, _sentence) as show:
            yield show
    else:
        yield None


@contextmanager
def progress(verbose: int, work: str) -> Iterator[Tell]:
    """Yield what tells in words how some work goes, where and when `display` shows a row.

    Examples
    --------
    >>> with progress(0, "choosing the rank") as tell:
    ...     tell("rank 1  held-out error 0.3")
    """
    if verbose >= 2:
        yield lambda text: print(f"{work}: {text}", file=sys.stderr, flush=True)
    elif verbose == 1 and sys.stderr.isatty():
        with _live(work, str) as show:
            yield show
    else:
        yield lambda text: None


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
    return (
        f"iteration {row.iteration}  value {row.value:.6e}  gradient norm {row.gradient_norm:.3e}  "
        f"{row.seconds:.1f} s"
    )


def _plain(row: TraceRow) -> str:
    note = f"  {row.note}" if row.note else ""
    return f"{row.iteration:6d}  {row.value:.10e}  {row.gradient_norm:.4e}  {row.seconds:10.3f}{note}"
