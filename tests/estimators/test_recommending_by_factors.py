"""Recommendations and likeness by factors that are given, against what is sorted plainly."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.data.labels import UnknownLabelError
from rankfold.estimators.completion.pattern import Pattern

SEEN = np.zeros((4, 15), bool)
SEEN[0, [1, 2]] = SEEN[1, [0, 14]] = SEEN[2, 3:13] = True  # nothing is known of row 3, and of column 13


def model(labels=False):
    """Of 4 rows and 15 columns."""
    rng = np.random.default_rng(0)
    made = rf.ImplicitFeedback(2)
    made.factors_ = rng.standard_normal((4, 2)), rng.standard_normal((15, 2))
    made.shape_, made.counts_ = (4, 15), (SEEN.sum(axis=1), SEEN.sum(axis=0))
    made.row_labels_ = np.array(list("abcd")) if labels else None
    made.col_labels_ = np.array([f"i{k:02}" for k in range(15)]) if labels else None
    made.observed_ = Pattern(np.r_[0, np.cumsum(SEEN.sum(axis=1))], np.nonzero(SEEN)[1].astype(np.uint32))
    return made


@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("n", [1, 4, 99])
def test_the_best_columns_that_have_entries_come_first(n, exclude_seen):
    made = model()
    found = made.recommend([2, 0], n, exclude_seen)
    L, R = made.factors_
    due = []
    for row in (2, 0):
        allowed = [c for c in range(15) if c != 13 and not (exclude_seen and SEEN[row, c])]
        best = sorted(allowed, key=lambda c: -L[row] @ R[c])[:n]
        due += [(row, c, L[row] @ R[c]) for c in best]
    assert found.rows.tolist() == [row for row, _, _ in due]
    assert found.cols.tolist() == [c for _, c, _ in due]
    assert_allclose(found.scores, [score for _, _, score in due])


@pytest.mark.parametrize("side", ["row", "column"])
def test_those_most_alike_come_first(side):
    made = model(labels=True)
    k = 0 if side == "row" else 1
    lines, others = made.factors_[k] @ made.factors_[1 - k].T, [3] if side == "row" else [13]
    lines = lines / np.linalg.norm(lines, axis=1, keepdims=True)
    labels = (made.row_labels_, made.col_labels_)[k]
    for place in (0, 2):
        found = made.similar(labels[place], 3, side=side)
        cosines = lines @ lines[place]
        allowed = [i for i in range(len(lines)) if i not in (place, *others)]
        best = sorted(allowed, key=lambda i: -cosines[i])[:3]
        assert found.neighbours.tolist() == labels[best].tolist()
        assert_allclose(found.cosines, cosines[best])
        assert set(found.given.tolist()) == {labels[place]}


def test_ten_are_named_unless_another_number_is_asked_for():
    made = model()
    assert made.recommend(3).cols.size == made.similar(0).neighbours.size == 10
    assert made.recommend(0).cols.tolist() == made.recommend(0, 10, True).cols.tolist()
    assert not {1, 2} & set(made.recommend(0, 12).cols.tolist())
    for asked in (made.recommend, made.similar):
        with pytest.raises(ValueError, match="n must be at least 1, not 0"):
            asked(0, 0)


def test_what_is_new_has_a_remedy():
    made = model(labels=True)
    with pytest.raises(UnknownLabelError, match=r"row label 'z' .* \(.*fold_in\(entries, side='row'\)\)$"):
        made.recommend(["a", "z"])
    with pytest.raises(
        UnknownLabelError, match=r"column label 'z' .* \(.*fold_in\(entries, side='column'\)\)$"
    ):
        made.similar("z")


def test_columns_of_a_table_are_called_as_in_the_fit():
    made = model()
    assert list(pd.DataFrame(made.recommend(0, 1)))[:2] == ["rows", "cols"]
    made.feature_names_in_ = np.array(["user", "film"], dtype=object)
    assert list(pd.DataFrame(made.recommend(0, 1)))[:2] == ["user", "film"]


def test_labels_of_a_later_fit_are_its_own():
    pairs = np.array([("a", "x"), ("b", "x"), ("b", "y"), ("c", "y"), ("a", "y")])
    fitted = rf.ImplicitFeedback(1, regularization=0.1, random_state=0).fit(pairs)
    before = fitted.predict([("a", "x"), ("c", "x")])
    turned = np.array([("c", "x"), ("b", "x"), ("b", "y"), ("a", "y"), ("c", "y")])
    fitted.fit(turned)
    assert_allclose(fitted.predict([("c", "x"), ("a", "x")]), before)
    more = fitted.fit([*map(tuple, pairs), ("d", "z")])
    assert more.recommend("d", 5).cols.size == 2
    assert more.similar("z", 5).neighbours.size == 2


def test_positions_of_a_later_fit_go_as_far_as_its_shape():
    few = np.array([[0, 0], [1, 1], [2, 0]])
    fitted = rf.ImplicitFeedback(1, regularization=0.1, shape=(3, 2), random_state=0).fit(few)
    assert fitted.recommend(2, 1).cols.tolist() == [1]
    fitted.set_params(shape=(5, 4)).fit([*map(tuple, few), (4, 3)])
    assert set(fitted.recommend(4, 9).cols.tolist()) == {0, 1}
    with pytest.raises(ValueError, match=r"rows\[0\]"):
        fitted.recommend(5)


def test_a_model_folded_in_knows_its_new_lines_alone():
    made = model(labels=True)
    made.regularization_, made.rank_, made.data_fingerprint_ = 0.5, 2, "before"
    made.alpha = 2.0
    folded = made.fold_in([("new", "i03"), ("new", "i05"), ("other", "i03")], [1.0, 2.0, 1.0])
    assert folded.row_labels_.tolist() == ["new", "other"]
    assert folded.shape_ == (2, 15)
    assert [count.tolist() for count in folded.counts_] == [[2, 1], made.counts_[1].tolist()]
    assert folded.observed_.indptr.tolist() == [0, 2, 3]
    assert folded.observed_.indices.tolist() == [3, 5, 3]
    assert made.row_labels_.tolist() == list("abcd")
    digests = {
        made.data_fingerprint_,
        folded.data_fingerprint_,
        made.fold_in([("new", "i03")], [1.0]).data_fingerprint_,
        made.fold_in([("new", "i03")], [2.0]).data_fingerprint_,
        made.fold_in([("new", "i04")], [1.0]).data_fingerprint_,
        made.fold_in([("newer", "i03")], [1.0]).data_fingerprint_,
    }
    assert len(digests) == 6
    column = made.fold_in([("b", "new"), ("c", "new")], side="column")
    assert (column.shape_, column.col_labels_.tolist()) == ((4, 1), ["new"])
    assert column.observed_.indptr.tolist() == [0, 0, 1, 2, 2]
    assert [count.tolist() for count in column.counts_] == [made.counts_[0].tolist(), [2]]
