import os
import signal
import sys
from math import nan

import numpy as np
import pytest
from run_toys import HeavyBall, HeavyBallState, Script, Target, make_problem, run_python

from rankfold.problem import Problem
from rankfold.run import checkpoint as cp
from rankfold.run.checkpoint import Checkpoint, CheckpointError
from rankfold.run.driver import minimize
from rankfold.run.stopping import GradientNorm, RelativeChange

STEPS = 12


class KilledError(Exception):
    """Ends a run as abruptly as a test can: nothing is written after it."""


def bits(trace):
    """All of a trace but the clock."""
    return [repr(row._replace(seconds=0.0)) for row in trace]


def assert_same(one, other):
    assert bits(one.trace) == bits(other.trace)
    assert (one.value, one.gradient_norm, one.stop_reason) == (
        other.value,
        other.gradient_norm,
        other.stop_reason,
    )
    for a, b in zip(one.x, other.x, strict=True):
        assert a.tobytes("A") == b.tobytes("A")
        assert a.flags.c_contiguous is b.flags.c_contiguous or not b.flags.forc


def interrupted_at(k, path, problem, method, how=KilledError, **options):
    def callback(progress):
        if progress.iteration == k:
            raise how

    return minimize(problem, method, checkpoint=Checkpoint(path, **options), callback=callback, tolerance=0)


@pytest.fixture(scope="module")
def whole():
    return minimize(make_problem(), HeavyBall(), max_iterations=STEPS, tolerance=0)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("k", range(STEPS + 1))
def test_resume_after_a_kill_at_any_iteration(tmp_path, whole, k, every):
    path = tmp_path / "run.ckpt"
    with pytest.raises(KilledError):
        interrupted_at(k, path, make_problem(), HeavyBall(), every=every)
    resumed = minimize(make_problem(), HeavyBall(), max_iterations=STEPS, tolerance=0, resume=path)
    assert_same(resumed, whole)
    assert (np.diff(resumed.trace["seconds"]) >= 0).all()
    assert os.listdir(tmp_path) == ["run.ckpt"], "no drafts are left"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_resume_after_a_real_kill(tmp_path):
    process = run_python(
        """
import time
from run_toys import HeavyBall, make_problem
from rankfold.run.checkpoint import Checkpoint
from rankfold.run.driver import minimize

def callback(progress):
    print(progress.iteration, flush=True)

minimize(make_problem(), HeavyBall(), tolerance=0, max_iterations=10**6, callback=callback,
         checkpoint=Checkpoint("run.ckpt", every=1))
""",
        tmp_path,
    )
    while process.stdout.readline().strip() != "25":
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=600)
    path = tmp_path / "run.ckpt"
    saved = cp.load(path, HeavyBall(), make_problem()).iteration
    assert saved >= 25
    resumed = minimize(make_problem(), HeavyBall(), max_iterations=saved + 7, tolerance=0, resume=path)
    assert_same(resumed, minimize(make_problem(), HeavyBall(), max_iterations=saved + 7, tolerance=0))


def test_an_interrupted_run_is_saved_as_it_stands(tmp_path, whole):
    path = tmp_path / "run.ckpt"
    result = interrupted_at(5, path, make_problem(), HeavyBall(), how=KeyboardInterrupt, seconds=None)
    assert result.stop_reason == "interrupted after iteration 5"
    assert cp.load(path, HeavyBall(), make_problem()).iteration == 5
    assert_same(minimize(make_problem(), HeavyBall(), max_iterations=STEPS, tolerance=0, resume=path), whole)


def test_ctrl_c_while_saving_loses_nothing(tmp_path, monkeypatch):
    path, honest, calls = tmp_path / "run.ckpt", cp.save, []

    def save(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        honest(*arguments)

    monkeypatch.setattr(cp, "save", save)
    result = minimize(make_problem(), HeavyBall(), tolerance=0, checkpoint=Checkpoint(path, every=1))
    assert result.stop_reason == "interrupted after iteration 3"
    assert cp.load(path, HeavyBall(), make_problem()).iteration == 3


def test_a_finished_run_can_be_prolonged_or_read_again(tmp_path, whole):
    path = tmp_path / "run.ckpt"
    minimize(make_problem(), HeavyBall(), max_iterations=5, tolerance=0, checkpoint=path)
    again = minimize(make_problem(), HeavyBall(), max_iterations=5, tolerance=0, resume=path)
    assert again.iterations == 5
    assert_same(minimize(make_problem(), HeavyBall(), max_iterations=STEPS, tolerance=0, resume=path), whole)


def test_rules_with_a_memory_decide_alike_after_a_resume(tmp_path):
    rule = RelativeChange(0.3, window=4) & GradientNorm(relative=0.1)
    whole = minimize(make_problem(), HeavyBall(), stop=rule)
    for k in range(whole.iterations):
        path = tmp_path / f"{k}.ckpt"
        with pytest.raises(KilledError):
            interrupted_at(k, path, make_problem(), HeavyBall(), every=1)
        assert_same(minimize(make_problem(), HeavyBall(), stop=rule, resume=path), whole)


def test_the_best_point_survives_a_resume(tmp_path):
    path, script = tmp_path / "run.ckpt", Script((3.0, 1.0, 2.0, 2.5))
    with pytest.raises(KilledError):
        interrupted_at(2, path, make_problem(), script, every=1)
    result = minimize(make_problem(), script, resume=path, max_iterations=3)
    assert (result.value, result.iterations) == (1.0, 3)
    whole = minimize(make_problem(), script, max_iterations=3)
    np.testing.assert_array_equal(result.x.G, whole.x.G)


def test_callbacks_are_not_called_twice_for_an_iteration(tmp_path):
    path, seen = tmp_path / "run.ckpt", []
    minimize(make_problem(), HeavyBall(), max_iterations=0, checkpoint=path)
    minimize(
        make_problem(),
        HeavyBall(),
        max_iterations=2,
        resume=path,
        callback=lambda p: seen.append(p.iteration),
    )
    assert seen == [1, 2]


@pytest.mark.parametrize(
    ("options", "saved"),
    [({"every": 4, "seconds": None}, [0, 4, 8, 10]), ({"seconds": 0.0}, list(range(11))), ({}, [0, 10])],
)
def test_how_often(tmp_path, monkeypatch, options, saved):
    written = []
    monkeypatch.setattr(cp, "save", lambda path, progress, *_: written.append(progress.iteration))
    checkpoint = Checkpoint(tmp_path / "run.ckpt", **options)
    minimize(make_problem(), HeavyBall(), max_iterations=10, tolerance=0, checkpoint=checkpoint)
    assert written == saved


def test_a_full_disk_does_not_end_the_run(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    honest, count = cp.Container.write, []

    def write(container, file, *content):
        count.append(1)
        if len(count) == 3:
            file.write(b"half of it")
            raise OSError("disk full")
        honest(container, file, *content)

    monkeypatch.setattr(cp.Container, "write", write)
    with pytest.warns(RuntimeWarning, match="iteration 4 was not saved to .*disk full"):
        result = minimize(
            make_problem(), HeavyBall(), max_iterations=7, tolerance=0, checkpoint=Checkpoint(path, every=2)
        )
    assert result.iterations == 7
    assert cp.load(path, HeavyBall(), make_problem()).iteration == 7


class Forgetful(HeavyBall):
    state_types = (HeavyBallState,)


def test_a_solver_that_forgets_a_part_of_its_states_is_told_before_any_work(tmp_path):
    calls = []
    with pytest.raises(TypeError, match=r"state\.draws is a run_toys\.Draws, .* list it in .* state_types"):
        minimize(make_problem(), Forgetful(), checkpoint=tmp_path / "run", callback=calls.append)
    assert calls == []
    assert minimize(make_problem(), Forgetful(), max_iterations=2).iterations == 2, "it needs none to run"


def test_what_cannot_be_written_is_noticed_before_any_work(tmp_path):
    with pytest.raises(ValueError, match="whose folder does not exist"):
        Checkpoint(tmp_path / "nowhere" / "run.ckpt")
    calls = []
    with pytest.raises(OSError, match="directory"):
        minimize(make_problem(), HeavyBall(), checkpoint=tmp_path, callback=calls.append)
    assert calls == []


@pytest.mark.parametrize("options", [{"every": 0}, {"seconds": -1.0}, {"seconds": nan}])
def test_senseless_intervals_are_refused(tmp_path, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Checkpoint(tmp_path / "run.ckpt", **options)


# Files that must not be resumed ----------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.ckpt"
    minimize(make_problem(), HeavyBall(), max_iterations=3, tolerance=0, checkpoint=path)
    return path


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.ckpt"):
        minimize(make_problem(), HeavyBall(), resume=tmp_path / "nothing.ckpt")


def test_a_start_point_and_a_file(saved):
    with pytest.raises(ValueError, match="x0 or resume"):
        minimize(make_problem(), HeavyBall(), make_problem().start(), resume=saved)


@pytest.mark.parametrize(
    ("problem", "solver", "message"),
    [
        (make_problem(shape=(8, 5)), HeavyBall(), r"its shape is \(7, 5\), here it is \(8, 5\)"),
        (make_problem(rank=3), HeavyBall(), "its rank is 2, here it is 3"),
        (make_problem(metric="other"), HeavyBall(), "its geometry is .*'euclidean'.*, here it is .*'other'"),
        (make_problem(), HeavyBall(memory=0.5), r"its solver is HeavyBall\(.*0\.6\), here it is .*0\.5"),
        (make_problem(), Script((1.0,)), "its solver is HeavyBall.* here it is Script"),
        (make_problem(seed=2), HeavyBall(), "is from other data: its value at W = 0"),
    ],
)
def test_a_file_of_another_run(saved, problem, solver, message):
    with pytest.raises(CheckpointError, match=message):
        minimize(problem, solver, resume=saved)


def test_a_file_of_another_cost(saved):
    class OtherCost(Target):
        pass

    problem = make_problem()
    with pytest.raises(CheckpointError, match=r"its cost is Target, here it is .*OtherCost"):
        minimize(Problem(OtherCost(problem.cost.A), problem.geometry), HeavyBall(), resume=saved)


def rewrite(path, change):
    """Change what a file holds, and let its checksum fit again."""
    meta, arrays = cp.CHECKPOINTS.read(path)
    change(meta, arrays)
    with path.open("wb") as file:
        cp.CHECKPOINTS.write(file, meta, arrays)


def put(*keys):
    """A change of the text: the last of `keys` is what is put at the place that the others lead to."""

    def change(meta, arrays):
        *way, last, thing = keys
        for key in way:
            meta = meta[key]
        meta[last] = thing

    return change


def swap_arrays(meta, arrays):
    arrays["array0"], arrays["array1"] = arrays["array1"], arrays["array0"]


def with_nan(meta, arrays):
    arrays["array0"][0] = nan


def other_point(meta, arrays):
    arrays["array0"] *= 1.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta, arrays: meta.pop("run"), "lacks what every checkpoint has"),
        (lambda meta, arrays: meta["run"].pop(), "lacks what every checkpoint has"),
        (put("identity", 5), "lacks what every checkpoint has"),
        (put("identity", ["shape"]), "lacks what every checkpoint has"),
        (put("identity", "rank", None), "lacks what every checkpoint has"),
        (put("value", None), "lacks what every checkpoint has"),
        (put("value", "1"), "lacks what every checkpoint has"),
        (put("value", 10**400), "does not fit"),
        (put("data", {}), "is from other data: its value at a fixed W is None"),
        (put("data", "value at a fixed W", nan), "is from other data: its value at a fixed W is nan"),
        (put("value_at_zero", 0), "is from other data: its value at W = 0"),
        (put("run", 0, "record", "os.system"), r"holds a os\.system, which neither"),
        # a class that stands beside the method, which does not declare it
        (put("run", 0, "record", "run_toys.ScriptState"), r"holds a run_toys\.ScriptState, which neither"),
        (lambda meta, arrays: meta["run"][0]["fields"].pop("draws"), "has the fields"),
        (put("run", 0, "fields", "draws", [1]), "no value has the form"),
        (put("run", 0, "fields", "stalled", 5), "does not say whether it has stalled"),
        (put("run", 0, "fields", "here", None), "does not fit"),
        (put("run", 0, 5), "does not fit"),
        (put("run", 1, {"tuple": []}), "does not fit"),
        (put("run", 1, "tuple", 0, 5), "does not fit"),
        (put("run", 2, {"array": "array0"}), "no trace has the shape"),
        (put("run", 2, {"array": "array99"}), "does not fit"),
        (put("run", 2, {"torch": "array0", "device": "meta"}), "no value has the form"),
        (put("run", 0, "fields", "draws", {"tuple": [{"array": "array0"}] * 101}), "more than 100 times"),
        (swap_arrays, "does not fit"),
        (with_nan, "is from another cost: its point has the value"),
        (other_point, "is from another cost: its point has the value"),
    ],
)
def test_a_file_that_does_not_fit(saved, change, message):
    rewrite(saved, change)
    with pytest.raises(CheckpointError, match=rf"run\.ckpt.*{message}"):
        minimize(make_problem(), HeavyBall(), resume=saved)


def test_no_file_evaluates_a_cost_again_and_again(saved):
    def change(meta, arrays):
        here = meta["run"][0]["fields"]["here"]
        meta["run"][0]["fields"]["draws"] = {"tuple": [here] * 50}

    rewrite(saved, change)
    with pytest.raises(CheckpointError, match="refers to 'here' more than 16 times"):
        minimize(make_problem(), HeavyBall(), resume=saved)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (b"99", "newer than this.*upgrade"),
        (b"1", "old format 1.*start the run again"),
        (b"0", "old format 0"),
        (b"-1", "is not a checkpoint"),
        (b'"1"', "is not a checkpoint"),
        (b"null", "is not a checkpoint"),
    ],
)
def test_other_formats_are_refused(saved, number, message):
    saved.write_bytes(saved.read_bytes().replace(b"format 3", b"format " + number, 1))
    with pytest.raises(CheckpointError, match=rf"run\.ckpt.*{message}"):
        minimize(make_problem(), HeavyBall(), resume=saved)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x93NUMPY\x01\x00", b"rankfold model, format 2\n" + bytes(80)]
)
def test_no_checkpoint_at_all(tmp_path, content):
    path = tmp_path / "run.ckpt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"run\.ckpt.*is not a checkpoint"):
        minimize(make_problem(), HeavyBall(), resume=path)


def test_an_archive_of_the_old_format_is_not_even_opened(tmp_path):
    path = tmp_path / "run.ckpt"
    with path.open("wb") as file:
        np.savez_compressed(file, meta=np.zeros(50_000_000, np.uint8))  # 50 kB that would become 50 MB
    with pytest.raises(CheckpointError, match=r"run\.ckpt.*old format 1.*start the run again"):
        minimize(make_problem(), HeavyBall(), resume=path)


def test_damage_anywhere_is_noticed_or_harmless(saved, whole):
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    cuts = [content[:length] for length in rng.integers(0, len(content), 40)]
    flips = []
    for position in rng.integers(0, len(content), 300):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        flips.append(bytes(damaged))
    noticed = 0
    for damaged in cuts + flips:
        saved.write_bytes(damaged)
        try:
            loaded = cp.load(saved, HeavyBall(), make_problem())
        except CheckpointError:
            noticed += 1
        else:  # the time stamps in the archive's directory, say
            assert bits(loaded.trace) == bits(whole.trace)[:4]
    assert noticed > 250


def test_the_file_holds_arrays_and_text(saved):
    content = saved.read_bytes()
    assert content.startswith(b"rankfold checkpoint, format 3\n")
    meta, arrays = cp.CHECKPOINTS.read(saved)
    assert meta["iteration"] == 3
    assert meta["identity"]["geometry"] == "Flat(shape=(7, 5), rank=2, metric='euclidean')"
    assert all(array.dtype.kind != "O" for array in arrays.values())
