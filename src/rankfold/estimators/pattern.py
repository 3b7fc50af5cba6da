"""Which entries a model was fitted to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.observed import Side


class Pattern(NamedTuple):
    """Positions by row: the columns of row i are `indices[indptr[i]:indptr[i + 1]]`."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.unsignedinteger[Any]]

    @classmethod
    def of(cls, side: Side) -> Pattern:
        """Return the positions of a side; shared with it, unless it is in stripes.

        Examples
        --------
        >>> import rankfold as rf
        >>> cost = rf.Completion([1, 0, 1], [1, 0, 0], [1.0, 2.0, 3.0], (2, 2))
        >>> Pattern.of(cost.observed.by_row).indices.tolist()
        [0, 0, 1]
        """
        if side.stripes == 1:
            return cls(side.indptr.view(np.int64), side.indices)
        indptr = np.concatenate([[0], np.cumsum(side.counts)])
        places, indices = indptr[:-1].copy(), np.empty_like(side.indices)
        for s in range(side.stripes):
            starts = side.stripe(s)[2].view(np.int64)
            lengths = starts[1:] - starts[:-1]
            entries = np.arange(starts[0], starts[-1])
            indices[entries + np.repeat(places - starts[:-1], lengths)] = side.indices[entries]
            places += lengths
        return cls(indptr, indices)
