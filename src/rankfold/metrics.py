"""How good recommendations are: recall, precision, NDCG and MAP of the first k places.

All four take what was relevant first, then what was recommended, in one of two forms:

- pairs and lists: the held-out pairs (user, item), as an array, a list, a DataFrame or `Triples`, and the
  `Recommendations` that a model's `recommend` returns, best first within each user;
- arrays: relevance and scores, both (users, items). What has the score -inf is not in the list. Of equal
  scores the first item comes first, as in `recommend`.

An item is relevant if its gain is above 0: the value of `Triples`, the entry of the array, 1 for other
pairs. Only `ndcg_at_k` asks how large it is. `exclude` names pairs that are neither ranked nor relevant,
mostly those the model was fitted to (`recommend` leaves these out by itself); places that they leave are
filled by the items behind them. A user without relevant items tells nothing and is not in the mean;
one with relevant items and no list counts 0. Short lists are taken as if irrelevant items followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from rankfold.data.labels import LabelIndex
from rankfold.data.numbering import numbered
from rankfold.data.triples import Triples
from rankfold.estimators.completion.entries import named_entries
from rankfold.estimators.completion.neighbours import Recommendations, largest
from rankfold.estimators.inputs import pair_columns
from rankfold.selection import ranking
from rankfold.selection.ranking import Floats, Judged, Places, judged

__all__ = ["map_at_k", "ndcg_at_k", "precision_at_k", "recall_at_k"]

Pairs = tuple[NDArray[Any], NDArray[Any]]


def recall_at_k(
    relevant: Any, recommended: Any, k: int = 10, *, exclude: Any = None, average: bool = True
) -> Any:
    """Return which part of a user's relevant items is among the first k, in the mean over users.

    With more than k relevant items it cannot reach 1.

    Parameters
    ----------
    relevant
        Pairs (user, item), or an array (users, items).
    recommended
        What `recommend` returned, or an array of scores.
    k
        How many places count.
    exclude
        Pairs, or an array that is not 0 at them, that do not count.
    average
        Whether to return the mean over users; if not, an array with the number of each user, in the order of
        the array's rows or of the sorted ids of the pairs: NaN for a user without relevant items.

    Examples
    --------
    >>> import rankfold as rf
    >>> rf.metrics.recall_at_k([[1, 0, 1, 1]], [[0.9, 0.8, 0.7, 0.1]], k=2)
    0.3333333333333333
    """
    return _mean(ranking.recall(_judged(relevant, recommended, k, exclude)), average)


def precision_at_k(
    relevant: Any, recommended: Any, k: int = 10, *, exclude: Any = None, average: bool = True
) -> Any:
    """Return which part of the first k places holds relevant items, in the mean over users.

    It is divided by k also where the list is shorter, or fewer items are relevant. Parameters are those of
    `recall_at_k`.

    Examples
    --------
    >>> import rankfold as rf
    >>> rf.metrics.precision_at_k([[1, 0, 1, 1]], [[0.9, 0.8, 0.7, 0.1]], k=2)
    0.5
    """
    return _mean(ranking.precision(_judged(relevant, recommended, k, exclude)), average)


def ndcg_at_k(
    relevant: Any, recommended: Any, k: int = 10, *, exclude: Any = None, average: bool = True
) -> Any:
    """Return the normalised discounted cumulative gain of the first k places, in the mean over users.

    The gains of the items, each divided by log₂(1 + place) for places from 1 on, over those of the best list
    there could be. As scikit-learn's `ndcg_score`, but for ties (broken by order there with
    `ignore_ties=True`, averaged by default) and for users without relevant items. Parameters are those of
    `recall_at_k`.

    Examples
    --------
    >>> import rankfold as rf
    >>> round(rf.metrics.ndcg_at_k([[1, 0, 1, 1]], [[0.9, 0.8, 0.7, 0.1]], k=2), 4)
    0.6131
    """
    return _mean(ranking.ndcg(_judged(relevant, recommended, k, exclude)), average)


def map_at_k(
    relevant: Any, recommended: Any, k: int = 10, *, exclude: Any = None, average: bool = True
) -> Any:
    """Return the mean over users of the average precision of the first k places.

    That is the sum of the precisions at the places of relevant items, each counted from the top down to
    there, over the lesser of k and the number of relevant items. Parameters are those of `recall_at_k`.

    Examples
    --------
    >>> import rankfold as rf
    >>> rf.metrics.map_at_k([[1, 0, 1, 1]], [[0.9, 0.8, 0.7, 0.1]], k=3)
    0.5555555555555555
    """
    return _mean(ranking.average_precision(_judged(relevant, recommended, k, exclude)), average)


def _mean(numbers: Floats, average: bool) -> Any:
    if not average:
        return numbers
    if np.isnan(numbers).all():
        raise ValueError("no user has a relevant item: there is nothing to measure by")
    return float(np.nanmean(numbers))


def _judged(relevant: Any, recommended: Any, k: int, exclude: Any) -> Judged:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k!r}")
    judge: Callable[..., Judged] = _of_lists if isinstance(recommended, Recommendations) else _of_arrays
    return judge(relevant, recommended, k, exclude)


def _of_lists(relevant: Any, recommended: Recommendations, k: int, exclude: Any) -> Judged:
    """Number the users and items that are relevant; others are -1."""
    (users, items), gains = _relevant_pairs(relevant)
    (who, users), (what, items) = numbered(users), numbered(items)
    shape, sides = (len(who), len(what)), (LabelIndex(len(who), who), LabelIndex(len(what), what, "column"))
    positive = gains > 0
    users, items, gains = users[positive], items[positive], gains[positive]
    listed = _found(sides, (recommended.rows, recommended.cols))
    names, keep = recommended.cols, listed[0] >= 0
    _refuse_repeated((recommended.rows, names), "recommended")
    if exclude is not None:
        apart = pair_columns(exclude) if not isinstance(exclude, Triples) else named_entries(exclude, None)[0]
        keep &= ~_among((recommended.rows, names), apart)
        counts = ~_among((who[users], what[items]), apart)
        users, items, gains = users[counts], items[counts], gains[counts]
    _refuse_repeated((users, items), "relevant")
    return judged(shape, (users, items, gains), (listed[0][keep], listed[1][keep]), k)


def _relevant_pairs(relevant: Any) -> tuple[Pairs, Floats]:
    if isinstance(relevant, Triples):
        names, values = named_entries(relevant, None)
        return names, _checked_gains(np.asarray(values, dtype=np.float64))
    pairs = pair_columns(relevant)
    return pairs, np.ones(len(pairs[0]))


def _found(sides: tuple[LabelIndex, LabelIndex], names: Pairs) -> tuple[Places, Places]:
    return sides[0].find(names[0], "recommended.rows[{}]"), sides[1].find(names[1], "recommended.cols[{}]")


def _among(pairs: Pairs, others: Pairs) -> NDArray[np.bool_]:
    """Whether each of some pairs is among others."""
    both = [numbered(np.concatenate(side))[1] for side in zip(pairs, others, strict=True)]
    keys = both[0] * (int(both[1].max(initial=0)) + 1) + both[1]
    return np.isin(keys[: len(pairs[0])], keys[len(pairs[0]) :])


def _refuse_repeated(pairs: Pairs, name: str) -> None:
    both = np.stack([numbered(side)[1] for side in pairs], axis=1)
    _, first, counts = np.unique(both, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        at = int(first[np.argmax(counts > 1)])
        raise ValueError(f"the pair ({pairs[0][at]}, {pairs[1][at]}) comes twice in {name}")


def _of_arrays(relevant: Any, scores: Any, k: int, exclude: Any) -> Judged:
    gains = _checked_gains(_dense(relevant, "relevant"))
    scores = check_array(
        scores, dtype=np.float64, ensure_all_finite=False, input_name="recommended", copy=True
    )
    if np.isnan(scores).any():
        raise ValueError("recommended has a score that is NaN: give -inf to what is not in the list")
    if scores.shape != gains.shape:
        raise ValueError(
            f"relevant has the shape {gains.shape} and recommended {scores.shape}: they must agree"
        )
    if exclude is not None:
        apart = _dense(exclude, "exclude") != 0
        if apart.shape != gains.shape:
            raise ValueError(
                f"exclude has the shape {apart.shape} and relevant {gains.shape}: they must agree"
            )
        scores[apart] = -np.inf
        gains = np.where(apart, 0.0, gains)
    users, items = np.nonzero(gains)
    query, place, _ = largest(np.arange(len(scores)), scores.shape[1], k, lambda part: scores[part])
    return judged(gains.shape, (users, items, gains[users, items]), (query, place), k)


def _dense(array: Any, name: str) -> Floats:
    if sparse.issparse(array):
        array = array.toarray()
    return np.asarray(check_array(array, dtype=np.float64, input_name=name))


def _checked_gains(gains: Floats) -> Floats:
    if not (np.isfinite(gains).all() and (gains >= 0).all()):
        raise ValueError("relevance is never negative, and finite")
    return gains
