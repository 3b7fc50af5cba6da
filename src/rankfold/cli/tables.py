"""Commands on tables: impute fills holes, regress predicts several columns at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankfold.cli.console import check_writable, note, print_json, working
from rankfold.cli.options import (
    CRITERIA,
    Decimal,
    Delimiter,
    Device,
    EscapeFormulas,
    Json,
    Loss,
    Missing,
    Seed,
    Table,
    check_device,
    number_or_auto,
)


def impute(
    table: Table,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where the table goes; - for standard output.")
    ] = "-",
    rank: Annotated[str, typer.Option(help="How many hidden traits rows have: a number, or auto.")] = "auto",
    column: Annotated[
        list[str] | None, typer.Option(help="A column to impute; may repeat. By default all numbers.")
    ] = None,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Rows follow each other, as in time: neighbours are alike.")
    ] = False,
    missing: Missing = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    max_iter: Annotated[int, typer.Option(help="At most so many iterations.", min=1)] = 50,
    seed: Seed = 0,
    escape_formulas: EscapeFormulas = False,
    json: Json = False,
) -> None:
    """Fill the holes of a table from what its rows and columns have in common.

    Known numbers stay as they are; columns of text, and columns without any number, are copied.

    Example: rankfold impute sensors.csv -o filled.csv
    """
    with working("starting"):
        import numpy as np

        import rankfold as rf
        from rankfold.cli.table_files import numbers, numeric_columns, read_table, with_columns, write_table
        from rankfold.cli.taken_columns import refuse_triples
        from rankfold.data.io.streams import name_of

    check_writable(output)
    with working(f"reading {name_of(table)}"):
        data = read_table(table, delimiter, missing, decimal)
    if not column:
        refuse_triples(data.column_names, name_of(table))
    names = column or [name for name in numeric_columns(data) if data[name].null_count < len(data)]
    values = numbers(data, names, table)
    imputer = rf.LowRankImputer(
        number_or_auto(rank, int, "--rank"),
        order="rows" if ordered else None,
        max_iter=max_iter,
        random_state=seed,
    )
    with working(f"filling {len(names)} columns"):
        full = imputer.fit_transform(values)
    write_table(output, with_columns(data, names, full), escape_formulas)
    copied = [name for name in data.column_names if name not in names]
    filled = int(np.isnan(values).sum())
    if json and output != "-":
        print_json({"rows": len(values), "rank": imputer.rank_, "filled": filled,
                    "known": values.size - filled, "columns": names, "copied_columns": copied})  # fmt: skip
    else:
        note(f"{filled:,} of {values.size:,} values filled at rank {imputer.rank_}; copied: {copied or '-'}")
        if not filled:
            note(
                "Nothing was missing; if the lines hold row, column and value, the rest of their matrix is "
                "what `rankfold complete` finds."
            )


def regress(
    table: Table,
    target: Annotated[list[str], typer.Option(help="A column to predict; may repeat.")],
    feature: Annotated[
        list[str] | None, typer.Option(help="A column to predict from; may repeat. By default all others.")
    ] = None,
    rank: Annotated[str, typer.Option(help="Rank of the coefficients: a number, or auto.")] = "auto",
    regularization: Annotated[str, typer.Option(help="A number >= 0, or auto.")] = "auto",
    loss: Loss = "square",
    criterion: Annotated[str, typer.Option(help="What auto goes by: cv, aic, bic or gcv.")] = "cv",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the model goes, for `predict` and `info`.")
    ] = None,
    coefficients: Annotated[str | None, typer.Option(help="Where the coefficients go.")] = None,
    predict: Annotated[str | None, typer.Option(help="A table of features to predict for.")] = None,
    predictions: Annotated[str, typer.Option(help="Where the predictions go; - for standard output.")] = "-",
    missing: Missing = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    seed: Seed = 0,
    device: Device = "cpu",
    escape_formulas: EscapeFormulas = False,
    json: Json = False,
) -> None:
    """Predict several columns of a table at once, with coefficients of low rank.

    Features are scaled; targets may have holes. Five-fold cross-validation says how much of the targets'
    variance is predicted.

    Example: rankfold regress samples.csv --target y1 --target y2 -o model.rankfold

      rankfold predict model.rankfold new.csv -o predictions.csv

    Or in one go: rankfold regress samples.csv --target y1 --predict new.csv --predictions predictions.csv
    """
    with working("starting"):
        import rankfold as rf
        from rankfold.cli import regressing
        from rankfold.cli.table_files import read_table, write_table
        from rankfold.cli.taken_columns import tell_left_out
        from rankfold.data.io.streams import name_of

    for path in (output, coefficients, predictions if predict else None):
        check_writable(path)
    if criterion not in CRITERIA:
        raise typer.BadParameter(f"--criterion is one of {', '.join(CRITERIA)}, not {criterion!r}")
    check_device(device)
    estimator = rf.ReducedRankRegression(
        number_or_auto(rank, int, "--rank"),
        regularization=number_or_auto(regularization, float, "--regularization"),
        loss=loss,
        criterion=CRITERIA[criterion],
        device=device,
        random_state=seed,
    )
    with working(f"reading {name_of(table)}"):
        data = read_table(table, delimiter, missing, decimal)
    X, Y = regressing.samples(data, table, target, feature)
    if not feature:
        tell_left_out(data.column_names, [*X.column_names, *Y.column_names], "not numbers")
    with working(f"predicting {Y.num_columns} columns from {X.num_columns}"):
        model, r2 = regressing.fit(X, Y, estimator, seed)
    if output is not None:
        rf.save(model, output)
    if coefficients is not None:
        write_table(coefficients, regressing.coefficients_of(model), escape_formulas)
    if predict is not None:
        found = regressing.predicted_rows(model, predict, delimiter, missing, decimal)
        write_table(predictions, found, escape_formulas)
    if json and (predict is None or predictions != "-"):
        print_json({"samples": X.num_rows, "features": X.column_names, "targets": Y.column_names,
                    "rank": model.rank_, "regularization": model.regularization_, "r2": r2})  # fmt: skip
    else:
        note(
            f"{Y.num_columns} targets from {X.num_columns} features and {X.num_rows:,} samples: rank "
            f"{model.rank_}, regularization {model.regularization_:.3g}, cross-validated R² {r2:.3f}"
        )
