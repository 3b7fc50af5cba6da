"""All commands, in the order in which `--help` lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from rankfold.cli.clicks import clicks
from rankfold.cli.complete import complete
from rankfold.cli.console import guarded
from rankfold.cli.models import export, info
from rankfold.cli.predict import predict, recommend
from rankfold.cli.show import bench, demo, reproduce
from rankfold.cli.tables import impute, regress

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from rankfold._version import __version__

        typer.echo(f"rankfold {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Fill in matrices of which few entries are known, and more with low-rank matrices.

    From a CSV to predictions, a plot and a report:

      rankfold complete ratings.csv -o model.rankfold --holdout 0.1 --report report.html --plot fit.png

      rankfold predict model.rankfold pairs.csv -o predictions.csv
    """


for command in (complete, clicks, predict, recommend, impute, regress, info, export, bench, demo, reproduce):
    app.command()(guarded(command))
