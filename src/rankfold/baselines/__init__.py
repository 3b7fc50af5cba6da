"""The published methods that the paper compares with, each a method like any solver."""

from rankfold.baselines.lmafit import LMaFit
from rankfold.baselines.named import diagonal_polar, euclidean_subspace, lrgeom, mmmf
from rankfold.baselines.optspace import OptSpace, spectral_start
from rankfold.baselines.rtrmc import RTRMC
from rankfold.baselines.svp import SVP

__all__ = [
    "RTRMC",
    "SVP",
    "LMaFit",
    "OptSpace",
    "diagonal_polar",
    "euclidean_subspace",
    "lrgeom",
    "mmmf",
    "spectral_start",
]
