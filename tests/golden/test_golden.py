"""Files that earlier versions wrote: read to the same numbers, or refused with the remedy, for ever.

A new format adds its files, written by the code of that day; those that are here are never written anew.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import rankfold as rf

HERE = Path(__file__).parent
ANSWERS = json.loads((HERE / "answers.json").read_text("utf-8"))
KNOWN = np.flatnonzero(np.arange(30) % 5 != 4 * (np.arange(30) % 2))


def golden_problem():
    """What the checkpoints are of."""
    cost = rf.Completion(*np.divmod(KNOWN, 5), np.sin(1.0 + KNOWN**1.5), (6, 5))
    return rf.Problem(cost, rf.FullRank(cost.shape, 2))


@pytest.mark.parametrize("name", ANSWERS)
def test_models_of_format_2_predict_what_they_did(name):
    model = rf.load(HERE / f"{name}-format2.rankfold")
    asked = "transform" if name == "LowRankImputer" else "predict"
    query = ANSWERS[name]["query"]
    if name == "LowRankImputer":
        query = np.array(query, dtype=np.float64)  # None, a hole, becomes NaN
    elif name == "PairRegressor":
        query = np.array(query, dtype=np.int64)
    found = getattr(model, asked)(query)
    np.testing.assert_allclose(found, ANSWERS[name]["answer"], rtol=1e-12, atol=1e-12)
    if "std" in ANSWERS[name]:
        np.testing.assert_allclose(model.predict(query, return_std=True)[1], ANSWERS[name]["std"], rtol=1e-9)
    if "later" in ANSWERS[name]:
        model.partial_fit([("u0", "f9"), ("new", "f3")], [1.0, 2.0])
        np.testing.assert_allclose(model.predict(query), ANSWERS[name]["later"], rtol=1e-9)


def test_models_of_format_1_are_refused_with_the_remedy():
    with pytest.raises(
        rf.ModelFileError, match=r"MatrixCompletion-format1.*old format 1.*fit the model again"
    ):
        rf.load(HERE / "MatrixCompletion-format1.rankfold")


def test_checkpoints_of_format_3_are_resumed():
    """Iterations since then need not be those of that day: but they go on from there, to the same end."""
    path, method = HERE / "run-format3.ckpt", rf.ConjugateGradient()
    resumed = rf.minimize(golden_problem(), method, resume=path)
    whole = rf.minimize(golden_problem(), method)
    np.testing.assert_allclose(resumed.trace["value"][:4], [0.123016, 0.100609, 0.098181, 0.097113], 1e-5)
    np.testing.assert_allclose(resumed.value, whole.value, rtol=1e-9)
    np.testing.assert_allclose(
        resumed.factors[0] @ resumed.factors[1].T, whole.factors[0] @ whole.factors[1].T, 1e-4
    )


@pytest.mark.parametrize("number", [1, 2])
def test_checkpoints_of_old_formats_are_refused_with_the_remedy(number):
    path, due = HERE / f"run-format{number}.ckpt", f"old format {number}.*start the run again"
    with pytest.raises(rf.CheckpointError, match=due):
        rf.minimize(golden_problem(), rf.ConjugateGradient(), resume=path)
