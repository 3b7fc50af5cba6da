"""Runs on several processes are those of one: the same iterations, values to 1e-10, equal bits everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from distributed.cases import CASES, SOLVERS
from distributed.launching import on_ranks
from distributed.worker import one_process, summary

pytest.importorskip("torch")

# Each case on two processes, or on three: between them, every geometry, every solver and every cost on both.
ON_TWO = [name for name in CASES if name.endswith((", gd", ", tr")) and not name.startswith("YY")]
ON_THREE = [name for name in CASES if name not in ON_TWO]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What every process found, by case."""
    folder = tmp_path_factory.mktemp("ranks")
    runs = {}
    for size, names in ((2, ON_TWO), (3, ON_THREE)):
        ranks = on_ranks(size, folder / str(size), *names)
        runs |= {name: [rank[name] for rank in ranks] for name in names}
    return runs


@pytest.mark.parametrize("name", CASES)
def test_a_run_is_that_of_one_process(found, name):
    alone = summary(CASES[name](one_process))
    first = found[name][0]
    assert first["error"] == alone["error"] == "None"
    assert first["notes"] == alone["notes"]
    scale = alone["values"][0]
    np.testing.assert_allclose(first["values"], alone["values"], rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(first["norms"], alone["norms"], rtol=0, atol=1e-8 * alone["norms"].max())
    np.testing.assert_allclose(first["W"], alone["W"], rtol=0, atol=1e-8 * np.abs(alone["W"]).max())


@pytest.mark.parametrize("name", CASES)
def test_bits_are_equal_on_all_processes(found, name):
    assert len({rank["bits"] for rank in found[name]}) == 1


def test_every_solver_and_geometry_is_among_the_cases():
    assert len(ON_TWO) + len(ON_THREE) == len(CASES)
    assert all(any(name.endswith(solver) for name in ON_TWO + ON_THREE) for solver in SOLVERS)
