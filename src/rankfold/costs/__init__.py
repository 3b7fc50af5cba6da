"""What we minimise: smooth functions of a low-rank matrix, seen through its two factors."""

from rankfold.costs.base import Cost, Evaluation
from rankfold.costs.combination import Combination
from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.pairs import Pairs
from rankfold.costs.regression import Regression
from rankfold.costs.regularisers import Frobenius, Nuclear, Unobserved

__all__ = [
    "Combination",
    "Completion",
    "Cost",
    "Evaluation",
    "Frobenius",
    "Loss",
    "Nuclear",
    "Pairs",
    "Regression",
    "Unobserved",
]
