"""The rank and the regularisation, chosen by entries held out."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning

import rankfold as rf
from estimators.completion.rating_data import everywhere, fitted_once, model, ratings, rmse
from rankfold.estimators.completion import choosing
from rankfold.estimators.completion.alternating import Alternating
from rankfold.estimators.completion.choosing import Choice, _better, _mean, _ranks, choose
from rankfold.estimators.completion.entries import completion_of, training_triples
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.regularization_path import RegularizationPath
from rankfold.estimators.completion.trials import Trial, Trials, minimised


def test_the_regularisation_is_the_best_of_those_tried():
    fitted = fitted_once()
    path = fitted.regularization_path_
    assert len(path.errors) == len(path.standard_errors) >= 3
    assert 0 < min(path.standard_errors) < 0.5 * min(path.errors)
    assert path.chosen == path.regularizations[np.argmin(path.errors)] == fitted.regularization_
    assert str(path).splitlines()[1 + np.argmin(path.errors)].endswith("<- chosen")
    assert fitted_once(regularization=1.0).regularization_path_ is None


@pytest.mark.filterwarnings("ignore:stopped after 1 iterations")
@pytest.mark.parametrize(("most", "tried"), [(196 / 1080, True), (195 / 1080, False)])
def test_no_penalty_at_all_is_tried_only_where_entries_could_determine_the_fit(monkeypatch, most, tried):
    """Rank 2 of 60 × 40 has 196 unknowns, and 1080 of 1200 entries are not held out."""
    monkeypatch.setattr("rankfold.estimators.completion.trials.MAX_FREEDOM", most)
    X, y, _ = ratings(noise=0.0)
    assert (0.0 in model(max_iter=1).fit(X, y).regularization_path_.regularizations) == tried


def test_rank_auto():
    data = rf.data.random_completion((80, 60), rank=2, oversampling=5, seed=0, noise=0.01)
    fitted = model(rank="auto", bias=False).fit(data)
    assert fitted.rank_ == 2 == fitted.rank_path_.chosen
    assert fitted.factors_[0].shape == (80, 2)
    X, y, _ = ratings(entries=1600)
    kept = y.copy()
    chosen = model(rank="auto").fit(X, y)
    assert chosen.rank_ == 2  # offsets take no rank
    assert model(rank="auto", bias=False).fit(X, y).rank_ == 4  # and else one for either side
    np.testing.assert_array_equal(y, kept)


def test_settings_are_refused_before_any_work(monkeypatch):
    def worked(*_):
        raise AssertionError("something was fitted")

    monkeypatch.setattr("rankfold.estimators.completion.fit_steps.choose", worked)
    X, y, _ = ratings()
    for options, message in (
        ({"rank": "best"}, "rank must be 'auto' or an integer"),
        ({"rank": 0}, "rank must be 'auto' or an integer"),
        ({"regularization": "best"}, "regularization must be"),
    ):
        with pytest.raises(ValueError, match=message):
            model(**options).fit(X, y)


@pytest.mark.parametrize(
    ("loss", "bias"),
    [
        ("huber", True),
        ("logistic", False),
        ("poisson", False),
        pytest.param("huber", False, marks=pytest.mark.soak),
        pytest.param("logistic", True, marks=pytest.mark.soak),
        pytest.param("poisson", True, marks=pytest.mark.soak),
    ],
)
def test_rank_auto_takes_every_loss_with_and_without_offsets(loss, bias):
    X, y, truth = ratings(noise=0.0)
    if loss == "logistic":
        y = (y > truth.mean()).astype(float)
    elif loss == "poisson":
        y = np.random.default_rng(0).poisson(np.exp((y - 3) / 2))
    fitted = model(rank="auto", loss=loss, bias=bias).fit(X, y)
    assert fitted.rank_ == fitted.rank_path_.chosen
    assert fitted.rank_ in ({2, 3} if loss == "huber" and bias else range(1, 11))


@pytest.mark.parametrize("rank", [2, "auto"])
@pytest.mark.parametrize("steps", [0, 3, 60])
def test_ctrl_c_while_rank_and_weight_are_chosen_keeps_the_best_model_so_far(monkeypatch, rank, steps):
    X, y, truth = ratings()
    honest, taken = Alternating.step, []

    def interrupted(self, problem, state):
        taken.append(problem)
        if len(taken) == steps + 1:
            raise KeyboardInterrupt
        return honest(self, problem, state)

    monkeypatch.setattr(Alternating, "step", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted while rank and regularization were chosen"):
        fitted = model(rank=rank).fit(X, y)
    assert fitted.stop_kind_ == "interrupted"
    assert not fitted.converged_
    assert np.isfinite(everywhere(fitted)).all()
    if steps == 60:
        assert rmse(everywhere(fitted), truth) < truth.std()


def test_ctrl_c_before_the_first_fit_leaves_the_weight_that_was_given(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trials, "settled", interrupted)
    data = rf.data.random_completion((30, 20), rank=1, oversampling=5, seed=0)
    choice = choose(rf.Completion.from_triples(data), True, 2, 0.7, 0, 0)
    assert (choice.interrupted, choice.rank, choice.weight, choice.path) == (True, 2, 0.7, None)


def test_verbose_tells_of_every_rank_or_weight_tried(capsys):
    X, y, _ = ratings()
    fitted = model(rank="auto", verbose=2, regularization=1.0).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    ranks = [line for line in lines if line.startswith("choosing the rank: rank ")]
    assert tuple(sorted(int(line.split()[4]) for line in ranks)) == fitted.rank_path_.ranks
    fitted = model(verbose=2).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    weights = [line for line in lines if line.startswith("choosing the regularization: λ ")]
    assert [float(line.split()[4]) for line in weights] == pytest.approx(
        fitted.regularization_path_.regularizations, rel=1e-3
    )


def test_the_paths_are_drawn():
    path = fitted_once().regularization_path_
    ax = path.plot(Figure().add_subplot())
    drawn, *_, chosen = ax.lines  # between them the ends of the error bars
    np.testing.assert_array_equal(drawn.get_xdata(), path.regularizations)
    np.testing.assert_array_equal(drawn.get_ydata(), path.errors)
    assert set(chosen.get_xdata()) == {path.chosen}


@pytest.fixture
def few_are_many(monkeypatch):
    """What is done from half a million entries on, with 1000."""
    monkeypatch.setattr("rankfold.estimators.completion.choosing.MANY", 1000)
    monkeypatch.setattr("rankfold.estimators.completion.bayes.finishing.MANY", 1000)
    monkeypatch.setattr("rankfold.selection.sampling.MIN_LINES", 3)


@pytest.mark.usefixtures("few_are_many")
def test_with_many_entries_ranks_are_tried_from_above():
    data = rf.data.random_completion((80, 60), rank=6, oversampling=3, seed=0, noise=0.1)
    fitted = model(rank="auto", bias=False).fit(data)
    assert fitted.rank_path_.ranks == (5, 6, 8, 10)  # 5 is worse, and 4 not tried
    assert fitted.rank_ == 6
    assert fitted.posterior_.sweeps > 0  # though no finish of twice the rank was tried


@pytest.mark.usefixtures("few_are_many")
def test_with_many_entries_a_part_of_them_says_where_the_path_begins(monkeypatch):
    X, y, _ = ratings(entries=1600)
    tops, walk = [], Trials.walk
    monkeypatch.setattr(Trials, "walk", lambda self, start, top: tops.append(top) or walk(self, start, top))
    fitted = model().fit(X, y)
    path = fitted.regularization_path_
    assert len(tops) == 2
    assert path.regularizations[1] == pytest.approx(0.7 * tops[1])
    assert tops[1] < path.regularizations[0]
    assert path.chosen == path.regularizations[np.argmin(path.errors)]
    monkeypatch.undo()
    assert path.chosen == pytest.approx(model().fit(X, y).regularization_, rel=0.5)


@pytest.mark.usefixtures("few_are_many")
def test_where_the_best_may_lie_above_that_beginning_the_whole_path_is_walked(monkeypatch):
    X, y, _ = ratings(entries=1600, noise=2.0)
    tops, walk = [], Trials.walk

    def low(self, start, top):
        tops.append(top / 10 if len(tops) == 1 else top)
        return walk(self, start, tops[-1])

    monkeypatch.setattr(Trials, "walk", low)
    path = model().fit(X, y).regularization_path_
    assert len(tops) == 3
    assert tops[2] == path.regularizations[0]
    assert path.chosen > tops[1]
    assert list(path.regularizations) == sorted(path.regularizations, reverse=True)


@pytest.mark.usefixtures("few_are_many")
def test_ctrl_c_in_that_part_ends_the_choice(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trials, "walk", interrupted)
    X, y, _ = ratings(entries=1600)
    with pytest.warns(ConvergenceWarning, match="interrupted while rank and regularization were chosen"):
        assert model().fit(X, y).factors_[0].shape[1] == 2


def test_lines_that_are_too_few_for_a_part_of_them_are_taken_whole(monkeypatch):
    monkeypatch.setattr("rankfold.estimators.completion.choosing.MANY", 1000)
    X, y, _ = ratings()  # 60 rows, of which a sample takes 100 at least
    path = model().fit(X, y).regularization_path_
    assert path.regularizations[1] == pytest.approx(0.7 * path.regularizations[0])


@pytest.mark.usefixtures("few_are_many")
def test_with_many_entries_of_noise_alone_one_rank_is_tried():
    X, y, _ = ratings(entries=1600)
    noise = np.random.default_rng(0).standard_normal(len(y))
    path = model(rank="auto").fit(X, noise).rank_path_
    assert path.ranks == (10,)


@pytest.mark.parametrize(
    ("first", "last", "due"),
    [
        (1, 9, [1, 2, 3, 4, 5, 6, 8]),
        (1, 10, [1, 2, 3, 4, 5, 6, 8, 10]),
        (10, 10, [10]),
        (10, 17, [10, 13, 17]),
        (10, 30, [10, 13, 17, 22, 29]),
        (1, 0, []),
    ],
)
def test_ranks_grow_by_one_and_then_by_a_third_up_to_the_last(first, last, due):
    assert list(_ranks(first, last)) == due


class Judging(choosing._Chooser):
    """A chooser that looks up how large the losses at a rank are, instead of fitting."""

    def __init__(self, table, shape=(40, 30), zero=()):
        one = rf.data.Triples(np.zeros(1, int), np.zeros(1, int), np.ones(1), shape)
        super().__init__(completion_of(one, None, "square", float), False, None, 0)
        self.table, self.zero, self.asked = table, zero, []

    def _judge(self, rank, trials, zero, before, tell):
        self.asked.append((rank, before))
        loss = self.table[rank]
        columns = 0 if rank in self.zero else rank
        point = np.ones((40, columns)), np.ones((30, columns))
        self.judged[rank] = [Trial(1.0, [], [point], np.full(4, loss), loss, loss)]


def judging(method, table, usual, **options):
    zero = Trial(np.inf, [], [], np.ones(4), 1.0, 1.0)
    chooser = Judging(table, **options)
    chooser._judge(usual, None, zero, None, None)
    chooser.asked.clear()
    return getattr(chooser, method)(usual, None, zero, None), chooser.asked


LOWER = [
    # two in a row that are no better end it, counted from the best so far
    ({1: 5, 2: 4, 3: 4, 4: 4}, 2, [1, 2, 3, 4]),
    ({1: 5, 2: 5, 3: 4, 4: 4, 5: 3, 6: 4, 8: 3}, 5, [1, 2, 3, 4, 5, 6, 8]),
    ({1: 5, 2: 6, 3: 7}, 1, [1, 2, 3]),
    ({1: 5, 2: 6, 3: 4, 4: 5, 5: 5}, 3, [1, 2, 3, 4, 5]),
    # and so does one with which nothing is left
    ({1: 5, 2: 1e-12}, 2, [1, 2]),
    ({1: 5, 2: 1e-11, 3: 1e-11, 4: 1e-11}, 2, [1, 2, 3, 4]),
]


@pytest.mark.parametrize(("table", "best", "ranks"), LOWER)
def test_ranks_grow_while_losses_fall_and_two_in_vain_end_it(table, best, ranks):
    found, asked = judging("_lower", {rank: float(loss) for rank, loss in table.items()} | {10: 1.0}, 10)
    assert found == best
    assert asked == [(rank, before) for rank, before in zip(ranks, [None, *ranks], strict=False)]
    assert judging("_lower", {1: 1.0}, 1) == (0, [])


@pytest.mark.parametrize(
    ("table", "best", "ranks"),
    [
        ({10: 3, 8: 3}, 0, [8]),
        ({10: 3, 8: 2, 6: 2}, 8, [8, 6]),
        ({10: 3, 8: 2, 6: 1, 5: 4}, 6, [8, 6, 5]),
        ({10: 9, 8: 8, 6: 7, 5: 6, 4: 5, 3: 4, 2: 3, 1: 2}, 1, [8, 6, 5, 4, 3, 2, 1]),
    ],
)
def test_from_above_ranks_fall_while_each_is_better(table, best, ranks):
    found, asked = judging("_falling", {rank: float(loss) for rank, loss in table.items()}, 10)
    assert found == best
    assert asked == list(zip(ranks, [10, *ranks], strict=False))
    assert judging("_falling", {10: 3.0, 8: 2.0, 6: 1.0}, 10, zero=[8]) == (8, [(8, 10)])


@pytest.mark.parametrize(
    ("table", "best", "ranks"),
    [
        ({10: 3, 13: 3}, 10, [13]),
        ({10: 3, 13: 2, 17: 2}, 13, [13, 17]),
        ({10: 3, 13: 2, 17: 1, 22: 0.5, 29: 0.4}, 29, [13, 17, 22, 29]),  # up to the shape
        ({10: 1e-12}, 10, []),
        ({10: 3, 13: 1e-12}, 13, [13]),
        ({10: 1e-11, 13: 1e-11}, 10, [13]),
    ],
)
def test_above_the_usual_rank_ranks_grow_while_each_is_better(table, best, ranks):
    found, asked = judging("_higher", {rank: float(loss) for rank, loss in table.items()}, 10)
    assert found == best
    assert asked == list(zip(ranks, [10, *ranks], strict=False))
    assert judging("_higher", {10: 3.0, 13: 2.0}, 10, zero=[13]) == (13, [(13, 10)])


class Walked:
    """Trials that tell what was asked of them."""

    def __init__(self, losses=(3.0, 2.0, 4.0)):
        self.losses, self.asked = losses, []

    def started(self, last, rank):
        self.asked.append(("started", last.weight, rank))
        return 7.0, last._replace(fit=-1.0)

    def shortened(self, last, rank):
        self.asked.append(("shortened", last.weight, rank))
        return last._replace(fit=-1.0)

    def walk(self, start, top):
        assert start.fit == -1.0
        self.asked.append(("walk", top))
        return (a_trial(top / (k + 2), loss, 3) for k, loss in enumerate(self.losses))

    def settled(self, start, weight):
        assert start.fit == -1.0
        self.asked.append(("settled", weight))
        return (a_trial(weight, loss, 3) for loss in self.losses)


def a_trial(weight, loss, rank):
    return Trial(weight, [], [(np.ones((40, rank)), np.ones((30, rank)))], np.full(4, loss), 0.0, loss)


@pytest.mark.parametrize(
    ("rank", "before", "given", "due"),
    [
        (4, None, None, [("started", np.inf, 4), ("walk", 7.0)]),
        (4, None, 0.3, [("started", np.inf, 4), ("settled", 0.3)]),
        (4, 3, None, [("started", 4.9, 4), ("walk", 10.0)]),
        (4, 3, 0.3, [("started", 4.9, 4), ("settled", 0.3)]),
        (2, 3, None, [("shortened", 4.9, 2), ("walk", 10.0)]),
        # above no penalty there is but a part of the largest: that of new directions, or of all
        (9, 8, None, [("started", 0.0, 9), ("walk", 2.1)]),
        (6, 8, None, [("shortened", 0.0, 6), ("walk", 15.0)]),
        # beside W = 0, what was best before says nothing
        (5, 1, None, [("started", np.inf, 5), ("walk", 7.0)]),
        (1, 5, None, [("started", np.inf, 1), ("walk", 7.0)]),
    ],
)
def test_a_rank_is_judged_from_what_was_best_at_the_one_before(rank, before, given, due):
    one = rf.data.Triples(np.zeros(1, int), np.zeros(1, int), np.ones(1), (40, 30))
    chooser = choosing._Chooser(completion_of(one, None, "square", float), False, given, 0)
    zero, told, trials = a_trial(np.inf, 9.0, 0), [], Walked()
    chooser.judged = {
        3: [a_trial(60.0, 9.0, 0), a_trial(4.9, 1.0, 3), a_trial(1.0, 2.0, 3)],
        8: [a_trial(50.0, 9.0, 0), a_trial(20.0, 2.0, 3), a_trial(0.0, 1.0, 3)],
        1: [a_trial(40.0, 1.0, 0), a_trial(20.0, 2.0, 3)],
        5: [a_trial(40.0, 1.0, 0), a_trial(20.0, 2.0, 3)],
    }
    chooser._judge(rank, trials, zero, before, told.append)
    assert [(name, *map(pytest.approx, rest)) for name, *rest in due] == trials.asked
    found = chooser.judged[rank]
    first = given is None and due[0][1] == np.inf
    assert [trial.error for trial in found] == [9.0] * first + [3.0, 2.0, 4.0]
    assert not first or found[0].weight == 7.0
    assert told == [f"rank {rank}  λ {found[first + 1].weight:.4g}  held-out loss 2"]
    if before == 3:
        chooser._judge(rank, Walked(()), zero, before, told.append)
        assert chooser.judged[rank] == [chooser.judged[3][1]]  # interrupted at once, say


def test_ctrl_c_at_a_later_rank_keeps_the_best_of_those_before(monkeypatch):
    honest, asked = choosing._Chooser._judge, []

    def judged(self, rank, *rest):
        asked.append(rank)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return honest(self, rank, *rest)

    monkeypatch.setattr(choosing._Chooser, "_judge", judged)
    data = rf.data.random_completion((30, 20), rank=2, oversampling=5, seed=0)
    choice = choose(rf.Completion.from_triples(data), False, None, 0.01, 0, 0)
    assert choice.interrupted
    assert (choice.rank, choice.weight, choice.rank_path.ranks) == (10, 0.01, (1, 10))
    assert asked == [10, 1, 2]


def test_a_trial_is_better_by_more_than_a_standard_error_of_the_differences():
    def trial(*losses):
        return Trial(1.0, [], [], np.array(losses), 0.0, 1.0)

    old = trial(1.0, 1.0, 1.0, 1.0)
    assert _better(trial(0.9, 0.9, 0.9, 0.9), old)
    assert not _better(old, old)
    assert not _better(trial(1.1, 1.1, 1.1, 1.1), old)
    # gains of 0.5 ± 0.5 each: their mean is off by 0.25
    assert _better(trial(0.0, 1.0, 0.0, 1.0), old)
    assert not _better(trial(-1.0, 1.2, 1.2, 1.0), old)


def test_a_trial_is_as_sure_as_its_losses_are_many():
    trial = Trial(1.0, [], [], np.array([1.0, 2.0, 6.0]), 0.0, 1.0)
    assert trial.error == 3.0
    assert trial.standard_error == pytest.approx(np.sqrt((4 + 1 + 9) / 2 / 3))


def test_the_shrinkage_of_folds_is_their_geometric_mean():
    assert _mean([Shrinkage(2.0, 1.0), Shrinkage(8.0, 9.0)]) == pytest.approx((4.0, 3.0))
    assert _mean([None, Shrinkage(2.0, 1.0)]) == pytest.approx((2.0, 1.0))
    assert _mean([None, None]) is None


@pytest.mark.parametrize(("entries", "tried"), [(14, False), (15, True)])
def test_of_few_entries_none_is_spared(entries, tried):
    X, y, _ = ratings((12, 9), entries=entries)
    cost = completion_of(training_triples(X, y, (12, 9)), None, "square", float)
    found = choose(cost, True, None, None, 0, 0)
    assert bool(found.folds) == tried
    if tried:
        return
    joint = Joint.of(cost, 0.0, Shrinkage(2.0, 2.0))
    largest, _ = joint.started(*minimised(joint, joint.constant()), 1, 0)
    assert found == Choice(9, pytest.approx(0.5 * largest), Shrinkage(2.0, 2.0))
    assert choose(cost, False, 4, 0.3, 0, 0) == Choice(4, 0.3, None)


def test_errors_on_a_path_are_drawn_with_their_standard_errors():
    path = fitted_once().regularization_path_
    (drawn,) = path.plot(Figure().add_subplot()).containers
    (bars,) = drawn[2]
    told = zip(bars.get_segments(), path.errors, path.standard_errors, strict=True)
    for (low, high), error, deviation in told:
        assert (low[1], high[1]) == pytest.approx((error - deviation, error + deviation))
    bare = replace(path, standard_errors=()).plot(Figure().add_subplot()).containers
    assert not bare[0][2]


@pytest.mark.parametrize(
    ("weights", "scale", "least"), [((4.0, 2.0), "log", None), ((4.0, 2.0, 0.0), "symlog", 2.0)]
)
def test_a_weight_of_zero_has_a_place_on_the_axis(weights, scale, least):
    path = RegularizationPath(weights, tuple(range(len(weights))), 4.0)
    axis = path.plot(Figure().add_subplot()).xaxis
    assert axis.get_scale() == scale
    if least:
        assert axis.get_transform().linthresh == least


def test_where_the_penalty_is_too_high_there_are_offsets_alone_in_any_unit():
    X, y, _ = ratings(entries=300)
    for unit in (1e-3, 1e3):
        found = model(regularization=30.0 * unit).fit(X, unit * y)
        assert not any(factor.any() for factor in found.factors_)
        assert found.n_iter_ == 1
