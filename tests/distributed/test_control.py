"""One mind: clock, callback, Ctrl-C, errors and arguments of all processes, and what they leave on disk.

One start-up serves all tests: of three processes, then of two, of which some are killed, and of the command.
"""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest

import rankfold as rf
from distributed import launching
from distributed.cases import CASES, ON_THREE, ON_TWO
from distributed.comparing import assert_same_run
from distributed.shards import write_shards
from distributed.soak import uninterrupted
from distributed.tasks import SOLVERS, Tasks
from distributed.threads import on_threads
from distributed.worker import one_process, summary
from rankfold.data import read_triples

pytest.importorskip("torch")
SIZE = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("control")


@pytest.fixture(scope="module")
def alone():
    """Each run in one process; its kernels are on disk then, for all processes that follow."""
    return {name: summary(CASES[name](one_process)) for name in (*ON_THREE, *ON_TWO)}


COLUMNS = "--row", "user", "--col", "item", "--value", "stars"
OPTIONS = "--rank", "2", "--no-bias", "--regularization", "0", "--json"


@pytest.fixture(scope="module")
def processes(folder, alone):
    """Three processes, of which the last one breaks their connections; then two, again and again."""
    tasks = "resumed", "callback", "interrupt", "arguments", "alike", "dtype", "places", "one fails"
    more = ["task:on gpus"] if find_spec("triton") else []
    for name in ("killed", "command"):
        (folder / name).mkdir()
    write_shards(folder)
    words = "complete", f"{folder}/shards/*", *COLUMNS, *OPTIONS, "-o", f"{folder}/model.rankfold"
    killed = {"size": 2, "folder": str(folder / "killed")}
    launching.in_turn(
        folder,
        {"size": SIZE, "tasks": (*ON_THREE, *(f"task:{name}" for name in tasks))},
        {"size": 2, "tasks": (*ON_TWO, "task:resumed elsewhere", "task:damaged", *more)},
        killed | {"tasks": ["task:killed"], "may fail": True},
        killed | {"tasks": ["task:at once"]},
        {"size": 2, "folder": str(folder / "command"), "command": words},
    )


@pytest.fixture(scope="module")
def found(processes, folder):
    """What each of three processes found, by task."""
    return launching.found(folder, SIZE)


@pytest.fixture(scope="module")
def others(processes, folder):
    """What two processes make of what three wrote."""
    return launching.found(folder, 2)


def every(found, task):
    return [rank[f"task:{task}"] for rank in found]


@pytest.mark.parametrize("name", [*ON_TWO, *ON_THREE])
def test_a_run_in_processes_is_that_of_one(found, others, alone, name):
    ranks = found if name in ON_THREE else others
    assert_same_run([rank[name] for rank in ranks], alone[name])


def test_a_resumed_run_has_the_same_bits(found):
    for rank in every(found, "resumed"):
        for whole, resumed in rank.values():
            assert whole == resumed


def test_a_resumed_run_of_any_solver_has_the_same_bits(tmp_path):
    found = on_threads(2, lambda group: Tasks(group, tmp_path).resumed(SOLVERS[1:]))
    assert all(whole == resumed for rank in found for whole, resumed in rank.values())


def test_a_checkpoint_is_a_folder_with_a_manifest_and_nothing_old(found, folder):
    saved = folder / "ConjugateGradient"
    assert {path.name for path in saved.iterdir()} == {"manifest.json", "iteration-00000007"}
    names = {path.name for path in (saved / "iteration-00000007").iterdir()}
    assert names == {f"part-0000{k}-of-00003" for k in range(3)}
    manifest = json.loads((saved / "manifest.json").read_text())
    assert (manifest["files"], manifest["processes"]) == ("iteration-00000007", 3)


def test_another_number_of_processes_goes_on_to_the_same_values(others):
    for rank in every(others, "resumed elsewhere"):
        assert rank["error"] <= 1e-10
        assert rank["begins"] == 7


def test_what_is_no_manifest_is_refused_everywhere(others):
    for rank in every(others, "damaged"):
        assert rank["manifest"].startswith("CheckpointError: ")
        assert "no manifest" in rank["manifest"]
        assert "is no folder" in rank["file"]
        assert "over any number of processes" in rank["alone"]


@pytest.mark.skipif(not find_spec("triton"), reason="no Triton")
def test_entries_in_tensors_give_the_run_of_those_in_memory(others):
    """On a GPU, or what stands in for it: `test_gpu_ranks` has more of it."""
    from distributed.on_gpus import in_memory, same_runs

    alone = in_memory()
    for found in every(others, "on gpus"):
        same_runs(found, alone)


def test_a_callback_of_one_stops_all_by_one_clock(found):
    stops = every(found, "callback")
    assert {stop for stop, _ in stops} == {"stopped by the callback at iteration 3"}
    assert len({seconds for _, seconds in stops}) == 1


def test_ctrl_c_of_one_stops_all_with_a_result(found):
    assert set(every(found, "interrupt")) == {"interrupted after iteration 2"}


def test_other_arguments_are_an_error_everywhere(found):
    for said in every(found, "arguments"):
        assert said.startswith("RanksError: processes of this run do not agree")
        assert "process 1: arguments" in said


def test_an_error_of_all_ends_the_run_for_all_and_nothing_else(found):
    assert set(every(found, "alike")) == {("iteration 3 raised ArithmeticError: everywhere", 2)}


def test_values_of_two_types_are_refused(found):
    assert all("RanksError" in said and "float32" in said for said in every(found, "dtype"))


def test_rows_in_other_places_are_refused(found):
    assert set(every(found, "places")) == {"ValueError"}


def test_an_iteration_takes_few_collectives_and_bytes(tmp_path):
    """CG on FullRank: at most 8 small collectives; bytes of twice R and 1 % more, or of three in float32."""
    for rank in on_threads(SIZE, lambda group: Tasks(group, tmp_path).traffic()):
        assert 0 < rank["small"] <= 8
        matrix = rank["d2"] * rank["r"] * 8
        assert rank["large"] == 2
        assert 2 * matrix < rank["bytes"] <= 1.01 * 2 * matrix
        assert rank["wire"] <= 1.01 * 3 * matrix / 2
        assert rank["rounding"] < 1e-5


def test_an_error_of_one_is_told_to_the_others_at_once(found):
    said = every(found, "one fails")
    assert said[1] == "ValueError: only here"
    for other in (said[0], said[2]):
        assert other.startswith("RanksError: ")
        assert "process 1 failed: ValueError: only here" in other


def test_a_killed_run_goes_on_to_the_same_bits(processes, folder):
    """The others end at once, and no half file is left."""
    place = folder / "killed"
    assert launching.found(place, 2)[0]["task:at once"] == uninterrupted(folder / "whole")
    waited = (folder / "ended-2").stat().st_mtime - (place / "killed").stat().st_mtime
    assert waited < 60  # far less than processes wait for one that lives
    assert "cannot reach the others" in launching.words(2, place)
    assert not list((place / "run").rglob("*.tmp"))


def test_the_command_writes_one_model(processes, folder):
    """As torchrun would start it: both processes read, one speaks and writes."""
    triples = read_triples(folder / "whole.parquet")
    said = json.loads((folder / "command" / "words-0").read_text())
    assert (said["processes"], said["entries"], said["shape"]) == (2, len(triples), [120, 40])
    assert (folder / "command" / "words-1").read_text() == ""
    model = rf.load(folder / "model.rankfold")
    predicted = model.predict([("u003", int(triples.col_labels[5]))])
    np.testing.assert_allclose(predicted, model.predict_at([3], [5]))
    assert np.abs(model.predict_at(triples.rows, triples.cols) - triples.values).max() < 1e-4
