"""How right `MatrixCompletion` is with its defaults, on data whose truth is known.

    python -m benchmarks.defaults [--seeds 3] [--only exact D1]

Three tables, medians over seeds. The relative error of the whole matrix on data of low rank, with the true
rank given and with nothing given; "gaps" are integer ids with gaps. The error on hidden entries, in their
standard deviations, on data that are hard to get right, beside the best setting that is known. What the
penalised fit has above the least value that plain alternating least squares finds, from a start of its own.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import rankfold as rf

Floats = NDArray[np.float64]


class Instance(NamedTuple):
    """Known entries, and the matrix they were taken from."""

    pairs: NDArray[np.int64]
    values: Floats
    truth: Floats
    loss: str = "square"


def low_rank(shape: tuple[int, int], rank: int, rng: np.random.Generator) -> Floats:
    return rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))


def per_row(truth: Floats, each: int, rng: np.random.Generator) -> NDArray[np.int64]:
    cols = [rng.choice(truth.shape[1], each, replace=False) for _ in truth]
    return np.column_stack([np.repeat(np.arange(len(truth)), each), np.concatenate(cols)])


def clean(
    seed: int, offsets: bool = False, noise: float = 0.0, scale: float = 1.0,
    shape: tuple[int, int] = (200, 150), rank: int = 2, each: int = 25,
) -> Instance:  # fmt: skip
    """Data of low rank; the noise is relative to their size."""
    rng = np.random.default_rng(seed)
    truth = low_rank(shape, rank, rng)
    if offsets:
        truth += 3 + rng.standard_normal((shape[0], 1)) + rng.standard_normal(shape[1])
    pairs = per_row(truth, each, rng)
    values = truth[tuple(pairs.T)] + noise * truth.std() * rng.standard_normal(len(pairs))
    return Instance(pairs, scale * values, scale * truth)


def sampled(seed: int, shape: tuple[int, int], rank: int, part: float, noise: float = 0.1) -> Instance:
    """A part of the entries of a matrix of low rank, with noise."""
    rng = np.random.default_rng(seed)
    truth = low_rank(shape, rank, rng)
    pairs = np.argwhere(rng.random(shape) < part)
    return Instance(
        pairs, truth[tuple(pairs.T)] + noise * truth.std() * rng.standard_normal(len(pairs)), truth
    )


def counts(seed: int) -> Instance:
    """Poisson counts whose logarithm has rank 3."""
    rng = np.random.default_rng(seed)
    truth = np.exp(1 + 0.5 * low_rank((300, 200), 3, rng))
    pairs = np.argwhere(rng.random(truth.shape) < 0.3)
    return Instance(pairs, rng.poisson(truth[tuple(pairs.T)]).astype(float), truth, "poisson")


def small_counts(seed: int) -> Instance:
    """Poisson counts whose logarithm has rank 2, and no constant."""
    rng = np.random.default_rng(seed)
    truth = np.exp(low_rank((200, 150), 2, rng) / np.sqrt(2))
    pairs = np.argwhere(rng.random(truth.shape) < 0.5)
    return Instance(pairs, rng.poisson(truth[tuple(pairs.T)]).astype(float), truth, "poisson")


def answers(seed: int) -> Instance:
    """Yes and no, with probabilities whose logits have rank 2."""
    rng = np.random.default_rng(seed)
    truth = 1 / (1 + np.exp(-2 * low_rank((300, 200), 2, rng)))
    pairs = np.argwhere(rng.random(truth.shape) < 0.4)
    return Instance(pairs, (rng.random(len(pairs)) < truth[tuple(pairs.T)]).astype(float), truth, "logistic")


def outliers(seed: int) -> Instance:
    """2% of the entries are off by ten standard deviations."""
    data = sampled(seed, (200, 150), 3, 0.4)
    rng = np.random.default_rng(seed + 1000)
    off = rng.random(len(data.values)) < 0.02
    jumps = 10 * data.truth.std() * rng.standard_normal(off.sum())
    data.values[off] += jumps
    return data._replace(loss="huber")


CLEAN: dict[str, tuple[dict[str, Any], float]] = {
    "exact": ({}, 1e-6),
    "exact, 1e6 times": ({"scale": 1e6}, 1e-6),
    "exact, 1e-6 times": ({"scale": 1e-6}, 1e-6),
    "with offsets": ({"offsets": True}, 1e-6),
    "signal to noise 10": ({"noise": 1 / 10}, 0.045),
    "signal to noise 3": ({"noise": 1 / 3}, 0.145),
    "signal to noise 3, with offsets": ({"noise": 1 / 3, "offsets": True}, 0.18),
    "500 × 400 rank 4, exact": ({"shape": (500, 400), "rank": 4, "each": 80}, 1e-6),
}
# The instance, the true rank, and the best setting known.
HARD: dict[str, tuple[Callable[[int], Instance], int, dict[str, Any]]] = {
    "8 × 500 at 70%": (lambda seed: sampled(seed, (8, 500), 2, 0.7), 2, {"bias": False}),
    "20000 × 10 at 50%": (lambda seed: sampled(seed, (20000, 10), 2, 0.5), 2, {"bias": False}),
    "6 × 5 rank 1 at 80%": (
        lambda seed: sampled(seed, (6, 5), 1, 0.8, 0.0), 1, {"bias": False, "regularization": 0.0},
    ),
    "300 × 200 rank 3, 10 per row": (
        lambda seed: clean(seed, shape=(300, 200), rank=3, each=10),
        3, {"bias": False, "regularization": 0.0},
    ),
    "counts, poisson": (counts, 3, {"regularization": 0.1}),
    "counts without a constant, poisson": (small_counts, 2, {"bias": False, "regularization": 0.1}),
    "0 or 1, logistic": (answers, 2, {"bias": False, "regularization": 0.05}),
    "2% outliers, huber": (outliers, 3, {"bias": False}),
}  # fmt: skip


def predicted(data: Instance, gaps: bool = False, **settings: Any) -> Floats:
    """The whole matrix as a model predicts it."""
    places = np.argwhere(np.ones(data.truth.shape, bool))
    stretch = (7, -13) if gaps else (1, 1)
    model = rf.MatrixCompletion(loss=data.loss, random_state=0, **settings)
    return model.fit(data.pairs * stretch, data.values).predict(places * stretch).reshape(data.truth.shape)


def whole_error(data: Instance, **settings: Any) -> float:
    return float(np.linalg.norm(predicted(data, **settings) - data.truth) / np.linalg.norm(data.truth))


def hidden_error(data: Instance, **settings: Any) -> float:
    hidden = np.ones(data.truth.shape, bool)
    hidden[tuple(data.pairs.T)] = False
    errors = (predicted(data, **settings) - data.truth)[hidden]
    return float(np.sqrt(np.mean(errors**2)) / data.truth[hidden].std())


def median(
    error: Callable[..., float], make: Callable[[int], Instance], seeds: int, **settings: Any
) -> float:
    return float(np.median([error(make(seed), **settings) for seed in range(seeds)]))


def excess(weight: float, rank: int) -> float:
    """What a penalised fit has above alternating least squares, relative to that."""
    rng = np.random.default_rng(5)
    truth = low_rank((100, 80), 2, rng)
    known = rng.random((100, 80)) < 0.4
    Y = np.where(known, truth, 0.0)
    Y[known] += rng.standard_normal(known.sum())
    model = rf.MatrixCompletion(rank, bias=False, regularization=weight, random_state=0)
    L, R = model.fit(np.argwhere(known), Y[known]).factors_
    roots = [np.sqrt(known.sum(axis=k)) for k in (1, 0)]
    A, B = (np.random.default_rng(1).standard_normal((d, rank)) for d in Y.shape)
    for _ in range(150):
        A = _ridge_lines(Y, known, B, weight * roots[0])
        B = _ridge_lines(Y.T, known.T, A, weight * roots[1])
    least, found = (_objective(Y, known, roots, weight, W) for W in (A @ B.T, L @ R.T))
    return found / least - 1


def _ridge_lines(Y: Floats, known: NDArray[np.bool_], B: Floats, ridges: Floats) -> Floats:
    Q = np.einsum("ij,jk,jm->ikm", known.astype(float), B, B, optimize=True)
    Q += ridges[:, None, None] * np.eye(B.shape[1])
    return np.asarray(np.linalg.solve(Q, (Y @ B)[..., None])[..., 0])


def _objective(Y: Floats, known: NDArray[np.bool_], roots: list[Floats], weight: float, W: Floats) -> float:
    scaled = np.sqrt(roots[0])[:, None] * W * np.sqrt(roots[1])
    nuclear = np.linalg.svd(scaled, compute_uv=False).sum()
    return float(((W - Y)[known] ** 2).sum() + 2 * weight * nuclear)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=None, help="rows whose names begin so")
    options = parser.parse_args()
    wanted = lambda name: options.only is None or name.startswith(tuple(options.only))  # noqa: E731
    warnings.simplefilter("ignore")
    print("| low rank | true rank | the same, gaps | nothing given | bound |\n|---|---|---|---|---|")
    for name, (settings, bound) in CLEAN.items():
        if wanted(name):
            make = lambda seed, settings=settings: clean(seed, **settings)  # noqa: E731
            rank = settings.get("rank", 2)
            row = [median(whole_error, make, options.seeds, **more)
                   for more in ({"rank": rank}, {"rank": rank, "gaps": True}, {})]  # fmt: skip
            print(
                f"| {name} | " + " | ".join(f"{error:.2g}" for error in row) + f" | {bound:g} |", flush=True
            )
    print("\n| hidden entries | true rank | nothing given | best |\n|---|---|---|---|")
    for name, (make, rank, best) in HARD.items():
        if wanted(name):
            row = [median(hidden_error, make, options.seeds, **more)
                   for more in ({"rank": rank}, {}, {"rank": rank} | best)]  # fmt: skip
            print(f"| {name} | " + " | ".join(f"{error:.3g}" for error in row) + " |", flush=True)
    if wanted("D1"):
        print("\n| above alternating least squares | λ = 1 | 2 | 3 |\n|---|---|---|---|")
        for rank in (8, 80):
            row = [f"{excess(weight, rank):.1e}" for weight in (1.0, 2.0, 3.0)]
            print(f"| D1, rank {rank} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
