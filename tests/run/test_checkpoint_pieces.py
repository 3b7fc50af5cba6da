"""Pieces of checkpoints that runs seldom come by: odd traces, folders, values known before, files cut off."""

import io
import sys
from dataclasses import replace
from math import nan
from types import SimpleNamespace

import numpy as np
import pytest
from run_toys import HeavyBall, make_problem
from test_container import ARRAYS, KIND, WrongError, file_of, header, npy

from rankfold.costs.factor_ridge import FactorRidge
from rankfold.distributed import Group, Places
from rankfold.problem import Problem
from rankfold.run import checkpoint as cp
from rankfold.run import container
from rankfold.run.checkpoint import CheckpointError
from rankfold.run.driver import minimize
from rankfold.run.records import Unpacker
from rankfold.run.trace import pyplot


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.ckpt"
    minimize(make_problem(), HeavyBall(), max_iterations=3, tolerance=0, checkpoint=path)
    return path


@pytest.mark.parametrize(
    ("column", "number", "message"),
    [
        ("iteration", 4, "its trace does not count the iterations, or the seconds"),
        ("iteration", 2, "its trace does not count the iterations, or the seconds"),
        ("seconds", nan, "its trace does not count the iterations, or the seconds"),
        ("value", nan, "its state has no value, or does not say whether it has stalled"),
    ],
)
def test_a_trace_counts_iterations_and_seconds_to_its_end(saved, column, number, message):
    meta, arrays = cp.CHECKPOINTS.read(saved)
    arrays[meta["run"][2]["array"]][column][-1] = number
    with saved.open("wb") as file:
        cp.CHECKPOINTS.write(file, meta, arrays)
    with pytest.raises(CheckpointError, match=rf"run\.ckpt' does not fit rankfold .*: {message}"):
        minimize(make_problem(), HeavyBall(), resume=saved)


def test_the_value_that_a_state_knows_is_not_computed_again_nor_counted(monkeypatch):
    problem = make_problem()
    x, value = problem.start(), problem.cost.value
    due = value(*x)
    assert cp._value(SimpleNamespace(here=problem.at(x), x=x), problem) == due
    assert cp._value(SimpleNamespace(x=x), problem) == due
    assert vars(problem.counts) == vars(type(problem.counts)())
    ridged = replace(problem, cost=FactorRidge(problem.cost, np.array([0.3, 0.7]))).at(x)
    assert ridged.value > due
    assert cp._value(SimpleNamespace(here=ridged, x=x), problem) == due
    known = problem.at(x)
    assert known.value == due
    monkeypatch.setattr(problem.cost, "value", None)
    assert cp._value(SimpleNamespace(here=known, x=x), problem) == due


def spread(problem, monkeypatch):
    """Let the entries seem to be spread over processes, of which there is one."""
    sides = (Places(Group(), (0, 7)), Places(Group(), (0, 5)))
    monkeypatch.setattr(type(problem.cost), "places", sides)


def test_entries_that_are_spread_have_a_folder_of_parts(tmp_path, monkeypatch):
    options = {"max_iterations": 5, "tolerance": 0}
    whole = minimize(make_problem(), HeavyBall(), **options)
    spread(make_problem(), monkeypatch)
    minimize(make_problem(), HeavyBall(), **options | {"max_iterations": 2}, checkpoint=tmp_path / "c")
    assert {path.name for path in (tmp_path / "c").iterdir()} == {"iteration-00000002", "manifest.json"}
    again = minimize(make_problem(), HeavyBall(), **options, resume=tmp_path / "c")
    assert again.trace["value"].tolist() == whole.trace["value"].tolist()
    meta, _ = cp.CHECKPOINTS.read(tmp_path / "c" / "iteration-00000002" / "part-00000-of-00001")
    assert meta["cuts"] == [[0, 7], [0, 5]]


def test_a_folder_is_for_entries_that_are_spread_and_a_file_for_others(tmp_path, saved, monkeypatch):
    with pytest.raises(CheckpointError, match="is a folder, as runs with entries spread over processes wri"):
        minimize(make_problem(), HeavyBall(), resume=tmp_path)
    spread(make_problem(), monkeypatch)
    with pytest.raises(CheckpointError, match=r"run\.ckpt' is no folder, and a run with entries spread over"):
        minimize(make_problem(), HeavyBall(), resume=saved)


def test_rows_that_are_spread_come_back_to_their_places():
    sides = (Places(Group(), (0, 3)), Places(Group(), (0, 5)))
    arrays = {"L": np.ones((3, 2)), "R": np.zeros((5, 2))}
    for name, place in zip("LR", sides, strict=True):
        tree = {"rows": {"array": name}, "of": place.cuts[-1]}
        back = Unpacker({}, arrays, None, sides).unpack(tree)
        assert back.block is arrays[name]
        assert back.spread is place
        with pytest.raises(ValueError, match="no value has the form"):
            Unpacker({}, arrays).unpack(tree)
    with pytest.raises(ValueError, match="it holds a matrix of 4 rows, which the problem has not"):
        Unpacker({}, arrays, None, sides).unpack({"rows": {"array": "L"}, "of": 4})


def test_a_file_may_hold_no_arrays_and_no_more_than_it_may_have_marks(tmp_path, monkeypatch):
    assert KIND.read(file_of(tmp_path / "none", b'{"arrays": 0}')) == ({"arrays": 0}, {})
    monkeypatch.setattr(container, "MAX_MARKS", 2)
    array = npy(header(), bytes(16))
    assert len(KIND.read(file_of(tmp_path / "two", b'{"arrays": 2}', 2 * array))[1]) == 2
    with pytest.raises(WrongError, match="its number of arrays is 3"):
        KIND.read(file_of(tmp_path / "three", b'{"arrays": 3}', 3 * array))


def test_a_text_may_be_so_long_and_have_so_many_marks():
    for mark in b"[", b"{", b",", b":":
        assert container._flaw(mark * (1 << 20)) == ""
        assert container._flaw(mark * (1 << 20) + b"[").startswith("1048577 marks in its text, where 1048576")
    assert container._flaw(b" " * (1 << 25)) == ""
    assert container._flaw(b" " * (1 << 25) + b" ").startswith("a text of 33554433 bytes, where 33554432 are")


def test_a_file_that_becomes_shorter_while_it_is_read():
    with pytest.raises(ValueError, match="it became shorter while it was read"):
        container._array(io.BytesIO(npy(header(), bytes(15))), 1000)


def test_python_objects_are_not_written():
    with pytest.raises(ValueError, match="allow_pickle"):
        KIND.write(io.BytesIO(), {}, {"array0": np.array([None])})
    KIND.write(io.BytesIO(), {}, ARRAYS)


@pytest.mark.parametrize("missing", ["matplotlib", "matplotlib.pyplot"])
def test_plots_without_matplotlib_say_how_to_install_it(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError, match=r"plots need matplotlib: pip install 'rankfold\[plot\]'"):
        pyplot()


def test_another_cost_of_the_same_shape_and_value_at_zero_is_told_by_its_value(saved, monkeypatch):
    problem = make_problem()
    other = Problem(type(problem.cost)(-problem.cost.A), problem.geometry)
    monkeypatch.setattr(type(problem.cost), "fingerprint", lambda cost: {})
    meta, arrays = cp.CHECKPOINTS.read(saved)
    with saved.open("wb") as file:
        cp.CHECKPOINTS.write(file, {**meta, "data": {}}, arrays)
    with pytest.raises(CheckpointError, match="is from another cost: its point has the value"):
        minimize(other, HeavyBall(), resume=saved)
