"""Walks along the weight of the penalty: which weights are tried, and when a walk ends."""

import itertools

import numpy as np
import pytest

import rankfold as rf
from rankfold.estimators.completion import trials
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.trials import INITIAL, RATIOS, Trial, Trials, _agree, _nearest

TINY = rf.Completion(*np.indices((5, 4)).reshape(2, -1), np.arange(20.0), (5, 4))


def trial(error, weight=np.inf, shrinkages=(None,), scale=1.0, point=None):
    point = (np.zeros((5, 1)), np.zeros((4, 1))) if point is None else point
    return Trial(weight, list(shrinkages), [point], np.array([error, error]), 0.0, scale)


class Told(Trials):
    """Fits whose errors, and shrinkages, are told one after the other."""

    def __init__(self, errors=(), bias=False, shrinkages=(), determined=True):
        super().__init__(TINY, bias, seed=0)
        self.errors, self.told, self.determined = iter(errors), iter(shrinkages), determined
        self.folds = self.folds[:1]

    def _fitted(self, weight, shrinkages, points):
        return trial(next(self.errors, 1.0), weight, [next(self.told, each) for each in shrinkages])

    def _determined(self, trial):
        return self.determined


def walked(errors, first=10.0, start=np.inf, top=1.0, **options):
    """The weights that a walk from a start tries, relative to the one before."""
    found = list(Told(errors, **options).walk(trial(first, start), top))
    weights = [top, *(each.weight for each in found)]
    return [round(b / a, 9) for a, b in itertools.pairwise(weights)]


FALLING = [10.0 - 0.1 * k for k in range(1, 20)]


def test_a_walk_goes_down_by_its_ratios_to_no_penalty_at_all():
    assert walked(FALLING) == list(RATIOS)
    assert walked(FALLING, determined=False) == list(RATIOS[:-1])  # without one, entries must say it all
    assert walked(FALLING, top=0.0) == []


def test_a_walk_from_zero_is_left_behind_for_longer():
    assert len(walked([10.0] * 20)) == 8
    assert len(walked([10.0] * 20, start=3.0)) == 3
    assert len(walked([10.0] * 5 + FALLING)) == len(RATIOS)


def test_what_nobody_would_notice_is_in_vain():
    assert len(walked([9.9, *[9.9 - 4e-4] * 20])) == 4
    assert len(walked([9.9, 9.9 - 6e-4, *[9.9 - 6e-4] * 20])) == 5
    assert len(walked([9.9, 9.9, 9.9, 9.8, *[9.8] * 20])) == 7  # three in a row


def test_a_walk_ends_where_the_loss_rises_too_much():
    assert len(walked([9.9, 9.9 + 0.019, 9.9 + 0.021])) == 3
    assert len(walked([9.9, 9.9 + 0.021])) == 2
    assert len(walked([10.5] * 20)) == 8  # not next to W = 0


def test_losses_are_compared_in_the_unit_of_what_is_left_of_them():
    told = Told([9.9, *[9.9 - 6e-4] * 20])
    told._fitted = lambda weight, shrinkages, points, given=told._fitted: given(
        weight, shrinkages, points
    )._replace(scale=2.0)
    assert len(list(told.walk(trial(10.0, scale=2.0), 1.0))) == 4
    told = Told([9.9, 9.9 + 0.021, 9.9 + 0.041])
    told._fitted = lambda weight, shrinkages, points, given=told._fitted: given(
        weight, shrinkages, points
    )._replace(scale=2.0)
    assert len(list(told.walk(trial(10.0, scale=2.0), 1.0))) == 3


ONE, SAME, OTHER = Shrinkage(2.0, 2.0), Shrinkage(2.1, 1.9), Shrinkage(2.0, 3.0)


def test_shrinkages_agree_within_a_tenth_of_each():
    assert _agree([ONE], [SAME])
    assert not _agree([ONE], [OTHER])
    assert not _agree([ONE, ONE], [ONE, OTHER])
    assert _agree([None], [None])


@pytest.mark.parametrize(
    ("bias", "told", "fits"),
    [(True, [SAME], 1), (True, [OTHER, OTHER], 2), (True, [ONE, OTHER] * 5, 6), (False, [], 1)],
)
def test_with_a_weight_that_is_given_shrinkages_are_settled(bias, told, fits):
    if told[:2] == [ONE, OTHER]:
        told = [OTHER, ONE] * 5
    found = list(Told(bias=bias, shrinkages=told).settled(trial(1.0, shrinkages=[ONE]), 0.7))
    assert [each.weight for each in found] == [0.7] * fits


@pytest.mark.parametrize(
    ("bias", "told", "left"), [(True, [SAME, SAME, OTHER], 1), (True, [OTHER, ONE] * 5, 3), (False, [], 0)]
)
def test_offsets_alone_are_fitted_until_their_shrinkage_settles(bias, told, left):
    trials_ = Told(bias=bias, shrinkages=(remaining := iter(told)))
    found = trials_.offsets_alone()
    assert found.weight == np.inf
    assert len(list(remaining)) == left


@pytest.mark.parametrize(
    ("shape", "enough", "folds"),
    [((20, 20), 300, 8), ((20, 20), 41, 2), ((20, 20), 40, 1), ((6, 5), 300, 10)],
)
def test_small_data_are_split_until_enough_are_held_out(shape, enough, folds):
    entries = shape[0] * shape[1]
    cost = rf.Completion(*np.indices(shape).reshape(2, -1), np.ones(entries), shape)
    found = Trials(cost, True, 0, enough).folds
    assert len(found) == folds
    held = [set(zip(*(side.tolist() for side in fold.test[:2]), strict=True)) for fold in found]
    assert all(len(each) == entries // 10 for each in held)
    assert len(set().union(*held)) == folds * (entries // 10)
    assert {fold.joint.shrinkage for fold in found} == {INITIAL}
    assert {fold.joint.shrinkage for fold in Trials(cost, False, 0, enough).folds} == {None}
    assert len(Trials(cost, True, 0, enough, first=1).folds) == folds - 1


@pytest.mark.parametrize(
    ("loss", "y", "due"),
    [("square", [3.0, 1.0, 3.0], [3.0, 1.0, 3.0]), ("poisson", [7.0, 1.0, 7.0], np.log([7.0, 1.0, 7.0])),
     ("huber", [0.5, -2.0], [0.5, -2.0])],
)  # fmt: skip
def test_the_least_loss_is_where_each_value_is(loss, y, due):
    found = _nearest(rf.Loss.named(loss), np.array(y, dtype=np.float32))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, due, atol=1e-6)


def test_labels_are_nearest_to_what_is_far_on_their_side():
    low, high = _nearest(rf.Loss.named("logistic"), np.array([0.0, 1.0]))
    assert low < -8
    assert high > 8


@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_is_judged_by_its_folds(weighted):
    """By the losses of entries held out, above the least that they could have, and by those fitted."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2.0, 20) if weighted else None
    entries = *np.indices((5, 4)).reshape(2, -1), rng.poisson(4.0, 20)
    cost = rf.Completion(*entries, (5, 4), weights, loss="poisson")
    found = Trials(cost, False, 0)
    points = [(rng.standard_normal((5, 1)), rng.standard_normal((4, 1))) for _ in found.folds]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "minimised", lambda joint, point: point)
        made = found._fitted(0.5, [None] * len(points), points)
    losses, least, fits = [], [], []
    for fold, (L, R) in zip(found.folds, points, strict=True):
        i, j, data = fold.test
        w, y, many = (L @ R.T)[i, j], data[:, 0], data[:, 1] if weighted else 1.0
        losses.append(many * (np.exp(w) - y * w))
        least.append(many * (y - y * np.log(np.maximum(y, 1e-300))))
        fits.append(fold.joint.completion.value(L, R))
    assert made.error == pytest.approx(np.mean(losses))
    assert made.fit == pytest.approx(np.mean(fits))
    assert made.scale == pytest.approx(np.mean(losses) - np.mean(least), rel=1e-4)
    assert (made.weight, made.shrinkages) == (0.5, [None] * len(points))


def test_new_directions_are_as_many_as_are_missing():
    found = Trials(TINY, True, 0)
    start = found.offsets_alone()
    largest, more = found.started(start, 2)
    assert {(G.shape[1], H.shape[1]) for G, H in more.points} == {(3, 3)}
    tops = [fold.joint.at(0.0, own).started(*x, 2, 0)[0]
            for fold, x, own in zip(found.folds, start.points, start.shrinkages, strict=True)]  # fmt: skip
    assert largest == pytest.approx(np.mean(tops))
    fewer = found.shortened(more, 1)
    for fold, x, (G, H) in zip(found.folds, more.points, fewer.points, strict=True):
        for one, two in zip((G, H), fold.joint.shortened(*x, 1), strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_point_without_columns_is_the_minimum():
    joint = Joint.of(TINY)
    x = np.zeros((5, 0)), np.zeros((4, 0))
    assert trials.minimised(joint, x) is x


@pytest.mark.parametrize(("loss", "due"), [("square", 0.75), ("logistic", 0.0)])
def test_offsets_begin_at_the_mean_where_that_is_what_the_loss_is_of(loss, due):
    cost = rf.Completion([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 1.0, 1.0, 0.0], (2, 2), loss=loss)
    G, H = Joint.of(cost, 0.0, INITIAL).constant()
    assert (G.tolist(), H.tolist()) == ([[due]] * 2, [[0.0]] * 2)


def drawn_joint(values, **options):
    """The objective for values at 120 places of 15 × 12, the matrix of the values, n_i^¼ and m_j^¼."""
    rows, cols = np.divmod(np.random.default_rng(4).choice(180, 120, replace=False), 12)
    counts = np.bincount(rows, minlength=15), np.bincount(cols, minlength=12)
    Y = np.zeros((15, 12))
    Y[rows, cols] = values
    return Joint.of(rf.Completion(rows, cols, values, (15, 12), **options)), Y, [n**0.25 for n in counts]


@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_a_start_is_the_shrunk_dominant_part_of_the_values_found_without_another_pass(part, monkeypatch):
    joint, Y, roots = drawn_joint(np.random.default_rng(5).standard_normal(120))
    U, s, Vt = np.linalg.svd(Y / np.outer(*roots))
    monkeypatch.setattr(rf.Completion, "value", None)  # which the square need not be asked for
    largest, (L, R) = joint.at(part * s[0], None).started(*joint.constant(), 2, 0)
    assert largest == pytest.approx(s[0], rel=1e-9)
    left = np.maximum(s[:2] - part * s[0], 0.02 * s[0])
    np.testing.assert_allclose(L @ R.T, (U[:, :2] * left @ Vt[:2]) / np.outer(*roots), atol=1e-8)
    norms = [np.linalg.norm(root[:, None] * X, axis=0) ** 2 for root, X in zip(roots, (L, R), strict=True)]
    np.testing.assert_allclose(norms, [left, left], rtol=1e-8)  # both factors are charged alike


@pytest.mark.parametrize(
    ("most", "offset", "halvings"),
    [(30, None, 0), (300, None, 1), (3000, None, 4), (300, 4.0, 2), (300, 5.0, 3), (3000, 7.0, 6)],
)
def test_a_start_is_halved_until_it_fits_no_worse_than_offsets_alone(most, offset, halvings):
    """Half the slope of a loss is a step that is too long where the loss curves more than the square does."""
    counts = np.random.default_rng(6).integers(0, most + 1, 120).astype(float)
    joint, Y, roots = drawn_joint(counts, loss="poisson")
    known = np.zeros(Y.shape, bool)
    known[np.divmod(np.random.default_rng(4).choice(180, 120, replace=False), 12)] = True
    G, H = joint.constant()
    if offset is not None:
        joint = joint.at(0.0, Shrinkage(2.0, 2.0))
        G, H = np.full((15, 1), offset), np.zeros((12, 1))

    def loss(W):
        with np.errstate(over="ignore"):
            return np.sum((np.exp(W + (offset or 0.0)) - Y * (W + (offset or 0.0)))[known])

    slope = np.where(known, Y - np.exp(offset or 0.0), 0.0) / 2
    U, s, Vt = np.linalg.svd(slope / np.outer(*roots))
    W, tried = (U[:, :2] * s[:2] @ Vt[:2]) / np.outer(*roots), 0
    while loss(W) > loss(0 * W):
        W, tried = W / 2, tried + 1
    assert tried == halvings
    L, R = joint.started(G, H, 2, 0)[1]
    np.testing.assert_allclose(L[:, :2] @ R[:, :2].T, W, atol=1e-9 * np.abs(W).max())
    np.testing.assert_array_equal(L[:, 2:], G)
    np.testing.assert_array_equal(R[:, 2:], H)


@pytest.mark.parametrize("shrinkage", [None, Shrinkage(2.0, 3.0)])
def test_directions_that_vanished_are_lifted_and_the_first_are_kept_of_a_point(shrinkage):
    joint, _, roots = drawn_joint(np.ones(120))
    joint, rng = joint.at(0.1, shrinkage), np.random.default_rng(7)
    L, R = rng.standard_normal((15, 3)), rng.standard_normal((12, 3)) * [1.0, 0.5, 1e-6]
    offsets = [rng.standard_normal((d, int(joint.bias))) for d in (15, 12)]
    point = np.hstack([L, offsets[0]]), np.hstack([R, offsets[1]])
    U, s, Vt = np.linalg.svd(L @ R.T * np.outer(*roots))
    for (G, H), kept in (
        (joint.lifted(*point), [s[0], s[1], 0.02 * s[0]]),
        (joint.shortened(*point, 1), s[:1]),
    ):
        r = len(kept)
        found = (G[:, :r] @ H[:, :r].T) * np.outer(*roots)
        np.testing.assert_allclose(found, U[:, :r] * kept @ Vt[:r], atol=1e-9 * s[0])
        np.testing.assert_array_equal(G[:, r:], offsets[0])
        np.testing.assert_array_equal(H[:, r:], offsets[1])


@pytest.mark.parametrize("shrinkage", [None, Shrinkage(2.0, 3.0)])
def test_derivatives_of_the_objective_are_those_of_its_values(shrinkage):
    joint = drawn_joint(np.random.default_rng(8).standard_normal(120))[0].at(0.7, shrinkage)
    rng = np.random.default_rng(9)
    L, dL = rng.standard_normal((2, 15, 2 + joint.bias))
    R, dR = rng.standard_normal((2, 12, 2 + joint.bias))
    h = 1e-5
    ahead, behind, here = (joint.evaluate(L + t * dL, R + t * dR) for t in (h, -h, 0.0))
    slope = (here.f_L * dL).sum() + (here.f_R * dR).sum()
    assert (ahead.value - behind.value) / (2 * h) == pytest.approx(slope, rel=1e-7)
    for k, change in enumerate(joint.derivative(L, R, dL, dR)):
        np.testing.assert_allclose((ahead[k + 1] - behind[k + 1]) / (2 * h), change, rtol=1e-5, atol=1e-6)
    along = np.polynomial.Polynomial(joint.polynomial([L, dL], [R, dR]))
    for t in (0.0, 0.5, -1.3):
        assert along(t) == pytest.approx(joint.value(L + t * dL, R + t * dR), rel=1e-11)
