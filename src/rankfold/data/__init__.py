"""Getting data in and out: files of triples, synthetic completion problems, and splits by entry."""

from rankfold.data.io.files import read_triples, write_triples
from rankfold.data.io.pairs import read_pairs
from rankfold.data.labels import LabelIndex
from rankfold.data.synthetic import CompletionInstance, random_completion
from rankfold.data.triples import Triples, holdout_mask, split

__all__ = [
    "CompletionInstance",
    "LabelIndex",
    "Triples",
    "holdout_mask",
    "random_completion",
    "read_pairs",
    "read_triples",
    "split",
    "write_triples",
]
