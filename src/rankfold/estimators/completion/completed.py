"""What a fitted completion model is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankfold.estimators.completion.entries import (
    given_values,
)
from rankfold.estimators.completion.offsets import predictions
from rankfold.estimators.completion.reporting import Entries, Making, report_of, shown_settings
from rankfold.estimators.completion.streamed import Streamed
from rankfold.estimators.inputs import checked_places
from rankfold.estimators.tensors import like_given, without_tensors
from rankfold.run.trace import Trace

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

_BLOCK = 1 << 18  # predictions made at a time


class CompletedMatrix(Streamed):
    """What `MatrixCompletion` does once fitted: mean + b_i + c_j + L_i·R_j, by position or by label."""

    clip: bool
    value_range_: tuple[float, float] | None
    trace_: Trace
    stop_reason_: str

    @overload
    def predict(
        self,
        X: Any,
        return_std: Literal[False] = False,
        *,
        row_features: Any = None,
        col_features: Any = None,
    ) -> NDArray[Any]: ...

    @overload
    def predict(
        self, X: Any, return_std: Literal[True], *, row_features: Any = None, col_features: Any = None
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...

    def predict(
        self, X: Any, return_std: bool = False, *, row_features: Any = None, col_features: Any = None
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
        """Return the values predicted at pairs, given as for `fit`; of Triples, the values are ignored.

        With `return_std`, a pair (values, deviations): the standard deviation of an entry about its
        prediction, noise included, which the Bayesian finish knows; `predict_interval` gives intervals.

        A row that the model has never seen has no offset and no factor of its own: the prediction is the
        mean plus the column's offset; likewise for a column; for a pair of which neither is known, the mean.
        (Without `bias` these are 0.) `fold_in` does better where entries of the new row are known. Of a row
        with features that `fit` was given, or that are given here (of new rows, as for `fit`), the prediction
        is what they make one expect.
        Of a model of positions, a position outside the matrix is an error, and a row without entries is
        predicted like one never seen. Given a torch tensor, returns one.
        """
        model = self._with_new(row_features, col_features)
        rows, cols = model._find(X)
        values = like_given(X, model.predict_at(rows, cols))
        return (values, like_given(X, model.std_at(rows, cols))) if return_std else values

    def predict_at(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the values predicted at positions, counted from 0; -1 is a row or column never seen."""
        return self._in_range(self.expected_at(rows, cols))

    def _in_range(self, values: NDArray[Any]) -> NDArray[Any]:
        if not self.clip:
            return values
        if self.value_range_ is None:
            raise ValueError(
                "this model was saved before models knew the range of their data: fit it again to clip"
            )
        return np.asarray(np.clip(values, *self.value_range_))

    def expected_at(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return what `predict_at` does, but never clipped."""
        check_is_fitted(self)
        L, R = self.factors_
        rows, cols = checked_places(rows, cols, self.shape_)
        out = np.empty(len(rows))
        for start in range(0, out.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            i, j = rows[block], cols[block]
            low_rank = np.einsum("pk,pk->p", L[i], R[j], dtype=np.float64)
            low_rank[(i < 0) | (j < 0)] = 0.0  # what was never seen has no factor
            out[block] = self._loss.expected(predictions(self.biases_, i, j) + low_rank)
        return out

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

    def score(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return R², the part of the variance of y that `predict(X)` explains; of Triples, without y."""
        from sklearn.metrics import r2_score

        values, predicted, weights = without_tensors(given_values(X, y), self.predict(X), sample_weight)
        return float(r2_score(values, predicted, sample_weight=weights))

    def as_linear_operator(self) -> LinearOperator:
        """Return the completed matrix, offsets included, as a SciPy `LinearOperator`; it is never formed."""
        from scipy.sparse.linalg import aslinearoperator

        check_is_fitted(self)
        (L, R), (mean, b, c) = self.factors_, self.biases_
        left = np.column_stack([L, mean + b, np.ones(len(L))])
        right = np.column_stack([R, np.ones(len(R)), c])
        return aslinearoperator(left) @ aslinearoperator(right).T

    def _scores(self, rows: NDArray[Any]) -> NDArray[Any]:
        (L, R), (mean, b, c) = self.factors_, self.biases_
        whole = (L[rows] @ R.T).astype(np.float64) + (mean + b[rows])[:, None] + c
        return np.asarray(self._loss.expected(whole))
