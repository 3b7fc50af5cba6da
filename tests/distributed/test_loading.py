"""Many files, read by several processes, and what becomes of them: entries and models."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import rankfold as rf
from distributed.shards import write_shards
from distributed.tasks import Tasks
from distributed.threads import on_threads
from rankfold.costs.completion import Completion
from rankfold.data import read_triples
from rankfold.distributed import Group, SpreadTriples, spread_triples
from rankfold.distributed.spreading import row_cuts
from rankfold.estimators.completion.choosing import fit_offsets
from rankfold.estimators.completion.entries import completion_of
from rankfold.estimators.completion.joint import Joint
from rankfold.estimators.completion.offsets import predictions
from rankfold.estimators.completion.spread_report import repeats_of

pytest.importorskip("torch")
SIZE = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Shards of one table, and files that are no shards."""
    folder = tmp_path_factory.mktemp("loading")
    write_shards(folder)
    (folder / "broken").mkdir()
    (folder / "broken" / "a.csv").write_text("a,b,1\n")
    (folder / "broken" / "b.csv").write_text("a,b,one\n" * 2)
    return folder


@pytest.fixture(scope="module")
def found(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return on_threads(SIZE, lambda group: Tasks(group, folder).loaded())


@pytest.fixture(scope="module")
def triples(folder):
    return read_triples(folder / "whole.parquet")


def test_entries_and_labels_are_those_of_one_file(found, triples):
    assert [rank["cuts"] for rank in found] == [found[0]["cuts"]] * SIZE
    for rank in found:
        np.testing.assert_array_equal(rank["labels"][0], triples.row_labels)
        np.testing.assert_array_equal(rank["labels"][1], triples.col_labels)
    rows, cols, values = (np.concatenate([rank["entries"][k] for rank in found]) for k in range(3))
    order = np.lexsort((triples.cols, triples.rows))
    np.testing.assert_array_equal(rows, triples.rows[order])
    np.testing.assert_array_equal(cols, triples.cols[order])
    np.testing.assert_array_equal(values, triples.values[order])


def test_processes_have_about_as_many_entries_each(found, triples):
    sizes = [len(rank["entries"][0]) for rank in found]
    most = int(np.bincount(triples.rows).max())
    assert abs(sizes[0] - sizes[1]) <= 2 * most


@pytest.mark.parametrize(
    ("counts", "size", "cuts"),
    [
        ([1, 1, 1, 1], 2, (0, 2, 4)),
        ([9, 1, 1, 1], 2, (0, 1, 4)),
        ([1, 1, 1, 9], 2, (0, 3, 4)),
        ([1, 9, 1], 3, (0, 1, 2, 3)),
        ([5, 0, 0, 5], 2, (0, 1, 4)),
        ([4], 3, (0, 0, 1, 1)),
    ],
)
def test_rows_are_cut_where_entries_are(counts, size, cuts):
    found = row_cuts(np.array(counts, dtype=float), size)
    assert found == cuts


def test_plain_completion_is_that_of_one_process(found, triples):
    alone = rf.MatrixCompletion(rank=2, bias=False, regularization=0.0, random_state=0).fit(triples)
    for rank in found:
        model = rank["plain"]
        assert model.converged_
        np.testing.assert_allclose(
            model.predict_at(triples.rows, triples.cols),
            alone.predict_at(triples.rows, triples.cols),
            atol=1e-5,
        )
        np.testing.assert_array_equal(model.factors_[0], found[0]["plain"].factors_[0])
        for mine, theirs in zip(model.observed_, alone.observed_, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        for mine, theirs in zip(model.counts_, alone.counts_, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_penalised_model_minimises_what_one_process_does(found, triples):
    model = found[0]["shrunk"]
    completion = Completion.from_triples(triples)
    joint = Joint.of(completion, 2.0, model.shrinkage_)
    alone = rf.MatrixCompletion(rank=2, regularization=2.0, tol=1e-9, bayesian=False, random_state=0).fit(
        triples
    )
    assert model.shrinkage_ == pytest.approx(alone.shrinkage_, rel=1e-6)

    def value(model):
        (L, R), (mean, b, c) = model.factors_, model.biases_
        return joint.value(np.column_stack([L, mean + b]), np.column_stack([R, c]))

    assert value(model) <= value(alone) * (1 + 1e-4)
    assert model.posterior_ is None


def test_entries_are_set_aside_alike_on_any_number_of_processes(found, folder, triples):
    alone = Tasks(Group(), folder).reported()
    pairs = zip(triples.rows.tolist(), triples.cols.tolist(), strict=True)
    known = dict(zip(pairs, triples.values, strict=True))
    for rank in (each["report"] for each in found):
        for mine, theirs in zip(rank["held_out"], alone["held_out"], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        rows, cols, values = rank["held_out"]
        assert rank["left"] + len(rows) == len(triples)
        assert abs(len(rows) / len(triples) - 0.2) < 0.1
        assert [known[pair] for pair in zip(rows.tolist(), cols.tolist(), strict=True)] == values.tolist()
        assert rank["names"].tolist() == ["user", "item"]


def test_no_more_is_measured_than_is_asked_for(monkeypatch, folder):
    monkeypatch.setattr("rankfold.distributed.loading.MEASURED", 30)
    some = Tasks(Group(), folder).reported()
    assert 10 < len(some["held_out"][0]) < 60


def test_a_report_of_several_processes_is_that_of_one(found, folder, triples):
    data = found[0]["report"]
    rows, cols, values = data["held_out"]
    apart = set(zip(rows.tolist(), cols.tolist(), strict=True))
    kept = np.array(
        [pair not in apart for pair in zip(triples.rows.tolist(), triples.cols.tolist(), strict=True)]
    )
    train = replace(triples, rows=triples.rows[kept], cols=triples.cols[kept], values=triples.values[kept])
    for rank in (each["report"] for each in found):
        fitted, measured = rank["made"]
        assert (measured.data.mean, measured.data.deviation) == pytest.approx(
            (train.values.mean(), train.values.std()), rel=1e-12
        )
        assert (measured.data.least, measured.data.largest) == (train.values.min(), train.values.max())
        assert (measured.data.columns.row, measured.data.repeated) == ("user", 0)
        assert (measured.held_out, fitted.held_out, fitted.errors) == (len(rows), 0, {})
        assert len(fitted.residuals) == len(train)
        offsets = fit_offsets(completion_of(train, None, "square", float))
        guesses = train.values.mean(), predictions(offsets, rows, cols)
        errors = [np.sqrt(np.mean((guess - values) ** 2)) for guess in guesses]
        assert list(measured.errors.values())[:2] == pytest.approx(errors, rel=1e-6)
        assert list(measured.errors.values())[2] < 0.6 * errors[1]


def test_repeated_pairs_are_counted_wherever_they_are():
    rows, cols = np.array([0, 3, 3, 3, 1, 1, 2]), np.array([0, 2, 2, 2, 1, 1, 1])

    def work(group):
        own = np.arange(len(rows)) % group.size == group.rank
        triples = rows[own], cols[own], np.arange(7.0)[own]
        store = spread_triples(*triples, (4, 3), duplicates="keep", group=group)
        return repeats_of(SpreadTriples(store, np.arange(4), np.arange(3)))

    assert on_threads(SIZE, work) == [3, 3]


def test_what_several_processes_do_not_do_is_refused(found):
    for rank in found:
        bayesian, loss, warm, rank_0, negative, values, weights, features, part, nothing, broken = rank[
            "refused"
        ]
        assert "bayesian=True needs all entries in one process" in bayesian
        assert "set bias=False" in loss
        assert "resume from a checkpoint" in warm
        assert "rank must be" in rank_0
        assert "regularization must be" in negative
        assert "logistic" in values
        assert "sample_weight cannot be given beside" in weights
        assert "row_features cannot be given beside" in features
        assert "held_out must be a fraction" in part
        assert "none whose name fits this pattern" in nothing
        assert "b.csv" in broken
