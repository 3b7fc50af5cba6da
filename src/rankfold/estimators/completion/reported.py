"""A fitted completion model that tells about itself: a page about the data, the fit and its errors."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from rankfold.data.triples import Triples
from rankfold.estimators.completion.entries import given_values
from rankfold.estimators.completion.reporting import Entries, Making, report_of, shown_settings
from rankfold.estimators.completion.side.featured import Featured
from rankfold.run.trace import Trace


class Reported(Featured):
    """What `MatrixCompletion` writes about itself."""

    trace_: Trace
    stop_reason_: str
    _entries: Triples | None = None  # as many of them as a report needs; no file holds them

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        source: str = "the data",
    ) -> None:
        """Write an HTML file about the data, the fit and, on entries that were held out, its errors.

        One file without scripts, which needs nothing else: to look at, or to send to somebody. A model that
        was read from a file, folded in, or fitted to entries on disk, has the values that it was fitted to no
        more: its report leaves out what only they can tell.

        Parameters
        ----------
        path
            Where to write it.
        X, y
            Entries that `fit` was not given, in the same form: what predictions of them are worth beside
            simpler ones, and how many of them intervals hold. Without any, the report cannot tell.
        source
            What the report calls the data.

        Examples
        --------
        >>> import os, tempfile, rankfold as rf
        >>> data = rf.data.random_completion((40, 30), rank=2, oversampling=5, seed=0, noise=0.1)
        >>> train, held_out = rf.data.split(data, 0.2, seed=0)
        >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
        >>> rf.MatrixCompletion(rank=2, random_state=0).fit(train).report(path, held_out)
        >>> os.path.getsize(path) > 10_000
        True
        """
        from rankfold.report import write_report

        check_is_fitted(self)
        held_out = None if X is None else Entries(*self._find(X), np.asarray(given_values(X, y), dtype=float))
        settings = {**shown_settings(self), "stopped": self.stop_reason_}
        call = f"{self!r}.fit(...).report(...)"
        making = Making(source, self.trace_[-1].seconds, call, settings)
        write_report(report_of(self, self._entries, held_out, making), path)
