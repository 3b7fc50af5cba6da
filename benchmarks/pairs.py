"""Drug-target interaction (Yamanishi 2008) by `Pairs` on features from similarities: AUPR and AUC, 10 folds.

    python -m benchmarks.pairs path/to/yamanishi [nr gpcr] [--seeds 5] [--settings pairs ...] [--ridge 0.03]

The protocol and the folds of PyDTI: pairs, drugs (whole rows) or targets (whole columns) are held out, five
seeds, ten folds each, and the areas averaged over the fifty folds. A fold's labels enter nowhere; the given
similarities of all entities do. Nothing is chosen by data: a score is the mean probability of six models,
one for each kernel of `KERNELS`, all with the same ridge.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import auc, precision_recall_curve, roc_auc_score

import rankfold as rf

Floats = np.ndarray[Any, Any]
SEEDS = 7771, 8367, 22, 1812, 4659
SETTINGS = "new drugs", "new targets", "pairs"
RANK = 20
POSITIVE, NEIGHBOURS = 5.0, 5  # weight of an interaction, and size of neighbourhoods: those of NRLMF
PUBLISHED = {  # AUPR and AUC of NRLMF by its authors' code, on the same seeds
    ("nr", "pairs"): (0.724, 0.949), ("gpcr", "pairs"): (0.703, 0.960),
    ("nr", "new drugs"): (0.548, 0.895), ("gpcr", "new drugs"): (0.362, 0.883),
    ("nr", "new targets"): (0.456, 0.847), ("gpcr", "new targets"): (0.554, 0.921),
}  # fmt: skip


class Kernel(NamedTuple):
    """How similarities become a kernel."""

    diffusion: float  # share of the kernel that is diffused over the graph of nearest neighbours
    own: float  # what is added to the kernel's diagonal: traits that no other entity shares


KERNELS = tuple(Kernel(diffusion, own) for diffusion in (0.0, 0.5, 1.0) for own in (0.0, 0.3))


@dataclass(frozen=True, eq=False)
class Interactions:
    """Interactions (drugs × targets), and the similarities of drugs and of targets."""

    Y: Floats
    similarities: tuple[Floats, Floats]

    @cache  # noqa: B019  (two data sets, kept for the whole run)
    def features(self, kernel: Kernel) -> tuple[Floats, Floats]:
        """X and Z, for kernels of this kind."""
        X, Z = (root(matrix(S, *kernel)) for S in self.similarities)
        return X, Z


def read(folder: Path, name: str) -> Interactions:
    Y, *similarities = (
        np.genfromtxt(folder / f"{name}_{kind}.txt", delimiter="\t", skip_header=1)[:, 1:]
        for kind in ("admat_dgc", "simmat_dc", "simmat_dg")
    )
    drugs, targets = ((S + S.T) / 2 for S in similarities)
    return Interactions(Y.T, (drugs, targets))


def matrix(S: Floats, diffusion: float, own: float) -> Floats:
    """(1 - diffusion) S + diffusion (I - 0.9 G)⁻¹, with unit diagonals and G the graph of S, + own · I."""
    nearest = np.argsort(-S, axis=1)[:, :NEIGHBOURS]
    graph = np.zeros_like(S)
    np.put_along_axis(graph, nearest, np.take_along_axis(S, nearest, axis=1), axis=1)
    graph = np.maximum(graph, graph.T)
    degrees, one = graph.sum(axis=1), np.eye(len(graph))
    diffused = np.linalg.inv(one - 0.9 * graph / np.sqrt(np.outer(degrees, degrees)))
    mixed = own * one
    for share, K in ((1 - diffusion, S), (diffusion, diffused)):
        mixed += share * K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    return np.asarray((mixed + mixed.T) / 2)


def root(K: Floats) -> Floats:
    """X with X Xᵀ = K, less its negative part."""
    values, E = np.linalg.eigh(K)
    keep = values > 1e-9 * values[-1]
    return np.asarray(E[:, keep] * np.sqrt(values[keep]))


def predict(data: Interactions, known: Floats, ridge: float) -> Floats:
    """Probabilities of all pairs, from the known ones alone.

    A drug or target without a known interaction is as good as unknown: its pairs are left out.
    """
    seen = (data.Y > 0) & known
    known = known & seen.any(axis=1)[:, None] & seen.any(axis=0)
    return np.mean([1 / (1 + np.exp(-scores(data, known, ridge, kernel))) for kernel in KERNELS], axis=0)


def scores(data: Interactions, known: Floats, ridge: float, kernel: Kernel) -> Floats:
    """Log-odds of all pairs by one kernel; the ridge of ‖W‖² is in units of one pair's loss."""
    X, Z = data.features(kernel)
    y = data.Y[known]
    cost = rf.Pairs(X, Z, y, "logistic", np.argwhere(known), np.where(y > 0, POSITIVE, 1.0))
    geometry = rf.FullRank(cost.shape, min(RANK, *cost.shape), metric="preconditioned")
    problem = rf.Problem(cost + rf.Frobenius(ridge / y.size), geometry)
    stop = rf.stopping.RelativeChange(1e-3, window=3)
    L, R = rf.minimize(problem, rf.ConjugateGradient(), stop=stop, max_iterations=100).factors
    return np.asarray((X @ L) @ (Z @ R).T)


def held_out(shape: tuple[int, int], setting: str, seed: int, count: int) -> list[Floats]:
    """Masks of the folds, of equal size but for the last, which takes the rest."""
    size = {"pairs": shape[0] * shape[1], "new drugs": shape[0], "new targets": shape[1]}[setting]
    order = np.random.RandomState(seed).permutation(size)
    masks = []
    for fold in np.split(order, np.arange(1, count) * (size // count)):
        mask = np.zeros(size, bool)
        mask[fold] = True
        lines = {"pairs": shape, "new drugs": (-1, 1), "new targets": (1, -1)}[setting]
        masks.append(np.broadcast_to(mask.reshape(lines), shape))
    return masks


def areas(data: Interactions, test: Floats, ridge: float) -> tuple[float, float]:
    """AUPR and AUC on `test` of the model fitted to all other pairs."""
    truth, scored = data.Y[test], predict(data, ~test, ridge)[test]
    precision, recall, _ = precision_recall_curve(truth, scored)
    return float(auc(recall, precision)), float(roc_auc_score(truth, scored))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=["nr", "gpcr"], help="data sets: nr, gpcr")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--settings", nargs="*", choices=SETTINGS, default=SETTINGS)
    parser.add_argument("--ridge", type=float, default=0.03)
    arguments = parser.parse_args()
    print("| set | setting | AUPR | NRLMF | AUC | NRLMF | folds |\n" + "|---" * 7 + "|")
    for name in arguments.names:
        data = read(arguments.folder, name)
        for setting in arguments.settings:
            tests = [test for seed in SEEDS[: arguments.seeds]
                     for test in held_out(data.Y.shape, setting, seed, 10)]  # fmt: skip
            aupr, area = np.mean([areas(data, test, arguments.ridge) for test in tests], axis=0)
            theirs = PUBLISHED[name, setting]
            row = [name, setting, f"{aupr:.3f}", theirs[0], f"{area:.3f}", theirs[1], len(tests)]
            print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
