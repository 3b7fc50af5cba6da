"""Fill the holes of a table by a model of low rank, as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from rankfold.estimators.fitting import all_or_nothing, record_run, warn_unless_converged
from rankfold.estimators.imputer.factor_model import FactorModel, fit, rank_errors
from rankfold.estimators.imputer.ordered import chosen
from rankfold.estimators.imputer.tables import as_table, like_table, row_index
from rankfold.estimators.inputs import checked_rank, is_auto, refuse_text, seed_of
from rankfold.estimators.rank_errors import RankErrors
from rankfold.fingerprint import fingerprint

MAX_FEATURES = 8192  # the model holds two matrices of features × features


Table = TypeVar("Table")  # an array or a table of numbers, which comes back as one of its kind


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill holes by what a model of low rank expects there, given the other entries of the row.

    Rows are taken to be mean + L z + noise, in units of each column's standard deviation, with a z of `rank`
    numbers for each row and a noise variance for each column. EM fits the model to the known entries. A row,
    whether seen in `fit` or not, is then filled by L z, with z the ridge regression of its known entries on
    the columns' factors L, each entry weighed by the reciprocal of its column's noise. Known entries are
    left as they are, bit for bit.

    Holes are NaN (or `missing_values`) in arrays and tables, what is masked in masked arrays, and the entries
    that are not stored in SciPy sparse matrices, whose stored zeros are zeros. Sparse input gives an array, a
    torch tensor a tensor, and a pandas or polars table a table with the same columns, in which those without
    holes keep their type.

    Parameters
    ----------
    rank
        The length of z, below the number of columns; "auto" chooses it by entries held out.
    order
        Whether rows that are close to each other are alike, beyond what their other columns say: None, no;
        "rows", in the order that they stand in, as if at equal distances; "index", by the index of a pandas
        DataFrame, of times or numbers, in any order. Then the deviations of a column just before and after
        a gap are carried into the gap, and fade with the distance: how fast, and how much of them, is chosen
        for each column by entries held out, where the holes would be if they were in other rows.
    missing_values
        What stands for a hole.
    keep_empty_features
        Whether columns without any known entry are filled with 0; if not, they are left out.
    add_indicator
        Whether to append, for each column with holes in `fit`, a column that is 1 where it has a hole.
    max_iter
        The most EM steps.
    tol
        The fit ends when a step changes the filled entries, and the covariances of the model, by no more than
        this in root mean square, in units of their columns' standard deviations.
    warm_start
        Whether `fit` starts from the model that the last `fit` found, if there are as many columns.
    random_state
        Of the entries held out to choose the rank, and what `order` needs.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per rank tried and per EM step.

    Attributes
    ----------
    mean_, scale_
        The mean and the standard deviation of each column's known entries.
    factors_, noise_variance_, offset_
        L, the columns' noise and the model's mean, all in units of `scale_`, from `mean_` on.
    rank_, rank_path_
        The rank; and the held-out error for every rank tried, or None.
    smoothing_ : (times, strengths) or None
        With an `order`, what deviations of each column fade by, in rows or in units of the index (seconds for
        times), and which part of them is carried; an hour away, say, exp(−1 h / time) is left.
    n_iter_, converged_, stop_reason_, trace_
        EM steps taken, and how they went and ended; the trace's steps are what `tol` is compared with.
    data_fingerprint_
        A digest of what the model was fitted to; `rankfold.save` keeps it.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> table = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, np.nan, 9.0], [4.0, 8.0, 12.0]])
    >>> rf.LowRankImputer(rank=1).fit_transform(table)[2].round(2)
    array([3., 6., 9.])
    """

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        *,
        order: Literal["rows", "index"] | None = None,
        missing_values: Any = np.nan,
        keep_empty_features: bool = False,
        add_indicator: bool = False,
        max_iter: int = 50,
        tol: float = 1e-2,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.rank = rank
        self.order = order
        self.missing_values = missing_values
        self.keep_empty_features = keep_empty_features
        self.add_indicator = add_indicator
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to the known entries of X, (n_samples, n_features)."""
        numbers, known = self._validated(X, reset=True)
        if not known.any():
            raise ValueError("X has no known entry: there is nothing to learn from")
        index = row_index(X, self.order, len(numbers))
        self.data_fingerprint_ = fingerprint(numbers, known, *([] if index is None else [index]))
        self.empty_features_ = ~known.any(axis=0)
        self._warn_of_empty()
        self.indicated_features_ = np.flatnonzero(~known.all(axis=0))
        self.mean_, self.scale_, Z = _standardised(numbers, known)
        rng = np.random.default_rng(seed_of(self.random_state))
        self.rank_ = self._rank(Z, known, rng)
        start = self._start(Z.shape[1])
        model, trace, stop = fit(start, Z, known, self.rank_, self.max_iter, self.tol, self.verbose)
        self.offset_, self.factors_, self.noise_variance_ = model.mean, model.L, model.psi
        self.smoothing_ = None if index is None else chosen(model, Z, known, index, rng)
        record_run(self, trace, stop)
        warn_unless_converged(trace, stop)
        return self

    if TYPE_CHECKING:  # scikit-learn's own, which says nothing of types

        @overload
        def fit_transform(self, X: list[Any], y: Any = None) -> NDArray[Any]: ...

        @overload
        def fit_transform(self, X: Table, y: Any = None) -> Table: ...

        def fit_transform(self, X: Any, y: Any = None) -> Any:
            """Fit to X, and return it with its holes filled."""

    @overload
    def transform(self, X: list[Any]) -> NDArray[Any]: ...

    @overload
    def transform(self, X: Table) -> Table: ...

    def transform(self, X: Any) -> Any:
        """Return X with its holes filled; rows may be other ones than those of `fit`."""
        check_is_fitted(self)
        numbers, known = self._validated(X, reset=False)
        model = FactorModel(self.offset_, self.factors_, self.noise_variance_)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            Z = np.where(known, (numbers - self.mean_) / self.scale_, 0.0).astype(np.float64)
            index = row_index(X, self.order, len(Z))
            filled = self._filled(model, Z, known, index)
            expected = np.where(self.empty_features_, 0.0, self.mean_ + self.scale_ * filled)
            full = np.where(known, numbers, expected.astype(numbers.dtype, copy=False))
        if not np.isfinite(full).all():
            at = int(np.argmin(np.isfinite(full).all(axis=0)))
            raise ValueError(f"what fills X[:, {at}] overflows {full.dtype}: divide this column, for fit too")
        extra = ~known[:, self.indicated_features_] if self.add_indicator else None
        return like_table(X, full, self._kept(), extra, self.get_feature_names_out())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` returns."""
        names = super().get_feature_names_out(input_features)
        kept = names[self._kept()]
        if not self.add_indicator:
            return np.asarray(kept)
        flags = [f"missingindicator_{name}" for name in names[self.indicated_features_]]
        return np.concatenate([kept, np.asarray(flags, dtype=object)])

    def _filled(
        self, model: FactorModel, Z: NDArray[np.float64], known: NDArray[np.bool_], index: Any
    ) -> NDArray[np.float64]:
        if index is None or self.smoothing_ is None:
            return model.filled(Z, known)
        return self.smoothing_.filled(model, Z, known, index)

    def _warn_of_empty(self) -> None:
        """Name the columns without a single value, which `transform` leaves out."""
        if self.empty_features_.any() and not self.keep_empty_features:
            names = getattr(self, "feature_names_in_", np.arange(self.empty_features_.size))
            apart = ", ".join(repr(name) for name in names[self.empty_features_].tolist())
            warnings.warn(
                f"features without any known value are left out: {apart}; keep_empty_features=True fills "
                "them with 0",
                UserWarning,
                stacklevel=4,
            )

    def _kept(self) -> NDArray[np.bool_]:
        return np.asarray(~self.empty_features_ | self.keep_empty_features)

    def _validated(self, X: Any, reset: bool) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The table as floats, with 0 in its holes, and where it is known."""
        refuse_text(X, _NO_TEXT, self.missing_values)
        X, stored = as_table(X, self.missing_values)
        holes_are_nan = isinstance(self.missing_values, float) and np.isnan(self.missing_values)
        numbers = validate_data(
            self, X, reset=reset, dtype=(np.float64, np.float32), accept_sparse="csr",
            ensure_all_finite="allow-nan" if holes_are_nan else True,
        )  # fmt: skip
        if numbers.shape[1] > MAX_FEATURES:
            raise ValueError(
                f"X has {numbers.shape[1]} features; this model takes {MAX_FEATURES} at most. "
                "For wider tables, use rankfold.MatrixCompletion on the known entries"
            )
        numbers = numbers if stored is None else numbers.toarray()
        known = np.ones(numbers.shape, dtype=bool) if stored is None else stored.toarray()
        known &= ~np.isnan(numbers) if holes_are_nan else numbers != self.missing_values
        return np.where(known, numbers, numbers.dtype.type(0)), known

    def _start(self, columns: int) -> FactorModel:
        """The model to start from: the last one, if that is asked for and it has as many columns."""
        if self.warm_start and hasattr(self, "factors_") and len(self.factors_) == columns:
            return FactorModel(self.offset_, self.factors_, self.noise_variance_)
        return FactorModel.start(columns)

    def _rank(self, Z: NDArray[np.float64], known: NDArray[np.bool_], rng: np.random.Generator) -> int:
        largest = max(1, min(Z.shape[0], Z.shape[1] - 1))
        self.rank_path_: RankErrors | None = None
        if not is_auto(self.rank):
            why = f"below the number of columns and no more than that of rows (X has the shape {Z.shape})"
            return checked_rank(self.rank, largest, why)
        self.rank_path_ = rank_errors(Z, known, largest, rng, self.verbose)
        return self.rank_path_.chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


_NO_TEXT = (
    "impute the columns of numbers, X.select_dtypes('number'), or encode it first (a "
    "sklearn.compose.ColumnTransformer does either)"
)


def _standardised(
    numbers: NDArray[Any], known: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Return the mean and the deviation of each column's known entries, and these less the one, by the other.

    Columns are divided by a power of two first, which changes no digit: then no square overflows or vanishes.
    """
    exponents = np.frexp(np.max(np.abs(numbers), axis=0))[1]
    halves = exponents // 2  # 2 to the whole exponent may itself be out of range
    numbers = np.ldexp(np.ldexp(numbers, -halves), halves - exponents)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.sum(numbers, axis=0, where=known) / counts
    # Again from there on: what a long sum loses to rounding would look like a deviation of every entry.
    mean = mean + np.sum(numbers - mean, axis=0, where=known) / counts
    deviations = np.where(known, numbers - mean, 0.0)
    scale = np.sqrt(np.sum(deviations**2, axis=0) / counts)
    # A column whose values differ by rounding alone is a constant.
    constant = scale <= 10 * np.finfo(numbers.dtype).eps * np.abs(mean)
    Z = np.where(constant, 0.0, deviations / np.where(constant, 1.0, scale)).astype(np.float64)
    return np.ldexp(mean, exponents), np.where(constant, 1.0, np.ldexp(scale, exponents)), Z
