"""Model files and checkpoints under attack: blind changes, and changes behind a checksum that fits."""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import random
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import rankfold as rf
from estimators.every_estimator import NAMES, example
from fuzz.harness import Fuzzer
from fuzz.mutator import EDGES, Mutator
from rankfold.baselines import RTRMC, SVP, LMaFit
from rankfold.estimators.model_files import MODELS
from rankfold.run.checkpoint import CHECKPOINTS
from rankfold.run.container import Container

_DIGEST = 32
# What a method of a model that was read may say of it; no warning, no crash, no time and no memory beyond.
SAYS = (ValueError, TypeError, KeyError, FloatingPointError, RuntimeWarning)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 10**6, 10**12, 2**63, 10**400, 0.5, -1e308, float("nan"), float("inf")),
    *("", "auto", "x" * 1000, [], {}, {"tuple": []}, {"list": [1]}, {"dict": {}}, {"strings": ["a"]}),
    *({"array": "array0"}, {"array": "array1"}, {"scalar": "array0"}, {"trace": {"array": "array0"}}),
    *({"geometry": "Polar"}, {"loss": "huber", "parameter": 0.0}, {"dtype": "float16"}, {"dtype": "object"}),
    *({"cost": "of the problem"}, {"tuple": [{"array": "array0"}] * 999}),
    {"sparse": {"tuple": [{"array": "array0"}] * 3}, "shape": [3, 10**12]},
    {
        "record": "rankfold.costs.offsets.Offsets",
        "fields": {"mean": 0, "rows": {"array": "array0"}, "cols": 5},
    },
)
KEYS = ("predict", "__dict__", "__init__", "__class__", "factors_", "rank_", "array", "arrays", "fields", "")
TYPES = ("f8", "f4", "f2", "i8", "u8", "u4", "i4", "u1", "b1", "U3", "S2", "c16", ">f8", ">i8")


def content(kind: Container, meta: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    kind.write(buffer, meta, {f"array{k}": array for k, array in enumerate(arrays.values())})
    return buffer.getvalue()


def changed(kind: Container, rng: random.Random, data: bytes) -> bytes:
    """Change bytes, or what they mean, and let the checksum fit again."""
    if rng.random() < 0.4:
        data = Mutator().mutate(rng, data[:-_DIGEST])
        return data + hashlib.sha256(data).digest()
    meta, arrays = parsed(kind, data)
    with suppress(ValueError, TypeError, RecursionError):  # of what no file can hold
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            if rng.random() < 0.5:
                change_tree(rng, meta)
            else:
                change_arrays(rng, arrays)
        return content(kind, meta, arrays)
    return data


def parsed(kind: Container, data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "seed"
        path.write_bytes(data)
        return kind.read(path)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every place of a JSON tree: a container, and the key or number of what is there."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [(tree, key) for key in keys] + [place for key in keys for place in places(tree[key])]


def change_tree(rng: random.Random, meta: dict[str, Any]) -> None:
    holder, key = rng.choice(places(meta))
    other, another = rng.choice(places(meta))
    match rng.randrange(6):
        case 0:
            del holder[key]
        case 1:
            holder[key] = copy.deepcopy(other[another])
        case 2 if isinstance(holder, dict):
            holder[rng.choice(KEYS)] = copy.deepcopy(rng.choice(VALUES))
        case 3 if isinstance(holder[key], int):
            holder[key] = rng.choice((holder[key] + 1, holder[key] - 1, *EDGES, *(-edge for edge in EDGES)))
        case 4:
            for _ in range(rng.choice((3, 30, 300))):
                holder[key] = {rng.choice(("tuple", "list")): [holder[key]]}
        case _:
            holder[key] = copy.deepcopy(rng.choice(VALUES))


def change_arrays(rng: random.Random, arrays: dict[str, Any]) -> None:
    if not arrays:
        return
    name, other = rng.choice(list(arrays)), rng.choice(list(arrays))
    array = arrays[name]
    changes: list[Callable[[], Any]] = [
        lambda: arrays[other],
        lambda: array[:-1],
        lambda: array[..., :-1],
        lambda: array.T,
        lambda: array[None],
        lambda: array.ravel(),
        lambda: array[:0],
        lambda: np.repeat(array, rng.choice((2, 50)), axis=0),
        lambda: array.astype(rng.choice(TYPES)),
        lambda: -array,
        lambda: array[::-1],
        lambda: np.empty((0, *array.shape[1:]), array.dtype),
        lambda: put(rng, array, rng.choice((np.nan, np.inf, -1, 0, 1e300, 2**32 - 1, 2**31, 7))),
        lambda: put(rng, array, rng.choice((np.nan, np.inf, -1, 0, 1e300, 2**32 - 1, 2**31, 7))),
    ]
    with suppress(ValueError, TypeError, IndexError, OverflowError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays[name] = np.asarray(rng.choice(changes)())


def put(rng: random.Random, array: Any, value: Any) -> Any:
    array = array.copy()
    array.reshape(-1)[rng.randrange(max(array.size, 1))] = value
    return array


# Models --------------------------------------------------------------------------------------------------

PAIRS = [(f"user{i}", 10 * j) for i in range(8) for j in range(6) if (i * j + i) % 3]


def labelled(**settings: Any) -> Any:
    model = rf.MatrixCompletion(2, random_state=0, **{"regularization": 0.5} | settings)
    return model.fit(PAIRS, [float((7 * i) % 5) for i in range(len(PAIRS))])


@functools.cache
def model_files() -> tuple[bytes, ...]:
    wide = labelled()
    wide.observed_ = wide.observed_._replace(indices=wide.observed_.indices.astype(np.uint64))
    logistic = rf.MatrixCompletion(2, loss="logistic", regularization=1.0, solver=rf.TrustRegion(kappa=0.2))
    logistic.set_params(bias=False).fit(PAIRS, [float(i % 2) for i in range(len(PAIRS))])
    polar = labelled(dtype=np.float32, geometry=rf.Polar, bias=False)
    models = labelled(regularization="auto"), wide, logistic, polar
    return tuple(saved(model) for model in [*models, *(example(name).fitted() for name in NAMES)])


def saved(model: Any) -> bytes:
    with TemporaryDirectory() as folder:
        rf.save(model, Path(folder) / "model")
        return (Path(folder) / "model").read_bytes()


def use_model(path: Path) -> None:
    """Load a model, and ask it everything."""
    model = rf.load(path)
    with suppress(*SAYS):
        str(model.rank_path_), str(model.trace_)
    for ask in _questions(model):
        with suppress(*SAYS):
            ask()


def _questions(model: Any) -> list[Callable[[], Any]]:
    if isinstance(model, rf.MatrixCompletion):
        named = getattr(model, "row_labels_", None) is not None
        pairs: list[tuple[Any, Any]] = [("user1", 10), ("user2", 50)] if named else [(0, 0)]
        rows, cols = ([pair[side] for pair in pairs] for side in (0, 1))
        values = [1.0] * len(pairs)
        return [
            lambda: model.predict(pairs),
            lambda: model.recommend(rows),
            lambda: model.similar(cols),
            lambda: model.similar(rows, side="row"),
            lambda: model.fold_in(pairs, values),
            lambda: model.fold_in(pairs, values, side="column"),
            lambda: hasattr(model, "factors_") and model.partial_fit(pairs, values),
            lambda: model.recommend(rows),
        ]
    asks = model.transform if isinstance(model, rf.LowRankImputer) else model.predict
    tables = np.ones((3, 6)), np.zeros((3, 2), int), np.full((2, 6), np.nan)
    return [lambda X=X: asks(X) for X in tables]


# Checkpoints ---------------------------------------------------------------------------------------------

KNOWN = np.flatnonzero(np.arange(60) % 5 != 4)
COST = rf.Completion(*np.divmod(KNOWN, 6), np.sin(1.0 + KNOWN**1.5), (10, 6))
RUNS: dict[str, tuple[Any, Any]] = {
    "ConjugateGradient": (rf.ConjugateGradient(), rf.Polar),
    "TrustRegion": (rf.TrustRegion(), rf.Embedded),
    "Auto": (rf.Auto(), rf.FullRank),
    "ReweightedContinuation": (rf.ReweightedContinuation(), rf.FullRank),
    "RankContinuation": (rf.RankContinuation(), rf.SubspaceProjection),
    "LMaFit": (LMaFit(), rf.FullRank),
    "SVP": (SVP(), rf.Embedded),
    "RTRMC": (RTRMC(), rf.SubspaceProjection),
}


@functools.cache
def checkpoint_files() -> tuple[bytes, ...]:
    files = []
    with TemporaryDirectory() as folder:
        for method, geometry in RUNS.values():
            problem, path = rf.Problem(COST, geometry(COST.shape, 2)), Path(folder) / "run"
            rf.minimize(problem, method, max_iterations=4, tolerance=0, checkpoint=path)
            files.append(path.read_bytes())
    return tuple(files)


def resume(path: Path) -> None:
    """Go on with the run that a file says it is of."""
    words = path.read_bytes().partition(b'"solver": "')[2][:60].decode("latin-1")
    name = next((name for name in RUNS if words.startswith(f"{name}(")), "ConjugateGradient")
    method, geometry = RUNS[name]
    problem = rf.Problem(COST, geometry(COST.shape, 2))
    with np.errstate(all="ignore"):  # a step from a point that overflows ends the run with its error
        rf.minimize(problem, method, max_iterations=7, tolerance=0, resume=path)


def change_model(rng: random.Random, data: bytes) -> bytes:
    return changed(MODELS, rng, data)


def change_checkpoint(rng: random.Random, data: bytes) -> bytes:
    return changed(CHECKPOINTS, rng, data)


FUZZERS = [
    Fuzzer("model", model_files, use_model, (rf.ModelFileError,), change=change_model),
    Fuzzer("checkpoint", checkpoint_files, resume, (rf.CheckpointError,), change=change_checkpoint),
]
