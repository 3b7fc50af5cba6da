"""What rank and penalty of `ImplicitFeedback` are judged by: clicks that are held out, and lists of items."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.estimators.clicks import choosing, implicit_feedback
from rankfold.estimators.clicks.objective import Clicks, check_settings, click_completion, counts_of
from rankfold.estimators.completion.pattern import Pattern
from rankfold.run.stopping import RelativeChange


def completion(count, shape=None, clicks=None):
    """Each of `count` users clicks one item, and so does each item."""
    shape = shape or (count, count)
    values = np.ones(count) if clicks is None else clicks
    rows = np.arange(count) % shape[0]
    data = rf.data.Triples(rows, (np.arange(count) // shape[0] + rows) % shape[1], values, shape)
    return click_completion(data, None, 2.0, "float64")


def test_ranks_tried_are_a_quick_one_and_a_large_one_as_far_as_there_are_such():
    assert choosing._ranks((1000, 900)) == (32, 128)
    assert choosing._ranks((1000, 60)) == (32, 60)
    assert choosing._ranks((30, 1000)) == (30,)


@pytest.mark.parametrize(("count", "held_out"), [(19, None), (20, 2), (94, 9), (250, 25)])
def test_a_tenth_of_the_clicks_is_held_out_if_there_are_twenty(count, held_out):
    found = choosing._Chooser(completion(count, (25, 25)), None, 0, (25, 25))
    assert (None if found.test is None else found.test[0].size) == held_out
    if held_out:
        assert found.cost.joint.completion.observed.size == count - held_out == found.seen.indices.size


def test_pairs_without_a_click_and_users_beyond_the_most_are_not_asked(monkeypatch):
    clicks = (np.arange(400) % 4 > 0).astype(float)
    for most in (3, 7, 4000):
        monkeypatch.setattr(choosing, "_MAX_USERS", most)
        rows, cols = choosing._Chooser(completion(400, (20, 20), clicks), None, 3, (20, 20)).test
        assert min(most, 8) // 2 <= np.unique(rows).size <= most
        assert (rows % 4 > 0).all()  # the others have no clicks
        assert rows.size == cols.size


def test_the_first_penalty_is_a_part_of_the_largest_for_all_of_the_matrix(monkeypatch):
    walks = []

    def walk(self, start, first, patience):
        walks.append((first, patience))
        yield choosing.Trial(first, start, np.ones(3))

    monkeypatch.setattr(choosing._Chooser, "_walk", walk)
    chooser = choosing._Chooser(completion(300, (30, 20)), None, 0, (90, 20))
    chooser.judge((2,), {}, lambda words: None)
    largest, _ = chooser.cost.started(2, 0)
    assert_allclose(walks, [(0.35 * largest / 3**-0.125, 2)])


def test_a_trial_has_the_share_of_the_penalty_and_begins_where_it_is_told(monkeypatch):
    asked = []
    monkeypatch.setattr(choosing, "minimised", lambda cost, point: asked.append((cost, point)) or point)
    chooser = choosing._Chooser(completion(300, (30, 20)), 5.0, 0, (90, 20))
    point = tuple(np.random.default_rng(0).standard_normal((d, 2)) for d in (30, 20))
    (trial,) = chooser._walk(point, 1.0, 2)  # the weight given is the only one
    assert trial.weight == 5.0
    assert_allclose(asked[0][0].joint.weight, 5.0 * 3**-0.125)
    for one, two in zip(asked[0][1], chooser.cost.joint.lifted(*point), strict=True):
        np.testing.assert_array_equal(one, two)
    assert_allclose(trial.qualities, choosing.list_qualities(trial.point, chooser.seen, chooser.test))


def test_trials_are_loose(monkeypatch):
    options = {}

    def watched(problem, **given):
        options.update(given)
        return SimpleNamespace(x=given["x0"])

    monkeypatch.setattr(choosing, "try_out", watched)
    choosing.minimised(Clicks.of(completion(30)), (np.ones((30, 2)), np.ones((30, 2))))
    assert (options["max_iterations"], options["tolerance"]) == (20, 0.0)
    assert options["stop"] == RelativeChange(1e-3, window=3)


def test_the_last_fit_goes_on_until_three_iterations_change_less_than_tol(monkeypatch):
    options, fit = {}, implicit_feedback.fit_problem
    monkeypatch.setattr(
        implicit_feedback,
        "fit_problem",
        lambda problem, **given: options.update(given) or fit(problem, **given),
    )
    pairs = np.argwhere(np.random.default_rng(0).uniform(size=(9, 7)) < 0.5)
    rf.ImplicitFeedback(2, regularization=0.5, random_state=0, tol=0.25, max_iter=77).fit(pairs)
    assert options["stop"] == RelativeChange(0.25, window=3)
    assert (options["max_iterations"], options["tolerance"], options["verbose"]) == (77, 0.0, 0)


def plain_ndcg(scores, seen, wanted, places):
    """One user: gains of a list of unseen items, over those of the best list."""
    order = [item for item in np.argsort(-scores, kind="stable") if item not in seen][:places]
    gains = sum(1 / np.log2(2 + place) for place, item in enumerate(order) if item in wanted)
    return gains / sum(1 / np.log2(2 + place) for place in range(min(places, len(wanted))))


@pytest.mark.parametrize("places", [2, 5, 20])
def test_lists_are_judged_by_their_ndcg(places):
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((6, 2)), rng.standard_normal((9, 2))
    seen = rng.uniform(size=(6, 9)) < 0.3
    wanted = {0: {3}, 2: {1, 8, 5}, 5: {0, 11}}  # the last has no factor
    wanted = {
        user: {item for item in items if item > 8 or not seen[user, item]} for user, items in wanted.items()
    }
    pairs = np.array([(user, item) for user in (5, 0, 2) for item in wanted[user]])
    pattern = Pattern(np.r_[0, np.cumsum(seen.sum(axis=1))], np.nonzero(seen)[1].astype(np.int32))
    found = choosing.list_qualities((L, R), pattern, (pairs[:, 0], pairs[:, 1]), places)
    users = sorted(user for user in wanted if wanted[user])
    expected = [plain_ndcg(L[u] @ R.T, set(np.flatnonzero(seen[u])), wanted[u], places) for u in users]
    assert_allclose(found, expected)


def test_twenty_places_count():
    item = np.ones((40, 1)) * np.arange(40, 0, -1)[:, None]
    none = Pattern(np.zeros(3, np.int64), np.zeros(0, np.int32))
    found = choosing.list_qualities((np.ones((2, 1)), item), none, (np.array([0, 1]), np.array([19, 20])))
    assert_allclose(found, [1 / np.log2(21), 0.0])


def test_errors_are_means_with_their_standard_errors():
    trial = choosing.Trial(1.0, (np.ones((1, 1)), np.ones((1, 1))), np.array([0.5, 0.75, 1.0, 0.0]))
    assert trial.error == pytest.approx(1 - 2.25 / 4)
    assert trial.standard_error == pytest.approx(np.std([0.5, 0.75, 1.0, 0.0]) / 2)


@pytest.mark.parametrize(
    ("losses", "worse"), [([0.1, 0.1, 0.1], True), ([0.0, 0.0, 0.0], False), ([0.3, -0.1, 0.0], False)]
)
def test_lists_are_worse_if_that_is_more_than_chance(losses, worse):
    old = np.array([0.5, 0.6, 0.7])
    trials = [choosing.Trial(1.0, (old, old), qualities) for qualities in (old - losses, old)]
    assert choosing._worse(*trials) is worse


def test_without_any_trial_ctrl_c_leaves_no_choice(monkeypatch):
    def stopped(self, *_):
        raise KeyboardInterrupt

    monkeypatch.setattr(choosing._Chooser, "_trial", stopped)
    with pytest.raises(KeyboardInterrupt):
        choosing.choose(completion(40), 2, None, 0, 0, (40, 40))


def test_clicks_are_counted_as_one_each_unless_they_are_given():
    pairs = [(0, 1), (2, 2), (0, 0)]
    assert counts_of(pairs, None).tolist() == [1.0, 1.0, 1.0]
    assert counts_of(pairs, [1, 2, 3]) == [1, 2, 3]
    assert counts_of(rf.data.Triples(np.arange(2), np.arange(2), np.ones(2), (2, 2)), None) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 1.0, 1.0), "rank must be .* from 1 to 7, the lesser of 9 rows and 7 columns; got 0"),
        ((2.0, 1.0, 1.0), r"rank must be .*; got 2\.0"),
        ((2, 0.0, 1.0), "alpha must be finite and above 0, not 0.0"),
        ((2, 1.0, np.nan), "regularization must be 'auto' or finite and at least 0, not nan"),
        ((2, 1.0, "0"), "regularization must be 'auto' or finite"),
    ],
)
def test_settings_without_a_meaning_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        check_settings(*settings, (9, 7))


@pytest.mark.parametrize("settings", [(100, 1e-9, 0.0), ("auto", 1, "auto"), (np.int64(7), 0.5, 3)])
def test_settings_with_a_meaning_are_taken(settings):
    check_settings(*settings, (9, 7))


def test_lines_of_little_weight_are_penalised_as_if_they_had_one():
    """n_i and m_j below 1 count as 1."""
    data = rf.data.Triples(np.array([0, 0, 1]), np.array([0, 1, 2]), np.array([1.0, 2.0, 30.0]), (2, 3))
    cost = Clicks.of(click_completion(data, None, 0.1, "float64"))
    np.testing.assert_allclose(cost.roots[0], [1.0, 3.0**0.75])
    np.testing.assert_allclose(cost.roots[1], [1.0, 1.0, 3.0**0.25])


def test_all_entries_are_looked_at_up_to_a_limit(monkeypatch):
    assert implicit_feedback.MAX_ENTRIES == 200_000
    asked, sample = [], implicit_feedback.sample_lines
    monkeypatch.setattr(
        implicit_feedback, "sample_lines", lambda *given: asked.append(given[1]) or sample(*given)
    )
    rf.ImplicitFeedback(2, random_state=0).fit(np.argwhere(np.ones((5, 3))))
    assert asked == [200_000]
