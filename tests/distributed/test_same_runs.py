"""Runs on several processes are those of one: the same iterations, values to 1e-10, equal bits everywhere.

Processes are threads here, which compute the same; `test_control` does some of these runs in processes.
"""

from __future__ import annotations

import pytest

from distributed.cases import CASES, ON_THREE, SOLVERS
from distributed.comparing import assert_same_run
from distributed.threads import on_threads
from distributed.worker import one_process, spread_cost, summary
from geometry.variants import VARIANTS

pytest.importorskip("torch")


# Every geometry by one solver, and every other one by a trust region too; `make soak` has them all.
LONG = {f"{name}, tr" for name in list(VARIANTS)[1::2]}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in LONG else name for name in CASES]
)
def test_a_run_is_that_of_one_process(name):
    size = 3 if name in ON_THREE else 2
    found = on_threads(size, lambda group: summary(CASES[name](spread_cost(group))))
    assert_same_run(found, summary(CASES[name](one_process)))


def test_every_solver_and_geometry_is_among_the_cases():
    assert all(any(name.endswith(f", {solver}") for name in CASES) for solver in SOLVERS)
    assert all(any(name.startswith(f"{variant}, ") for name in CASES) for variant in VARIANTS)
