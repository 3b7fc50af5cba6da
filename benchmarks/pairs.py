"""Drug-target interaction (Yamanishi 2008) by `Pairs` on features from similarities: AUPR and AUC, 10 folds.

    python -m benchmarks.pairs path/to/yamanishi [nr gpcr] [--seeds 5] [--settings pairs ...] [--transfer]

The protocol and the folds of PyDTI: pairs, drugs (whole rows) or targets (whole columns) are held out, five
seeds, ten folds each, and the areas averaged over the fifty folds. A fold's labels enter nowhere; the given
similarities of all entities do. The options of the model are chosen anew for each fold, by AUPR on parts held
out in the same way within its training part (`choose`); with --transfer, once, by five folds of the other
data set, so that no label of a set has a say in the options that it is scored with.
"""

from __future__ import annotations

import argparse
from collections import Counter
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
OTHER = {"nr": "gpcr", "gpcr": "nr"}
INNER = {"nr": 3, "gpcr": 1}  # of five inner folds: gpcr has seven times as many interactions
RANK = 20
POSITIVE, NEIGHBOURS = 5.0, 5  # weight of an interaction, and size of neighbourhoods: those of NRLMF
PUBLISHED = {  # AUPR and AUC of NRLMF by its authors' code, on the same seeds
    ("nr", "pairs"): (0.724, 0.949), ("gpcr", "pairs"): (0.703, 0.960),
    ("nr", "new drugs"): (0.548, 0.895), ("gpcr", "new drugs"): (0.362, 0.883),
    ("nr", "new targets"): (0.456, 0.847), ("gpcr", "new targets"): (0.554, 0.921),
}  # fmt: skip


class Options(NamedTuple):
    """The model's options, with the values that the choice starts from."""

    left_out: bool = True  # whether drugs and targets without a known interaction are as good as unknown
    ridge: float = 0.1  # of ‖W‖², in units of one pair's loss
    diffusion: float = 0.5  # share of the kernel that is diffused over the graph of nearest neighbours
    own: float = 0.0  # what is added to the kernel's diagonal: traits that no other entity shares


GRID = {
    "left_out": (False, True),
    "ridge": (0.03, 0.1, 0.3),
    "diffusion": (0.0, 0.5, 1.0),
    "own": (0.0, 0.3),
}


@dataclass(frozen=True, eq=False)
class Interactions:
    """Interactions (drugs × targets), and the similarities of drugs and of targets."""

    Y: Floats
    similarities: tuple[Floats, Floats]

    @cache  # noqa: B019  (two data sets, kept for the whole run)
    def features(self, diffusion: float, own: float) -> tuple[Floats, Floats]:
        """X and Z, for kernels with these options."""
        X, Z = (root(kernel(S, diffusion, own)) for S in self.similarities)
        return X, Z


def read(folder: Path, name: str) -> Interactions:
    Y, *similarities = (
        np.genfromtxt(folder / f"{name}_{kind}.txt", delimiter="\t", skip_header=1)[:, 1:]
        for kind in ("admat_dgc", "simmat_dc", "simmat_dg")
    )
    drugs, targets = ((S + S.T) / 2 for S in similarities)
    return Interactions(Y.T, (drugs, targets))


def kernel(S: Floats, diffusion: float, own: float) -> Floats:
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


def predict(data: Interactions, known: Floats, options: Options) -> Floats:
    """Scores of all pairs, from the known ones alone."""
    X, Z = data.features(options.diffusion, options.own)
    if options.left_out:
        seen = (data.Y > 0) & known
        known = known & seen.any(axis=1)[:, None] & seen.any(axis=0)
    y = data.Y[known]
    cost = rf.Pairs(X, Z, y, "logistic", np.argwhere(known), np.where(y > 0, POSITIVE, 1.0))
    geometry = rf.FullRank(cost.shape, min(RANK, *cost.shape), metric="preconditioned")
    problem = rf.Problem(cost + rf.Frobenius(options.ridge / y.size), geometry)
    stop = rf.stopping.RelativeChange(1e-3, window=3)
    L, R = geometry.factors(rf.minimize(problem, rf.ConjugateGradient(), stop=stop, max_iterations=100).x)
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


def areas(data: Interactions, known: Floats, test: Floats, options: Options) -> tuple[float, float]:
    """AUPR and AUC on `test` of the model fitted to `known`."""
    truth, scored = data.Y[test], predict(data, known, options)[test]
    precision, recall, _ = precision_recall_curve(truth, scored)
    return float(auc(recall, precision)), float(roc_auc_score(truth, scored))


def choose(data: Interactions, known: Floats, setting: str, count: int) -> Options:
    """One option after the other: the value with the best mean AUPR on `count` of five inner folds."""
    inner = [fold & known for fold in held_out(data.Y.shape, setting, 0, 5)]
    inner = [fold for fold in inner if data.Y[fold].any()][:count]

    @cache
    def aupr(options: Options) -> float:
        return float(np.mean([areas(data, known & ~fold, fold, options)[0] for fold in inner]))

    best = Options()
    for name, values in GRID.items():
        best = max((best._replace(**{name: value}) for value in values), key=aupr)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(INNER), help="data sets: nr, gpcr")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--settings", nargs="*", choices=SETTINGS, default=SETTINGS)
    parser.add_argument("--transfer", action="store_true", help="choose the options on the other data set")
    arguments = parser.parse_args()
    print("| set | setting | AUPR | NRLMF | AUC | NRLMF | folds | chosen most often |\n" + "|---" * 8 + "|")
    for name in arguments.names:
        data = read(arguments.folder, name)
        for setting in arguments.settings:
            found, chosen = [], []
            other = read(arguments.folder, OTHER[name]) if arguments.transfer else None
            options = choose(other, np.ones(other.Y.shape, bool), setting, 5) if other else None
            for seed in SEEDS[: arguments.seeds]:
                for test in held_out(data.Y.shape, setting, seed, 10):
                    chosen.append(options or choose(data, ~test, setting, INNER[name]))
                    found.append(areas(data, ~test, test, chosen[-1]))
            (aupr, area), theirs = np.mean(found, axis=0), PUBLISHED[name, setting]
            often = (
                f"{key} {Counter(values).most_common(1)[0][0]}"
                for key, values in zip(Options._fields, zip(*chosen, strict=True), strict=True)
            )
            row = [name, setting, f"{aupr:.3f}", theirs[0], f"{area:.3f}", theirs[1], len(found)]
            print("|", " | ".join(map(str, [*row, ", ".join(often)])), "|", flush=True)


if __name__ == "__main__":
    main()
