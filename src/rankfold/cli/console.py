"""What commands share: errors without tracebacks, notes on standard error, results for people or machines."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer

from rankfold.cli import ENDING, leave
from rankfold.cli.labels import output_error, visible
from rankfold.interrupts import Scope

# Exit codes: 0 is success, 2 a wrong use of the command line, and 128 + n what shells say of signal n.
FAILED, INTERRUPTED, PIPE_CLOSED = 1, 128 + signal.SIGINT, 141
EXTRAS = {"matplotlib": "plot", "torch": "torch"}

# Harmful characters that JSON leaves as they are (see `labels`).
_BEYOND_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

P = ParamSpec("P")
T = TypeVar("T")


def say(text: str) -> None:
    """Print something for the person to read, on standard output."""
    with _output_named():
        typer.echo(visible(text))


def note(text: str) -> None:
    """Say something to the person, on standard error: standard output is for results."""
    typer.echo(visible(text), err=True)


def fail(text: str, code: int = FAILED) -> NoReturn:
    """End the command with a message."""
    note(f"rankfold: {text}")
    raise typer.Exit(code)


def guarded(command: Callable[P, T]) -> Callable[P, T]:
    """Turn errors that a user can do something about into one line and an exit code.

    Ctrl-C and SIGTERM raise KeyboardInterrupt, in fits as `rankfold.interrupts` says; its text, if there is
    some, is what is said. With RANKFOLD_DEBUG set, the traceback of an error is shown instead.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        scope = Scope()
        try:
            with _signals_raise(), scope, _warnings_as_notes():
                done = command(*args, **kwargs)
                with _output_named():  # all of it out, while its errors are still ours to explain
                    if sys.stdout is not None:
                        sys.stdout.flush()
            if scope.received:
                raise KeyboardInterrupt("interrupted: a fit ended early")
            return done
        except (typer.Exit, typer.Abort, typer.BadParameter):  # said already, or said by typer
            raise
        except KeyboardInterrupt as error:
            fail(str(error) or "interrupted", 128 + scope.received[0] if scope.received else INTERRUPTED)
        except BrokenPipeError:  # whoever read our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from None
        except Exception as error:
            if os.environ.get("RANKFOLD_DEBUG"):
                raise
            fail(explained(error))

    return wrapped


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Let signals raise KeyboardInterrupt that end the process outside of commands."""
    found = [number for number in ENDING if signal.getsignal(number) is leave]
    try:
        for number in found:
            signal.signal(number, signal.default_int_handler)
        yield
    finally:
        for number in found:
            signal.signal(number, leave)


@contextmanager
def _output_named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise output_error(error) from error


def explained(error: Exception) -> str:
    """Return what an error says, with the remedy where it does not name one itself."""
    if isinstance(error, ModuleNotFoundError):
        extra = EXTRAS.get(error.name or "", "")
        wanted = f"'rankfold[{extra}]'" if extra else error.name
        return f"this needs {error.name}: pip install {wanted}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror or error}{_near(error)}"
    from rankfold.data.labels import UnknownLabelError
    from rankfold.distributed.collectives import RanksError

    if isinstance(error, ValueError | OSError | RanksError | UnknownLabelError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory: a lower rank needs less"
    return f"{type(error).__name__}: {error}\nThis is a defect of rankfold; RANKFOLD_DEBUG=1 shows where."


def _near(error: OSError) -> str:
    """Return the name of a file beside the one that is not there, if one is spelt nearly like it."""
    path = Path(os.fsdecode(error.filename))
    if not isinstance(error, FileNotFoundError) or not path.parent.is_dir():
        return ""
    near = get_close_matches(path.name, os.listdir(path.parent), n=1, cutoff=0.8)
    return f"; did you mean {os.fspath(path.with_name(near[0]))!r}?" if near else ""


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        note(f"rankfold: warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


def program() -> str:
    """Return what to type for `rankfold`: the path it was called by, where the shell would not find it."""
    import shutil

    return "rankfold" if shutil.which("rankfold") or not sys.argv[0].endswith("rankfold") else sys.argv[0]


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """Say what is going on, on a terminal only; what is yielded says something else from then on."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(visible(text, keep=""))) as status:
        yield lambda text: status.update(Text(visible(text, keep="")))


def check_installed(package: str) -> None:
    """Refuse work that needs a package which is not there, before the work is done."""
    if find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def check_writable(path: Path | str | None) -> None:
    """Refuse an output that cannot be written now, before work is done for it."""
    if path is None or str(path) == "-":
        return
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{path}: there is no folder {folder}: make it first")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder: name a file")
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise ValueError(f"{path}: may not be written: choose another place")


def print_json(content: Mapping[str, Any]) -> None:
    """Print a result for machines: one JSON object."""
    say(json_text(content, indent=1))


def json_text(content: Any, indent: int | None = None) -> str:
    """Return JSON in which no character acts on a terminal: escapes mean the same to whoever reads it."""
    text = json.dumps(content, indent=indent, ensure_ascii=False, default=_plain)
    return _BEYOND_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, numbers: bool = True
) -> None:
    """Print a small table for people; all columns but the first to the right if they hold numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def text(words: str) -> Text:
        return Text(visible(words))  # brackets in it are no markup

    table = Table(title=None if title is None else text(title), title_justify="left")
    for k, column in enumerate(columns):
        table.add_column(text(column), justify="right" if k and numbers else "left")
    for row in rows:
        table.add_row(*map(text, row))
    with _output_named():
        Console().print(table)
