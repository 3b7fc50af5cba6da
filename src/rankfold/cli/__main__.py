"""`python -m rankfold.cli`."""

from rankfold.cli.app import app

app(prog_name="rankfold")
