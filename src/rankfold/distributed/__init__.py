"""Rows on several processes, or machines, over torch.distributed: what is tall is spread, the rest the same.

A process that torchrun (or anything that sets its variables) has started calls `start`, gives its entries to
`spread_triples`, or lets `read` fetch them from files, and makes a cost of what comes back with
`Completion.from_observed`. From there on everything is as with one process.
"""

from rankfold.distributed.entries import SpreadEntries, spread_triples
from rankfold.distributed.group import Group, RanksError, start
from rankfold.distributed.sharded import Places, Sharded

__all__ = ["Group", "Places", "RanksError", "Sharded", "SpreadEntries", "spread_triples", "start"]
