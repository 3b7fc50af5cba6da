"""Signals at every moment of a run: whatever comes, the best point so far is the result."""

import os
import signal
import sys

import pytest
from run_toys import HeavyBall, make_problem

import rankfold as rf
from rankfold.estimators.completion import fit_steps, matrix_completion
from rankfold.estimators.completion.joint import Joint
from rankfold.run import blas, driver
from rankfold.run import checkpoint as cp
from rankfold.run.driver import minimize
from rankfold.run.stopping import StopKind

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX signals")
STRIDE = int(os.environ.get("RANKFOLD_TEST_STRIDE", "31"))


@pytest.fixture(autouse=True)
def handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def pressing(call, when=lambda *_: True):
    """`call` with a Ctrl-C before it, the first time that `when` says so."""
    pressed = []

    def wrapped(*arguments, **options):
        if not pressed and when(*arguments):
            pressed.append(1)
            signal.raise_signal(signal.SIGINT)
        return call(*arguments, **options)

    return wrapped


class At:
    """A trace function that presses Ctrl-C at the n-th line of our code from the first iteration on."""

    def __init__(self, n):
        self.n, self.count, self.armed = n, 0, False

    def __call__(self, frame, event, argument):
        if "rankfold" not in frame.f_code.co_filename or frame.f_code.co_filename.endswith("interrupts.py"):
            return None
        self.armed = self.armed or frame.f_code.co_name == "until_stopped"
        if event == "line" and self.armed:
            self.count += 1
            if self.count == self.n:
                signal.raise_signal(signal.SIGINT)
        return self


def traced(at, call):
    before = sys.gettrace()
    sys.settrace(at)
    try:
        return call()
    finally:
        sys.settrace(before)


def lines_of(call):
    at = At(0)
    traced(at, call)
    return at.count


def test_ctrl_c_at_any_line_of_a_run_loses_nothing(tmp_path, monkeypatch):
    """At every STRIDE-th; all of them by `tests/fuzz/faults.py lines`."""
    monkeypatch.setattr(blas, "_libraries", list)  # to find them takes long
    path, problem = tmp_path / "run.ckpt", make_problem()

    def run():
        return minimize(problem, HeavyBall(), max_iterations=2, tolerance=0, checkpoint=path)

    total, handlers = lines_of(run), signal.getsignal(signal.SIGINT)
    kinds = set()
    for n in range(1, total + 1, STRIDE):
        result = traced(At(n), run)
        kinds.add(result.stop.kind)
        assert result.value == result.trace["value"].min()
        assert result.stop_reason == f"interrupted after iteration {result.iterations}"
        assert cp.load(path, HeavyBall(), problem).iteration == result.iterations
        assert signal.getsignal(signal.SIGINT) is handlers
        assert blas._guard._holders == 0
    assert kinds == {StopKind.INTERRUPTED}


def test_after_the_last_iteration_the_result_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(driver.Writer, "finish", pressing(driver.Writer.finish))
    result = minimize(make_problem(), HeavyBall(), max_iterations=3, tolerance=0, checkpoint=tmp_path / "c")
    assert (result.stop.kind, result.iterations) == (StopKind.INTERRUPTED, 3)


def test_a_second_ctrl_c_ends_at_once(tmp_path, monkeypatch):
    finish = driver.Writer.finish

    def twice(self, progress):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        finish(self, progress)

    monkeypatch.setattr(driver.Writer, "finish", twice)
    with pytest.raises(KeyboardInterrupt):
        minimize(make_problem(), HeavyBall(), max_iterations=3, tolerance=0, checkpoint=tmp_path / "c")
    assert blas._guard._holders == 0


def data():
    return rf.data.random_completion((40, 30), 2, 6, seed=0, noise=0.1)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Joint, "balanced"), (matrix_completion, "record_run")],
    ids=["balanced", "recorded"],
)
def test_ctrl_c_when_a_fit_has_ended_leaves_its_model(owner, name, monkeypatch):
    whole = rf.MatrixCompletion(2, regularization=0.5, random_state=0).fit(data())
    monkeypatch.setattr(owner, name, pressing(getattr(owner, name)))
    with pytest.warns(UserWarning, match="interrupted after iteration"):
        model = rf.MatrixCompletion(2, regularization=0.5, random_state=0).fit(data())
    assert (model.stop_kind_, model.converged_) == ("interrupted", False)
    assert model.predict([(0, 0)]) == whole.predict([(0, 0)])


def test_ctrl_c_before_there_is_a_model_is_raised_at_once(monkeypatch):
    monkeypatch.setattr(fit_steps, "completion_of", pressing(fit_steps.completion_of))
    model = rf.MatrixCompletion(2, regularization=0.5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(data())
    assert not hasattr(model, "factors_")
