"""Rows on several processes, or machines, over torch.distributed: what is tall is spread, the rest the same.

A process that torchrun (or anything that sets its variables) has started calls `start`, and lets `read` fetch
entries from files, or gives those that it has to `spread_triples`. `Completion.from_observed` makes a cost of
what comes back, and `MatrixCompletion.fit` a model. From there on everything is as with one process.
"""

from typing import TYPE_CHECKING, Any

from rankfold.distributed.collectives import RanksError
from rankfold.distributed.entries import SpreadEntries
from rankfold.distributed.group import Group
from rankfold.distributed.launch import start
from rankfold.distributed.sharded import Places, Sharded
from rankfold.distributed.spreading import SpreadTriples, spread_triples

if TYPE_CHECKING:
    from rankfold.distributed.loading import read

__all__ = [
    "Group",
    "Places",
    "RanksError",
    "Sharded",
    "SpreadEntries",
    "SpreadTriples",
    "read",
    "spread_triples",
    "start",
]


def __getattr__(name: str) -> Any:
    if name == "read":  # it brings pyarrow along
        from rankfold.distributed.loading import read

        return read
    raise AttributeError(f"module 'rankfold.distributed' has no attribute {name!r}")
