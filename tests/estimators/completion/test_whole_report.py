"""What a report is told of a model: every number of it, and what is asked of the model beside."""

from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from rankfold.costs.offsets import Offsets
from rankfold.estimators.completion import reporting
from rankfold.estimators.completion.completed import CompletedMatrix
from rankfold.estimators.completion.neighbours import Recommendations, directions
from rankfold.estimators.completion.regularization_path import RegularizationPath
from rankfold.report.content import Tried
from rankfold.selection.rank import RankPath

TRAIN = rf.data.random_completion((12, 9), rank=1, oversampling=3, seed=0, noise=0.2)
APART = reporting.Entries(np.array([0, 3, 11]), np.array([8, 2, 0]), np.array([1.0, -2.0, 0.5]))
MAKING = reporting.Making("ratings", 7.5, "type this", {"rank": "2"})
RANKS = RankPath((1, 2), (5.0, 3.0), (0.2, 0.1), (1.0, 0.5), 2)
WEIGHTS = RegularizationPath((4.0, 2.0, 1.0), (5.0, 3.0, 3.5), 2.0, (0.3, 0.2, 0.1))


@pytest.fixture(scope="module")
def model():
    made = rf.MatrixCompletion(2, regularization=0.5, bayesian=True, random_state=0).fit(TRAIN)
    made.rank_path_, made.regularization_path_ = RANKS, WEIGHTS
    return made


def test_intervals_that_are_judged_are_of_half_to_nearly_all():
    assert reporting.PROMISED == (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    assert MAKING.seed == 0


def test_a_report_has_all_that_a_model_knows_of_itself(model):
    made = reporting.report_of(model, TRAIN, APART, MAKING)
    assert (made.rank, made.seconds, made.settings, made.command) == (2, 7.5, {"rank": "2"}, "type this")
    assert made.trace is model.trace_
    L, R = model.factors_
    np.testing.assert_allclose(made.singular_values, np.linalg.svd(L @ R.T)[1][:2], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(made.values, APART.values)
    np.testing.assert_allclose(made.residuals, APART.values - model.predict_at(*APART[:2]))
    assert made.errors == reporting._errors(model, TRAIN, APART, made.data.mean)
    assert made.coverage == reporting._coverage(model, APART)
    calibration = model.posterior_.calibration
    assert (made.held_out, made.calibrated) == (3, 0 if calibration is None else calibration.held_out)
    assert made.ranks == Tried.of_path(RANKS, True, finished=model.posterior_.sweeps > 0)
    assert made.weights == Tried.of_path(WEIGHTS, True)
    assert (made.data.mean, made.data.deviation) == pytest.approx((TRAIN.values.mean(), TRAIN.values.std()))


def test_without_entries_held_out_residuals_are_those_of_the_fit(model):
    made = reporting.report_of(model, TRAIN, None, MAKING)
    assert (made.held_out, made.errors) == (0, {})
    np.testing.assert_allclose(made.residuals, TRAIN.values - model.predict_at(TRAIN.rows, TRAIN.cols))
    assert made.coverage == reporting._coverage(model, None)
    part = rf.data.Triples(TRAIN.rows[:9], TRAIN.cols[:9], TRAIN.values[:9], TRAIN.shape)
    told = reporting.report_of(model, part, None, MAKING).data
    for mine, theirs in zip((told.row_counts, told.col_counts), model.counts_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("sweeps", "held_out", "finished"), [(None, None, False), (0, 40, False), (1, 40, True), (3, None, True)]
)
def test_what_the_bayesian_finish_did_is_told(model, sweeps, held_out, finished):
    known = None if held_out is None else SimpleNamespace(held_out=held_out, own=lambda part: part / 2)
    posterior = None if sweeps is None else SimpleNamespace(sweeps=sweeps, calibration=known)
    told = {name: getattr(model, name) for name in (
        "rank_", "trace_", "factors_", "loss", "shape_", "counts_", "value_range_", "observed_", "rank_path_",
        "regularization_path_", "predict_at")}  # fmt: skip
    made = reporting.report_of(SimpleNamespace(posterior_=posterior, **told), None, None, MAKING)
    assert made.ranks == Tried.of_path(RANKS, True, finished=finished)
    assert made.calibrated == (held_out or 0)
    assert made.coverage == (tuple((p, p / 2) for p in reporting.PROMISED) if held_out else ())
    assert (len(made.values), len(made.residuals), made.data.searched) == (0, 0, False)
    assert made.data.columns is None


@pytest.mark.parametrize(
    ("names", "told"), [(("who", "what"), ("who", "what")), (("what", "what"), ("rows", "cols")),
                        (("scores", "what"), ("rows", "cols")), (("who", "scores"), ("rows", "cols"))]
)  # fmt: skip
def test_recommendations_have_the_names_of_the_data_where_these_differ(names, told):
    found = Recommendations(np.array([1]), np.array([2]), np.array([0.5]), names)
    assert list(found) == [*told, "scores"]
    assert (found.rows.tolist(), found.cols.tolist(), found.scores.tolist()) == ([1], [2], [0.5])


@pytest.mark.parametrize("unit", [1e-4, 1.0])
def test_rows_of_w_have_the_cosines_of_their_directions_in_any_unit(unit):
    """Whatever factors of W are given: here ones of rank 2 in three columns, and a row that is 0."""
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((5, 3)), rng.standard_normal((4, 2)) @ rng.standard_normal((2, 3))
    L[3] = 0.0
    W = L @ R.T
    lengths = np.linalg.norm(W, axis=1, keepdims=True)
    unit_rows = np.divide(W, lengths, out=np.zeros_like(W), where=lengths > 0)
    A = directions(unit * L, unit * R)
    np.testing.assert_allclose(A @ A.T, unit_rows @ unit_rows.T, atol=1e-7)
    assert not A[3].any()


def test_scores_of_rows_are_what_is_predicted_everywhere():
    rng = np.random.default_rng(1)
    made = rf.MatrixCompletion(loss="poisson")
    made.factors_ = rng.standard_normal((5, 2)), rng.standard_normal((4, 2))
    made.biases_ = Offsets(0.5, rng.standard_normal(5), rng.standard_normal(4))
    (L, R), (mean, b, c) = made.factors_, made.biases_
    W = L @ R.T + mean + b[:, None] + c
    np.testing.assert_allclose(made._scores(np.array([3, 0])), np.exp(W[[3, 0]]), rtol=1e-12)
    np.testing.assert_allclose(made.as_linear_operator() @ np.eye(4), W, rtol=1e-12, atol=1e-12)


def test_a_report_of_labels_held_out_is_of_numbers_and_of_the_whole_time(model, monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(
        "rankfold.estimators.completion.completed.report_of", lambda *given: told.append(given) or given
    )
    monkeypatch.setattr("rankfold.report.write_report", lambda report, path: told.append(path))
    held_out = rf.data.Triples(*APART[:2], np.array([1, 0, 1], np.int8), TRAIN.shape)
    CompletedMatrix.report(model, tmp_path / "r", held_out)
    (_, train, entries, making), path = told
    assert (train, path) == (model._entries, tmp_path / "r")
    assert (entries.values.dtype, entries.values.tolist()) == (np.float64, [1.0, 0.0, 1.0])
    assert (making.source, making.seconds) == ("the data", model.trace_[-1].seconds)
    assert making.settings["stopped"] == model.stop_reason_
    assert len({row.seconds for row in model.trace_}) > 1


def test_the_score_is_the_part_of_the_weighted_variance_that_is_explained(model):
    weights = np.array([1.0, 2.0, 5.0])
    data = rf.data.Triples(*APART, TRAIN.shape)
    y, found = APART.values, model.predict_at(*APART[:2])
    due = 1 - weights @ (y - found) ** 2 / (weights @ (y - weights @ y / 8) ** 2)
    assert model.score(data, sample_weight=weights) == pytest.approx(due, rel=1e-9)


def test_what_a_fit_is_given_reaches_a_fit_of_several_processes(monkeypatch):
    from rankfold.distributed import SpreadTriples, spread_triples

    asked = []
    monkeypatch.setattr(
        "rankfold.estimators.completion.spread.fit", lambda *given, **run: asked.append((given, run))
    )
    data = SpreadTriples(spread_triples([0, 1], [0, 1], [1.0, 2.0], (2, 2)), np.arange(2), np.arange(2))
    made = rf.MatrixCompletion()
    assert made.fit(data, callback=print, checkpoint="there", resume="here") is made
    assert asked == [((made, data, 500_000), {"callback": print, "checkpoint": "there", "resume": "here"})]
    with pytest.raises(ValueError, match="col_features cannot be given beside entries that are spread"):
        made.fit(data, col_features=np.ones((2, 1)))
    with pytest.raises(ValueError, match="shape cannot be given beside"):
        rf.MatrixCompletion(shape=(2, 2)).fit(data)


@pytest.mark.parametrize(
    ("settings", "given", "free"),
    [
        ({}, {}, (True, True)),
        ({"row_features": False}, {}, (False, True)),
        ({"col_features": False}, {}, (True, False)),
        ({}, {"col_features": False}, (True, False)),
        ({"row_features": False, "col_features": False}, {}, (False, False)),
    ],
)
def test_no_features_of_a_side_are_its_own_matter(monkeypatch, settings, given, free):
    asked = []
    monkeypatch.setattr(rf.MatrixCompletion, "_fit", lambda self, *rest: asked.append(rest))
    monkeypatch.setattr(rf.MatrixCompletion, "_take_in", lambda self, given: None)
    made = rf.MatrixCompletion(**settings)
    made.fit(TRAIN, sample_weight=3.0, callback=print, checkpoint="there", resume="here", **given)
    ((data, weight, last, features, found, run),) = asked
    assert (data.shape, weight, last, features, found) == (TRAIN.shape, 3.0, None, (None, None), free)
    assert run == {"callback": print, "checkpoint": "there", "resume": "here"}
