import signal
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import rankfold as rf
from rankfold.estimators import fitting
from rankfold.estimators.fitting import (
    all_or_nothing,
    fit_model,
    fit_problem,
    problem_of,
    record_run,
    try_model,
    warm_point,
    warn_unless_converged,
)
from rankfold.fingerprint import fingerprint
from rankfold.interrupts import keep_until_done
from rankfold.run.stopping import RelativeChange, Stop, StopKind
from rankfold.run.trace import Trace, TraceRow


def completion():
    data = rf.data.random_completion((30, 20), rank=2, oversampling=5, seed=0)
    return rf.Completion.from_triples(data)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("auto", rf.FullRank),
        ("full_rank", rf.FullRank),
        ("polar", rf.Polar),
        ("subspace", rf.SubspaceProjection),
        ("embedded", rf.Embedded),
        (rf.Polar, rf.Polar),
    ],
)
def test_a_geometry_by_name_or_class(name, kind):
    problem = problem_of(completion(), 2, name)
    assert isinstance(problem.geometry, kind)
    assert fit_problem(problem).converged


def test_an_unknown_geometry_is_named_with_the_choices():
    with pytest.raises(ValueError, match=r"geometry must be one of 'auto', .*, not 'sphere'"):
        problem_of(completion(), 2, "sphere")


def test_a_fit_that_stops_early_warns():
    with pytest.warns(
        ConvergenceWarning, match="1 iterations without convergence.*raise max_iter, or loosen tol"
    ):
        assert not fit_problem(problem_of(completion(), 2), max_iterations=1).converged


@pytest.mark.parametrize("kind", StopKind)
def test_a_warning_names_the_remedy_where_there_is_one(kind):
    trace, stop = Trace([TraceRow(k, 1.0, 1.0, 0.0) for k in range(4)]), Stop("why", kind)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_unless_converged(trace, stop)
    told = "stopped after 3 iterations without convergence (why)"
    remedy = ": raise max_iter, or loosen tol" if kind in (StopKind.LIMIT, StopKind.STALLED) else ""
    assert [str(each.message) for each in caught] == ([] if stop.converged else [told + remedy])
    assert all(each.category is ConvergenceWarning for each in caught)


def test_a_stop_that_is_accepted_does_not_warn():
    result = fit_problem(problem_of(completion(), 2), (StopKind.LIMIT,), max_iterations=1)
    assert result.stop.kind is StopKind.LIMIT


@pytest.mark.parametrize(("iterations", "told"), [(0, 1), (1, 1), (4, 4)])
def test_a_model_tells_how_its_fit_went(iterations, told):
    model, trace = SimpleNamespace(), Trace([TraceRow(k, 1.0, 1.0, 0.0) for k in range(iterations + 1)])
    record_run(model, trace, Stop("why", StopKind.LIMIT))
    assert model.n_iter_ == told
    assert model.trace_ is trace
    assert (model.converged_, model.stop_reason_, model.stop_kind_) == (False, "why", StopKind.LIMIT.value)


def test_an_error_of_the_cost_is_raised():
    def broken(L, R):
        raise FloatingPointError("the cost broke")

    cost = rf.Custom(broken, (4, 3))
    with pytest.raises(FloatingPointError, match="the cost broke"):
        fit_problem(problem_of(cost, 1), x0=rf.FullRank((4, 3), 1).random_point(0), max_iterations=3)


def test_fingerprints_of_sparse_tables_know_their_shape():
    tables = [sparse.csr_array(([1.0], ([0], [0])), shape=(1, columns)) for columns in (3, 7)]
    assert len({fingerprint(table) for table in tables}) == 2


def test_ctrl_c_after_the_last_iteration_is_recorded():
    class Model:
        @all_or_nothing
        def fit(self, stopped):
            keep_until_done()  # as the last fit does
            if stopped:
                signal.raise_signal(signal.SIGINT)
            self.trace_ = Trace([TraceRow(k, 1.0, 1.0, 0.0) for k in range(8)])
            record_run(self, self.trace_, Stop("fine", StopKind.CONVERGED))
            return self

    assert Model().fit(False).converged_
    with pytest.warns(ConvergenceWarning, match="stopped after 7 iterations .*interrupted after iteration 7"):
        fitted = Model().fit(True)
    assert (fitted.converged_, fitted.stop_kind_) == (False, "interrupted")


def test_a_fit_that_raises_leaves_the_model_of_the_last_one():
    class Model:
        @all_or_nothing
        def fit(self, value):
            self.value_ = value
            if value is None:
                raise ValueError
            self.more_ = value

    model = Model()
    model.fit(1)
    with pytest.raises(ValueError):  # noqa: PT011
        model.fit(None)
    assert vars(model) == {"value_": 1, "more_": 1}


def test_a_fit_goes_by_the_settings_of_its_model(monkeypatch):
    seen = []
    done = SimpleNamespace(error=None, stop=Stop("fine", StopKind.CONVERGED), trace=None)
    monkeypatch.setattr(fitting, "minimize", lambda problem, **options: seen.append(options) or done)
    model = SimpleNamespace(solver="cg", max_iter=17, tol=0.25, verbose=2)
    problem, x0 = problem_of(completion(), 2), object()
    fit_model(model, problem, None, x0)
    try_model(model, problem, x0)
    try_model(model, problem, tol=0.5)
    common = {"solver": "cg", "max_iterations": 17, "tolerance": 0.0}
    assert seen == [
        common | {"x0": x0, "verbose": 2, "stop": RelativeChange(0.25, window=5)},
        common | {"x0": x0, "stop": RelativeChange(0.25, window=5)},
        common | {"x0": None, "stop": RelativeChange(0.5, window=5)},
    ]
    L, R = (np.random.default_rng(k).standard_normal((d, 2)) for k, d in enumerate((30, 20)))
    fit_model(model, problem, (L, R), x0)
    np.testing.assert_allclose(seen[-1]["x0"].G @ seen[-1]["x0"].H.T, L @ R.T, atol=1e-9)
    fit_model(model, problem, (L[:-1], R), x0)  # of another size
    assert seen[-1]["x0"] is x0


def test_a_trial_that_is_interrupted_ends_the_fit(monkeypatch):
    done = SimpleNamespace(error=None, stop=Stop("Ctrl-C", StopKind.INTERRUPTED), trace=None)
    monkeypatch.setattr(fitting, "minimize", lambda problem, **options: done)
    model = SimpleNamespace(solver="cg", max_iter=17, tol=0.25, verbose=2)
    with pytest.raises(KeyboardInterrupt):
        try_model(model, problem_of(completion(), 2))


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_the_last_fit_is_taken_as_near_as_the_rank_allows(rank):
    L, R = (np.random.default_rng(k).standard_normal((d, 2)) for k, d in enumerate((30, 20)))
    problem = problem_of(completion(), rank, "embedded")
    U, s, Vt = np.linalg.svd(L @ R.T)
    near = (U[:, :2] * np.where(np.arange(2) < rank, s[:2], 0.0)) @ Vt[:2]
    G, H = problem.geometry.factors(warm_point(problem, L, R))
    np.testing.assert_allclose(G @ H.T, near, atol=1e-6 * s[0])
