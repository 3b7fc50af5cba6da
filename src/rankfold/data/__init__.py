"""Getting data in: synthetic completion problems, and splits by entry."""

from rankfold.data.synthetic import CompletionInstance, random_completion
from rankfold.data.triples import Triples, holdout_mask, split

__all__ = ["CompletionInstance", "Triples", "holdout_mask", "random_completion", "split"]
