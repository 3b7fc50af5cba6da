"""Many files, read by several processes, and what becomes of them: entries and models."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import rankfold as rf
from distributed.shards import write_shards
from distributed.tasks import Tasks
from distributed.threads import on_threads
from rankfold.costs.completion import Completion
from rankfold.data import read_triples
from rankfold.distributed.spreading import row_cuts
from rankfold.estimators.completion.joint import Joint

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


def test_what_several_processes_do_not_do_is_refused(found):
    for rank in found:
        bayesian, loss, warm, nothing, broken = rank["refused"]
        assert "bayesian=True needs all entries in one process" in bayesian
        assert "set bias=False" in loss
        assert "resume from a checkpoint" in warm
        assert "none whose name fits this pattern" in nothing
        assert "b.csv" in broken
