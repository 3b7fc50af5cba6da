"""What `rankfold regress` does: `read` samples, `fit` a model of the targets, write what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankfold as rf
from rankfold.cli.options import Criterion
from rankfold.cli.table_files import numbers, numeric_columns, read_table, write_table
from rankfold.data.io.streams import name_of


@dataclass(frozen=True)
class RegressionOptions:
    """How to fit, in the words of the command line."""

    rank: int | Literal["auto"]
    regularization: float | Literal["auto"]
    criterion: Criterion
    seed: int

    def estimator(self) -> rf.ReducedRankRegression:
        """Return a model that is not fitted yet."""
        return rf.ReducedRankRegression(
            self.rank,
            regularization=self.regularization,
            criterion=self.criterion,
            random_state=self.seed,
        )


@dataclass(frozen=True)
class Samples:
    """Two tables of numbers: X without holes, Y maybe with some."""

    X: Any
    Y: Any


@dataclass(frozen=True)
class FittedRegression:
    """A model in the units of the data, and the part of the targets' variance it predicts out of sample."""

    model: Any
    r2: float

    def write(self, output: Path | None, coefficients: str | None) -> None:
        """Write the model and its coefficients, each where it is asked for."""
        if output is not None:
            rf.save(self.model, output)
        if coefficients is not None:
            write_table(coefficients, _coefficients(self.model))


def read(
    file: str,
    target: Sequence[str],
    feature: Sequence[str] | None,
    delimiter: str | None,
    missing: Sequence[str] | None,
) -> Samples:
    """Read samples; features are by default all columns of numbers that are no targets."""
    data = read_table(file, delimiter, missing)
    targets = list(dict.fromkeys(target))
    others = [name for name in numeric_columns(data) if name not in targets]
    X = _features(data, list(dict.fromkeys(feature or others)), file)
    return Samples(X, pa.table(dict(zip(targets, numbers(data, targets, file).T, strict=True))))


def fit(samples: Samples, options: RegressionOptions) -> FittedRegression:
    """Fit to scaled features, and measure by cross-validation."""
    model = make_pipeline(StandardScaler(), options.estimator())
    folds = KFold(5, shuffle=True, random_state=options.seed)
    known = np.asarray(samples.Y)
    guesses = cross_val_predict(model, np.asarray(samples.X), known, cv=folds).reshape(known.shape)
    left = np.nansum((known - guesses) ** 2) / np.nansum((known - np.nanmean(known, axis=0)) ** 2)
    return FittedRegression(_in_units_of_the_data(*model.fit(samples.X, samples.Y)), float(1 - left))


def facts(samples: Samples, found: FittedRegression) -> dict[str, Any]:
    """Return what the command says of the fit."""
    return {
        "samples": samples.X.num_rows,
        "features": samples.X.column_names,
        "targets": samples.Y.column_names,
        "rank": found.model.rank_,
        "regularization": found.model.regularization_,
        "r2": found.r2,
    }


def predicted_rows(model: Any, file: str, delimiter: str | None, missing: Sequence[str] | None) -> Any:
    """Return what a regression predicts for the rows of a file, as a table."""
    data = read_table(file, delimiter, missing)
    features = list(getattr(model, "feature_names_in_", data.column_names))
    guesses = model.predict(_features(data, features, file))
    columns = np.reshape(guesses, (data.num_rows, -1)).T
    names = getattr(model, "target_names_", None)
    names = [f"y{k + 1}" for k in range(len(columns))] if names is None else names.tolist()
    return pa.table(dict(zip(names, columns, strict=True)))


def _features(data: Any, names: Sequence[str], file: str) -> Any:
    """Return columns of a table without holes, as a table of floating point numbers."""
    X = numbers(data, names, file)
    if np.isnan(X).any():
        row, col = np.argwhere(np.isnan(X))[0]
        raise ValueError(
            f"{name_of(file)}, line {row + 2}: column {names[col]!r} is empty; fill it first: rankfold impute"
        )
    return pa.table(dict(zip(names, X.T, strict=True)))


def _in_units_of_the_data(scaler: Any, model: Any) -> Any:
    """Return the model of scaled features as one of the features themselves."""
    model.coef_ = model.coef_ / scaler.scale_
    model.intercept_ = model.intercept_ - model.coef_ @ scaler.mean_
    model.x_rotations_ = model.x_rotations_ / scaler.scale_[:, None]
    model.feature_names_in_ = scaler.feature_names_in_
    return model


def _coefficients(model: Any) -> Any:
    """Return a line of coefficients per feature, and one for the intercept."""
    columns: dict[str, Any] = {"feature": [*model.feature_names_in_, "(intercept)"]}
    rows = zip(model.target_names_, model.coef_, model.intercept_, strict=True)
    columns |= {name: np.append(coefficients, intercept) for name, coefficients, intercept in rows}
    return pa.table(columns)
