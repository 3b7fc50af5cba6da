"""The published methods that the paper compares with, each a method like any solver."""

from rankfold.baselines.lmafit import LMaFit

__all__ = ["LMaFit"]
