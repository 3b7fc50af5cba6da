"""How runs end, and what is kept when they end badly."""

import re
import signal
import subprocess
import sys
import threading
from math import inf, nan

import numpy as np
import pytest
from run_toys import HERE, SOURCE, HeavyBall, Pair, Script, make_problem, run_python

import rankfold as rf
from rankfold.run.driver import minimize, resolve
from rankfold.run.stopping import ValueBelow
from rankfold.run.trace import TraceRow
from rankfold.solvers.base import StepReport


def test_a_run_from_a_given_point():
    problem = make_problem()
    x0 = Pair(np.ones((7, 2)), np.eye(5)[:, :2])
    result = minimize(problem, HeavyBall(), x0, max_iterations=0)
    assert result.x is x0
    assert result.stop_reason == "0 iterations done, the limit is 0"
    assert not result.converged
    assert result.value == problem.at(x0).value


def test_without_a_point_the_cost_gives_one():
    problem = make_problem()
    result = minimize(problem, HeavyBall(), max_iterations=0)
    assert result.value == problem.at(problem.start()).value


def test_the_last_state_can_be_stepped_on():
    problem, method = make_problem(), HeavyBall()
    ten = minimize(problem, method, max_iterations=10, tolerance=0)
    eleven = minimize(problem, method, max_iterations=11, tolerance=0)
    assert method.step(problem, ten.state).value == eleven.trace[-1].value


def test_callbacks_see_every_iteration_and_may_stop():
    seen = []

    def callback(progress):
        seen.append(progress)
        return progress.iteration == 4

    result = minimize(make_problem(), HeavyBall(), callback=callback)
    assert result.stop_reason == "stopped by the callback at iteration 4"
    assert not result.converged
    assert [len(progress.trace) for progress in seen] == [1, 2, 3, 4, 5], (
        "what was seen does not change later"
    )
    last = seen[-1]
    assert (last.value, last.gradient_norm, last.seconds) == result.trace[-1][1:4]
    assert last.x is last.state.x


def test_convergence_outranks_the_callback():
    result = minimize(make_problem(), Script((1.0,)), stop=ValueBelow(2.0), callback=lambda _: True)
    assert result.converged


def test_an_error_of_the_callback_is_the_callers():
    def callback(progress):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        minimize(make_problem(), HeavyBall(), callback=callback)


def test_a_result_has_the_factors_of_its_point():
    problem = make_problem()
    x0 = Pair(np.ones((7, 2)), np.eye(5)[:, :2])
    result = minimize(problem, HeavyBall(), x0, max_iterations=0)
    assert result.factors is x0, "in this geometry points are factors"
    assert result.geometry is problem.geometry


def test_the_trace_holds_plain_numbers_whatever_a_method_reports():
    report = StepReport(step=np.float32(0.5), backtracks=np.int64(2), rho=1, note="a")
    row = minimize(
        make_problem(), Script(({"value": np.float64(1), "report": report},)), max_iterations=0
    ).trace[0]
    assert (row.step, row.backtracks, row.rho, row.note) == (0.5, 2, 1.0, "a")
    assert [type(cell) for cell in row] == [int, *[float] * 4, int, int, float, float, *[int] * 5, str]


def test_the_best_point_is_returned_where_nothing_converged():
    points = []
    result = minimize(
        make_problem(), Script((3.0, 1.0, 2.0)), max_iterations=2, callback=lambda p: points.append(p.x)
    )
    assert result.value == 1.0
    assert result.x is points[1]
    assert result.trace["value"].tolist() == [3, 1, 2]
    assert result.state.x is points[2]


@pytest.mark.parametrize("bad", [{"value": nan}, {"value": inf}, {"value": 0.5, "gradient_norm": nan}])
def test_what_is_not_finite_ends_the_run_with_the_best_point(bad):
    result = minimize(make_problem(), Script((3.0, 1.0, 2.0, bad)))
    assert result.stop_reason.startswith("not finite in iteration 3: the value is ")
    assert not result.converged
    assert result.value == 1.0
    assert np.isfinite(result.trace["value"]).all()
    assert result.iterations == 2
    assert isinstance(result.error, FloatingPointError)


def test_a_method_without_gradient_says_so():
    entry = {"value": 1.0, "gradient_norm": nan, "gradient_free": True}
    result = minimize(make_problem(), Script((entry, entry | {"value": 0.5})), max_iterations=1)
    assert result.error is None
    assert np.isnan(result.trace["gradient_norm"]).all()
    ended = minimize(make_problem(), Script((entry, entry | {"value": inf})))
    assert ended.stop_reason.startswith("not finite in iteration 1")


def test_a_cost_that_turns_nan_or_raises(monkeypatch):
    for outcome, reason in [
        (nan, "not finite in iteration 6"),
        (ZeroDivisionError("boom"), "iteration 6 raised"),
    ]:
        problem = make_problem()
        calls, honest = [], problem.cost.evaluate

        def evaluate(L, R, calls=calls, honest=honest, outcome=outcome):
            calls.append(1)
            # Value and evaluation: two calls per step, one for the start.
            if len(calls) < 13:
                return honest(L, R)
            if isinstance(outcome, Exception):
                raise outcome
            return honest(L, R)._replace(value=outcome)

        monkeypatch.setattr(problem.cost, "evaluate", evaluate)
        result = minimize(problem, HeavyBall())
        assert result.stop_reason.startswith(reason)
        assert result.value == result.trace["value"].min()
        assert len(result.trace) == 6


def test_a_step_that_raises_ends_the_run_with_the_best_point():
    error = ZeroDivisionError("boom")
    result = minimize(make_problem(), Script((3.0, 1.0, 2.0, error)))
    assert result.stop_reason == "iteration 3 raised ZeroDivisionError: boom"
    assert result.error is error
    assert (result.value, result.iterations, result.converged) == (1.0, 2, False)


def test_what_fails_at_the_start_is_an_error():
    with pytest.raises(ZeroDivisionError):
        minimize(make_problem(), Script((ZeroDivisionError("boom"),)))
    with pytest.raises(ValueError, match="the cost's own start point the value is nan"):
        minimize(make_problem(), Script((nan,)))
    with pytest.raises(ValueError, match="at x0 the value is inf"):
        minimize(make_problem(), Script((inf,)), make_problem().start())


def test_ctrl_c_in_a_step_returns_the_best_point():
    result = minimize(make_problem(), Script((3.0, 1.0, 2.0, KeyboardInterrupt())))
    assert result.stop_reason == "interrupted after iteration 2"
    assert (result.value, result.converged, result.error) == (1.0, False, None)


def test_ctrl_c_between_steps_loses_nothing():
    def callback(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    result = minimize(make_problem(), Script((3.0, 2.0, 1.0)), callback=callback)
    assert result.stop_reason == "interrupted after iteration 2"
    assert (result.value, result.iterations) == (1.0, 2)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_real_ctrl_c(tmp_path):
    process = run_python(
        """
import signal
import time
from run_toys import HeavyBall, make_problem
from rankfold.run.driver import minimize

# A process started in the background of a script inherits that SIGINT is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def callback(progress):
    print(progress.iteration, flush=True)
    time.sleep(0.01)

result = minimize(make_problem(), HeavyBall(), tolerance=0, max_iterations=10**6, callback=callback)
print(result.stop_reason)
print(result.value == result.trace["value"].min(), result.iterations + 1 == len(result.trace))
""",
        tmp_path,
    )
    for _ in range(5):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=600)
    reason, kept = output.splitlines()[-2:]
    assert reason.startswith("interrupted after iteration "), errors
    assert kept == "True True"
    assert process.returncode == 0


def test_two_threads_do_not_disturb_each_other():
    problem = make_problem()
    alone = minimize(problem, HeavyBall(), max_iterations=40, tolerance=0)
    results = {}
    threads = [
        threading.Thread(
            target=lambda k=k: results.update(
                {k: minimize(problem, HeavyBall(), max_iterations=40, tolerance=0)}
            )
        )
        for k in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results.values():
        for name in ("value", "values", "gradients"):
            assert result.trace[name].tolist() == alone.trace[name].tolist()
    assert problem.counts == type(problem.counts)(), "the caller's counts are the caller's"


def test_quiet_unless_asked(capfd):
    minimize(make_problem(), HeavyBall(), max_iterations=3)
    minimize(make_problem(), HeavyBall(), max_iterations=3, verbose=1)
    assert capfd.readouterr() == ("", ""), "a live line is for terminals"


def test_a_line_per_iteration_for_logs(capfd):
    minimize(make_problem(), HeavyBall(), max_iterations=3, verbose=2)
    out, err = capfd.readouterr()
    assert out == ""
    assert [line.split()[0] for line in err.splitlines()] == ["HeavyBall:", "0", "1", "2", "3"]


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_a_live_line_on_a_terminal():
    import os
    import pty

    screen, terminal = pty.openpty()
    code = (
        f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(SOURCE)!r}]\n"
        "from run_toys import HeavyBall, make_problem\n"
        "from rankfold.run.driver import minimize\n"
        "minimize(make_problem(), HeavyBall(), max_iterations=7, tolerance=0, verbose=1)\n"
        "from rankfold.run.display import progress\n"
        "with progress(1, 'choosing the rank') as tell: tell('rank 3')\n"
    )
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-c", code], stderr=terminal, env=environment, timeout=600, check=False
    )
    os.close(terminal)
    shown = os.read(screen, 10000).decode()
    os.close(screen)
    assert done.returncode == 0
    assert re.search(r"HeavyBall  \d+\.\d s  iteration 7  value \S+  grad \de[-+]\d\d\s", shown)
    assert "choosing the rank  rank 3" in shown


@pytest.mark.parametrize("seconds", [0.1, 99.96, 123.4, 86_400.0])
def test_a_live_line_fits_80_columns(seconds):
    from rankfold.run.display import _sentence

    row = TraceRow(iteration=9999, value=-1.23456789e-100, gradient_norm=1.23456e-100, seconds=seconds)
    longest = "ReweightedContinuation"
    assert hasattr(rf, longest)
    line = f"{longest}  {_sentence(row)}"
    assert len(line) <= 80
    assert f"{seconds:.0f} s" in line or f"{seconds:.1f} s" in line


def test_result_says_what_happened():
    text = repr(minimize(make_problem(), Script((3.0, 1.0)), max_iterations=1))
    assert text.startswith(
        "Result(not converged: 1 iterations done, the limit is 1; value=1, gradient_norm=1, "
    )
    assert repr(minimize(make_problem(), Script((0.0,)))).startswith("Result(converged: value 0 <= 1e-10 × ")


def test_solvers_have_names():
    assert resolve("tr") == rf.TrustRegion()
    with pytest.raises(ValueError, match=r"solver must be one of 'auto', .* not 'newton'"):
        resolve("newton")


def test_the_driver_asks_the_cost_for_nothing():
    """What a run costs is what its method asks for."""
    bare, method = make_problem(), HeavyBall()
    trace = minimize(make_problem(), method, tolerance=0, max_iterations=20).trace
    state = method.init(bare, bare.start())
    for _ in range(20):
        state = method.step(bare, state)
    assert state.gradient_norm > 0  # which the driver reads, and a method remembers
    for kind in ("values", "gradients", "hessians", "polynomials"):
        assert trace[kind].sum() == getattr(bare.counts, kind), kind


def test_a_solver_must_be_a_method():
    for bad in (HeavyBall, None):
        with pytest.raises(TypeError, match=r"solver must be a method, such as rankfold.TrustRegion\(\)"):
            minimize(make_problem(), bad)


def test_a_start_point_must_be_one_of_the_geometry():
    with pytest.raises(ValueError, match=r"x0 is not a point of Flat\(.*wrong numbers of rows"):
        minimize(make_problem(), HeavyBall(), Pair(np.ones((5, 2)), np.ones((7, 2))))
    with pytest.raises(TypeError, match=r"x0 must be a point of Flat\("):
        minimize(make_problem(), HeavyBall(), 3.0)


def test_a_start_point_off_the_manifold_is_refused_with_the_remedy():
    problem = rf.Problem(make_problem().cost, rf.Polar((7, 5), 2))
    x0 = problem.geometry.random_point(0)
    with pytest.raises(ValueError, match=r"x0 is not a point of Polar\(.*U must have orthonormal columns"):
        minimize(problem, rf.TrustRegion(), x0._replace(U=2 * x0.U))
    with pytest.raises(ValueError, match="B must be positive definite"):
        minimize(problem, rf.TrustRegion(), x0._replace(B=-x0.B))
