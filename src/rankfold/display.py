"""What a run shows while it lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rankfold.trace import Row

Show = Callable[[Row], None]


@contextmanager
def display(verbose: int, method: str) -> Iterator[Show | None]:
    """Yield what shows a row, on standard error: 1, a live line on a terminal; 2, a line per iteration.

    A live line in a log file is noise, so 1 shows nothing there; 2 is for logs.
    """
    if verbose >= 2:
        print(f"{method}: iteration, value, gradient norm, seconds", file=sys.stderr)
        yield lambda row: print(_plain(row), file=sys.stderr, flush=True)
    elif verbose == 1 and sys.stderr.isatty():
        with _live(method) as show:
            yield show
    else:
        yield None


@contextmanager
def _live(method: str) -> Iterator[Show]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    shown: list[Row] = []

    def line() -> Text:
        return Text(f"{method}  {_sentence(shown[0])}" if shown else f"{method}  starting", no_wrap=True)

    # A console of its own: two runs in two threads may each have a live line. It is drawn by rich's thread a
    # few times a second, so that showing a row costs an assignment.
    with Live(get_renderable=line, console=Console(file=sys.stderr), refresh_per_second=8):
        yield lambda row: shown.__setitem__(slice(None), [row])


def _sentence(row: Row) -> str:
    return (
        f"iteration {row.iteration}  value {row.value:.6e}  gradient norm {row.gradient_norm:.3e}  "
        f"{row.seconds:.1f} s"
    )


def _plain(row: Row) -> str:
    note = f"  {row.note}" if row.note else ""
    return f"{row.iteration:6d}  {row.value:.10e}  {row.gradient_norm:.4e}  {row.seconds:10.3f}{note}"
