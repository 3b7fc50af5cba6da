"""The command line. Heavy imports wait inside the commands, so that `--help` answers at once."""

from rankfold.cli.app import app

__all__ = ["app"]
