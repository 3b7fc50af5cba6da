"""Known entries of matrices: random ones, those of files, and their split into two parts.

What reads and writes files is imported when first used: it needs pyarrow, and the rest nothing but NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankfold.data.errors import DataFileError
from rankfold.data.labels import LabelIndex
from rankfold.data.synthetic import CompletionInstance, random_completion
from rankfold.data.triples import Triples, held_out_mask, split

if TYPE_CHECKING:
    from rankfold.data.io.files import read_triples, write_triples
    from rankfold.data.io.pairs import read_pairs
    from rankfold.data.spill.folder import SortedFolder
    from rankfold.data.spill.sorting import sort_into

__all__ = [
    "CompletionInstance",
    "DataFileError",
    "LabelIndex",
    "SortedFolder",
    "Triples",
    "held_out_mask",
    "random_completion",
    "read_pairs",
    "read_triples",
    "sort_into",
    "split",
    "write_triples",
]

_OF_FILES = {
    "SortedFolder": "spill.folder",
    "read_pairs": "io.pairs",
    "read_triples": "io.files",
    "sort_into": "spill.sorting",
    "write_triples": "io.files",
}


def __getattr__(name: str) -> Any:
    if name not in _OF_FILES:
        raise AttributeError(f"module 'rankfold.data' has no attribute {name!r}")
    return getattr(import_module(f"rankfold.data.{_OF_FILES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
