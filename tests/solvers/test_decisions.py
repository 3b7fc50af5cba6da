"""What `Auto` decides at the very bounds of its rules, and which methods it has for which problems."""

from types import SimpleNamespace

import pytest

import rankfold as rf
from dense import DenseCost
from rankfold.solvers import auto
from rankfold.solvers.progress import Progress

STAYS, SHRUNK, TRIMS, GROWS = "stays", "shrunken least squares", "lines set aside", "rank continuation"


class Growing(rf.RankContinuation):
    """Says where it was asked to begin."""

    def init(self, problem, x0):
        return SimpleNamespace(begun=x0)


def decided(monkeypatch, rank, here, leading, alike=True, rho=9.0, finds=False, grows=True, unit=1.0):
    """What is done from a start of so many times the value at W = 0, whose leading pair has so many times."""

    def truncated(problem, x, count):
        assert (x, count) == ("x0", 1)
        return "pair"

    def at_one(x):
        assert x == "pair"
        return SimpleNamespace(value=leading * unit)

    def with_rank(count):
        assert count == 1
        return SimpleNamespace(at=at_one)

    methods = rf.ConjugateGradient(), Growing() if grows else rf.TrustRegion(), rf.TrustRegion()
    for name, value in {
        "truncated": truncated,
        "alike": lambda problem: alike,
        "oversampling": lambda problem: rho,
        "_methods": lambda problem: methods,
        "_unveiled": lambda problem, x: "unveiled" if finds else None,
        "_begun": lambda problem, x, start, note: (SHRUNK, x, start, note),
        "_trimming": lambda problem, start, why: (TRIMS, start, why),
    }.items():
        monkeypatch.setattr(auto, name, value)
    problem = SimpleNamespace(
        cost=SimpleNamespace(value_at_zero=unit), geometry=SimpleNamespace(rank=rank), with_rank=with_rank
    )
    found = auto._elsewhere(problem, SimpleNamespace(value=here * unit, x="x0"))
    times = f"the start is {here:.1f} times as bad as W = 0"
    if found is None:
        return STAYS
    if isinstance(found, auto.AutoState):
        assert (found.inner.begun, found.level, found.start) == ("x0", 1, "x0")
        assert found.report.note == f"{times}, its leading pair is not: RankContinuation"
        return GROWS
    if found[0] == SHRUNK:
        assert found[1:] == (
            "unveiled",
            "x0",
            f"{times}, its leading pair is not: shrunken least squares first",
        )
    else:
        assert found[1:] == ("x0", f"{times}: ")
    return found[0]


@pytest.mark.parametrize("unit", [1.0, 2.0**-20, 2.0**20])
@pytest.mark.parametrize(
    ("rank", "here", "leading", "options", "due"),
    [
        # A leading pair that is better than W = 0, and three times as good as all pairs.
        (3, 6.0, 0.99, {"finds": True}, SHRUNK),
        (3, 6.0, 1.0, {"finds": True}, STAYS),
        (3, 1.5, 0.49, {"finds": True}, SHRUNK),
        (3, 1.5, 0.5, {"finds": True}, STAYS),
        (3, 6.0, 0.99, {}, STAYS),
        # One that takes three parts in r of the value is seen before all others.
        (12, 2.0, 0.7, {}, GROWS),
        (12, 2.0, 0.75, {}, STAYS),
        (12, 2.0, 0.8, {}, STAYS),
        (12, 2.0, 0.7, {"finds": True}, GROWS),
        (12, 2.0, 0.7, {"rho": 1.1}, GROWS),
        # Few entries, alike: for two pairs, for three to twelve, and never for more.
        (2, 2.0, 0.9, {"rho": 4.49}, TRIMS),
        (2, 2.0, 0.9, {"rho": 4.5}, STAYS),
        (3, 2.0, 0.9, {"rho": 2.49}, TRIMS),
        (3, 2.0, 0.9, {"rho": 2.5}, STAYS),
        (12, 2.0, 0.9, {"rho": 2.49}, TRIMS),
        (13, 2.0, 0.9, {"rho": 0.5}, STAYS),
        (3, 2.0, 0.9, {"rho": 1.1, "alike": False}, STAYS),
        # A start ten times as bad as W = 0, whose leading pair is better than that.
        (3, 10.5, 0.99, {}, GROWS),
        (3, 10.0, 0.99, {}, STAYS),
        (3, 10.5, 1.0, {}, STAYS),
        (3, 10.5, 0.99, {"grows": False}, STAYS),
        (3, 10.5, 0.1, {"grows": False, "finds": True}, STAYS),
    ],
)
def test_where_to_begin_instead_of_a_bad_start(monkeypatch, rank, here, leading, options, due, unit):
    assert decided(monkeypatch, rank, here, leading, unit=unit, **options) == due


@pytest.mark.parametrize(
    ("value", "alike", "begins"), [(0.99, True, True), (1.0, True, False), (0.99, False, False)]
)
def test_a_tree_must_be_better_than_nothing(monkeypatch, value, alike, begins):
    monkeypatch.setattr(auto, "spanned", lambda problem, x: ("tree", x))
    monkeypatch.setattr(auto, "alike", lambda problem: alike)
    monkeypatch.setattr(auto, "_methods", lambda problem: ())
    monkeypatch.setattr(auto, "_begun", lambda problem, x, start, note: (x, start, note))
    problem = SimpleNamespace(
        cost=SimpleNamespace(value_at_zero=1.0), geometry=SimpleNamespace(rank=1), value=lambda x: value
    )
    found = auto._elsewhere(problem, SimpleNamespace(value=3.0, x="x0"))
    note = "the start is 3.0 times as bad as W = 0: from line to line along the entries"
    assert found == ((("tree", "x0"), "x0", note) if begins else None)


@pytest.mark.parametrize(
    ("value", "zero", "asked"), [(1.5, 1.0, True), (1.0, 1.0, False), (0.5, 1.0, False), (0.5, 0.0, False),
                                 (0.5, -1.0, False), (3e-4, 1e-4, True)]
)  # fmt: skip
def test_only_a_start_that_is_worse_than_nothing_is_left(monkeypatch, value, zero, asked):
    monkeypatch.setattr(auto, "_elsewhere", lambda problem, here: "elsewhere")
    begun = []
    monkeypatch.setattr(
        rf.ConjugateGradient, "begin", lambda self, here, patient=False: begun.append(patient) or "cg"
    )
    problem = SimpleNamespace(
        cost=SimpleNamespace(value_at_zero=zero), at=lambda x: SimpleNamespace(value=value, x=x)
    )
    found = rf.Auto().init(problem, "x0")
    assert (found == "elsewhere") == asked
    if not asked:
        assert (found.inner, found.level, found.start, found.progress) == ("cg", 0, "x0", Progress())
        assert begun == [True]
    monkeypatch.setattr(auto, "_elsewhere", lambda problem, here: None)
    assert rf.Auto().init(problem, "x0").inner == "cg"


@pytest.mark.parametrize(
    ("determined", "quadratic", "rho", "asked"),
    [
        (True, True, 3.0, True),
        (True, True, 2.99, False),
        (True, False, 9.0, False),
        (False, True, 9.0, False),
    ],
)
def test_what_shrunken_least_squares_are_for(monkeypatch, determined, quadratic, rho, asked):
    monkeypatch.setattr(auto, "determined", lambda problem: determined)
    monkeypatch.setattr(auto, "oversampling", lambda problem: rho)
    monkeypatch.setattr(auto, "shrunk", lambda problem, x0: ("found", x0))
    problem = SimpleNamespace(cost=SimpleNamespace(quadratic=quadratic))
    assert auto._unveiled(problem, "x0") == (("found", "x0") if asked else None)


def names(methods):
    return [type(method).__name__ for method in methods]


@pytest.mark.parametrize(
    ("rank", "full_rank", "lines", "due"),
    [
        (1, True, True, ["TrimmedContinuation"]),
        (1, True, False, ["TrustRegion"]),
        (1, False, False, ["TrustRegion"]),
        (2, True, True, ["RankContinuation", "TrimmedContinuation"]),
        (2, True, False, ["RankContinuation", "ReweightedContinuation"]),
        (2, False, True, ["RankContinuation", "TrimmedContinuation"]),
        (2, False, False, ["RankContinuation", "TrustRegion"]),
    ],
)
def test_the_methods_in_their_order(rank, full_rank, lines, due):
    methods = auto._chosen(rank, full_rank, lines)
    assert names(methods) == ["ConjugateGradient", *due]
    if rank > 1:
        assert methods[1] == rf.RankContinuation(settled=0.02)


@pytest.mark.parametrize(
    ("geometry", "factored", "due"),
    [
        (rf.FullRank((9, 8), 2), False, ["RankContinuation", "ReweightedContinuation"]),
        (rf.Polar((9, 8), 2), None, ["RankContinuation", "TrustRegion"]),
        (rf.FullRank((9, 8), 2, metric="euclidean"), False, ["RankContinuation", "ReweightedContinuation"]),
        (rf.FullRank((9, 8), 2, metric="euclidean"), True, ["TrustRegion"]),
        (rf.FullRank((9, 8), 2, metric="euclidean"), None, ["TrustRegion"]),
    ],
)
def test_a_cost_that_depends_on_its_factors_keeps_them(geometry, factored, due):
    """One that does not say whether it does may do so."""
    cost = DenseCost((9, 8))
    cost.factored = factored
    assert names(auto._methods(rf.Problem(cost, geometry)))[1:] == due


def test_lines_are_set_aside_on_any_geometry():
    cost = rf.Completion.from_triples(rf.data.random_completion((9, 8), 2, 1.5, seed=0))
    for geometry in (rf.FullRank((9, 8), 2), rf.Polar((9, 8), 2)):
        assert names(auto._methods(rf.Problem(cost, geometry)))[-1] == "TrimmedContinuation"
