"""What `rankfold regress` does: take `samples`, `fit` a model of the targets, predict by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankfold as rf
from rankfold.cli.table_files import numbers, numeric_columns, read_table
from rankfold.data.io.streams import name_of


def samples(data: Any, file: str, target: Sequence[str], feature: Sequence[str] | None) -> tuple[Any, Any]:
    """Return tables of features and of targets; features are by default all other columns of numbers."""
    targets = list(dict.fromkeys(target))
    others = [name for name in numeric_columns(data) if name not in targets]
    X = _features(data, list(dict.fromkeys(feature or others)), file)
    return X, pa.table(dict(zip(targets, numbers(data, targets, file).T, strict=True)))


def fit(X: Any, Y: Any, estimator: rf.ReducedRankRegression, seed: int) -> tuple[Any, float]:
    """Return a model in the units of the data, and the part of Y's variance it predicts out of sample."""
    model = make_pipeline(StandardScaler(), estimator)
    known = np.asarray(Y)
    folds = KFold(5, shuffle=True, random_state=seed)
    guesses = cross_val_predict(model, np.asarray(X), known, cv=folds).reshape(known.shape)
    left = np.nansum((known - guesses) ** 2) / np.nansum((known - np.nanmean(known, axis=0)) ** 2)
    return _in_units_of_the_data(*model.fit(X, Y)), float(1 - left)


def predicted_rows(
    model: Any, file: str, delimiter: str | None, missing: Sequence[str] | None, decimal: str = "."
) -> Any:
    """Return what a regression predicts for the rows of a file, as a table."""
    data = read_table(file, delimiter, missing, decimal)
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


def coefficients_of(model: Any) -> Any:
    """Return a line of coefficients per feature, and one for the intercept."""
    columns: dict[str, Any] = {"feature": [*model.feature_names_in_, "(intercept)"]}
    rows = zip(model.target_names_, model.coef_, model.intercept_, strict=True)
    columns |= {name: np.append(coefficients, intercept) for name, coefficients, intercept in rows}
    return pa.table(columns)
