"""What the file of each model may hold: a table of settings, and a table of fitted attributes per class.

Rules are those of `estimators.schema_rules`. A model that obeys them can be asked anything: every array has
the size that the others say, every position lies within the matrix, every number is finite. Who adds a
setting or a fitted attribute to an estimator adds it here.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from scipy import sparse

from rankfold import solvers
from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets
from rankfold.estimators.completion.joint import Shrinkage
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.regularization_path import RegularizationPath
from rankfold.estimators.fitting import GEOMETRIES
from rankfold.estimators.imputer.ordered import Smoothing
from rankfold.estimators.rank_errors import RankErrors
from rankfold.estimators.regression.criteria import SelectionPath
from rankfold.estimators.schema_completion import information, learnt_features, posterior
from rankfold.estimators.schema_rules import (
    Rule,
    Sizes,
    array,
    choice,
    counts,
    each,
    either,
    kind,
    labels,
    many,
    names,
    number,
    optional,
    pointers,
    positions,
    reals,
    record,
    size,
    wrong,
)
from rankfold.run.stopping import StopKind
from rankfold.run.trace import Trace
from rankfold.selection.rank import RankPath

SOLVERS = (
    solvers.Auto,
    solvers.ConjugateGradient,
    solvers.GradientDescent,
    solvers.RankContinuation,
    solvers.ReweightedContinuation,
    solvers.TrustRegion,
)
# Beside what `fit` finds: what the names of columns were, and what `set_output` asked for.
OPTIONAL = ("feature_names_in_", "_sklearn_output_config")
# Which models of this format had not at first: `model_files` fills them in.
LATER = ("counts_", "shrinkage_", "smoothing_", "posterior_", "value_range_", "features_", "information_")


def _solver(value: Any, where: str, sizes: Sizes) -> None:
    """A solver of this library, whose options are plain values and solvers."""
    if type(value) not in SOLVERS:
        wrong(where, value, "a solver of this library, or the name of one")
    for option in fields(value):
        part = getattr(value, option.name)
        (_solver if is_dataclass(part) else _PLAIN)(part, f"{where}.{option.name}", sizes)


def _geometry(value: Any, where: str, sizes: Sizes) -> None:
    if value not in GEOMETRIES.values():
        wrong(where, value, "a geometry of this library, or the name of one")


def _trace(value: Any, where: str, sizes: Sizes) -> None:
    if not (isinstance(value, Trace) and len(value)):
        wrong(where, value, "a trace with a row at least")


def _output(value: Any, where: str, sizes: Sizes) -> None:
    if not (isinstance(value, dict) and set(value) == {"transform"}):
        wrong(where, value, "what set_output sets")
    choice("default", "pandas", "polars")(value["transform"], where, sizes)


def _table(value: Any, where: str, sizes: Sizes) -> None:
    """What `save` makes an array of, or keeps as it is; `fit` and `predict` look into it themselves."""
    if not (
        isinstance(value, (np.ndarray, list))
        or sparse.issparse(value)
        or is_torch_array(value)
        or hasattr(value, "to_numpy")
    ):
        wrong(where, value, "a table of features")


def _side_table(value: Any, where: str, sizes: Sizes) -> None:
    """A table of features, or one beside the labels of its lines."""
    _table(value[1] if isinstance(value, tuple) and len(value) == 2 else value, where, sizes)


TEXT, FLAG = kind("a string", str), kind("True or False", bool, np.bool_, int)
WHOLE, COUNT, REAL, WEIGHT = number(whole=True), number(1, whole=True), number(), number(0)
_ANY_REAL = number(finite=False)
_PLAIN = optional(either(FLAG, TEXT, _ANY_REAL))

SETTINGS: dict[str, Rule] = {
    "rank": either(TEXT, WHOLE),
    "shape": optional(each(COUNT, COUNT)),
    "bias": FLAG,
    "alpha": REAL,
    "regularization": either(TEXT, REAL),
    "loss": either(TEXT, record(Loss, parameter=REAL)),
    "geometry": either(TEXT, _geometry),
    "solver": either(TEXT, _solver),
    "bayesian": either(TEXT, FLAG),
    "clip": FLAG,
    "tol": either(TEXT, REAL),
    "max_iter": WHOLE,
    "dtype": either(TEXT, kind("a type of floats", np.dtype, type)),
    "device": TEXT,
    "warm_start": FLAG,
    "random_state": optional(WHOLE),
    "verbose": either(FLAG, WHOLE),
    "order": optional(choice("rows", "index")),
    "missing_values": either(_PLAIN, kind("a scalar", np.generic)),
    "keep_empty_features": FLAG,
    "add_indicator": FLAG,
    "n_left": optional(WHOLE),
    "left": optional(_table),
    "points": optional(_table),
    "right": optional(_table),
    "max_comparisons": WHOLE,
    "shared": FLAG,
    "criterion": TEXT,
    "fit_intercept": FLAG,
    "cv": optional(WHOLE),
    "row_features": optional(either(FLAG, _side_table)),
    "col_features": optional(either(FLAG, _side_table)),
}

_RUN: dict[str, Rule] = {
    "n_features_in_": size("features"),
    "feature_names_in_": names("features"),
    "_sklearn_output_config": _output,
    "rank_": size("rank", low=0),
    "n_iter_": COUNT,
    "converged_": FLAG,
    "stop_reason_": TEXT,
    "stop_kind_": choice(*(stop.value for stop in StopKind)),
    "trace_": _trace,
    "data_fingerprint_": TEXT,
}
_ERRORS = {"ranks": many(WHOLE, "ranks"), "errors": many(_ANY_REAL, "ranks"), "chosen": WHOLE}
_RANK_ERRORS = record(RankErrors, **_ERRORS, standard_errors=many(_ANY_REAL, "ranks"))
_RANK_PATH = record(
    RankPath, **_ERRORS, standard_errors=many(_ANY_REAL, "ranks"), fits=many(_ANY_REAL, "ranks"),
    factors=kind("None", type(None)),
)  # fmt: skip
_REGULARIZATIONS = record(
    RegularizationPath, regularizations=many(REAL, "tried"), errors=many(_ANY_REAL, "tried"), chosen=REAL,
    standard_errors=either(many(_ANY_REAL, "tried"), each()),
)  # fmt: skip
_SELECTION = record(
    SelectionPath, criterion=TEXT, ranks=array("ranks", types="i"), regularizations=reals("tried"),
    scores=array("ranks", "tried", types="f8"),
)  # fmt: skip
_CLASSES = either(names("classes"), array("classes", types="b i u f U S"))


def _pair_factors(value: Any, where: str, sizes: Sizes) -> None:
    """Those of two classes, or with a right factor for each of several."""
    several = isinstance(value, tuple) and getattr(value[-1], "ndim", 0) == 3
    if not several:
        sizes["classes"] = 2
    right = reals("right+1", "classes", "rank") if several else reals("right+1", "rank")
    each(reals("left+1", "rank"), right)(value, where, sizes)


_PAIRS: dict[str, Rule] = _RUN | {
    "factors_": each(reals("left+1", "rank"), reals("right+1", "rank")),
    "left_coef_": reals("left"),
    "right_coef_": reals("right"),
    "intercept_": REAL,
    "centre_": REAL,
    "rank_path_": optional(_RANK_ERRORS),
}

# Of rows and columns with labels, and the entries that a model was fitted to.
_LABELLED: dict[str, Rule] = _RUN | {
    "shape_": each(size("rows"), size("columns")),
    "rank_": size("rank"),
    "factors_": each(reals("rows", "rank"), reals("columns", "rank")),
    "row_labels_": optional(labels("rows")),
    "col_labels_": optional(labels("columns")),
    "counts_": each(counts("rows"), counts("columns")),
    "observed_": record(
        Pattern, indptr=pointers("rows", "entries"), indices=positions("entries", "columns", "u4 u8")
    ),
    "regularization_": WEIGHT,
    "regularization_path_": optional(_REGULARIZATIONS),
}

FITTED: dict[str, dict[str, Rule]] = {
    "MatrixCompletion": _LABELLED | {
        "biases_": record(Offsets, mean=REAL, rows=reals("rows"), cols=reals("columns")),
        "shrinkage_": optional(record(Shrinkage, rows=WEIGHT, cols=WEIGHT)),
        "rank_path_": optional(_RANK_PATH),
        "posterior_": optional(posterior),
        "value_range_": optional(each(REAL, REAL)),
        "features_": each(optional(learnt_features("rows")), optional(learnt_features("columns"))),
        "information_": optional(information),
    },
    "ImplicitFeedback": _LABELLED | {"rank_path_": optional(_RANK_ERRORS)},
    "LowRankImputer": _RUN | {
        "mean_": reals("features"),
        "scale_": reals("features", above=0.0),
        "offset_": reals("features"),
        "factors_": reals("features", "rank"),
        "noise_variance_": reals("features", above=0.0),
        "smoothing_": optional(
            record(Smoothing, times=reals("features", above=0.0), strengths=reals("features"))
        ),
        "empty_features_": array("features", types="b"),
        "indicated_features_": positions("indicated", "features", "i8 i4"),
        "rank_path_": optional(_RANK_ERRORS),
    },
    "LowRankDistance": _RUN | {
        "rank_": size("rank"),
        "factor_": reals("coordinates", "rank"),
        "rank_path_": optional(_RANK_ERRORS),
    },
    "PairRegressor": _PAIRS,
    "PairClassifier": _PAIRS | {
        "factors_": _pair_factors,
        "left_coef_": either(reals("left"), reals("classes", "left")),
        "right_coef_": either(reals("right"), reals("classes", "right")),
        "intercept_": either(REAL, reals("classes")),
        "classes_": _CLASSES,
    },
    "PairRanker": _PAIRS | {"n_comparisons_": COUNT},
    "CategoricalCompletion": _RUN | {
        "rank_": size("rank"),
        "factors_": each(reals("rows+1", "rank"), reals("cells", "rank")),
        "row_labels_": labels("rows"),
        "col_labels_": labels("columns"),
        "classes_": _CLASSES,
        "starts_": pointers("columns", "cells"),
        "categories_": positions("cells", "classes", "i8"),
        "class_prior_": reals("classes"),
        "rank_path_": optional(_RANK_ERRORS),
    },
    "ReducedRankRegression": _RUN | {
        "coef_": either(reals("features"), reals("targets", "features")),
        "intercept_": either(REAL, reals("targets")),
        "regularization_": WEIGHT,
        "components_": reals("rank", "targets"),
        "x_rotations_": reals("features", "rank"),
        "explained_variance_": reals("rank"),
        "explained_variance_ratio_": reals("rank"),
        "rank_path_": optional(_SELECTION),
        "regularization_path_": optional(_SELECTION),
        "target_names_": optional(names("targets")),
    },
}  # fmt: skip


def check(model: Any) -> None:
    """Raise ValueError unless the settings and the fitted attributes of a model are what they must be."""
    for name, value in model.get_params(deep=False).items():
        SETTINGS[name](value, name, {})
    table = FITTED[type(model).__name__]
    there = [name for name in table if hasattr(model, name)]
    if set(there) <= set(OPTIONAL):
        return  # not fitted
    if missing := [name for name in table if name not in there and name not in (*OPTIONAL, *LATER)]:
        raise ValueError(f"{missing[0]} is missing")
    sizes: Sizes = {}
    for name in there:
        table[name](getattr(model, name), name, sizes)
