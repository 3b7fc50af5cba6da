"""Fitted estimators in files: arrays, labels and settings, one file per model, and no code.

A file has the form that `rankfold.run.container` describes. Its text names classes; what a name means is
looked up among those listed here, nothing that a file names is ever imported, and `estimators.schemas` says
what a model may be made of. A file may come from anyone.
"""

from __future__ import annotations

import os
import re
from math import isfinite
from typing import Any, TypeVar, overload

import numpy as np
from scipy import sparse

from rankfold._version import __version__
from rankfold.atomic import replacing
from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets
from rankfold.estimators.categories.categorical_completion import CategoricalCompletion
from rankfold.estimators.clicks.implicit_feedback import ImplicitFeedback
from rankfold.estimators.completion.bayes.beliefs import Prior
from rankfold.estimators.completion.bayes.calibration import Calibration
from rankfold.estimators.completion.bayes.posterior import Posterior
from rankfold.estimators.completion.joint import Shrinkage
from rankfold.estimators.completion.matrix_completion import MatrixCompletion
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.regularization_path import RegularizationPath
from rankfold.estimators.completion.side.learnt import LearntFeatures
from rankfold.estimators.completion.side.tables import Encoding
from rankfold.estimators.completion.side.traits import Traits
from rankfold.estimators.completion.streaming import Information
from rankfold.estimators.distances.low_rank_distance import LowRankDistance
from rankfold.estimators.fitting import GEOMETRIES
from rankfold.estimators.imputer.low_rank_imputer import LowRankImputer
from rankfold.estimators.imputer.ordered import Smoothing
from rankfold.estimators.pairs.pair_models import PairClassifier, PairRegressor
from rankfold.estimators.pairs.pair_ranker import PairRanker
from rankfold.estimators.rank_errors import RankErrors
from rankfold.estimators.regression.criteria import SelectionPath
from rankfold.estimators.regression.reduced_rank import ReducedRankRegression
from rankfold.estimators.schemas import FITTED, SOLVERS, check
from rankfold.kernels import formulas
from rankfold.run.container import Container
from rankfold.run.records import UNFIT, Packer, Unpacker
from rankfold.run.trace import Trace
from rankfold.selection.rank import RankPath

ESTIMATORS = {
    cls.__name__: cls
    for cls in (
        MatrixCompletion,
        CategoricalCompletion,
        ImplicitFeedback,
        LowRankImputer,
        LowRankDistance,
        PairRegressor,
        PairClassifier,
        PairRanker,
        ReducedRankRegression,
    )
}
Estimator = (
    MatrixCompletion
    | CategoricalCompletion
    | ImplicitFeedback
    | LowRankImputer
    | LowRankDistance
    | PairRegressor
    | PairClassifier
    | PairRanker
    | ReducedRankRegression
)
# Settings may be geometries (classes) and solvers (dataclasses of options); fitted attributes the rest.
_GEOMETRIES = {cls.__name__: cls for cls in GEOMETRIES.values()}
_RECORDS = {
    f"{cls.__module__}.{cls.__qualname__}": cls
    for cls in (
        Offsets,
        Pattern,
        Posterior,
        Prior,
        Calibration,
        Shrinkage,
        Smoothing,
        RankPath,
        RankErrors,
        RegularizationPath,
        SelectionPath,
        LearntFeatures,
        Traits,
        Encoding,
        Information,
        *SOLVERS,
    )
}
Kind = TypeVar("Kind", bound=Estimator)


class ModelFileError(ValueError):
    """A file that is no model of this library, is damaged, is of another format, or holds what no model may.

    Whatever is in a file, `rankfold.load` returns a model or raises this; the message names the file.
    """


MODELS = Container(
    "model", 2, ModelFileError, "load it with the version that wrote it, or fit the model again"
)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator to the file `path`, which holds its old content until all of the new is on disk.

    Settings and fitted attributes are kept, beside the version of the library and a fingerprint of the data
    that the model was fitted to. Settings that are functions or random generators cannot be kept; those that
    are tables (pandas, polars) are kept as arrays, but for features of rows and columns: what was learnt from
    them is.

    Examples
    --------
    >>> import os, tempfile, rankfold as rf
    >>> pairs = [("a", "x"), ("b", "y"), ("a", "y")]
    >>> model = rf.MatrixCompletion(rank=1, regularization=1.0).fit(pairs, [1.0, 2.0, 3.0])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.rankfold")
    >>> rf.save(model, path)
    >>> bool((rf.load(path).predict([("b", "x")]) == model.predict([("b", "x")])).all())
    True
    """
    name = type(model).__name__
    if not _is_ours(model):
        raise TypeError(f"save takes an estimator ({', '.join(ESTIMATORS)}), not a {name}")
    packer = _ModelPacker(_RECORDS)
    meta = {
        "rankfold": __version__,
        "fingerprint": getattr(model, "data_fingerprint_", None),
        "model": packer.pack(model, name),
    }
    try:
        check(model)
    except ValueError as error:  # what could not be read back is not written
        raise ValueError(f"this {name} cannot be saved: {error}") from error
    with replacing(path) as file:
        MODELS.write(file, meta, packer.arrays)


@overload
def load(path: str | os.PathLike[str]) -> Estimator: ...


@overload
def load(path: str | os.PathLike[str], kind: type[Kind]) -> Kind: ...


def load(path: str | os.PathLike[str], kind: type[Any] | None = None) -> Any:
    """Read an estimator that `rankfold.save` wrote; with `kind`, only one of this class.

    The file need not be trusted: nothing in it is run, its sizes are compared with its length before memory
    is taken, and a model whose parts do not fit together is refused.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ModelFileError
        The file is no model, is damaged, was written by a version of the library with another format, or
        holds what no model may hold, or a model of another class than `kind`.
    """
    meta, arrays = MODELS.read(path)
    try:
        model: Estimator = _ModelUnpacker(_RECORDS, arrays).unpack(meta.get("model"))
        if not _is_ours(model):
            raise ValueError("what it holds is no estimator")
        check(model)
        _bring_up_to_date(model)
    except UNFIT as error:  # written by another version with the same format, or by somebody else
        MODELS.refuse(os.fspath(path), error)
    if kind is not None and type(model) is not kind:
        raise ModelFileError(f"{os.fspath(path)} holds a {type(model).__name__}, no {kind.__name__}")
    return model


def _bring_up_to_date(model: Any) -> None:
    """Give a model of earlier days what later ones note: `schemas.LATER`."""
    if isinstance(model, MatrixCompletion) and hasattr(model, "observed_"):
        if not hasattr(model, "counts_"):
            cols = np.bincount(model.observed_.indices, minlength=model.shape_[1])
            model.counts_ = model.observed_.counts, cols
        if not hasattr(model, "shrinkage_"):
            model.shrinkage_ = Shrinkage(2.0, 2.0) if model.bias else None  # what it was then, for all
        if not hasattr(model, "posterior_"):
            model.posterior_ = None
        if not hasattr(model, "value_range_"):
            model.value_range_ = None
        if not hasattr(model, "features_"):
            model.features_, model.information_ = (None, None), None
    if isinstance(model, LowRankImputer) and hasattr(model, "mean_") and not hasattr(model, "smoothing_"):
        model.smoothing_ = None


def _is_ours(value: Any) -> bool:
    return type(value) is ESTIMATORS.get(type(value).__name__)


def fitted_names(model: Any) -> list[str]:
    """Return the names of what a model has found; `observed_` is made when it is asked for."""
    return [name for name in (*vars(model), "observed_") if _is_fitted(name) and hasattr(model, name)]


def _kept(setting: str, value: Any) -> Any:
    """Return what a file keeps of a setting: of features, what was learnt from them suffices."""
    return None if setting in ("row_features", "col_features") and value is not False else value


def _is_fitted(name: str) -> bool:
    """Whether `fit` found it or, though no setting, `set_output` asked for it, as scikit-learn keeps that."""
    return (name.endswith("_") and not name.startswith("_")) or name == "_sklearn_output_config"


class _ModelPacker(Packer):
    """Packs what estimators hold beside what the states of a run do."""

    remedy = "models are saved with solvers of this library only"

    def pack(self, value: Any, where: str = "model") -> Any:
        name = type(value).__name__
        if _is_ours(value):
            settings = {key: _kept(key, part) for key, part in value.get_params(deep=False).items()}
            fitted = fitted_names(value)
            if strange := sorted(set(fitted) - set(FITTED[name])):
                raise TypeError(
                    f"{where}.{strange[0]} is no attribute of a {name}: delete it before you save"
                )
            return {
                "estimator": name,
                "settings": {key: self.pack(part, f"{where}.{key}") for key, part in settings.items()},
                "fitted": {key: self.pack(getattr(value, key), f"{where}.{key}") for key in fitted},
            }
        if isinstance(value, Trace):
            return {"trace": self.pack(np.asarray(value), where)}
        if isinstance(value, Loss) and value.formula in formulas.BUILT_IN:
            return {"loss": value.formula.__name__, "parameter": value.parameter}
        if isinstance(value, type) and value in _GEOMETRIES.values():
            return {"geometry": value.__name__}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"dtype": np.dtype(value).name}
        if sparse.issparse(value):
            rows = sparse.csr_array(value)
            parts = self.pack((rows.data, rows.indices, rows.indptr), where)
            return {"sparse": parts, "shape": list(rows.shape)}
        if hasattr(value, "to_numpy"):
            return self.pack(value.to_numpy(), where)
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            if value.ndim != 1 or not all(isinstance(element, str) for element in value):
                raise TypeError(f"{where} is an array of Python objects, which a file cannot hold")
            return {"strings": [str(element) for element in value]}  # such as `feature_names_in_`
        if isinstance(value, list):
            return {"list": [self.pack(part, f"{where}[{k}]") for k, part in enumerate(value)]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.pack(part, f"{where}[{key!r}]") for key, part in value.items()}}
        return super().pack(value, where)


class _ModelUnpacker(Unpacker):
    """Puts together what a `_ModelPacker` took apart."""

    def unpack(self, tree: Any) -> Any:
        match tree:
            case {"estimator": name, "settings": settings, "fitted": fitted}:
                return self._estimator(name, settings, fitted)
            case {"trace": {"array": str() as name}}:
                self._use("trace", most=1)
                return Trace.from_array(self._array(name))
            case {"loss": name, "parameter": int() | float() as parameter} if isfinite(parameter):
                return Loss(Loss.named(name).formula, parameter)
            case {"geometry": name} if name in _GEOMETRIES:
                return _GEOMETRIES[name]
            case {"dtype": str() as name} if re.fullmatch(r"[a-z]+\d*", name):
                return np.dtype(name)
            case {"sparse": parts, "shape": [int(), int()] as shape}:
                return _sparse(self.unpack(parts), (shape[0], shape[1]))
            case {"strings": list() as strings} if all(isinstance(text, str) for text in strings):
                return np.array(strings, dtype=object)
            case {"list": parts}:
                return [self.unpack(part) for part in parts]
            case {"dict": parts}:
                return {key: self.unpack(part) for key, part in parts.items()}
        return super().unpack(tree)

    def _estimator(self, name: Any, settings: dict[str, Any], fitted: dict[str, Any]) -> Any:
        if name not in ESTIMATORS:
            raise ValueError(f"it holds a {name!r}, which is no estimator of this version")
        if strange := sorted(fitted.keys() - FITTED[name].keys()):
            raise ValueError(f"it has {strange[0]!r}, which is no attribute of a {name}")
        model = ESTIMATORS[name](**{key: self.unpack(part) for key, part in settings.items()})
        for key, part in fitted.items():
            setattr(model, key, self.unpack(part))
        return model


def _sparse(parts: tuple[Any, Any, Any], shape: tuple[int, int]) -> Any:
    """A sparse table whose positions all lie within it: the loops that SciPy runs over it look at none."""
    data, indices, indptr = parts
    if data.dtype.kind not in "fiub" or indices.dtype.kind != "i" or indptr.dtype.kind != "i":
        raise ValueError("a sparse table has real numbers, and integers for positions")
    rows = sparse.csr_array(parts, shape)
    rows.check_format(full_check=True)
    return rows
