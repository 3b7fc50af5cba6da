"""How sure `MatrixCompletion` is: deviations, intervals, and when there is a Bayesian finish at all."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import rankfold as rf
from estimators.completion.rating_data import model, ratings, rmse
from rankfold.estimators.completion import last_fit
from rankfold.estimators.completion.bayes import finishing, judging
from rankfold.estimators.completion.bayes.calibration import Calibration, gaussian_ends
from rankfold.estimators.completion.bayes.variational import Variational
from rankfold.estimators.completion.choosing import choose
from rankfold.estimators.completion.entries import completion_of

SHAPE = (60, 40)


@pytest.fixture(scope="module")
def noisy():
    """Few entries of much noise, where priors help."""
    return ratings(noise=1.5)


@pytest.fixture(scope="module")
def finished(noisy):
    pairs, y, _ = noisy
    return model(rank=4, bayesian=True).fit(pairs, y)


@pytest.fixture(scope="module")
def plain(noisy):
    return model(bayesian=False).fit(*noisy[:2])


def truth_error(fitted, truth):
    places = np.argwhere(np.ones(SHAPE))
    return rmse(fitted.predict(places), truth[tuple(places.T)])


def test_the_finish_is_nearer_to_the_truth_where_noise_is_large(noisy, finished):
    pairs, y, truth = noisy
    plain = model(rank=4, bayesian=False).fit(pairs, y)
    assert plain.posterior_ is None
    assert finished.posterior_.sweeps >= 1
    assert truth_error(finished, truth) < truth_error(plain, truth)
    assert np.sqrt(finished.posterior_.noise) == pytest.approx(1.5, rel=0.1)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_intervals_hold_what_they_promise(seed):
    data = rf.data.random_completion((300, 200), rank=3, oversampling=8, seed=seed, noise=0.5)
    train, new = rf.data.split(data, 0.4, seed=seed)
    fitted = rf.MatrixCompletion(rank=3, random_state=seed).fit(train)
    # Some 2,000 errors calibrate and 4,800 entries test: 0.5 ± 0.013 and 0.9 ± 0.008 by chance alone.
    for coverage, off in ((0.5, 0.03), (0.9, 0.02)):
        low, high = fitted.predict_interval(new, coverage)
        held = np.mean((low <= new.values) & (new.values <= high))
        assert held == pytest.approx(coverage, abs=off)
    values, deviations = fitted.predict(new, return_std=True)
    np.testing.assert_array_equal(values, fitted.predict(new))
    assert np.mean(((new.values - values) / deviations) ** 2) == pytest.approx(1.0, abs=0.1)
    default = fitted.predict_interval(new)
    np.testing.assert_array_equal(default, fitted.predict_interval(new, coverage=0.9))


def test_deviations_are_larger_where_less_is_known(finished, noisy):
    pairs, _, _ = noisy
    known, unknown = finished.predict(pairs[:50], return_std=True)[1], finished.predict(
        [("r", "c")] if pairs.dtype.kind == "U" else [(10**6, 10**6)], return_std=True
    )[1]  # fmt: skip
    assert known.max() < unknown[0]
    assert finished.posterior_.noise < (known.min() / finished.posterior_.calibration.scale) ** 2


def test_the_deviation_is_scaled_by_what_was_held_out(finished, noisy):
    pairs, _, _ = noisy
    sure = finished.posterior_
    unscaled = sure._replace(calibration=None).deviations(finished.factors_, pairs[:5, 0], pairs[:5, 1])
    np.testing.assert_allclose(
        finished.std_at(pairs[:5, 0], pairs[:5, 1]), sure.calibration.scale * unscaled, rtol=1e-12
    )


def test_scores_are_compared_with_places_among_them():
    scores = Calibration.of(np.arange(1.0, 20.0), np.full(19, 2.0))
    scale = np.sqrt((np.sum((np.arange(1, 20) / 2) ** 2) + 500) / 519)
    assert scores.scale == pytest.approx(scale)
    np.testing.assert_allclose(scores.scores, np.arange(1, 20) / 2 / scale)
    # of 20 errors of one kind, 18 lie between the first and the last; 19 beside 500 of a Gaussian
    for coverage, ends in ((0.9, (0.5, 9.5)), (0.5, (2.5, 7.5))):
        own = np.array(gaussian_ends(coverage))
        np.testing.assert_allclose(scores.ends(coverage), (19 * np.array(ends) / scale + 500 * own) / 519)
    assert scores.ends(0.999) == gaussian_ends(0.999)


def test_many_scores_are_kept_as_quantiles():
    errors = np.random.default_rng(0).standard_normal(50_000)
    kept = Calibration.of(errors, np.ones(50_000))
    assert (len(kept.scores), kept.held_out) == (2001, 50_000)
    np.testing.assert_allclose(kept.ends(0.9), gaussian_ends(0.9), atol=0.03)
    assert gaussian_ends(0.9)[1] == pytest.approx(1.6449, abs=1e-4)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1, 90, np.nan])
def test_a_coverage_is_a_part(finished, noisy, coverage):
    with pytest.raises(ValueError, match=r"coverage must lie between 0 and 1, as 0\.9 does"):
        finished.predict_interval(noisy[0][:2], coverage)


def test_a_weight_that_is_given_is_not_second_guessed():
    pairs, y, _ = ratings(entries=300)
    fitted = model(regularization=1.0).fit(pairs, y)
    assert fitted.posterior_ is None
    for ask in (lambda: fitted.predict(pairs, return_std=True), lambda: fitted.predict_interval(pairs)):
        with pytest.raises(ValueError, match="bayesian=True and the square loss"):
            ask()
    asked = model(regularization=1.0, bayesian=True).fit(pairs, y)
    assert asked.predict(pairs, return_std=True)[1].shape == (300,)


@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_other_losses_have_no_finish(loss):
    pairs, y, _ = ratings(entries=200)
    y = np.round(np.abs(y))
    with pytest.raises(ValueError, match="bayesian=True is for the square loss"):
        model(loss=loss, bayesian=True, regularization=1.0).fit(pairs, y)
    assert model(loss=loss, regularization=1.0, bias=False).fit(pairs, y).posterior_ is None


@pytest.mark.parametrize("setting", ["yes", None, 1.5])
def test_the_setting_is_auto_or_a_flag(setting):
    with pytest.raises(ValueError, match="bayesian must be 'auto', True or False"):
        model(bayesian=setting, regularization=1.0).fit([(0, 0), (1, 1), (0, 1)], [1.0, 2.0, 3.0])


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    pairs, y, _ = ratings(entries=200)
    needed = sum(SHAPE) * 3 * 6 * 8
    monkeypatch.setattr(finishing, "machine_memory", lambda: 4.0 * needed)
    with pytest.raises(ValueError, match="covariances of 100 lines at rank 2 do not fit"):
        model(bayesian=True, regularization=1.0, shape=SHAPE).fit(pairs, y)
    assert model(shape=SHAPE).fit(pairs, y).posterior_ is None
    monkeypatch.setattr(finishing, "machine_memory", lambda: 4.0 * needed + 1)
    assert model(bayesian=True, regularization=1.0, shape=SHAPE).fit(pairs, y).posterior_ is not None


def test_exact_data_keep_their_fit():
    data = rf.data.random_completion((60, 40), rank=2, oversampling=4, seed=0)
    fitted = model(bias=False).fit(data)
    assert fitted.posterior_.sweeps == 0
    assert data.relative_error(*fitted.factors_) < 1e-6
    deviations = fitted.predict(data, return_std=True)[1]
    assert 0 < deviations.min() < deviations.max() < 1e-2


def test_calibration_knows_what_intervals_held_before_it():
    errors = np.array([-3.0, -1.7, -1.0, 0.0, 0.5, 1.0, 1.6, 1.7])
    found = Calibration.of(2.0 * errors, np.full(8, 2.0))
    assert found.own(0.9) == 5 / 8  # within 1.645 deviations
    assert found.own(0.5) == 2 / 8
    ends = Calibration(1.0, np.array([*gaussian_ends(0.9), 3.0]), 3)
    assert ends.own(0.9) == 2 / 3  # what is at an end is in the interval


def test_few_data_are_taken_as_they_are():
    fitted = model(rank=1).fit([("a", "x"), ("b", "y"), ("a", "y"), ("b", "x")], [1.0, 2.0, 3.0, 4.0])
    assert (fitted.posterior_.sweeps, fitted.posterior_.calibration) == (0, None)
    low, high = fitted.predict_interval([("a", "x"), ("c", "x")])
    values, deviations = fitted.predict([("a", "x"), ("c", "x")], return_std=True)
    np.testing.assert_allclose(high - values, 1.6448536 * deviations, rtol=1e-6)
    np.testing.assert_allclose(values - low, high - values)


def test_without_offsets(noisy):
    pairs, y, _ = noisy
    fitted = model(bias=False, bayesian=True, regularization=2.0).fit(pairs, y - 3)
    assert fitted.posterior_.calibration is None
    assert fitted.posterior_.rows.shape == (60, 3)
    assert not fitted.biases_.rows.any()
    assert fitted.predict([(10**6, 3)], return_std=True)[0] == 0.0


def test_offsets_alone_are_finished_too():
    rng = np.random.default_rng(0)
    pairs, y = np.argwhere(rng.random((40, 30)) < 0.4), None
    b = rng.standard_normal(40)
    y = b[pairs[:, 0]] + 0.5 * rng.standard_normal(len(pairs))
    fitted = model(rank=2).fit(pairs, y)
    if fitted.factors_[0].any():
        fitted = model(rank=2, bayesian=True, regularization=1e6).fit(pairs, y)
    assert not fitted.factors_[0].any()
    assert fitted.posterior_.rows.shape == (40, 6)
    assert not fitted.posterior_.rows[:, :5].any()
    assert fitted.predict(pairs[:3], return_std=True)[1] == pytest.approx(0.5, abs=0.15)


def test_the_rank_is_doubled_where_the_finish_gains_by_it(monkeypatch, noisy):
    pairs, y, _ = noisy
    losses = {2: np.full(120, 2.0), 4: np.full(120, 1.0)}

    def judge(folds, least, tell, rival=None):
        return judging.Verdict(2, losses[folds[0][1][0].shape[1] - 1], None)

    monkeypatch.setattr(finishing, "judged", judge)
    monkeypatch.setattr("rankfold.estimators.completion.choosing.USUAL_RANK", 2)
    higher = model(rank="auto").fit(pairs, y)
    assert higher.rank_ == higher.rank_path_.chosen == 4
    assert higher.factors_[0].shape == (60, 4)
    assert dict(zip(higher.rank_path_.ranks, higher.rank_path_.errors, strict=True))[4] == 1.0
    assert model(rank=2).fit(pairs, y).rank_ == 2
    losses[4] = np.full(120, 2.0)
    assert model(rank="auto").fit(pairs, y).rank_ == 2


def test_sweeps_end_where_entries_held_out_are_predicted_best(monkeypatch):
    """A path of losses: the least one counts, and six in a row that are no better end it."""
    path = [5.0, 4.0, 4.5, 3.0, 3.5, 3.6, 3.7, 3.8, 3.9, 4.0, 1.0]
    fold = rf.data.random_completion((30, 20), rank=1, oversampling=4, seed=0, noise=0.2)
    calls = []

    def errors(models, states, tests):
        calls.append(len(calls))
        return np.full(sum(len(test[0]) for test in tests), np.sqrt(path[calls[-1]]))

    monkeypatch.setattr(judging, "_errors", errors)
    pairs = np.column_stack([fold.rows, fold.cols])
    fitted = model(rank=1, bias=False).fit(pairs, fold.values)
    assert fitted.posterior_.sweeps == 3
    assert len(calls) == 10
    path[0], calls[:] = 1.0, []
    assert model(rank=1, bias=False).fit(pairs, fold.values).posterior_.sweeps == 0
    calls.clear()
    assert model(rank=1, bias=False, bayesian=True).fit(pairs, fold.values).posterior_.sweeps == 3


@pytest.fixture(scope="module")
def choice():
    data = rf.data.random_completion((30, 20), rank=1, oversampling=4, seed=0, noise=0.2)
    return choose(completion_of(data, None, "square", float), True, 1, None, 0, 0)


def test_a_rank_that_is_not_ahead_after_a_few_sweeps_is_given_up(monkeypatch, choice):
    rival = judging.Verdict(5, np.ones(1), None, (5.0, 4.0, 3.0, 2.0, 1.0))

    def looks(losses):
        """How many of these losses are looked at."""
        left = iter(losses)
        size = sum(len(fold.test[0]) for fold, _ in choice.folds)
        monkeypatch.setattr(judging, "_errors", lambda *_: np.full(size, np.sqrt(next(left))))
        judging.judged(choice.folds, 0, lambda _: None, rival)
        return len(losses) - len(list(left))

    assert looks([5.1, 4.8, 4.7, 4.6, 4.5, 4.4]) == 4
    assert looks([4.5, 3.5, 2.5, 1.5, 1.2, 1.1]) == 5
    assert looks([4.5, 3.5, 2.5, 2.0, 1.2, 1.1]) == 4


@pytest.mark.parametrize(("held_out", "looks", "most"), [(0, 7, 20), (1, 4, 7)])
def test_many_entries_held_out_need_no_long_patience(monkeypatch, choice, held_out, looks, most):
    """The fit alone is best: six sweeps are tried in vain, or three where as many errors leave no doubt.

    Where each sweep is better than the one before, there are twenty, or seven of many entries.
    """
    size = sum(len(fold.test[0]) for fold, _ in choice.folds)
    monkeypatch.setattr(judging, "_SURE", size + 1 - held_out)
    losses = iter(range(1, 20))
    monkeypatch.setattr(judging, "_errors", lambda *_: np.full(size, np.sqrt(next(losses))))
    verdict = judging.judged(choice.folds, 0, lambda _: None)
    assert verdict.sweeps == 0
    assert len(verdict.path) == looks
    losses = iter(range(40, 0, -1))
    assert judging.judged(choice.folds, 0, lambda _: None).sweeps == most


def test_what_is_not_finite_is_not_taken(monkeypatch, noisy, plain):
    pairs, y, _ = noisy
    swept = Variational.swept
    monkeypatch.setattr(Variational, "swept", lambda self, state: swept(self, state)._replace(error=np.nan))
    fitted = model().fit(pairs, y)
    assert fitted.posterior_ is None
    np.testing.assert_array_equal(fitted.predict(pairs), plain.predict(pairs))


@pytest.mark.parametrize("where", ["judge", "finish"])
def test_an_interrupt_leaves_the_fit(monkeypatch, noisy, where):
    pairs, y, _ = noisy

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(finishing, "judged" if where == "judge" else "_swept", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        fitted = model().fit(pairs, y)
    assert fitted.stop_kind_ == "interrupted"
    assert fitted.posterior_ is None
    assert np.isfinite(fitted.predict(pairs)).all()


def test_an_interrupt_while_more_is_held_out_ends_the_choice(monkeypatch, noisy):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(last_fit, "recalibrated", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted while rank and regularization were chosen"):
        fitted = model().fit(*noisy[:2])
    assert fitted.posterior_ is None
    assert fitted.regularization_path_ is not None


@pytest.mark.parametrize("bias", [True, False])
def test_where_no_factor_is_left_offsets_alone_have_a_posterior(noisy, bias):
    fitted = model(bias=bias, bayesian=True, regularization=1e6).fit(*noisy[:2])
    assert not any(factor.any() for factor in fitted.factors_)
    if not bias:
        assert fitted.posterior_ is None
    else:
        assert fitted.posterior_.rows.shape == (60, 6)  # of two factors of 0 and the offset
        assert fitted.predict(noisy[0][:1], return_std=True)[1] > 0


def test_a_new_row_is_found_as_the_finish_finds_rows(noisy):
    pairs, y, _ = noisy
    fitted = model(bayesian=True, bias=False, regularization=2.0).fit(pairs, y)
    mine = pairs[:, 0] == 7
    folded = fitted.fold_in(pairs[mine], y[mine])
    # the rows were found before the columns were for the last time
    np.testing.assert_allclose(folded.predict(pairs[mine]), fitted.predict(pairs[mine]), atol=0.02)
    asked = [np.column_stack(np.broadcast_arrays(7, np.arange(40)))] * 2
    there, here = folded.predict(asked[0], return_std=True)[1], fitted.predict(asked[1], return_std=True)[1]
    np.testing.assert_allclose(there, here, rtol=1e-2)
    assert folded.posterior_.rows.shape == (1, 3)
    assert fitted.posterior_.rows.shape == (60, 3)


@pytest.mark.parametrize("bias", [True, False])
def test_entries_that_come_later_count_as_if_they_had_come_at_once(noisy, bias):
    pairs, y, _ = noisy
    fitted = model(bayesian=True, bias=bias, regularization=2.0).fit(pairs, y)
    new = [("new", int(c)) for c in (1, 5, 9, 20, 33)]
    values = np.array([1.0, 4.0, 2.0, 3.0, 5.0])
    new = np.array([(1000, c) for _, c in new])
    once = fitted.fold_in(new, values)
    later = fitted.fold_in(new[:3], values[:3]).partial_fit(new[3:], values[3:])
    np.testing.assert_allclose(later.factors_[0], once.factors_[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(later.posterior_.rows, once.posterior_.rows, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(later.biases_.rows, once.biases_.rows, rtol=1e-7, atol=1e-9)


def test_partial_fit_takes_in_new_rows_and_makes_others_surer(finished, noisy, tmp_path):
    _pairs, _y, _ = noisy
    rf.save(finished, tmp_path / "m")
    grown = rf.load(tmp_path / "m")
    grown.partial_fit([(3, 0), (1000, 0), (1000, 1), (3, 1)], [3.0, 2.0, 4.0, 3.0])
    assert grown.posterior_.rows.shape == (61, 15)
    assert grown.posterior_.cols.shape == (40, 15)
    before, after = (fitted.predict([(3, 0)], return_std=True)[1][0] for fitted in (finished, grown))
    assert after < before
    new, unseen = (grown.predict([(row, 2)], return_std=True)[1][0] for row in (1000, 2000))
    assert new < unseen


def test_a_fit_without_sweeps_has_covariances_of_new_rows_too(noisy, plain, monkeypatch):
    pairs, y, _ = noisy
    monkeypatch.setattr(finishing, "judged", lambda *_: judging.Verdict(0, np.ones(9), None))
    new = [(1000, 3), (1000, 5), (1000, 7), (1000, 9)], [1.0, 2.0, 3.0, 4.0]
    fitted = model().fit(pairs, y)
    np.testing.assert_array_equal(fitted.predict(pairs), plain.predict(pairs))
    folded = fitted.fold_in(*new)
    assert folded.posterior_.rows.shape == (1, 6)
    np.testing.assert_allclose(folded.factors_[0], plain.fold_in(*new).factors_[0], rtol=1e-9)


def test_saved_with_the_model(finished, noisy, tmp_path):
    pairs, _, _ = noisy
    rf.save(finished, tmp_path / "model")
    again = rf.load(tmp_path / "model")
    for one, other in zip(
        finished.predict(pairs, return_std=True), again.predict(pairs, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(finished.predict_interval(pairs), again.predict_interval(pairs))
    assert again.bayesian is True


def test_a_warm_start_sweeps_as_often_as_before(noisy):
    pairs, y, _ = noisy
    fitted = model(bayesian=True, warm_start=True).fit(pairs, y)
    before = fitted.posterior_
    fitted.fit(pairs, y)
    assert fitted.posterior_.sweeps == before.sweeps
    assert fitted.posterior_.calibration is before.calibration


def test_float32_models_have_float32_posteriors(noisy):
    pairs, y, _ = noisy
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single = model(dtype="float32", bayesian=True, regularization=2.0).fit(pairs, y)
        double = model(bayesian=True, regularization=2.0).fit(pairs, y)
    assert single.posterior_.rows.dtype == single.factors_[0].dtype == np.float32
    np.testing.assert_allclose(
        single.predict(pairs, return_std=True)[1], double.predict(pairs, return_std=True)[1], rtol=2e-2
    )


def test_more_errors_are_taken_in_as_if_all_had_come_at_once():
    rng = np.random.default_rng(3)
    errors, deviations = rng.standard_normal(60), rng.uniform(1, 2, 60)
    joined = Calibration.of(errors[:25], deviations[:25]).joined(errors[25:], deviations[25:])
    whole = Calibration.of(errors, deviations)
    assert (joined.scale, joined.held_out) == (pytest.approx(whole.scale, rel=1e-14), 60)
    np.testing.assert_allclose(joined.scores, whole.scores, rtol=1e-13)


def _planted(seed, offsets):
    """100 × 80 of rank 2 with noise, of which three tenths are known: known pairs and values, all others."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 80)) / np.sqrt(2)
    values += offsets * (rng.standard_normal((100, 1)) + rng.standard_normal(80))
    values += 0.3 * rng.standard_normal(values.shape)
    known = rng.random(values.shape) < 0.3
    return np.argwhere(known), values[known], np.argwhere(~known), values[~known]


@pytest.mark.parametrize(("seed", "offsets"), [(1, True), pytest.param(12, False, marks=pytest.mark.soak)])
def test_intervals_of_small_data_hold_what_they_promise_too(seed, offsets):
    X, y, new, values = _planted(seed, offsets)
    fitted = rf.MatrixCompletion(2, shape=(100, 80), random_state=0).fit(X, y)
    low, high = fitted.predict_interval(new)
    assert np.mean((low <= values) & (values <= high)) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(("entries", "held_out"), [(1500, 1500), (2600, 2080)])
def test_small_data_are_held_out_in_turn(entries, held_out):
    """All of them, or as many tenths as make 2000 errors."""
    X, y, more, values = _planted(5, offsets=True)
    X, y = np.vstack([X, more])[:entries], np.concatenate([y, values])[:entries]
    fitted = rf.MatrixCompletion(2, shape=(100, 80), random_state=0).fit(X, y)
    assert fitted.posterior_.calibration.held_out == held_out
