"""What we minimise: smooth functions of a low-rank matrix, seen through its two factors."""

from rankfold.costs.base import Cost, Evaluation
from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss

__all__ = ["Completion", "Cost", "Evaluation", "Loss"]
