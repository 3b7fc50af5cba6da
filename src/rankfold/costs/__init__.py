"""What we minimise: smooth functions of a low-rank matrix, seen through its two factors."""

from rankfold.costs.base import Combination, Cost, Evaluation
from rankfold.costs.completion import Completion
from rankfold.costs.custom import Custom
from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets, WithOffsets
from rankfold.costs.pairs import Pairs
from rankfold.costs.regression import Regression
from rankfold.costs.regularisers import Frobenius, Nuclear, Unobserved

__all__ = [
    "Combination",
    "Completion",
    "Cost",
    "Custom",
    "Evaluation",
    "Frobenius",
    "Loss",
    "Nuclear",
    "Offsets",
    "Pairs",
    "Regression",
    "Unobserved",
    "WithOffsets",
]
