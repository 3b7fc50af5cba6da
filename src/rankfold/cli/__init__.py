"""The command line. Heavy imports wait inside the commands, so that `--help` answers at once."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)  # signals that ask a command to end


def main() -> None:
    """Run the command `rankfold`."""
    _replace_closed_streams()
    for number in ENDING:
        # Ignored signals stay ignored: that is what nohup and shells in the background ask for.
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, leave)
    from rankfold.cli.app import app

    app(prog_name="rankfold")


def leave(number: int, frame: FrameType | None) -> None:
    """End the process in one word: there is nothing to lose while modules are imported, nor after the end.

    Not by an exception, which the import of a compiled module may take for an error of its own.
    """
    os.write(2, b"rankfold: interrupted\n")
    os._exit(128 + number)


def _replace_closed_streams() -> None:
    """Let no file that is opened later become standard output or standard error."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest free number: this one
    for name, mode in (("stdin", "r"), ("stderr", "w")):  # without standard output, results are refused
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as we live
