"""Each claim about curves that are made up: straight lines of known length and pace."""

import numpy as np
import pytest

from rankfold.experiments import claims
from rankfold.experiments import competitors as m
from rankfold.experiments.curves import Curves, Run
from rankfold.experiments.figures import FIGURES
from rankfold.run.trace import Trace, TraceRow

FIGURE = {figure.name: figure for figure in FIGURES}


def run(method, instance, iterations, pace, end=1e-21, products=1, backtracks=1):
    """A cost that falls from 1 to `end`, by the same factor in each iteration, at `pace` seconds each."""
    values = np.geomspace(1.0, end, iterations + 1)
    rows = [
        TraceRow(k, float(value), 1.0, k * pace, inner_iterations=products, backtracks=backtracks)
        for k, value in enumerate(values)
    ]
    return Run(method.label, instance, Trace(rows))


def curves(name, made):
    """Two instances of every method of a figure; 100 iterations of a second each unless `made` says other."""
    runs = []
    for method in FIGURE[name].competitors:
        settings = {"iterations": 100, "pace": 1.0, **made.get(method, {})}
        runs += [run(method, instance, **settings) for instance in (0, 1)]
    return Curves(tuple(runs))


def holds(name, **made):
    """The verdicts of a figure, by claim; `made` names methods of `competitors`."""
    given = {getattr(m, method): settings for method, settings in made.items()}
    return [claim.holds for claim in FIGURE[name].claims(curves(name, given))]


SLOW, QUICK, STUCK = {"iterations": 200}, {"iterations": 50}, {"iterations": 200, "end": 1e-2}
DEAR, CHEAP = {"pace": 4.0}, {"pace": 0.25}


@pytest.mark.parametrize(
    ("name", "made", "verdicts"),
    [
        ("step-issue", {}, [True, False, True]),
        ("step-issue", {"MMMF_2": SLOW}, [True, True, True]),
        ("step-issue", {"MMMF": SLOW, "MMMF_2": SLOW, "GH_GD_2": SLOW}, [False, False, False]),
        ("step-issue", {"GH_GD_2": {"end": 2e-21}}, [True, False, False]),
        ("gh", {}, [True, True, False, False, False, False, False]),
        ("gh", {"GH_TR": QUICK, "LMAFIT": STUCK}, [True, True, True, True, False, False, True]),
        ("gh", {"GH_TR": {**QUICK, **DEAR}}, [True, True, True, False, True, False, False]),
        ("gh", {"MMMF": SLOW, "LMAFIT": CHEAP}, [False, False, False, False, False, True, False]),
        ("gh", {"MMMF": DEAR}, [True, False, False, False, False, False, False]),
        ("polar-vs-svd", {"DIAGONAL": SLOW}, [True, False]),
        ("polar-vs-svd", {"DIAGONAL": STUCK}, [True, True]),
        ("polar-vs-svd", {"UBV_GD": STUCK}, [False, False]),
        ("ubv-svp", {}, [True, True, False, False, False, None]),
        ("ubv-svp", {"SVP_": SLOW, "UBV_TR": QUICK}, [True, False, False, True, True, None]),
        ("ubv-svp", {"SVP_": DEAR, "UBV_TR": {**QUICK, **DEAR}}, [True, True, True, True, False, None]),
        ("ubv-svp", {"UBV_GD": DEAR}, [False, True, True, False, False, None]),
        ("uy-metric", {}, [False, False]),
        ("uy-metric", {"EUCLIDEAN_UY": STUCK}, [True, True]),
        ("uy-metric", {"EUCLIDEAN_UY": SLOW}, [False, False]),
        ("uy-metric", {"EUCLIDEAN_UY": STUCK, "UY_GD": STUCK}, [False, False]),
        ("uy-rtrmc", {}, [True, False, True, True, True, False]),
        ("uy-rtrmc", {"RTRMC_2": QUICK}, [False, True, False, False, True, False]),
        ("uy-rtrmc", {"RTRMC_2": CHEAP}, [False, True, False, True, True, False]),
        ("uy-rtrmc", {"UY_GD": SLOW}, [False, False, True, True, False, False]),
        ("uy-rtrmc", {"UY_GD": CHEAP}, [True, False, True, True, True, True]),
        ("quotient-vs-embedded", {}, [True, True, True, True, True, False, True, True, None]),
        (
            "quotient-vs-embedded",
            {"UBV_GD": QUICK},
            [False, False, True, True, True, False, False, True, None],
        ),
        (
            "quotient-vs-embedded",
            {"LRGEOM_GD": DEAR},
            [True, False, True, True, True, False, True, True, None],
        ),
        (
            "quotient-vs-embedded",
            {"LRGEOM_GD": CHEAP},
            [True, False, False, True, True, False, True, True, None],
        ),
        (
            "quotient-vs-embedded",
            {"LRGEOM_TR": CHEAP},
            [True, True, True, False, False, True, True, True, None],
        ),
        ("quotient-vs-embedded", {"UY_TR": DEAR}, [True, True, True, False, False, False, False, True, None]),
        ("quotient-vs-embedded", {"UY_GD": {"backtracks": 2}}, [True] * 5 + [False, True, False, None]),
    ],
)
def test_verdicts(name, made, verdicts):
    assert holds(name, **made) == verdicts


def test_hessian_products_are_shown():
    found = FIGURE["quotient-vs-embedded"].claims(
        curves("quotient-vs-embedded", {m.LRGEOM_TR: {"products": 3}})
    )
    early = found[5]
    assert "Hessian products until then: LRGeom 48, GH 16, UBV 16, UY 16" in early.measured
    assert early.why == "it spends 48 Hessian products there, the others 16, 16, 16"
    assert "Hessian products there: LRGeom 228, GH 76, UBV 76, UY 76" in found[4].measured


def test_paces_are_in_milliseconds():
    cost = FIGURE["gh"].claims(curves("gh", {m.LMAFIT: {"pace": 0.002}}))[5]
    assert cost.measured == "milliseconds per iteration: LMaFit 2, GD 1000"


def test_every_claim_of_every_figure_is_judged():
    assert sum(claim.holds is not None for f in FIGURES for claim in f.claims(curves(f.name, {}))) == 33
    assert set(claims.REGIONS) == set(claims.DESCENTS) == {"GH", "UBV", "UY", "LRGeom"}
