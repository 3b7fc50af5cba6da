"""Which metric is chosen, kept and formed anew, at the bounds of the rules: what places know is told."""

from types import SimpleNamespace

import pytest

import rankfold as rf
from rankfold.solvers.metric import Metric

ZERO = 8.0


def place(value=1.0, rank=3, blocks=True, lift=True, quadratic=True, data="data"):
    cost = SimpleNamespace(has_line_blocks=blocks, quadratic=quadratic, value_at_zero=ZERO)
    geometry = SimpleNamespace(rank=rank, has_lift=lift)
    return SimpleNamespace(
        problem=SimpleNamespace(cost=cost, geometry=geometry), value=value, data_metric=data
    )


@pytest.mark.parametrize("patient", [True, False])
@pytest.mark.parametrize(
    ("choice", "given", "due"),
    [
        ("auto", {}, "waits"),
        ("auto", {"value": 0.499 * ZERO}, "waits"),
        ("auto", {"value": 0.5 * ZERO}, "formed"),
        ("auto", {"value": 0.01 * ZERO}, "formed"),
        ("auto", {"value": 0.0101 * ZERO}, "waits"),
        ("auto", {"quadratic": False}, "formed"),
        ("auto", {"rank": 20}, "waits"),
        ("auto", {"rank": 21}, "plain"),
        ("auto", {"blocks": False}, "plain"),
        ("auto", {"lift": False}, "plain"),
        ("data", {}, "formed"),
        ("data", {"rank": 21}, "formed"),
        ("geometry", {}, "plain"),
        ("geometry", {"blocks": False}, "plain"),
    ],
)
def test_the_metric_to_start_with(choice, given, due, patient):
    here = place(**given)
    found = Metric.chosen(choice, here, patient=patient)
    due = "formed" if due == "waits" and not patient else due
    assert found == {"waits": Metric(wait=2), "formed": Metric(here), "plain": Metric()}[due]
    assert Metric.chosen(choice, here) == Metric.chosen(choice, here, patient=False)


@pytest.mark.parametrize("given", [{"blocks": False}, {"lift": False}])
def test_a_metric_that_cannot_be_had_is_refused_where_it_is_asked_for(given):
    with pytest.raises(TypeError, match="has no metric of the data: choose metric='auto' or 'geometry'"):
        Metric.chosen("data", place(**given))


def test_without_curvature_there_is_no_metric_of_the_data():
    assert Metric.of(place(data=None)) == Metric.chosen("data", place(data=None)) == Metric()


@pytest.mark.parametrize(
    ("age", "turned", "quadratic", "kept"),
    [
        (0, 0.05, True, True),
        (0, 0.051, True, False),
        (1, 0.051, True, False),
        (2, 9.0, True, True),  # looked at when the age is a power of two
        (3, 0.051, True, False),
        (3, 0.05, True, True),
        (4, 9.0, True, True),
        (7, 0.0, True, True),
        (6, 0.0, False, True),
        (7, 0.0, False, False),
        (8, 0.0, False, False),
    ],
)
def test_blocks_are_kept_until_the_factors_have_turned_or_their_time_is_over(age, turned, quadratic, kept):
    formed, there = place(quadratic=quadratic), place(quadratic=quadratic)
    metric = Metric(formed, age)
    due = Metric(formed, age + 1) if kept else None
    assert metric.kept(there.problem, lambda: turned) == due
    assert metric.moved(there, lambda: turned) == (due or Metric(there))
    there.lazy_factors = "L", "R"
    formed.data_metric = SimpleNamespace(turned=lambda L, R: turned if (L, R) == ("L", "R") else None)
    assert metric.moved(there) == (due or Metric(there))


def test_a_metric_that_waits_is_formed_in_its_time_and_that_of_the_geometry_never():
    there = place()
    assert Metric(wait=2).moved(there) == Metric(wait=1)
    assert Metric(wait=1).moved(there) == Metric(there)
    assert Metric(wait=3).kept(there.problem, None) == Metric(wait=2)
    assert Metric(place(), 4, wait=1).moved(there) == Metric(there)
    assert Metric().moved(there) == Metric()
    assert Metric(place(data=None), 4).moved(there) == Metric(there)


@pytest.mark.parametrize(
    ("given", "t", "same"),
    [
        ({}, 1.0, True),
        ({}, 0.999, False),
        ({"age": 1}, 0.999, False),
        ({"age": 0}, 0.1, True),
        ({"quadratic": False}, 0.1, True),
        ({"data": None}, 0.1, True),
    ],
)
def test_a_step_of_less_than_half_a_unit_says_that_blocks_do_not_fit(given, t, same):
    told = {"age": 5, "quadratic": True, "data": SimpleNamespace(unit=2.0)} | given
    here = place(quadratic=told["quadratic"], data=told["data"])
    metric = Metric(here, told["age"])
    assert metric.tried(here, t) == (metric if same else Metric(here, told["age"], wait=1))


def test_what_gradients_are_made_of():
    told = []
    here = SimpleNamespace(
        gradient="gradient", lazy_gradient="lazy", lazy_factors=("L", "R"), partials=("f_L", "f_R"),
        tall="tall", lazy_partials="partials", made=lambda z: ("made", z),
        lazily_lifted=lambda *given: told.append(given) or "lifted",
    )  # fmt: skip
    before = SimpleNamespace(lazy_partials="before")
    assert (Metric().gradient(here), Metric().lazy_gradient(here)) == ("gradient", "lazy")
    assert Metric().pairs(here, before) == [("tall", "before"), ("partials", "before")]
    assert Metric().preconditioned(here, "xi") == "xi"
    data = SimpleNamespace(solve=lambda *given: given, bases="bases")
    metric = Metric(SimpleNamespace(data_metric=data))
    assert metric.gradient(here) == ("made", "lifted")
    assert metric.lazy_gradient(here, before) == "lifted"
    assert told == [("L", "R", "f_L", "f_R", None), ("L", "R", "f_L", "f_R", before)]
    assert metric.pairs(here, before) == [("tall", "before"), ("tall", "bases")]


def test_names_of_metrics_are_told():
    for solver in (rf.ConjugateGradient, rf.GradientDescent, rf.TrustRegion):
        for choice in ("auto", "data", "geometry"):
            assert solver(metric=choice).metric == choice
