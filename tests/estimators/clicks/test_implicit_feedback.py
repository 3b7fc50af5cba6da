"""`ImplicitFeedback` as its users see it."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import rankfold as rf
from estimators.clicks.click_data import clicks
from rankfold.estimators.clicks import choosing
from rankfold.estimators.clicks.objective import Clicks, click_completion


@pytest.fixture(autouse=True)
def small_ranks(monkeypatch):
    """Those that are tried: kernels of other tests serve them."""
    monkeypatch.setattr(choosing, "RANKS", (9, 16))


def model(**settings):
    return rf.ImplicitFeedback(**{"rank": 4, "regularization": 0.5, "random_state": 0} | settings)


def objective(fitted, pairs, counts=None):
    values = np.ones(len(pairs)) if counts is None else counts
    data = rf.data.Triples(pairs[:, 0], pairs[:, 1], values, fitted.shape_)
    return Clicks.of(click_completion(data, None, fitted.alpha, "float64"), fitted.regularization_)


@pytest.fixture(scope="module")
def fitted():
    return model(tol=1e-12).fit(clicks()[0])


def test_users_are_recommended_what_is_of_their_kind(fitted):
    pairs, (of_users, of_items) = clicks()
    best = fitted.recommend(np.arange(60), n=4)
    assert (of_users[best.rows] == of_items[best.cols]).mean() > 0.9
    seen = set(map(tuple, pairs))
    assert not seen & set(zip(best.rows.tolist(), best.cols.tolist(), strict=True))
    assert (of_items[fitted.similar(0, n=5).neighbours] == 0).all()
    assert (of_users[fitted.similar(1, n=5, side="row").neighbours] == 1).all()


def test_it_finds_the_minimum(fitted):
    cost = objective(fitted, clicks()[0])
    here = cost.evaluate(*fitted.factors_)
    assert here.value == pytest.approx(fitted.trace_[-1].value, rel=1e-10)
    scale = abs(cost.evaluate(*(0.5 * factor for factor in fitted.factors_)).f_L).max()
    assert abs(here.f_L).max() < 1e-5 * scale
    assert abs(here.f_R).max() < 1e-5 * scale
    swept = cost.value(*cost.swept(*fitted.factors_))
    assert swept == pytest.approx(here.value, rel=1e-9)


def test_counts_are_confidence():
    pairs, _ = clicks()
    counts = np.ones(len(pairs))
    counts[0] = 50
    plain, sure = model().fit(pairs), model().fit(pairs, counts)
    assert sure.predict(pairs[:1]) > plain.predict(pairs[:1]) + 0.05
    weighted = model().fit(pairs, sample_weight=counts)
    np.testing.assert_allclose(weighted.predict(pairs), sure.predict(pairs), rtol=1e-12)
    repeated = model().fit(np.concatenate([pairs, np.repeat(pairs[:1], 49, axis=0)]))
    np.testing.assert_allclose(repeated.predict(pairs), sure.predict(pairs), rtol=1e-9)


def test_predictions_are_products_of_factors_and_0_for_what_was_never_seen(fitted):
    L, R = fitted.factors_
    np.testing.assert_allclose(fitted.predict([(3, 4), (5, 6)]), [L[3] @ R[4], L[5] @ R[6]], rtol=1e-14)
    np.testing.assert_array_equal(fitted.predict([(3, 99), (99, 4), (99, 99)]), [0, 0, 0])
    np.testing.assert_array_equal(fitted.predict_at([3, -1], [4, 4]), [fitted.predict([(3, 4)])[0], 0])


def test_labels_triples_and_positions_give_the_same_model(fitted):
    pairs, _ = clicks()
    names = [(f"u{user:02}", f"i{item:02}") for user, item in pairs.tolist()]
    labelled = model(tol=1e-12).fit(names)
    np.testing.assert_array_equal(labelled.predict(names), fitted.predict(pairs))
    assert labelled.recommend("u07", n=1).cols[0] == f"i{fitted.recommend(7, n=1).cols[0]:02}"
    data = rf.data.Triples(pairs[:, 0], pairs[:, 1], np.ones(len(pairs)), (60, 45))
    by_position = model(tol=1e-12).fit(data)
    assert by_position.row_labels_ is None
    np.testing.assert_array_equal(by_position.predict(data), fitted.predict(pairs))
    np.testing.assert_array_equal(model(tol=1e-12, shape=(60, 45)).fit(pairs).factors_[0], fitted.factors_[0])


def test_a_row_folded_in_is_where_a_fit_has_it(fitted):
    """At the minimum each row is the best for the columns; so is that of a user with the same clicks."""
    pairs, _ = clicks()
    own = pairs[pairs[:, 0] == 7, 1]
    folded = fitted.fold_in([(1000, item) for item in own.tolist()])
    assert folded.shape_ == (1, 45)
    np.testing.assert_allclose(folded.factors_[0][0], fitted.factors_[0][7], rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(folded.recommend(1000, n=5).cols, fitted.recommend(7, n=5).cols)
    users = pairs[pairs[:, 1] == 9, 0]
    column = fitted.fold_in([(user, 2000) for user in users.tolist()], side="column")
    assert column.shape_ == (60, 1)
    np.testing.assert_allclose(column.factors_[1][0], fitted.factors_[1][9], rtol=1e-3, atol=1e-4)
    louder = fitted.fold_in([(1000, own[0])], [100.0])
    assert louder.predict([(1000, own[0])]) > fitted.fold_in([(1000, own[0])]).predict([(1000, own[0])])


def test_the_score_is_ndcg_of_what_is_recommended(fitted):
    held_out = np.array([(user, fitted.recommend(user, n=3).cols[2]) for user in range(10)])
    assert fitted.score(held_out) == pytest.approx(1 / np.log2(4))
    recommended = fitted.recommend(np.arange(10), n=20)
    assert fitted.score(held_out) == pytest.approx(rf.metrics.ndcg_at_k(held_out, recommended, 20))
    new_item, new_user = [*held_out.tolist(), (0, 777)], [*held_out.tolist(), (777, 0)]
    assert fitted.score(new_user) == fitted.score(held_out)
    assert fitted.score(new_item) < fitted.score(held_out)
    counts = np.r_[np.ones(10), 0]
    assert fitted.score(new_item, counts) == fitted.score(held_out)
    data = rf.data.Triples(*held_out.T, np.ones(10), (60, 45), np.arange(60), np.arange(45))
    assert fitted.score(data) == fitted.score(held_out)
    with pytest.raises(ValueError, match="no click of a user"):
        fitted.score([(777, 0)])


def test_rank_and_regularization_are_chosen_by_clicks_held_out(capsys):
    pairs, (of_users, of_items) = clicks()
    assert choosing._ranks((60, 12)) == (9, 12)  # 16, but for the size
    chosen = rf.ImplicitFeedback(random_state=0, verbose=2).fit(pairs)
    told = capsys.readouterr().err
    assert "choosing the rank: rank 9  λ " in told
    assert chosen.rank_path_.ranks == (9, 16)
    assert chosen.rank_ in (9, 16)
    path = chosen.regularization_path_
    assert path.chosen == chosen.regularization_ == path.regularizations[np.argmin(path.errors)]
    np.testing.assert_allclose(np.diff(np.log(path.regularizations[:2])), np.log(0.7), rtol=1e-9)
    halves = np.log(np.array(path.regularizations[-2:]) / path.regularizations[np.argmin(path.errors[:-2])])
    np.testing.assert_allclose(halves, [np.log(0.7) / 2, -np.log(0.7) / 2], rtol=1e-9)
    best = chosen.recommend(np.arange(60), n=4)
    assert (of_users[best.rows] == of_items[best.cols]).mean() > 0.9
    given = rf.ImplicitFeedback(3, random_state=0).fit(pairs)
    assert given.rank_path_ is None
    assert given.rank_ == 3
    lam = rf.ImplicitFeedback(regularization=2.0, random_state=0, max_iter=2)
    with pytest.warns(ConvergenceWarning):
        lam.fit(pairs)
    assert lam.regularization_path_ is None
    assert lam.rank_path_.ranks == (9, 16)


def test_a_higher_rank_is_taken_unless_it_is_worse_by_more_than_chance(monkeypatch):
    found = {
        2: [0.5, 0.5, 0.5, 0.5],
        3: [0.5, 0.7, 0.5, 0.2],
        4: [0.2, 0.3, 0.2, 0.1],
        5: [1.0, 1.0, 1.0, 1.0],
    }
    firsts = []

    def walk(self, start, first, patience):
        rank = start[0].shape[1]
        firsts.append((first, patience))
        yield choosing.Trial(10.0 * rank, start, np.array(found[rank]) - 0.1)
        yield choosing.Trial(5.0 * rank, start, np.array(found[rank]))

    monkeypatch.setattr(choosing, "RANKS", (2, 3, 4, 5))
    monkeypatch.setattr(choosing._Chooser, "_walk", walk)
    chosen = rf.ImplicitFeedback(random_state=0).fit(clicks()[0])
    assert chosen.rank_ == 3
    assert chosen.regularization_ == 15
    path = chosen.rank_path_
    assert path.ranks == (2, 3, 4)  # the fourth is not tried
    np.testing.assert_allclose(path.errors, [0.5, 0.525, 0.8])
    np.testing.assert_allclose(path.standard_errors, [np.std(found[k]) / 2 for k in (2, 3, 4)])
    spread = np.std(found[3]) / 2
    np.testing.assert_allclose(chosen.regularization_path_.standard_errors, [spread, spread])
    np.testing.assert_allclose(firsts[1:], [(10 / 0.49, 1), (15 / 0.49, 1)])
    assert firsts[0][1] == 2


def test_few_clicks_are_all_fitted():
    few = rf.ImplicitFeedback(random_state=0).fit([("a", "x"), ("a", "y"), ("b", "y"), ("c", "z")])
    assert few.rank_path_ is few.regularization_path_ is None
    assert few.rank_ == 3
    largest, _ = objective(few, np.array([(0, 0), (0, 1), (1, 1), (2, 2)])).at(0.0).started(1, 0)
    assert few.regularization_ == pytest.approx(0.1 * largest, rel=1e-3)


def test_few_clicks_of_many_users_and_items_are_fitted_with_the_first_rank():
    def chosen(shape, rank=None, weight=None):
        data = rf.data.Triples(np.arange(3), np.arange(3), np.ones(3), shape)
        return choosing.choose(click_completion(data, None, 1.0, "float64"), rank, weight, 0, 0, shape)

    assert [chosen(shape).rank for shape in ((200, 150), (200, 8), (7, 150))] == [9, 8, 7]
    assert chosen((200, 150), rank=5).rank == 5
    assert chosen((200, 150), weight=7.0)[:2] == (9, 7.0)


def test_a_penalty_that_is_too_high_leaves_nothing():
    none = model(regularization=1e6).fit(clicks()[0])
    assert none.stop_reason_ == "with this regularization, W = 0 is best"
    (row,) = none.trace_
    assert (row.iteration, row.gradient_norm, row.seconds) == (0, 0.0, 0.0)
    assert none.converged_
    assert not any(factor.any() for factor in none.factors_)


def test_a_warm_start_goes_on_from_the_last_fit():
    pairs, _ = clicks()
    warm = model(warm_start=True, tol=1e-8).fit(pairs)
    first, cold = warm.n_iter_, model(tol=1e-8).fit(pairs)
    assert first == cold.n_iter_ > warm.fit(pairs).n_iter_
    np.testing.assert_allclose(warm.predict(pairs), cold.predict(pairs), atol=1e-3)
    assert warm.set_params(rank=3).fit(pairs).rank_ == 3
    auto = rf.ImplicitFeedback(3, random_state=0, warm_start=True).fit(pairs)
    assert auto.regularization_path_ is not None
    chosen = auto.regularization_
    assert auto.fit(pairs, np.arange(len(pairs)) % 3 + 1.0).regularization_ == chosen
    assert auto.regularization_path_ is None
    others = auto.fit(pairs[pairs[:, 0] > 0])  # other users: nothing to go on from
    assert others.regularization_path_ is not None


def test_a_warm_start_keeps_what_was_chosen_but_not_what_is_given():
    pairs, _ = clicks()
    warm = model(warm_start=True, tol=1e-10).fit(pairs).set_params(regularization=2.0).fit(pairs)
    cold = model(regularization=2.0, tol=1e-10).fit(pairs)
    assert warm.regularization_ == 2.0
    np.testing.assert_allclose(warm.predict(pairs), cold.predict(pairs), atol=1e-3)


def test_float32_is_kept():
    pairs, _ = clicks()
    single, double = model(dtype="float32").fit(pairs), model().fit(pairs)
    assert {factor.dtype for factor in single.factors_} == {np.dtype(np.float32)}
    np.testing.assert_allclose(single.predict(pairs), double.predict(pairs), atol=2e-2)
    assert single.fold_in([(1000, 3)]).factors_[0].dtype == np.float32


def test_files_pickles_and_clones(fitted, tmp_path):
    rf.save(fitted, tmp_path / "model.rankfold")
    for copy in (rf.load(tmp_path / "model.rankfold"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(copy.predict([(3, 4)]), fitted.predict([(3, 4)]))
        np.testing.assert_array_equal(copy.recommend(3).cols, fitted.recommend(3).cols)
        np.testing.assert_array_equal(
            copy.fold_in([(1000, 1)]).factors_[0], fitted.fold_in([(1000, 1)]).factors_[0]
        )
    assert not hasattr(clone(fitted), "factors_")


def test_ctrl_c_in_the_last_fit_keeps_the_best_so_far():
    def stop(progress):
        if progress.trace[-1].iteration == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        early = model(tol=0.0).fit(clicks()[0], callback=stop)
    assert early.stop_kind_ == "interrupted"
    assert early.n_iter_ == 2


def test_ctrl_c_while_choosing_keeps_the_best_so_far(monkeypatch):
    made, tried = choosing._Chooser._trial, []

    def interrupted(self, weight, point):
        if len(tried) == 3:
            raise KeyboardInterrupt
        tried.append(made(self, weight, point))
        return tried[-1]

    monkeypatch.setattr(choosing._Chooser, "_trial", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted while rank and regularization were chosen"):
        early = rf.ImplicitFeedback(random_state=0).fit(clicks()[0])
    assert early.stop_kind_ == "interrupted"
    assert early.regularization_ == min(tried, key=lambda trial: trial.error).weight
    assert len(early.recommend(0, n=5).cols) == 5
    tried[:] = [None] * 3
    with pytest.raises(KeyboardInterrupt):
        rf.ImplicitFeedback(random_state=0).fit(clicks()[0])


def test_settings_that_make_no_sense_are_refused():
    pairs, _ = clicks()
    for alpha in (0, -1.0, np.inf, "4"):
        with pytest.raises(ValueError, match="alpha must be finite and above 0"):
            model(alpha=alpha).fit(pairs)
    with pytest.raises(ValueError, match="regularization must be 'auto' or finite and at least 0"):
        model(regularization=-1.0).fit(pairs)
    with pytest.raises(ValueError, match="dtype"):
        model(dtype="float16").fit(pairs)


def test_a_sample_is_chosen_by_where_clicks_are_many(monkeypatch):
    """More clicks than the choice looks at: it takes some users, and all get their factors."""
    monkeypatch.setattr("rankfold.estimators.clicks.implicit_feedback.MAX_ENTRIES", 300)
    monkeypatch.setattr("rankfold.selection.sampling.MIN_LINES", 10)
    made, shapes = Clicks.share_of, []
    monkeypatch.setattr(Clicks, "share_of", lambda part, all_: shapes.append(all_) or made(part, all_))
    pairs, (of_users, of_items) = clicks()
    for data, of_rows, of_cols in ((pairs, of_users, of_items), (pairs[:, ::-1], of_items, of_users)):
        found = rf.ImplicitFeedback(3, random_state=0).fit(data)
        assert found.shape_ == shapes[-1] == (len(of_rows), len(of_cols))
        best = found.recommend(np.arange(len(of_rows)), n=3)
        assert (of_rows[best.rows] == of_cols[best.cols]).mean() > 0.9


def test_what_is_chosen_by_a_sample_is_for_all(monkeypatch):
    """λ is that of all users: what is fitted to half of them has the share that is theirs."""
    pairs, _ = clicks()
    half = pairs[pairs[:, 0] < 30]
    data = rf.data.Triples(half[:, 0], half[:, 1], np.ones(len(half)), (30, 45))
    completion = click_completion(data, None, 4.0, "float64")
    fitted = []
    monkeypatch.setattr(choosing, "minimised", lambda cost, point: fitted.append(cost.joint.weight) or point)
    alone = choosing.choose(completion, 2, None, 0, 0, (30, 45)).path.regularizations
    count = len(fitted)
    of_all = choosing.choose(completion, 2, None, 0, 0, (60, 45)).path.regularizations
    np.testing.assert_allclose(fitted[:count], alone)
    np.testing.assert_allclose(fitted[count:], alone)
    np.testing.assert_allclose(of_all, np.array(alone) * 2**0.125)


def test_equal_values_are_sent_here():
    pairs, _ = clicks()
    with pytest.warns(UserWarning, match=r"rankfold\.ImplicitFeedback .*`rankfold clicks`"):
        rf.MatrixCompletion(2, regularization=1.0).fit(pairs, np.ones(len(pairs)))


@pytest.mark.parametrize(
    ("errors", "patience", "steps"),
    [
        # down until two in vain, then half a step to either side of the best
        ([0.5, 0.4, 0.41, 0.42, 0.4, 0.4], 2, [0, 1, 2, 3, 1.5, 0.5]),
        ([0.5, 0.4, 0.41, 0.39, 0.4, 0.4, 0.4, 0.4], 2, [0, 1, 2, 3, 4, 5, 3.5, 2.5]),
        ([0.5, 0.4, 0.41, 0.4, 0.4], 1, [0, 1, 2, 1.5, 0.5]),
        ([0.5, 0.4, 0.4, 0.4, 0.4], 1, [0, 1, 2, 1.5, 0.5]),  # as good is in vain
        # up, where the first is the best, until that is no longer so
        ([0.5, 0.6, 0.4, 0.3, 0.35, 0.3, 0.3], 1, [0, 1, -1, -2, -3, -1.5, -2.5]),
        ([0.5, 0.6, 0.5, 0.5, 0.5], 1, [0, 1, -1, 0.5, -0.5]),
    ],
)
def test_a_walk_goes_down_and_up_until_that_is_in_vain(monkeypatch, errors, patience, steps):
    tried, left = [], iter(errors)

    def trial(self, weight, point):
        tried.append(weight)
        return choosing.Trial(weight, point, np.array([1 - next(left)]))

    data = rf.data.Triples(np.arange(30), np.arange(30), np.ones(30), (30, 30))
    chooser = choosing._Chooser(click_completion(data, None, 1.0, "float64"), None, 0, (30, 30))
    monkeypatch.setattr(choosing._Chooser, "_trial", trial)
    list(chooser._walk((np.ones((30, 1)), np.ones((30, 1))), 8.0, patience))
    np.testing.assert_allclose(np.log(np.array(tried) / 8.0) / np.log(0.7), steps, atol=1e-9)


@pytest.mark.parametrize(
    ("rank", "what"), [("auto", "choosing the rank: rank "), (3, "choosing the regularization: rank 3")]
)
def test_verbose_tells_what_is_chosen(capsys, rank, what):
    found = rf.ImplicitFeedback(rank, random_state=0, verbose=2).fit(clicks()[0])
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("choosing")]
    assert all(line.startswith(what) for line in lines)
    assert len(lines) >= len(found.regularization_path_.regularizations)
    best = 1 - min(found.regularization_path_.errors)
    assert any(f"held-out NDCG@20 {best:.4f}" in line for line in lines)


def test_a_warm_start_is_for_the_same_users_and_items():
    pairs, _ = clicks()
    warm = model(warm_start=True).fit(pairs)
    labels = warm.row_labels_, warm.col_labels_
    same = rf.data.Triples(pairs[:, 0], pairs[:, 1], np.ones(len(pairs)), warm.shape_, *labels)
    assert warm._last_point(same) is warm.factors_
    assert warm._last_point(replace(same, row_labels=warm.row_labels_ + 1)) is None
    warm.factors_ = warm.factors_[0], 0 * warm.factors_[1]
    assert warm._last_point(same) is None


def test_clicks_that_can_be_fitted_exactly_are_fitted_until_that_changes_nothing(monkeypatch):
    pairs = np.array([(user, item) for user in range(12) for item in range(9) if user % 3 == item % 3])
    made, sweeps = Clicks.swept, []
    monkeypatch.setattr(Clicks, "swept", lambda cost, *point: sweeps.append(point) or made(cost, *point))
    found = model(regularization=1e-11).fit(pairs)
    assert found.trace_[1].value < 1e-10 < found.trace_[0].value
    assert found.n_iter_ > 1
    assert not found.stop_reason_.startswith("value")
    cost, rng = objective(found, pairs), np.random.default_rng(0)
    sweeps.clear()
    choosing.minimised(cost, tuple(rng.standard_normal((d, 4)) for d in (12, 9)))
    assert len(sweeps) > 1
