"""The Bayesian finish: for whom there is one, at which rank, for how many sweeps, and what it leaves."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from estimators.completion.small_fits import SHAPE, entries
from rankfold.costs.offsets import Offsets
from rankfold.estimators.completion.bayes import finishing
from rankfold.estimators.completion.bayes.finishing import finished, kept, wanted
from rankfold.estimators.completion.bayes.judging import Verdict, unswept
from rankfold.estimators.completion.bayes.posterior import centred
from rankfold.estimators.completion.bayes.variational import Variational
from rankfold.estimators.completion.side.expecting import Expecting, Ridges
from rankfold.run.stopping import StopKind


@pytest.mark.parametrize(
    ("rank", "bias", "unknowns"), [(2, True, 3), (2, False, 2), (50, True, 8), ("auto", True, 5)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("on_disk", [True, False])
def test_covariances_of_all_lines_twice_must_fit_into_memory(
    monkeypatch, rank, bias, unknowns, dtype, on_disk
):
    """Into that of a store on disk, else into a quarter of the machine's."""
    needed = 16 * unknowns * (unknowns + 3) * np.dtype(dtype).itemsize
    monkeypatch.setattr(finishing, "USUAL_RANK", 4)
    monkeypatch.setattr(finishing, "OnDisk", SimpleNamespace if on_disk else str)
    for more, due in ((0, False), (1, True)):
        memory = needed + more
        monkeypatch.setattr(finishing, "machine_memory", lambda m=memory: 0.0 if on_disk else 4.0 * m)
        store = SimpleNamespace(dtype=np.dtype(dtype), memory=memory if on_disk else 0)
        cost = SimpleNamespace(shape=SHAPE, quadratic=True, observed=store)
        model = SimpleNamespace(bayesian="auto", rank=rank, bias=bias, regularization="auto")
        assert wanted(model, cost) is due
        model.bayesian = True
        if due:
            assert wanted(model, cost) is True
        else:
            with pytest.raises(ValueError, match="covariances of 16 lines at rank"):
                wanted(model, cost)


@pytest.mark.parametrize(
    ("setting", "regularization", "quadratic", "due"),
    [
        ("auto", "auto", True, True), ("auto", "auto", False, False), ("auto", 1.0, True, False),
        (True, 1.0, True, True), (np.True_, "auto", True, True), (False, "auto", True, False),
        (np.False_, 1.0, True, False), (False, 1.0, False, False),
    ],
)  # fmt: skip
def test_who_has_a_finish(setting, regularization, quadratic, due):
    store = SimpleNamespace(dtype=np.dtype(float))
    cost = SimpleNamespace(shape=SHAPE, quadratic=quadratic, observed=store)
    model = SimpleNamespace(bayesian=setting, rank=2, bias=True, regularization=regularization)
    assert wanted(model, cost) is due


def test_without_entries_held_out_the_last_fit_is_asked():
    last = SimpleNamespace(sweeps=7, calibration="known")
    for model in (SimpleNamespace(posterior_=last, bayesian=setting) for setting in ("auto", True)):
        assert kept(model, True)[0::2] == (7, "known")
        assert kept(model, True).losses.size == 0
    for model in (SimpleNamespace(bayesian="auto"), SimpleNamespace(bayesian="auto", posterior_=None)):
        for warm in (True, False):
            assert kept(model, warm)[0::2] == (0, None)
            assert kept(model, warm).losses.size == 0
    assert kept(SimpleNamespace(posterior_=last, bayesian="auto"), False).sweeps == 0
    assert kept(SimpleNamespace(posterior_=last, bayesian=True), False) is None


def a_fit(rank=1, offsets=True, seed=2):
    rng = np.random.default_rng(seed)
    factors = tuple(rng.standard_normal((d, rank)) for d in SHAPE)
    b, c = (rng.standard_normal(d) * offsets for d in SHAPE)
    return factors, Offsets(1.5 * offsets, b, c)


def by_hand(joint, factors, offsets, sweeps):
    """The finish of a fit with so many sweeps; 0 are one, which leaves the means."""
    (L, R), (mean, b, c) = factors, offsets
    point = (np.column_stack([L, mean + b]), np.column_stack([R, c])) if joint.bias else (L, R)
    model = Variational.of(joint.completion.observed, joint.bias, joint.expecting)
    state = model.start(point)
    for _ in range(max(sweeps, 1)):
        new = model.swept(state)
        state = new if sweeps else unswept(state, new)
    return centred(state, joint.bias, model.centre, sweeps, None)


def assert_same(found, due):
    for part, other in zip(
        (*found[0], *found[1], *found[2][:2]), (*due[0], *due[1], *due[2][:2]), strict=True
    ):
        np.testing.assert_allclose(part, other, rtol=1e-10, atol=1e-12)
    assert found[2].noise == pytest.approx(due[2].noise)
    assert found[2].sweeps == due[2].sweeps


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sweeps", [0, 1, 3])
def test_a_fit_is_swept_as_often_as_the_verdict_says(sweeps, bias):
    joint, (factors, offsets) = entries(bias=bias), a_fit(offsets=bias)
    found = finishing._swept(joint, factors, offsets, Verdict(sweeps, np.ones(1), "known"), "cpu")
    assert_same(found, by_hand(joint, factors, offsets, sweeps))
    assert found[2].calibration == "known"
    assert found[3] == (None, None)


def test_without_a_verdict_sweeps_end_when_the_bound_settles(monkeypatch):
    joint, (factors, offsets) = entries(), a_fit()
    model = Variational.of(joint.completion.observed, True)
    state = model.start(finishing._point(factors, offsets, True))
    bounds = []
    for _ in range(8):
        state = model.swept(state)
        bounds.append(model.bound(state))
    risen = np.diff(bounds) / np.abs(bounds[1:])
    assert (risen[:5] > 2e-6).all()
    found = finishing._swept(joint, factors, offsets, None, "cpu")
    assert found[2].sweeps > 6
    assert found[2].calibration is None
    for sweeps in (2, 4):
        monkeypatch.setattr(finishing, "_SETTLED", 1.01 * risen[sweeps - 2])
        found = finishing._swept(joint, factors, offsets, None, "cpu")
        assert_same(found, by_hand(joint, factors, offsets, sweeps))
    monkeypatch.setattr(finishing, "_SETTLED", 0.0)
    monkeypatch.setattr(finishing, "MOST", 5)
    assert finishing._swept(joint, factors, offsets, None, "cpu")[2].sweeps == 5


def test_what_is_not_finite_ends_the_sweeps_before_it(monkeypatch):
    joint, (factors, offsets) = entries(), a_fit()
    swept, done = Variational.swept, []

    def some(self, state):
        done.append(1)
        new = swept(self, state)
        return new if len(done) <= good else new._replace(error=np.inf)

    monkeypatch.setattr(Variational, "swept", some)
    for good in (2, 0):
        done.clear()
        found = finishing._swept(joint, factors, offsets, Verdict(5, np.ones(1), None), "cpu")
        assert len(done) == good + 1
        if good:
            assert found[2].sweeps == good
        else:
            assert found is None


def test_factors_of_nothing_are_left_out_and_come_back():
    joint, (factors, offsets) = entries(), a_fit(rank=2)
    nothing = tuple(0 * X for X in factors)
    found = finishing._swept(joint, nothing, offsets, Verdict(2, np.ones(1), None), "cpu")
    assert [X.shape for X in found[0]] == [(9, 2), (7, 2)]
    assert not any(X.any() for X in found[0])
    alone = by_hand(joint, tuple(X[:, :0] for X in factors), offsets, 2)
    np.testing.assert_allclose(found[1].rows, alone[1].rows)
    assert (
        finishing._swept(entries(bias=False), nothing, offsets, Verdict(2, np.ones(1), None), "cpu") is None
    )
    some = factors[0] * (np.arange(9) > 3)[:, None], factors[1]
    (G, H), own = finishing._point(some, offsets, True), offsets.mean + offsets.rows
    np.testing.assert_array_equal(G, np.column_stack([some[0], own]))
    np.testing.assert_array_equal(H, np.column_stack([some[1], offsets.cols]))
    (G, H) = finishing._point(nothing, offsets, True)
    np.testing.assert_array_equal(G[:, 0], own)
    assert (G.shape, H.shape) == ((9, 1), (7, 1))


def test_what_features_say_goes_into_the_finish():
    factors, offsets = a_fit()
    traits = Expecting(factors[0] + 0.1, np.full(9, 4.0), Ridges(1.0, 1.0))
    joint = entries(expecting=(traits, None))
    found = finishing._swept(joint, factors, offsets, Verdict(2, np.ones(1), None), "cpu")
    assert_same(found, by_hand(joint, factors, offsets, 2))
    assert found[3][0].shape == (2, 2)
    assert found[3][1] is None


class Fit(SimpleNamespace):
    def _replace(self, **changes):
        return Fit(**(vars(self) | changes))


@pytest.mark.parametrize("sweeps", [0, 2])
def test_a_finish_takes_the_place_of_the_fit_unless_there_were_no_sweeps(monkeypatch, sweeps):
    fit = Fit(
        stop=SimpleNamespace(kind=StopKind.CONVERGED), factors="L", offsets="b", coefficients="A", trace=[]
    )
    posterior, asked = SimpleNamespace(sweeps=sweeps), []

    def swept(*given):
        asked.append(given)
        return "L'", "b'", posterior, "A'"

    monkeypatch.setattr(finishing, "_swept", swept)
    found, sure = finished("joint", fit, True, "verdict", "a device")
    assert sure is posterior
    assert (found.factors, found.offsets, found.coefficients) == (
        ("L'", "b'", "A'") if sweeps else ("L", "b", "A")
    )
    assert finished("joint", fit, True, "verdict")[0] == found
    assert asked == [("joint", "L", "b", "verdict", "a device"), ("joint", "L", "b", "verdict", "cpu")]
    monkeypatch.setattr(finishing, "_swept", lambda *_: None)
    assert finished("joint", fit, True, "verdict") == (fit, None)
    monkeypatch.setattr(finishing, "_swept", swept)
    assert finished("joint", fit, False, "verdict") == (fit, None)
    stopped = fit._replace(stop=SimpleNamespace(kind=StopKind.INTERRUPTED))
    assert finished("joint", stopped, True, "verdict") == (stopped, None)
    assert len(asked) == 2


def test_ctrl_c_in_the_finish_leaves_the_fit_and_says_so(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(finishing, "_swept", interrupted)
    stop = SimpleNamespace(kind=StopKind.CONVERGED)
    fit = Fit(stop=stop, factors="L", offsets="b", coefficients="A", trace=[SimpleNamespace(iteration=7)])
    with pytest.warns(ConvergenceWarning, match="interrupted in the Bayesian finish: the fit is as"):
        found, sure = finished("joint", fit, True, "verdict")
    assert (found.factors, sure) == ("L", None)
    assert found.stop.kind is StopKind.INTERRUPTED


@pytest.mark.parametrize("setting", ["yes", None, 1, 0.0])
def test_a_wish_for_a_finish_is_auto_or_a_flag(setting):
    with pytest.raises(ValueError, match="bayesian must be 'auto', True or False, not"):
        wanted(SimpleNamespace(bayesian=setting), None)


def test_a_finish_is_for_the_square_loss():
    cost = SimpleNamespace(shape=SHAPE, quadratic=False, observed=SimpleNamespace(dtype=np.dtype(float)))
    model = SimpleNamespace(bayesian=True, rank=2, bias=True, regularization=1.0)
    with pytest.raises(ValueError, match="bayesian=True is for the square loss, whose noise is Gaussian"):
        wanted(model, cost)
