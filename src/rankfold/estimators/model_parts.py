"""Completed matrices whose factors outgrow a machine: a folder of models, each of some rows and all columns.

Each process writes a file of its rows, which is a model like any other. Once all of them are on disk the
first process writes a manifest, and then removes files that it does not name.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold._version import __version__
from rankfold.atomic import replace_text
from rankfold.costs.offsets import Offsets
from rankfold.data.numbering import joined
from rankfold.distributed.group import Group
from rankfold.estimators.completion.matrix_completion import MatrixCompletion
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.model_files import ModelFileError, load, save
from rankfold.fingerprint import fingerprint

MANIFEST = "manifest.json"
_FORMAT = 1
_MOST = 1 << 20  # bytes of a manifest, and files that it names
_NAME = re.compile(r"[0-9a-f]{8}-part-[0-9]{5,7}\.rankfold")


def save_part(model: MatrixCompletion, folder: str | os.PathLike[str], group: Group) -> None:
    r"""Write what this process has of a model, of the rows at hand, and let the first one say what there is.

    The model was fitted to what ``rankfold.distributed.read(..., parts=True)`` returns. Whoever is killed, at
    whatever moment, the manifest names files that are there and belong together.

    Examples
    --------
    >>> import pathlib, tempfile, rankfold as rf
    >>> from rankfold.distributed import read, start
    >>> from rankfold.estimators.model_parts import load_parts, save_part
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("ann,Dune,5\nbob,Dune,4\nann,Heat,1\n")
    >>> group = start()
    >>> data = read(f"{folder}/*.csv", group=group, parts=True)
    >>> model = rf.MatrixCompletion(rank=1, regularization=1.0).fit(data)
    >>> save_part(model, folder / "model", group)
    >>> load_parts(folder / "model").model.row_labels_.tolist()
    ['ann', 'bob']
    """
    folder = Path(folder)
    height = model.shape_[0]
    heights = group.stacked(np.array([height], dtype=np.int64))[:, 0].tolist()
    run = fingerprint(model.factors_[1])[:8]  # files of an earlier model stay until the manifest has changed
    names = {k: f"{run}-part-{k:05d}.rankfold" for k, rows in enumerate(heights) if rows}

    def own() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if height:  # a crowded row may leave nothing for another process
            save(model, folder / names[group.rank])

    def manifest() -> None:
        if group.rank == 0:
            said = {"format": _FORMAT, "rankfold": __version__, "files": list(names.values())}
            replace_text(folder / MANIFEST, json.dumps(said) + "\n")
            for old in folder.glob("*-part-*.rankfold"):
                if _NAME.fullmatch(old.name) and old.name not in names.values():
                    old.unlink(missing_ok=True)

    group.together(own, "writing a part of the model")
    group.together(manifest, "writing the manifest of the model")


@dataclass(frozen=True)
class Share:
    """What a process has of a model: rows from number `first` on, of `rows` in all."""

    model: MatrixCompletion
    first: int
    rows: int


def load_parts(folder: str | os.PathLike[str], group: Group | None = None) -> Share:
    """Read as many parts as belong to this process: all, if it is the only one.

    Parameters
    ----------
    folder
        What `save_part` wrote, or ``rankfold complete --parts -o folder``.
    group
        The processes, of which each reads its share; by default there is one.

    Returns
    -------
    Share
        A `MatrixCompletion` of the rows at hand, and their place among all.

    Raises
    ------
    ModelFileError
        The folder is no model in parts, or is damaged, or has fewer parts than there are processes.
    """
    folder, group = Path(folder), group or Group()
    names = _named(folder)
    size = group.size
    if len(names) < size:
        raise ModelFileError(
            f"{str(folder)!r} is a model in {len(names)} parts, and there are {size} processes: start "
            "no more of them than there are parts"
        )
    first, last = (len(names) * k // size for k in (group.rank, group.rank + 1))
    model = group.together(
        lambda: _joined([load(folder / name, MatrixCompletion) for name in names[first:last]]),
        "reading the model",
    )
    group.require_equal("parts of a model", f"{model.data_fingerprint_} {fingerprint(model.factors_[1])}")
    heights = group.stacked(np.array([model.shape_[0]], dtype=np.int64))[:, 0]
    return Share(model, int(heights[: group.rank].sum()), int(heights.sum()))


def _named(folder: Path) -> list[str]:
    """The files of a model in parts, in the order of their rows."""
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            text = file.read(_MOST + 1)
        said = json.loads(text) if len(text) <= _MOST else None
    except FileNotFoundError:
        raise ModelFileError(
            f"{str(folder)!r} is a folder, and no model in parts: it has no {MANIFEST}"
        ) from None
    except (ValueError, RecursionError):
        said = None
    match said:
        case {"format": int() as number} if number > _FORMAT:
            raise ModelFileError(f"{str(path)!r} is newer than this rankfold {__version__}: upgrade it")
        case {"format": 1, "files": [str(), *_] as names} if all(
            isinstance(name, str) and _NAME.fullmatch(name) for name in names
        ):
            return list(names)
    raise ModelFileError(f"{str(path)!r} is no manifest of a model, or damaged: fit the model again")


def _labels_of(model: MatrixCompletion) -> NDArray[Any]:
    if model.row_labels_ is None:
        raise ModelFileError("a part of this model does not say what its rows are called: fit it again")
    return model.row_labels_


def _joined(models: list[MatrixCompletion]) -> MatrixCompletion:
    """One model of the rows of several, of which the first knows the rest."""
    whole = models[0]
    if len(models) == 1:
        return whole
    for model in models:
        alike = np.array_equal(model.factors_[1], whole.factors_[1])
        if not alike or model.data_fingerprint_ != whole.data_fingerprint_:
            raise ModelFileError("the parts of this model do not belong together: fit it again")
    labels, *more = (_labels_of(model) for model in models)
    for names in more:
        labels = joined(labels, names)
    mean, _, cols = whole.biases_
    ends = np.cumsum([0, *(len(model.observed_.indices) for model in models)])
    starts = [model.observed_.indptr[:-1] + end for model, end in zip(models, ends, strict=False)]
    whole.observed_ = Pattern(
        np.append(np.concatenate(starts), ends[-1]),
        np.concatenate([model.observed_.indices for model in models]),
    )
    whole.factors_ = np.concatenate([model.factors_[0] for model in models]), whole.factors_[1]
    whole.biases_ = Offsets(mean, np.concatenate([model.biases_.rows for model in models]), cols)
    whole.counts_ = np.concatenate([model.counts_[0] for model in models]), whole.counts_[1]
    whole.row_labels_, whole.shape_ = labels, (len(labels), whole.shape_[1])
    return whole
