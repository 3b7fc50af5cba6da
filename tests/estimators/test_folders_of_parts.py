"""A folder of parts of a model: which files are written, named, removed and read; what files keep."""

import copy
import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import rankfold as rf
from rankfold.costs.offsets import Offsets
from rankfold.distributed.group import Group
from rankfold.estimators import model_files
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.model_parts import Share, _named, load_parts, save_part

PAIRS = [(f"user{i}", 10 * j) for i in range(5) for j in range(4) if (i * j + i) % 3 < 2]
NAMES = [f"01234567-part-0000{k}.rankfold" for k in range(3)]


@pytest.fixture(scope="module")
def model():
    values = np.arange(len(PAIRS)) % 5 + 1.0
    return rf.MatrixCompletion(1, regularization=0.5, random_state=0).fit(PAIRS, values)


def part_of(model, first, last):
    part, rows = copy.copy(model), slice(first, last)
    mean, b, c = model.biases_
    part.factors_ = model.factors_[0][rows], model.factors_[1]
    part.biases_, part.counts_ = Offsets(mean, b[rows], c), (model.counts_[0][rows], model.counts_[1])
    part.observed_ = model.observed_.rows(np.arange(first, last))
    part.row_labels_, part.shape_ = model.row_labels_[rows], (last - first, model.shape_[1])
    return part


class OneOf:
    """A process of several, the others of which have so many rows, and do nothing here."""

    def __init__(self, rank, heights):
        self.rank, self.size, self.heights, self.compared = rank, len(heights), heights, []

    def stacked(self, array):
        assert array.tolist() == [self.heights[self.rank]]
        assert array.dtype == np.int64
        return np.array(self.heights)[:, None]

    def together(self, act, what):
        assert what
        return act()

    def require_equal(self, what, value):
        self.compared.append(value)


def test_each_process_writes_its_rows_and_the_first_says_what_there_is(model, tmp_path):
    folder, bounds = tmp_path / "deep" / "model", [(0, 2), (2, 2), (2, 5)]
    foreign = ["0000-part-1.rankfold", "01234567-part-00000.txt", "mine.rankfold"]
    for rank in (2, 1, 0):
        part = (
            part_of(model, *bounds[rank])
            if rank != 1
            else SimpleNamespace(shape_=(0, 4), factors_=model.factors_)
        )
        save_part(part, folder, OneOf(rank, [2, 0, 3]))
        if rank == 2:
            for name in (*foreign, NAMES[1]):
                (folder / name).write_text("before")
        assert (folder / "manifest.json").exists() == (rank == 0)
    said = json.loads((folder / "manifest.json").read_text())
    run = said["files"][0][:8]
    assert said == {
        "format": 1, "rankfold": rf.__version__,
        "files": [f"{run}-part-00000.rankfold", f"{run}-part-00002.rankfold"],
    }  # fmt: skip
    assert (folder / "manifest.json").read_text().endswith("}\n")
    assert {path.name for path in folder.iterdir()} == {"manifest.json", *said["files"], *foreign}
    whole = load_parts(folder)
    assert (whole.first, whole.rows) == (0, 5)
    np.testing.assert_array_equal(whole.model.factors_[0], model.factors_[0])
    assert load_parts(str(folder), Group()).rows == 5


@pytest.mark.parametrize(
    ("heights", "shares"),
    [([5], [(0, 5)]), ([1, 4], [(0, 1), (1, 5)]), ([1, 2, 2], [(0, 1), (1, 3), (3, 5)])],
)
def test_parts_are_shared_out_in_order(model, tmp_path, heights, shares):
    for rank, (first, last) in enumerate([(0, 1), (1, 3), (3, 5)]):
        save_part(part_of(model, first, last), tmp_path, OneOf(rank, [1, 2, 2]))
    save_part(part_of(model, 0, 1), tmp_path, OneOf(0, [1, 2, 2]))
    for rank, (first, last) in enumerate(shares):
        group = OneOf(rank, heights)
        share = load_parts(tmp_path, group)
        assert isinstance(share, Share)
        assert (share.first, share.rows) == (first, 5)
        assert share.model.row_labels_.tolist() == model.row_labels_[first:last].tolist()
        assert len(group.compared) == 1
    with pytest.raises(
        rf.ModelFileError, match="a model in 3 parts, and there are 4 processes: start no more"
    ):
        load_parts(tmp_path, OneOf(0, [1, 1, 1, 2]))


def test_models_of_other_columns_have_files_of_other_names(model, tmp_path):
    for change in (0.0, 1.0):
        other = copy.copy(model)
        other.factors_ = model.factors_[0], model.factors_[1] + change
        save_part(other, tmp_path, Group())
    assert len(list(tmp_path.iterdir())) == 2
    np.testing.assert_array_equal(load_parts(tmp_path).model.factors_[1], model.factors_[1] + 1.0)


GOOD = {"format": 1, "files": NAMES}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (GOOD, ""),
        (GOOD | {"more": 5}, ""),
        (GOOD | {"files": NAMES[:1]}, ""),
        (GOOD | {"files": []}, "is no manifest"),
        (GOOD | {"files": [*NAMES, 5]}, "is no manifest"),
        (GOOD | {"files": [5, *NAMES]}, "is no manifest"),
        (GOOD | {"files": [*NAMES, "../01234567-part-00000.rankfold"]}, "is no manifest"),
        (GOOD | {"files": ["01234567-part-0000.rankfold"]}, "is no manifest"),
        (GOOD | {"files": NAMES[0]}, "is no manifest"),
        (GOOD | {"format": 0}, "is no manifest"),
        (GOOD | {"format": 2}, "is newer than this rankfold .*: upgrade it"),
        ({"format": 2}, "is newer than this rankfold"),
        ({"files": NAMES}, "is no manifest"),
        ([GOOD], "is no manifest"),
        (None, "is no manifest"),
    ],
)
def test_a_manifest_names_files_of_parts_and_nothing_else(tmp_path, said, message):
    (tmp_path / "manifest.json").write_text(json.dumps(said))
    if message:
        with pytest.raises(rf.ModelFileError, match=f"manifest.json' {message}"):
            _named(tmp_path)
    else:
        assert _named(tmp_path) == said["files"]


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"format": 1e999}'])
def test_a_damaged_manifest_is_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(rf.ModelFileError, match="is no manifest of a model, or damaged: fit the model again"):
        _named(tmp_path)


def test_a_folder_without_a_manifest_is_no_model(tmp_path):
    with pytest.raises(rf.ModelFileError, match="is a folder, and no model in parts: it has no manifest"):
        load_parts(tmp_path)


def test_a_file_is_read_as_the_kind_that_is_wanted(model, tmp_path):
    rf.save(model, tmp_path / "model")
    assert type(rf.load(tmp_path / "model", rf.MatrixCompletion)) is rf.MatrixCompletion
    with pytest.raises(rf.ModelFileError, match="model holds a MatrixCompletion, no PairRanker"):
        rf.load(tmp_path / "model", rf.PairRanker)


def test_of_features_a_file_keeps_whether_they_are_left_out(tmp_path):
    made = rf.MatrixCompletion(2, row_features=False, col_features=np.ones((3, 2)))
    rf.save(made, tmp_path / "model")
    loaded = rf.load(tmp_path / "model")
    assert loaded.row_features is False
    assert loaded.col_features is None
    assert loaded.rank == 2


class Mine(BaseEstimator):
    """An estimator of somebody else."""


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("geometry", Mine),
        ("geometry", int),
        (
            "loss",
            rf.Loss.from_functions(lambda w, y: (w - y) ** 2, lambda w, y: 2 * (w - y), lambda w, y: 2.0),
        ),
        ("solver", Mine()),
        ("shape", {1: 2, "a": 3}),
        ("shape", np.array([["a"], ["b"]], dtype=object)),
    ],
)
def test_settings_that_a_file_cannot_hold_are_named(tmp_path, name, setting):
    with pytest.raises(TypeError, match=rf"MatrixCompletion\.{name} "):
        rf.save(rf.MatrixCompletion(2, **{name: setting}), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_counts_of_earlier_models_are_of_all_columns():
    old = rf.MatrixCompletion(1)
    old.observed_ = Pattern(np.array([0, 2, 2, 3]), np.array([1, 0, 1], np.uint32))
    old.shape_ = 3, 4
    model_files._bring_up_to_date(old)
    assert [count.tolist() for count in old.counts_] == [[2, 0, 1], [1, 2, 0, 0]]
