"""Commands on tables: impute and regress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankfold.cli.console import check_writable, note, print_json
from rankfold.cli.options import Delimiter, Json, Seed, number_or_auto

if TYPE_CHECKING:
    from rankfold.cli.table_files import Floats

Table = Annotated[str, typer.Argument(help="CSV, TSV or Parquet with a header; - for standard input.")]
Missing = Annotated[
    list[str] | None, typer.Option(help="What stands for no value; may repeat. By default empty, NA, nan, ?.")
]


def impute(
    table: Table,
    output: Annotated[str, typer.Option("--output", "-o", help="- for standard output.")] = "-",
    rank: Annotated[str, typer.Option(help="How many hidden traits rows have: a number, or auto.")] = "auto",
    column: Annotated[
        list[str] | None, typer.Option(help="A column to impute; may repeat. By default all numbers.")
    ] = None,
    missing: Missing = None,
    delimiter: Delimiter = None,
    max_iterations: Annotated[int, typer.Option(help="At most so many iterations.", min=1)] = 50,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fill the holes of a table from what its rows and columns have in common.

    Known numbers stay as they are; columns of text, and columns without any number, are copied.

    Example: rankfold impute sensors.csv -o filled.csv
    """
    import numpy as np
    import pyarrow as pa

    import rankfold as rf
    from rankfold.cli.table_files import MISSING, is_numeric, numbers, read_table, write_table

    check_writable(output)
    data = read_table(table, delimiter, missing or MISSING)
    names = column or [n for n in data.column_names if is_numeric(data[n]) and data[n].null_count < len(data)]
    values = numbers(data, names, table)
    imputer = rf.LowRankImputer(
        number_or_auto(rank, int, "--rank"), max_iterations=max_iterations, random_state=seed
    )
    filled = imputer.fit_transform(values)
    for k, name in enumerate(names):
        data = data.set_column(data.column_names.index(name), name, pa.array(filled[:, k]))
    write_table(output, data)
    copied = [name for name in data.column_names if name not in names]
    holes = int(np.isnan(values).sum())
    if json and output != "-":
        print_json({"rows": len(values), "rank": imputer.rank_, "filled": holes, "known": values.size - holes,
                    "columns": names, "copied_columns": copied})  # fmt: skip
    else:
        note(f"{holes:,} of {values.size:,} values filled at rank {imputer.rank_}; copied: {copied or '-'}")


def regress(
    table: Table,
    target: Annotated[list[str], typer.Option(help="A column to predict; may repeat.")],
    feature: Annotated[
        list[str] | None, typer.Option(help="A column to predict from; may repeat. By default all others.")
    ] = None,
    rank: Annotated[str, typer.Option(help="A number, or how to choose it: cv, aic, bic, gcv.")] = "cv",
    ridge: Annotated[str, typer.Option(help="A number >= 0, or auto.")] = "auto",
    coefficients: Annotated[str | None, typer.Option(help="Where the coefficients go.")] = None,
    predict: Annotated[str | None, typer.Option(help="A table of features to predict for.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="Where the predictions go.")] = "-",
    missing: Missing = None,
    delimiter: Delimiter = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Predict several columns of a table at once, with coefficients of low rank.

    Features are scaled; targets may have holes. Five-fold cross-validation says how much of the targets'
    variance is predicted.

    Example: rankfold regress samples.csv --target y1 --target y2 --predict new.csv -o predictions.csv
    """
    import pyarrow as pa

    from rankfold.cli.table_files import MISSING, is_numeric, numbers, read_table, write_table

    for path in (coefficients, output if predict else None):
        check_writable(path)
    data = read_table(table, delimiter, missing or MISSING)
    others = [name for name in data.column_names if name not in target and is_numeric(data[name])]
    names = feature or others
    model, score = _regression(
        numbers(data, names, table), numbers(data, target, table),
        {"rank": int(rank) if rank.isdecimal() else rank, "random_state": seed,
         "ridge": number_or_auto(ridge, float, "--ridge")},
    )  # fmt: skip
    if coefficients is not None:
        write_table(coefficients, _coefficients(model, names, target))
    if predict is not None:
        new = numbers(read_table(predict, delimiter, missing or MISSING), names, predict)
        guesses = model.predict(new).reshape(len(new), -1)
        write_table(output, pa.table({name: guesses[:, k] for k, name in enumerate(target)}))
    told = {"samples": data.num_rows, "features": names, "targets": target, "rank": model[-1].rank_,
            "ridge": model[-1].ridge_, "r2": score}  # fmt: skip
    if json and (predict is None or output != "-"):
        print_json(told)
    else:
        note(f"{len(target)} targets from {len(names)} features and {data.num_rows:,} samples: rank "
             f"{told['rank']}, ridge {told['ridge']:.3g}, cross-validated R² {score:.3f}")  # fmt: skip


def _regression(X: Floats, Y: Floats, options: dict[str, Any]) -> tuple[Any, float]:
    """Return the fitted pipeline, and the part of the targets' variance that it predicts out of sample."""
    import numpy as np
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import rankfold as rf

    if np.isnan(X).any():
        row, col = np.argwhere(np.isnan(X))[0]
        raise ValueError(f"line {row + 2}: feature {col + 1} is empty; fill it first: rankfold impute")
    model = make_pipeline(StandardScaler(), rf.ReducedRankRegression(**options))
    folds = KFold(5, shuffle=True, random_state=options["random_state"])
    guesses = cross_val_predict(model, X, Y, cv=folds).reshape(Y.shape)
    left = np.nansum((Y - guesses) ** 2) / np.nansum((Y - np.nanmean(Y, axis=0)) ** 2)
    return model.fit(X, Y), float(1 - left)


def _coefficients(model: Any, features: list[str], targets: list[str]) -> Any:
    """Return coefficients in the units of the data: a line per feature, and one for the intercept."""
    import numpy as np
    import pyarrow as pa

    scaler, regression = model[0], model[-1]
    B = np.atleast_2d(regression.coef_) / scaler.scale_
    intercept = np.atleast_1d(regression.intercept_) - B @ scaler.mean_
    columns: dict[str, Any] = {"feature": [*features, "(intercept)"]}
    columns |= {name: np.append(B[k], intercept[k]) for k, name in enumerate(targets)}
    return pa.table(columns)
