from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import rankfold as rf
from rankfold.selection import retrying
from rankfold.selection.identifiability import identifiability
from rankfold.selection.retrying import FITS, OPEN, WRONG, judged, perturbed, retried
from rankfold.solvers.trimming import leverages


def drawn(shape=(60, 50), rank=2, oversampling=2.5, seed=0):
    data = rf.data.random_completion(shape, rank, oversampling, seed, condition=10, min_per_line=True)
    return data, rf.Completion.from_triples(data)


def test_the_truth_fits_and_a_line_that_ran_away_is_counted():
    data, cost = drawn()
    verdict = judged(cost, data.L, data.R)
    assert (verdict.kind, verdict.lines) == (FITS, 0)
    L = data.L.copy()
    L[7] *= 1e3
    verdict = judged(cost, L, data.R)
    assert (verdict.kind, verdict.lines) == (WRONG, 1)
    assert verdict.misfit == pytest.approx(cost.value(L, data.R) / cost.value_at_zero)
    assert "a wrong minimum, at a misfit of" in str(verdict)
    assert "1 lines have run away" in str(verdict)


def test_what_fits_depends_on_how_exact_the_data_are():
    data, cost = drawn()
    L = data.L * (1 + 1e-3)  # a misfit of 1e-6
    assert [judged(cost, L, data.R, misfit).kind for misfit in (1e-16, 0.9e-6, 1.1e-6)] == [
        WRONG,
        WRONG,
        FITS,
    ]


def test_a_fit_that_the_entries_do_not_determine_is_open():
    data, cost = drawn()
    keep = data.rows != 3
    keep[np.flatnonzero(data.rows == 3)[:1]] = True  # one entry for two unknowns
    cost = rf.Completion(data.rows[keep], data.cols[keep], data.values[keep], data.shape)
    for L in (data.L, data.L + 0.1):
        verdict = judged(cost, L, data.R)
        assert verdict.kind == OPEN
        assert "rows have fewer than 2 entries" in str(verdict)


def test_what_nobody_can_tell_is_not_open_and_is_asked_where_no_line_has_run_away(monkeypatch):
    data, cost = drawn()
    known, asked = identifiability(cost, data.L, data.R), []

    def unknown(cost, L, R):
        asked.append((L, R))
        return replace(known, free=float("nan"))

    monkeypatch.setattr(retrying, "identifiability", unknown)
    away = data.L.copy()
    away[7] *= 1e9
    assert [judged(cost, L, data.R).kind for L in (data.L, away)] == [FITS, WRONG]
    for (L, R), (again, _) in pairwise(asked):
        assert np.array_equal(L, again)
        assert 0.5 < np.std(L) < 1.5
        assert 0.5 < np.std(R) < 1.5


def scripted(monkeypatch, kinds):
    """Let the verdicts be these, in turn, and count the fits."""
    calls = []
    data, cost = drawn()
    verdict, rest = judged(cost, data.L, data.R), iter(kinds)
    monkeypatch.setattr(retrying, "judged", lambda *_: replace(verdict, kind=next(rest)))
    value = iter(range(100, 0, -1))

    def fitted(problem, solver="auto", x0=None, **options):
        calls.append((solver, x0, options))
        return replace(rf.minimize(problem, max_iterations=1), value=float(next(value)))

    monkeypatch.setattr(retrying, "minimize", fitted)
    return cost, calls


@pytest.mark.parametrize(
    ("kinds", "tries"), [([FITS], 0), ([OPEN], 0), ([WRONG, FITS], 1), ([WRONG, OPEN], 1), ([WRONG] * 4, 3)]
)
def test_it_tries_again_only_where_the_fit_is_wrong(monkeypatch, kinds, tries):
    cost, calls = scripted(monkeypatch, kinds)
    found = retried(cost, 2, tolerance=1e-3)
    assert (found.tries, found.verdict.kind, len(calls)) == (tries, kinds[-1], tries + 1)
    assert found.result.value == 100 - tries
    assert all(options == {"tolerance": 1e-3} for _, _, options in calls)
    assert all(solver == rf.TrimmedContinuation(start=2) for solver, _, _ in calls[1:])
    starts = [x0 for _, x0, _ in calls[1:]]
    assert all(not np.array_equal(a.G, b.G) for a, b in pairwise(starts))


def test_a_worse_fit_is_not_kept(monkeypatch):
    cost, _ = scripted(monkeypatch, [WRONG] * 4)
    fitted, values = retrying.minimize, iter([1.0, 2.0, 0.5, 3.0])
    monkeypatch.setattr(retrying, "minimize", lambda *a, **k: replace(fitted(*a, **k), value=next(values)))
    assert retried(cost, 2).result.value == 0.5


def test_a_fit_that_is_no_better_is_not_judged(monkeypatch):
    cost, _ = scripted(monkeypatch, [WRONG, FITS])
    fitted = retrying.minimize
    monkeypatch.setattr(retrying, "minimize", lambda *a, **k: replace(fitted(*a, **k), value=1.0))
    found = retried(cost, 2, tries=2)
    assert (found.verdict.kind, found.tries) == (WRONG, 2)


def test_a_perturbed_start_is_near_but_for_lines_that_ran_away():
    data, cost = drawn()
    problem = rf.Problem.of(cost, 2)
    L = data.L.copy()
    L[7] *= 1e3
    x = perturbed(problem, problem.geometry.from_factors(L, data.R), np.random.default_rng(0))
    assert max(leverages(problem, x)[0]) < 16
    away = data.relative_error(*problem.geometry.factors(x))
    assert 0.2 < away < 0.8
    other = perturbed(problem, problem.geometry.from_factors(L, data.R), np.random.default_rng(1))
    assert not np.array_equal(x.G, other.G)


def test_a_start_that_lacks_pairs_is_perturbed_to_one_that_has_all():
    data, cost = drawn()
    problem = rf.Problem.of(cost, 2)
    x = problem.with_rank(1).geometry.from_factors(data.L[:, :1], data.R[:, :1])
    L, R = problem.geometry.factors(perturbed(problem, x, np.random.default_rng(0)))
    s = np.linalg.svd(L @ R.T)[1]
    assert 0.01 < s[1] / s[0] < 0.5
