"""What comes before and after the choice of rank and λ: from where the last fit starts, and what fits it."""

from types import SimpleNamespace

import numpy as np
import pytest

from rankfold.estimators.completion import fit_steps, last_fit
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.joint import Shrinkage
from rankfold.estimators.completion.last_fit import checked_rank_of, how_to_finish, last_point
from rankfold.run.stopping import StopKind

RNG = np.random.default_rng(0)
L, R, B, C = (RNG.standard_normal(size) for size in ((5, 2), (4, 2), 5, 4))
L[0, 1] = 0.0  # a zero among others says nothing


def earlier(**changes):
    """A model of five rows, of which the last has features alone, and four columns."""
    made = {"warm_start": True, "bias": True, "factors_": (L, R), "biases_": (3.0, B, C),
            "row_labels_": np.array(list("abcde")), "col_labels_": None}  # fmt: skip
    return SimpleNamespace(**{name: value for name, value in (made | changes).items() if value is not ...})


def data(rows="abcd", cols=None, shape=(4, 4)):
    labels = (None if each is None else np.array(list(each)) for each in (rows, cols))
    return SimpleNamespace(**dict(zip(("row_labels", "col_labels"), labels, strict=True)), shape=shape)


def test_a_warm_start_is_the_last_point_of_the_lines_that_have_entries():
    G, H = last_point(earlier(), data())
    np.testing.assert_array_equal(G, np.column_stack([L[:4], 3.0 + B[:4]]))
    np.testing.assert_array_equal(H, np.column_stack([R, C]))
    G, H = last_point(earlier(bias=False), data())
    np.testing.assert_array_equal(G, L[:4])
    np.testing.assert_array_equal(H, R)


@pytest.mark.parametrize(
    ("changes", "given"),
    [
        ({"warm_start": False}, {}),
        ({"factors_": ...}, {}),
        ({}, {"rows": "abcx"}),
        ({}, {"rows": None}),
        ({}, {"cols": "abcd"}),
        ({}, {"rows": "abcdef", "shape": (6, 4)}),
        ({"row_labels_": None}, {"rows": None, "shape": (6, 4)}),
        ({"factors_": (0 * L, R)}, {}),
        ({"factors_": (L * np.eye(5)[:, 4:], R)}, {}),  # what features say of the last row
    ],
)
def test_there_is_no_warm_start_from_other_lines_or_none(changes, given):
    assert last_point(earlier(**changes), data(**given)) is None


@pytest.mark.parametrize(
    ("rank", "shape", "due"), [(3, (9, 7), 3), (8, (9, 7), 7), (8, (7, 9), 7), (np.int64(20), (6, 9), 6)]
)
def test_a_rank_is_at_most_the_lesser_side(rank, shape, due):
    assert checked_rank_of(rank, shape) == due


@pytest.mark.parametrize("rank", [0, 2.5, "2", True])
def test_a_rank_is_a_positive_integer(rank):
    with pytest.raises(ValueError, match="rank"):
        checked_rank_of(rank, (9, 7))


@pytest.fixture
def finishing(monkeypatch):
    """What is asked of the Bayesian finish, none of which is done."""
    asked = SimpleNamespace(wanted=True, verdict="verdict", calls=[], interrupted=False)

    def decided(choice, *more):
        asked.calls.append(more)
        return choice._replace(rank=7), asked.verdict

    def recalibrated(verdict, choice, cost, seed):
        if asked.interrupted:
            raise KeyboardInterrupt
        return verdict, choice.rank, cost, seed

    monkeypatch.setattr(last_fit, "wanted", lambda model, cost: asked.wanted)
    monkeypatch.setattr(last_fit, "kept", lambda model, warm: ("kept", warm))
    monkeypatch.setattr(last_fit, "decided", decided)
    monkeypatch.setattr(last_fit, "recalibrated", recalibrated)
    return asked


CHOICE = Choice(2, 0.5, None, folds=(("fold", "point"),))
FINISHED = SimpleNamespace(bayesian="auto", rank=2, verbose=1)


@pytest.mark.parametrize(("bayesian", "least"), [("auto", 0), (True, 1)])
@pytest.mark.parametrize("rank", ["auto", 3])
def test_entries_held_out_decide_how_to_finish(finishing, bayesian, least, rank):
    model = SimpleNamespace(bayesian=bayesian, rank=rank, verbose=1)
    found, verdict = how_to_finish(model, "cost", CHOICE, 5)
    assert finishing.calls == [(least, rank == "auto", 1, 5)]
    assert (found.rank, found.interrupted, verdict) == (7, False, ("verdict", 7, "cost", 5))


def test_without_entries_held_out_the_finish_is_as_after_the_last_fit(finishing):
    for point, warm in ((None, False), ((L, R), True)):
        choice = CHOICE._replace(folds=(), point=point)
        assert how_to_finish(FINISHED, "cost", choice, 5) == (choice, ("kept", warm))
    finishing.wanted = False
    assert how_to_finish(FINISHED, "cost", CHOICE, 5) == (CHOICE, None)
    assert not finishing.calls


def test_a_finish_that_is_none_is_not_calibrated_and_one_that_is_interrupted_neither(finishing):
    finishing.interrupted = True
    found, verdict = how_to_finish(FINISHED, "cost", CHOICE, 5)
    assert (found.rank, found.interrupted, verdict) == (7, True, None)
    finishing.verdict = None
    found, verdict = how_to_finish(FINISHED, "cost", CHOICE, 5)
    assert (found.rank, found.interrupted, verdict) == (7, False, None)


def pair(columns):
    return np.ones((6, columns)), np.ones((5, columns))


SWEEPS, GEOMETRY = "by_sweeps", "on_geometry"


@pytest.mark.parametrize(
    ("bias", "weight", "columns", "changes", "due"),
    [
        (True, 0.5, 3, {}, SWEEPS),
        (True, 0.0, 3, {}, SWEEPS),
        (False, 0.5, 2, {}, SWEEPS),
        (False, 0.0, 2, {}, GEOMETRY),  # plain completion, from the last point
        (False, 0.0, None, {}, GEOMETRY),
        (False, 0.0, None, {"interrupted": True}, GEOMETRY),
        (True, 0.5, 3, {"solver": "tr"}, GEOMETRY),
        (True, 0.5, 3, {"geometry": "polar"}, GEOMETRY),
        (True, 0.5, 3, {"device": "cuda"}, GEOMETRY),
        (True, 0.5, 3, {"interrupted": True}, StopKind.INTERRUPTED),
        (True, 0.5, 1, {"interrupted": True}, StopKind.INTERRUPTED),
        (True, 0.5, 1, {}, StopKind.CONVERGED),  # W = 0
        (False, 0.5, 0, {}, StopKind.CONVERGED),
        (False, 0.5, 1, {}, SWEEPS),
    ],
)
def test_the_last_fit_is_by_sweeps_unless_settings_ask_for_a_geometry(
    monkeypatch, bias, weight, columns, changes, due
):
    start = None if columns is None else pair(columns)
    model = SimpleNamespace(**{"tol": "auto", "regularization": "auto", "solver": "auto", "geometry": "auto",
                               "device": "cpu", "rank_": 2} | changes)  # fmt: skip
    choice = Choice(2, weight, None, start, interrupted=changes.get("interrupted", False))
    monkeypatch.setattr(last_fit, "usable_device", lambda device: device)
    monkeypatch.setattr(last_fit, "_start", lambda model, joint, choice, seed: start)
    monkeypatch.setattr(last_fit, "as_it_is", lambda joint, x, rank, stop: ("as it is", x, rank, stop.kind))
    monkeypatch.setattr(last_fit, SWEEPS, lambda joint, x, tol, run: (SWEEPS, x, tol, run))
    monkeypatch.setattr(last_fit, GEOMETRY, lambda *arguments: (GEOMETRY, *arguments[1:]))
    joint, run = SimpleNamespace(bias=bias, weight=weight), {"max_iterations": 9}
    tol = 1e-4 if weight else 1e-6
    found = last_fit._fitted(model, joint, choice, 0, run)
    if due == SWEEPS:
        assert found == (SWEEPS, start, tol, run)
    elif due == GEOMETRY:
        assert found == (GEOMETRY, start, 2, model.geometry, model.solver, tol, run, model.device)
    else:
        assert found == ("as it is", start, 2, due)


@pytest.mark.parametrize(
    ("point", "regularization", "weight", "largest", "due", "told"),
    [
        ("factors", "auto", 0.5, 0.8, "completed", 0.5),
        ("factors", 0.5, 0.5, 0.8, "completed", 0.5),
        ("factors", 0.8, 0.8, 0.8, "offsets", 0.8),  # from here on W = 0 is best
        ("factors", 0.0, 0.0, 0.0, "completed", 0.0),
        ("offsets", "auto", 0.5, 0.8, "offsets", 0.8),  # that of a part of the data may be less
        ("offsets", "auto", 0.9, 0.8, "offsets", 0.9),
        ("offsets", "auto", 0.0, 0.8, "start", 0.8),
        (None, 0.5, 0.5, 0.8, "start", 0.5),
        (None, 0.8, 0.8, 0.8, "offsets", 0.8),
        (None, 0.0, 0.0, 0.0, "start", 0.0),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_the_last_fit_starts_from_what_was_chosen_or_from_the_dominant_directions(
    monkeypatch, point, regularization, weight, largest, due, told, bias
):
    asked = []

    def minimised(joint, x, tol):
        asked.append((x, tol))
        return "one", "other"

    point = {"factors": pair(2 + bias), "offsets": pair(int(bias)), None: None}[point]
    model = SimpleNamespace(regularization=regularization, regularization_=weight, rank_=3)
    joint = SimpleNamespace(
        bias=bias, weight=weight, completed=lambda G, H: ("completed", G is point[0], H is point[1]),
        constant=lambda: "constant", started=lambda G, H, rank, seed: (largest, ("start", G, H, rank, seed)),
    )  # fmt: skip
    monkeypatch.setattr(last_fit, "minimised", minimised)
    found = last_fit._start(model, joint, Choice(3, weight, None, point), 7)
    answers = {"completed": ("completed", True, True), "offsets": ("one", "other"),
               "start": ("start", "one", "other", 3, 7)}  # fmt: skip
    assert found == answers[due]
    assert model.regularization_ == told
    assert all(each == ("constant", 1e-10) for each in asked)


@pytest.mark.parametrize(
    ("rank", "regularization", "bias", "last", "due"),
    [
        ("auto", "auto", True, False, (None, None)),
        (3, "auto", True, False, (3, None)),
        (9, "auto", False, False, (5, None)),  # the lesser side
        ("auto", 0.5, False, False, (None, 0.5)),
        (3, 0.5, True, False, (3, 0.5)),  # the shrinkage is left
        (3, 0.5, False, False, Choice(3, 0.5, None)),
        (2, "auto", True, True, Choice(2, 0.9, Shrinkage(1.0, 2.0))),
        ("auto", "auto", True, True, Choice(2, 0.9, Shrinkage(1.0, 2.0))),
        (2, 0.5, True, True, Choice(2, 0.5, Shrinkage(1.0, 2.0))),
        (3, "auto", False, True, Choice(3, 0.9, Shrinkage(1.0, 2.0))),
        (4, "auto", True, True, (4, None)),  # another rank: from the beginning
    ],
)
def test_what_is_given_is_not_chosen_nor_what_the_last_fit_used(
    monkeypatch, rank, regularization, bias, last, due
):
    point = pair(3) if last else None
    model = SimpleNamespace(rank=rank, regularization=regularization, bias=bias, verbose=1,
                            regularization_=0.9, shrinkage_=Shrinkage(1.0, 2.0))  # fmt: skip
    cost = SimpleNamespace(shape=(6, 5))
    monkeypatch.setattr(fit_steps, "sample_lines", lambda cost, most, seed: (cost, most, seed))
    monkeypatch.setattr(fit_steps, "choose", lambda *asked: asked)
    found = fit_steps.chosen(model, cost, point, 4)
    if isinstance(due, Choice):
        assert found == due._replace(point=point)
        assert found.point is point
    else:
        assert found == ((cost, 500_000, 4), bias, *due, 4, 1)
