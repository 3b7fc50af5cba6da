"""`rankfold regress`: several columns of a table predicted at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankfold.cli.console import check_writable, note, print_json
from rankfold.cli.options import CRITERIA, Delimiter, Json, Missing, Seed, Table, number_or_auto


def regress(
    table: Table,
    target: Annotated[list[str], typer.Option(help="A column to predict; may repeat.")],
    feature: Annotated[
        list[str] | None, typer.Option(help="A column to predict from; may repeat. By default all others.")
    ] = None,
    rank: Annotated[str, typer.Option(help="Rank of the coefficients: a number, or auto.")] = "auto",
    regularization: Annotated[str, typer.Option(help="A number >= 0, or auto.")] = "auto",
    criterion: Annotated[str, typer.Option(help="What auto goes by: cv, aic, bic or gcv.")] = "cv",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the model goes, for `predict` and `info`.")
    ] = None,
    coefficients: Annotated[str | None, typer.Option(help="Where the coefficients go.")] = None,
    predict: Annotated[str | None, typer.Option(help="A table of features to predict for.")] = None,
    predictions: Annotated[str, typer.Option(help="Where the predictions go; - for standard output.")] = "-",
    missing: Missing = None,
    delimiter: Delimiter = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Predict several columns of a table at once, with coefficients of low rank.

    Features are scaled; targets may have holes. Five-fold cross-validation says how much of the targets'
    variance is predicted.

    Example: rankfold regress samples.csv --target y1 --target y2 -o model.rankfold

      rankfold predict model.rankfold new.csv -o predictions.csv

    Or in one go: rankfold regress samples.csv --target y1 --predict new.csv --predictions predictions.csv
    """
    from rankfold.cli import regressing
    from rankfold.cli.table_files import write_table

    for path in (output, coefficients, predictions if predict else None):
        check_writable(path)
    if criterion not in CRITERIA:
        raise typer.BadParameter(f"--criterion is one of {', '.join(CRITERIA)}, not {criterion!r}")
    options = regressing.RegressionOptions(
        number_or_auto(rank, int, "--rank"),
        number_or_auto(regularization, float, "--regularization"),
        CRITERIA[criterion],
        seed,
    )
    samples = regressing.read(table, target, feature, delimiter, missing)
    found = regressing.fit(samples, options)
    found.write(output, coefficients)
    if predict is not None:
        write_table(predictions, regressing.predicted_rows(found.model, predict, delimiter, missing))
    facts = regressing.facts(samples, found)
    if json and (predict is None or predictions != "-"):
        print_json(facts)
    else:
        note(f"{len(facts['targets'])} targets from {len(facts['features'])} features and "
             f"{facts['samples']:,} samples: rank {facts['rank']}, regularization "
             f"{facts['regularization']:.3g}, cross-validated R² {facts['r2']:.3f}")  # fmt: skip
