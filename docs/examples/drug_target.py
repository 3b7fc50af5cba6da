"""Which drug binds which target? A bilinear model on features from similarities, for drugs never seen.

    python docs/examples/drug_target.py [folder of the Yamanishi tables]

Without a folder, the example draws similarities and interactions with the same structure.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score

import rankfold as rf


def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return interactions of 80 drugs and 40 targets that depend on four hidden traits of each."""
    rng = np.random.default_rng(0)
    drugs, targets = rng.standard_normal((80, 4)), rng.standard_normal((40, 4))
    scores = drugs @ targets.T
    return (scores > np.quantile(scores, 0.95)).astype(float), drugs @ drugs.T, targets @ targets.T


def read(folder: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nuclear-receptor set: interactions (drugs × targets), similarities of drugs and targets."""
    tables = [
        np.genfromtxt(Path(folder) / f"nr_{kind}.txt", delimiter="\t", skip_header=1)[:, 1:]
        for kind in ("admat_dgc", "simmat_dc", "simmat_dg")
    ]
    return tables[0].T, tables[1], tables[2]


def features(similarity: np.ndarray) -> np.ndarray:
    """Return X with X Xᵀ the similarity: its scalar products are what the similarity says."""
    values, E = np.linalg.eigh((similarity + similarity.T) / 2)
    keep = values > 1e-9 * values[-1]
    return E[:, keep] * np.sqrt(values[keep])


def main(folder: str | None = None) -> tuple[float, float]:
    """Return the average precision for a fifth of the drugs, held out, and that of guessing."""
    Y, drugs, targets = drawn() if folder is None else read(folder)
    X, Z = features(drugs), features(targets)
    new = np.random.default_rng(0).permutation(len(Y))[: len(Y) // 5]
    known = np.setdiff1d(np.arange(len(Y)), new)
    pairs = np.stack(np.meshgrid(known, np.arange(Y.shape[1]), indexing="ij"), axis=-1).reshape(-1, 2)
    cost = rf.Pairs(X, Z, Y[pairs[:, 0], pairs[:, 1]], "logistic", pairs, linear=True)
    geometry = rf.FullRank(cost.shape, rank=min(6, *cost.shape))
    problem = rf.Problem(cost + rf.Frobenius(1e-5), geometry)
    stop = rf.stopping.RelativeChange(1e-6, window=3)
    result = rf.minimize(problem, rf.TrustRegion(), stop=stop, max_iterations=100)
    L, R, a, b, c = cost.linear_terms(*result.factors)
    scores = X[new] @ L @ (Z @ R).T + (X[new] @ a)[:, None] + Z @ b + c
    return float(average_precision_score(Y[new].ravel(), scores.ravel())), float(Y[new].mean())


if __name__ == "__main__":
    found, guess = main(*sys.argv[1:])
    print(f"average precision for new drugs {found:.3f}, by guessing {guess:.3f}")
