"""The completion problems that benchmarks and pages call P1 to P7, defined here once."""

from __future__ import annotations

from typing import Any, NamedTuple

import rankfold as rf


class Instance(NamedTuple):
    """A matrix of which `oversampling` entries are known per degree of freedom, and how far to fit them."""

    shape: tuple[int, int]
    rank: int
    oversampling: float
    condition: float | None = None
    tolerance: float = 1e-20  # of the value at W = 0

    def draw(self, seed: int, **options: Any) -> rf.data.CompletionInstance:
        """Draw such a matrix and its known entries; options are those of `random_completion`."""
        return rf.data.random_completion(
            self.shape, self.rank, self.oversampling, seed, condition=self.condition, **options
        )


P1 = Instance((4000, 4000), 5, 8)  # the paper's small case
P2 = Instance((32000, 32000), 5, 8)  # the paper's running example
P3 = Instance((4000, 4000), 5, 3)  # few entries
P4 = P1._replace(condition=1e3)  # ill conditioned
P5 = Instance((10000, 10000), 20, 4)  # a larger rank
P6 = Instance((1000, 1000), 5, 8)  # small enough for codes that form dense matrices
P7 = Instance((800, 1500), 5, 5)  # likewise, oblong
