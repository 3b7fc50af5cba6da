"""Test error of `MatrixCompletion` with defaults on rating data, beside offsets alone, cmfrec and myFM.

    python -m benchmarks.ratings path/to/folder [--seeds 5] [--rank 5] [--no-peers] [--data jester5k]

"ours" is with the Bayesian finish where held-out training entries ask for it, "plain" without; "held by 90%"
is the part of the test ratings in `predict_interval(coverage=0.9)`, and "cost" the processor seconds of the
fit in those of the plain one.

The folder holds what is there of

    jester5k/ratings.csv.gz              user,joke,rating        80/20
    ml-latest-small/ratings.csv.gz       user,movie,rating,time  90/10
    movietweetings_100k/ratings.dat.gz   user::movie::rating::time  90/10

The split of seed s is `numpy.random.default_rng(s).permutation(n)`, the first part for training. Nothing is
chosen on the test part. cmfrec (the `bench` extra) runs with its defaults and with the settings that its
documentation names for MovieLens10M ratings, λ = 35, and λ = 0.05 with `scale_lam`; each also with
`add_implicit_features`. The best of the six is the best on the test data. myFM (`pip install myfm`) is Gibbs
sampling: rank 8 and 200 samples, on users and items alone. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

import rankfold as rf
from rankfold.estimators.completion.choosing import fit_offsets
from rankfold.estimators.completion.entries import completion_of
from rankfold.estimators.completion.offsets import predictions

DATA = {
    "jester5k": ("ratings.csv.gz", 0.2),
    "ml-latest-small": ("ratings.csv.gz", 0.1),
    "movietweetings_100k": ("ratings.dat.gz", 0.1),
}
_SHRINKAGE: dict[str, dict[str, Any]] = {
    "default": {},
    "λ=35": {"lambda_": 35.0},
    "scale_lam λ=0.05": {"lambda_": 0.05, "scale_lam": True},
}
CMFREC = _SHRINKAGE | {
    f"{name}, implicit": settings | {"add_implicit_features": True} for name, settings in _SHRINKAGE.items()
}


Rank = int | Literal["auto"]


def rank_of(text: str) -> Rank:
    return "auto" if text == "auto" else int(text)


def rmse(predicted: Any, data: rf.data.Triples) -> float:
    return float(np.sqrt(np.mean((predicted - data.values) ** 2)))


def ours(train: rf.data.Triples, test: rf.data.Triples, rank: Rank) -> tuple[float, rf.MatrixCompletion]:
    model = rf.MatrixCompletion(rank, random_state=0).fit(train)
    return rmse(model.predict(test), test), model


def finished(train: rf.data.Triples, test: rf.data.Triples, rank: Rank) -> dict[str, float]:
    """Our error with the finish and without, what intervals hold, and the cost of one in the other's."""
    began = time.process_time()
    error, model = ours(train, test, rank)
    middle = time.process_time()
    plain = rf.MatrixCompletion(rank, bayesian=False, random_state=0).fit(train)
    ended = time.process_time()
    low, high = model.predict_interval(test, coverage=0.9)
    return {
        "rank": model.rank_, "λ": model.regularization_, "sweeps": model.posterior_.sweeps, "ours": error,
        "plain": rmse(plain.predict(test), test), "cost": (middle - began) / (ended - middle),
        "held by 90%": float(np.mean((low <= test.values) & (test.values <= high))),
    }  # fmt: skip


def offsets_alone(train: rf.data.Triples, test: rf.data.Triples) -> float:
    cost = completion_of(train, None, "square", "float64")
    return rmse(predictions(fit_offsets(cost), test.rows, test.cols), test)


def cmfrec_error(train: rf.data.Triples, test: rf.data.Triples, settings: dict[str, Any]) -> float:
    import pandas as pd
    from cmfrec import CMF

    frame = pd.DataFrame({"UserId": train.rows, "ItemId": train.cols, "Rating": train.values})
    model = CMF(verbose=False, nthreads=2, **settings).fit(frame)
    return rmse(model.predict(test.rows, test.cols), test)


def myfm_error(train: rf.data.Triples, test: rf.data.Triples) -> float:
    import myfm
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore")
    X = encoder.fit_transform(np.column_stack([train.rows, train.cols]))
    groups = [len(names) for names in encoder.categories_]
    sampler = myfm.MyFMRegressor(rank=8, random_seed=0)
    sampler.fit(X, train.values, group_shapes=groups, n_iter=210, n_kept_samples=200)
    return rmse(sampler.predict(encoder.transform(np.column_stack([test.rows, test.cols]))), test)


def peers(train: rf.data.Triples, test: rf.data.Triples) -> dict[str, float]:
    found = {}
    if find_spec("cmfrec"):
        found |= {name: cmfrec_error(train, test, settings) for name, settings in CMFREC.items()}
    if find_spec("myfm"):
        found["myFM, rank 8"] = myfm_error(train, test)
    return found


def measure(
    data: rf.data.Triples, held_out: float, seed: int, options: argparse.Namespace
) -> dict[str, float]:
    train, test = rf.data.split(data, held_out, seed)
    mean = float(np.mean(train.values))
    result = finished(train, test, options.rank)
    result |= {"offsets": offsets_alone(train, test), "mean": rmse(mean, test)}
    return result | (peers(train, test) if options.peers else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rank", type=rank_of, default=rf.MatrixCompletion().rank)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA), metavar="NAME")
    options = parser.parse_args()
    for package in ("cmfrec", "myfm") if options.peers else ():
        if not find_spec(package):
            print(f"{package} is not installed, and left out: pip install {package}")
    for name in options.data:
        file, held_out = DATA[name]
        path = options.folder / name / file
        if not path.exists():
            continue
        data = rf.data.read_triples(path)
        print(
            f"{name}: {data.shape[0]} × {data.shape[1]}, {len(data)} ratings, rank {options.rank}", flush=True
        )
        runs = []
        for seed in range(options.seeds):
            runs.append(measure(data, held_out, seed, options))
            print(f"  seed {seed}: " + ", ".join(f"{k} {v:.4g}" for k, v in runs[-1].items()), flush=True)
        for key in runs[0]:
            values = [run[key] for run in runs]
            print(f"  {key:>28}  mean {np.mean(values):.4f}  from {min(values):.4f} to {max(values):.4f}")


if __name__ == "__main__":
    main()
