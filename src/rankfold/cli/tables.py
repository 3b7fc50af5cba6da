"""Commands on tables: impute and regress."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rankfold.cli.console import check_writable, note, print_json
from rankfold.cli.options import Delimiter, Json, Missing, Seed, number_or_auto

Table = Annotated[str, typer.Argument(help="CSV, TSV or Parquet with a header; - for standard input.")]


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
        number_or_auto(rank, int, "--rank"), max_iter=max_iterations, random_state=seed
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
    rank: Annotated[str, typer.Option(help="A number, or auto.")] = "auto",
    regularization: Annotated[str, typer.Option(help="A number >= 0, or auto.")] = "auto",
    criterion: Annotated[str, typer.Option(help="What auto goes by: cv, aic, bic or gcv.")] = "cv",
    model: Annotated[
        Path | None, typer.Option(help="Where the model goes, for `predict` and `info`.")
    ] = None,
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

    Or keep the model, for later: rankfold regress samples.csv --target y1 --model model.rankfold

      rankfold predict model.rankfold new.csv -o predictions.csv
    """
    import pyarrow as pa

    import rankfold as rf
    from rankfold.cli.table_files import MISSING, is_numeric, numbers, read_table, write_table

    for path in (model, coefficients, output if predict else None):
        check_writable(path)
    data = read_table(table, delimiter, missing or MISSING)
    target = list(dict.fromkeys(target))
    others = [name for name in data.column_names if name not in target and is_numeric(data[name])]
    names = list(dict.fromkeys(feature or others))
    fitted, score = _regression(
        _features(data, names, table),
        pa.table(dict(zip(target, numbers(data, target, table).T, strict=True))),
        {"rank": number_or_auto(rank, int, "--rank"), "criterion": criterion, "random_state": seed,
         "regularization": number_or_auto(regularization, float, "--regularization")},
    )  # fmt: skip
    if model is not None:
        rf.save(fitted, model)
    if coefficients is not None:
        write_table(coefficients, _coefficients(fitted))
    if predict is not None:
        write_table(output, predicted_rows(fitted, predict, delimiter, missing))
    told = {"samples": data.num_rows, "features": names, "targets": target, "rank": fitted.rank_,
            "regularization": fitted.regularization_, "r2": score}  # fmt: skip
    if json and (predict is None or output != "-"):
        print_json(told)
    else:
        chosen = f"rank {fitted.rank_}, regularization {fitted.regularization_:.3g}"
        note(f"{len(target)} targets from {len(names)} features and {data.num_rows:,} samples: {chosen}, "
             f"cross-validated R² {score:.3f}")  # fmt: skip


def predicted_rows(
    model: Any, file: str, delimiter: str | None = None, missing: list[str] | None = None
) -> Any:
    """Return what a regression predicts for the rows of a file, as a table."""
    import numpy as np
    import pyarrow as pa

    from rankfold.cli.table_files import MISSING, read_table

    data = read_table(file, delimiter, missing or MISSING)
    features = list(getattr(model, "feature_names_in_", data.column_names))
    guesses = model.predict(_features(data, features, file))
    columns = np.reshape(guesses, (data.num_rows, -1)).T
    names = getattr(model, "target_names_", None)
    names = [f"y{k + 1}" for k in range(len(columns))] if names is None else names.tolist()
    return pa.table(dict(zip(names, columns, strict=True)))


def _features(data: Any, names: Sequence[str], file: str) -> Any:
    """Return columns of a table without holes, as a table of floating point numbers."""
    import numpy as np
    import pyarrow as pa

    from rankfold.cli.table_files import numbers
    from rankfold.data.io.streams import name_of

    X = numbers(data, names, file)
    if np.isnan(X).any():
        row, col = np.argwhere(np.isnan(X))[0]
        raise ValueError(
            f"{name_of(file)}, line {row + 2}: feature {col + 1} is empty; fill it first: rankfold impute"
        )
    return pa.table(dict(zip(names, X.T, strict=True)))


def _regression(X: Any, Y: Any, options: dict[str, Any]) -> tuple[Any, float]:
    """Return the fitted model, and the part of the targets' variance that it predicts out of sample."""
    import numpy as np
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import rankfold as rf

    model = make_pipeline(StandardScaler(), rf.ReducedRankRegression(**options))
    folds = KFold(5, shuffle=True, random_state=options["random_state"])
    known = np.asarray(Y)
    guesses = cross_val_predict(model, np.asarray(X), known, cv=folds).reshape(known.shape)
    left = np.nansum((known - guesses) ** 2) / np.nansum((known - np.nanmean(known, axis=0)) ** 2)
    return _in_units_of_the_data(*model.fit(X, Y)), float(1 - left)


def _in_units_of_the_data(scaler: Any, model: Any) -> Any:
    """Return the model of scaled features as one of the features themselves."""
    model.coef_ = model.coef_ / scaler.scale_
    model.intercept_ = model.intercept_ - model.coef_ @ scaler.mean_
    model.x_rotations_ = model.x_rotations_ / scaler.scale_[:, None]
    model.feature_names_in_ = scaler.feature_names_in_
    return model


def _coefficients(model: Any) -> Any:
    """Return a line of coefficients per feature, and one for the intercept."""
    import numpy as np
    import pyarrow as pa

    columns: dict[str, Any] = {"feature": [*model.feature_names_in_, "(intercept)"]}
    rows = zip(model.target_names_, model.coef_, model.intercept_, strict=True)
    columns |= {name: np.append(coefficients, intercept) for name, coefficients, intercept in rows}
    return pa.table(columns)
