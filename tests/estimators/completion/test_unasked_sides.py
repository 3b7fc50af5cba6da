"""Which sides get implicit features that nobody asked for, from which entries, and who decides."""

import numpy as np
import pytest
from scipy import sparse

from estimators.completion.small_fits import SHAPE, a_choice, entries
from rankfold.costs.completion import Completion
from rankfold.entries.observed import Observed
from rankfold.estimators.completion.side import unasked
from rankfold.estimators.completion.side.deciding import Tried
from rankfold.estimators.completion.side.implicit import where_entries_are
from rankfold.estimators.completion.side.unasked import implicit_again, implicit_where_they_help


def with_blank_lines():
    """A cost without entries in the last row and the last column."""
    i, j = np.nonzero(np.random.default_rng(0).random((8, 6)) < 0.6)
    given = Observed.from_triples(i, j, np.ones(i.size), SHAPE, warn_of_empty=False)
    return Completion.from_observed(given), i, j


def by_hand(cost):
    """Features of rows and of columns, made of a dense matrix that has 1 where there are entries."""
    side = cost.observed.by_row
    dense = np.zeros(SHAPE)
    dense[side.keys, side.indices] = 1.0
    return [unasked._standardised(X).Z for X in where_entries_are(sparse.csr_array(dense))]


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True), (False, False)])
def test_features_of_the_wanted_sides_say_where_entries_are(wanted):
    cost, i, j = with_blank_lines()
    found = unasked._sides(cost, wanted)
    assert [side is not None for side in found] == list(wanted)
    for side, want, due, size, at in zip(found, wanted, by_hand(cost), SHAPE, (i, j), strict=True):
        if want:
            np.testing.assert_allclose(side.Z, due, atol=1e-12)
            assert not side.Z[-1].any()
            assert side.Z.shape == (size, 7)
            assert side.Z[at].any(axis=1).all()
            assert not np.isnan(side.Z).any()
            assert side.traits.encoding.width == 7
            assert side.traits.encoding.names == tuple(f"implicit {k}" for k in range(7))
            assert side.labels is None


@pytest.fixture
def trials(monkeypatch):
    """Let trials come out with these certainties, the best for columns alone; tell what was asked."""
    asked = []

    def come_out(*certainties):
        sides = [(False, True), (True, True), (True, False)]
        tried = [Tried(side, [], (), 1.0, each) for side, each in zip(sides, certainties, strict=False)]
        monkeypatch.setattr(
            unasked, "tried_out", lambda choice, traits, apart=False: asked.append((traits, apart)) or tried
        )
        return asked

    def taken(tried, choice, cost, lines):
        return ("taken", tried.sides, lines), (None, "expected")

    monkeypatch.setattr(unasked, "taken", taken)
    return come_out


def test_implicit_features_are_used_where_losses_certainly_fall(trials):
    choice, cost = a_choice(), entries().completion
    asked = trials(2.01, 0.0)
    found, expecting, given = implicit_where_they_help(choice, cost, (True, True), ("before", None))
    what, sides, lines = found
    assert (what, sides) == ("taken", (False, True))
    assert expecting == ("before", "expected")
    assert given[0] is None
    np.testing.assert_allclose(given[1].Z, by_hand(cost)[1], atol=1e-12)
    assert lines[0] is None
    assert lines[1] is given[1].Z
    ((of_folds, apart),) = asked
    assert apart
    for (rows, cols), (fold, _) in zip(of_folds, choice.folds, strict=True):
        for found, due in zip((rows, cols), by_hand(fold.joint.completion), strict=True):
            np.testing.assert_allclose(found, due, atol=1e-12)
    trials(9.0, 0.0)
    implicit_where_they_help(choice, cost, (True, False), (None, None))
    assert [cols for _, cols in asked[1][0]] == [None, None]


@pytest.mark.parametrize("certainties", [(2.0, 9.0), (-3.0,), ()])
def test_implicit_features_are_left_out_where_they_may_be_of_no_use(trials, certainties):
    choice = a_choice()
    trials(*certainties)
    found = implicit_where_they_help(choice, entries().completion, (True, True), ("before", None))
    assert found == (choice, ("before", None), (None, None))


def test_ctrl_c_while_implicit_features_are_tried_ends_the_choice(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(unasked, "tried_out", interrupted)
    choice = a_choice()
    found = implicit_where_they_help(choice, entries().completion, (True, True), ("before", None))
    assert found == (choice._replace(interrupted=True), ("before", None), (None, None))


@pytest.mark.parametrize("used", [(True, True), (True, False), (False, True)])
def test_sides_that_had_implicit_features_have_them_again(monkeypatch, used):
    cost, asked = entries().completion, []
    monkeypatch.setattr(unasked, "plain_fit", lambda choice, cost, seed: (choice, seed))
    monkeypatch.setattr(
        unasked, "estimated", lambda *given: asked.append(given) or tuple(("new", None)[not u] for u in used)
    )
    expecting, sides = implicit_again("choice", cost, used, ("before", "too"), 7)
    assert expecting == tuple("new" if u else old for u, old in zip(used, ("before", "too"), strict=True))
    assert [side is not None for side in sides] == list(used)
    ((choice, seed, lines),) = asked
    assert (choice, seed) == ("choice", 7)
    assert [Z is None for Z in lines] == [not u for u in used]
    none = (False, False), ("before", None)
    assert implicit_again("choice", cost, *none, 7) == (("before", None), (None, None))
    assert len(asked) == 1
