"""When `Auto` hands over to the next method, to which, and what that begins with."""

from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from rankfold.solvers import auto
from rankfold.solvers.progress import Progress


def crawling(monkeypatch, level=0, trial=True, determined=True, value=1.0, slower=True):
    asked = []
    monkeypatch.setattr(auto, "determined", lambda problem: determined)
    monkeypatch.setattr(auto, "on_trial", lambda inner: trial)
    progress = SimpleNamespace(slower=lambda window, part: asked.append((window, part)) or slower)
    state = SimpleNamespace(level=level, inner=None, value=value, progress=progress)
    problem = SimpleNamespace(cost=SimpleNamespace(value_at_zero=4.0))
    return bool(auto._crawls(problem, state)), asked


def test_a_crawl_is_one_of_conjugate_gradients_on_trial_far_from_the_end(monkeypatch):
    assert crawling(monkeypatch) == (True, [(10, 0.2)])
    assert not crawling(monkeypatch, slower=False)[0]
    assert not crawling(monkeypatch, level=1)[0]
    assert not crawling(monkeypatch, trial=False)[0]
    assert not crawling(monkeypatch, determined=False)[0]
    assert not crawling(monkeypatch, value=4.0 * 1e-6)[0]
    assert crawling(monkeypatch, value=4.04 * 1e-6)[0]


def stepped(
    monkeypatch, level=0, stagnates=False, crawls=False, rank=5, last="trims", inner_rank=None, trial=False
):
    """A step of `Auto` whose methods tell what they were asked."""

    class Told:
        def __init__(self, name):
            self.name = name

        def init(self, problem, x):
            return (self.name, "begun at", x)

        def step(self, problem, inner):
            told = {} if inner_rank is None else {"rank": inner_rank}
            return SimpleNamespace(value=7.0, gradient_norm=8.0, report=self.name, **told)

    class Region(Told, rf.TrustRegion):
        pass

    class Trimming(Told, rf.TrimmedContinuation):
        pass

    final = {"trims": Trimming, "region": Region, "told": Told}[last]("last")
    methods = Told("first"), Told("second"), final
    monkeypatch.setattr(auto, "_methods", lambda problem: methods)
    monkeypatch.setattr(auto, "_crawls", lambda problem, state: crawls)
    monkeypatch.setattr(auto, "_trimming", lambda problem, start, why: ("trims", start, why))
    monkeypatch.setattr(auto, "on_trial", lambda inner: trial)
    progress = Progress(1, (1.0, 1.0), (1.0, 1.0)) if stagnates else Progress(1, (1.0,), (1.0,))
    state = auto.AutoState(inner=SimpleNamespace(x="here"), level=level, start="start", progress=progress)
    problem = SimpleNamespace(geometry=SimpleNamespace(rank=rank))
    return rf.Auto().step(problem, state)


@pytest.mark.parametrize("why", ["stagnates", "crawls"])
@pytest.mark.parametrize(
    ("level", "rank", "last", "due"),
    [
        (0, 12, "trims", "trims"),
        (0, 13, "trims", ("second", "begun at", "start")),
        (1, 13, "trims", "trims"),
        (0, 12, "region", ("second", "begun at", "start")),
        (1, 12, "region", ("last", "begun at", "here")),
        (1, 12, "told", ("last", "begun at", "start")),
        (2, 12, "told", "steps"),
        (2, 12, "trims", "steps"),
    ],
)
def test_who_takes_over(monkeypatch, why, level, rank, last, due):
    after = stepped(monkeypatch, level=level, rank=rank, last=last, **{why: True})
    if due == "trims":
        assert after == ("trims", "start", "Told stagnates: ")
    elif due == "steps":
        assert (after.level, after.report) == (level, "last")
    else:
        assert (after.inner, after.level, after.start) == (due, level + 1, "start")
        assert after.report.note.startswith("Told stagnates: ")
        assert after.report.note.endswith(" takes over")
        assert after.progress == Progress()


@pytest.mark.parametrize(
    ("options", "judged"),
    [
        ({}, True),
        ({"trial": True}, True),
        ({"trial": True, "last": "told"}, False),
        ({"last": "told"}, True),
        ({"level": 1}, True),
        ({"level": 1, "inner_rank": 4}, False),
        ({"level": 1, "inner_rank": 5}, True),
        ({"level": 2}, False),
    ],
)
def test_what_stagnation_is_judged_by(monkeypatch, options, judged):
    after = stepped(monkeypatch, **options)
    assert after.progress == (Progress(1, (1.0, 7.0), (1.0, 8.0)) if judged else Progress())
    assert (after.level, after.start) == (options.get("level", 0), "start")
    assert after.inner.value == 7.0
    assert after.report == after.inner.report == ["first", "second", "last"][after.level]


def test_what_is_told_of_the_pairs_that_were_found(monkeypatch):
    found = SimpleNamespace(x="found", pairs=2)
    monkeypatch.setattr(auto, "_methods", lambda problem: ("first", "second", "last"))
    monkeypatch.setattr(auto, "suits", lambda problem: problem.suited)
    monkeypatch.setattr(auto, "averaged", lambda problem, start: found if problem.finds else None)
    inner = rf.solvers.continuation.ContinuationState
    monkeypatch.setattr(
        rf.TrimmedContinuation,
        "init",
        lambda self, problem, x: inner(inner=(self.start, x), rank=self.start, limit=5),
    )
    monkeypatch.setattr(auto, "replace", lambda state, start: (state.inner, start))
    for suited, finds, due, said in (
        (True, True, ((2, "found"), "start"), ", from 2 of 5 pairs of averaged least squares"),
        (True, False, (1, "start"), ""),
        (False, True, (1, "start"), ""),
    ):
        problem = SimpleNamespace(geometry=SimpleNamespace(rank=5), suited=suited, finds=finds)
        after = auto._trimming(problem, "start", "why: ")
        assert (after.inner if finds and suited else after.inner.inner) == due
        assert (after.level, after.start) == (2, "start")
        assert after.report.note == f"why: TrimmedContinuation takes over{said}"


def test_a_better_start_is_begun_with_blocks_at_once(monkeypatch):
    begun = []
    monkeypatch.setattr(
        rf.ConjugateGradient,
        "begin",
        lambda self, here, patient=False: begun.append((here, patient)) or "cg",
    )
    state = auto._begun(SimpleNamespace(at=lambda x: ("at", x)), "x", "start", "why")
    assert begun == [(("at", "x"), False)]
    assert (state.inner, state.level, state.start, state.report.note) == ("cg", 0, "start", "why")


def test_what_the_state_says_is_what_the_method_at_work_says():
    inner = SimpleNamespace(x="x", value=np.float32(2.0), gradient_norm=3.0, stalled="why", stationary=1)
    state = auto.AutoState(inner=inner, level=0, start="start")
    assert (state.x, state.value, state.gradient_norm) == ("x", 2.0, 3.0)
    assert (state.stalled, state.stationary) == ("why", True)
