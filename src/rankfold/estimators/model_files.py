"""Fitted estimators in files: arrays, labels and settings, one file per model, and no code.

A file is a line with the format's number, the length of a JSON text and that text, the arrays that the text
refers to, in NumPy's own format, and the SHA-256 of all that. The text names classes; what a name means is
looked up among those listed here, and nothing that a file names is ever imported.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from rankfold import solvers
from rankfold._version import __version__
from rankfold.atomic import replacing
from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets
from rankfold.estimators.completion.choosing import RegularizationPath
from rankfold.estimators.completion.joint import Shrinkage
from rankfold.estimators.completion.matrix_completion import MatrixCompletion
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.fitting import GEOMETRIES
from rankfold.estimators.imputer.low_rank_imputer import LowRankImputer
from rankfold.estimators.pairs.pair_models import PairClassifier, PairRegressor
from rankfold.estimators.rank_errors import RankErrors
from rankfold.estimators.regression.criteria import SelectionPath
from rankfold.estimators.regression.reduced_rank import ReducedRankRegression
from rankfold.kernels import formulas
from rankfold.run.records import Packer, Unpacker
from rankfold.run.trace import Trace
from rankfold.selection.rank import RankPath

FORMAT = 2
_MAGIC = b"rankfold model, format "
_DIGEST = hashlib.sha256().digest_size
_CHUNK = 1 << 20
ESTIMATORS = {
    cls.__name__: cls
    for cls in (MatrixCompletion, LowRankImputer, PairRegressor, PairClassifier, ReducedRankRegression)
}
# Settings may be geometries (classes) and solvers (dataclasses of options); fitted attributes the rest.
_GEOMETRIES = {cls.__name__: cls for cls in GEOMETRIES.values()}
_SOLVERS = (
    solvers.Auto,
    solvers.ConjugateGradient,
    solvers.GradientDescent,
    solvers.RankContinuation,
    solvers.ReweightedContinuation,
    solvers.TrustRegion,
)
_RECORDS = {
    f"{cls.__module__}.{cls.__qualname__}": cls
    for cls in (
        Offsets,
        Pattern,
        Shrinkage,
        RankPath,
        RankErrors,
        RegularizationPath,
        SelectionPath,
        *_SOLVERS,
    )
}


class ModelFileError(ValueError):
    """A file that is no model of this library, is damaged, or is of another format."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator to the file `path`, which holds its old content until all of the new is on disk.

    Settings and fitted attributes are kept, beside the version of the library and a fingerprint of the data
    that the model was fitted to. Settings that are functions or random generators cannot be kept; those that
    are tables (pandas, polars) are kept as arrays.

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
        "arrays": len(packer.arrays),
    }
    with replacing(path) as file:
        _write(file, json.dumps(meta).encode(), packer.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator that `rankfold.save` wrote.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ModelFileError
        The file is no model, is damaged, or was written by a version of the library with another format.
    """
    name = os.fspath(path)
    with Path(path).open("rb") as file:
        _check_format(name, file.readline(len(_MAGIC) + 20))
        start, size = file.tell(), os.fstat(file.fileno()).st_size
        if size < start + 8 + _DIGEST or not _is_whole(file, size - _DIGEST):
            raise ModelFileError(f"{name!r} is damaged: its checksum does not fit; restore it from a copy")
        file.seek(start)
        try:
            meta = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            arrays = {
                f"array{k}": np.lib.format.read_array(file, allow_pickle=False) for k in range(meta["arrays"])
            }
            return _ModelUnpacker(_RECORDS, arrays).unpack(meta["model"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Written by another version of the library with the same format, or by somebody else.
            raise ModelFileError(f"{name!r} does not fit rankfold {__version__}: {error}") from error


def _is_ours(value: Any) -> bool:
    return type(value) is ESTIMATORS.get(type(value).__name__)


def _is_fitted(name: str) -> bool:
    """Whether `fit` found it or, though no setting, `set_output` asked for it, as scikit-learn keeps that."""
    return (name.endswith("_") and not name.startswith("_")) or name == "_sklearn_output_config"


class _ModelPacker(Packer):
    """Packs what estimators hold beside what the states of a run do."""

    remedy = "models are saved with solvers of this library only"

    def pack(self, value: Any, where: str = "model") -> Any:
        name = type(value).__name__
        if _is_ours(value):
            settings, fitted = value.get_params(deep=False), filter(_is_fitted, vars(value))
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
                if name not in ESTIMATORS:
                    raise ValueError(f"it holds a {name!r}, which is no estimator of this version")
                model = ESTIMATORS[name](**{key: self.unpack(part) for key, part in settings.items()})
                for key, part in fitted.items():
                    setattr(model, key, self.unpack(part))
                return model
            case {"trace": rows}:
                return Trace.from_array(self.unpack(rows))
            case {"loss": name, "parameter": parameter}:
                return Loss(Loss.named(name).formula, parameter)
            case {"geometry": name} if name in _GEOMETRIES:
                return _GEOMETRIES[name]
            case {"dtype": name}:
                return np.dtype(name)
            case {"sparse": parts, "shape": shape}:
                return sparse.csr_array(self.unpack(parts), tuple(shape))
            case {"strings": strings}:
                return np.array(strings, dtype=object)
            case {"list": parts}:
                return [self.unpack(part) for part in parts]
            case {"dict": parts}:
                return {key: self.unpack(part) for key, part in parts.items()}
        return super().unpack(tree)


class _Hashing:
    """A file that is written to, and hashed on the way."""

    def __init__(self, file: IO[bytes]):
        self.file, self.hash = file, hashlib.sha256()

    def write(self, part: Any) -> int:
        self.hash.update(part)
        return self.file.write(part)


def _write(file: IO[bytes], text: bytes, arrays: dict[str, Any]) -> None:
    hashing = _Hashing(file)
    hashing.write(_MAGIC + f"{FORMAT}\n".encode() + len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        np.lib.format.write_array(hashing, array, allow_pickle=False)
    file.write(hashing.hash.digest())


def _check_format(name: str, line: bytes) -> None:
    number = line.removeprefix(_MAGIC).rstrip(b"\n")
    if not (line.startswith(_MAGIC) and line.endswith(b"\n") and number.isdigit()):
        raise ModelFileError(f"{name!r} is not a model that rankfold.save wrote, or its beginning is damaged")
    found, here = int(number), f"rankfold {__version__}"
    newer = f"format {found}, newer than this {here} reads ({FORMAT}): upgrade rankfold to load it"
    remedy = "load it with the version that wrote it, or fit the model again"
    older = f"old format {found}, which {here} no longer reads: {remedy}"
    if found != FORMAT:
        raise ModelFileError(f"{name!r} has the {newer if found > FORMAT else older}")


def _is_whole(file: IO[bytes], length: int) -> bool:
    """Whether the last bytes of a file are the hash of the `length` bytes before them."""
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0 and (chunk := file.read(min(_CHUNK, length))):
        digest.update(chunk)
        length -= len(chunk)
    return file.read() == digest.digest()
