import copy
import errno
import hashlib
import io
import itertools
import json
import os
import pickle
import threading

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import rankfold as rf
from estimators.every_estimator import NAMES, example
from rankfold.costs.offsets import Offsets
from rankfold.estimators import model_files as files
from rankfold.estimators import schemas
from rankfold.estimators.completion.joint import Shrinkage
from rankfold.estimators.model_parts import _joined, _named
from rankfold.run import container

PAIRS = [(f"user{i}", 10 * j) for i in range(8) for j in range(6) if (i * j + i) % 3]
VALUES = [float((7 * i) % 5) for i in range(len(PAIRS))]


def fitted(**options):
    return rf.MatrixCompletion(**{"rank": 2, "regularization": 0.5, "random_state": 0} | options).fit(
        PAIRS, VALUES
    )


def content(model):
    buffer = io.BytesIO()
    packer = files._ModelPacker(files._RECORDS)
    files.MODELS.write(buffer, {"model": packer.pack(model)}, packer.arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": np.float32, "geometry": rf.Polar, "solver": rf.TrustRegion(kappa=0.2), "bias": False},
        {"loss": rf.Loss.huber(2.0), "dtype": np.dtype("float64"), "bias": False},
        {"rank": "auto", "regularization": "auto"},
        {"warm_start": True, "geometry": "embedded"},
    ],
)
def test_a_loaded_model_is_the_saved_one(tmp_path, options):
    model, path = fitted(**options), tmp_path / "model.rankfold"
    rf.save(model, path)
    loaded = rf.load(path)
    assert type(loaded) is rf.MatrixCompletion
    assert content(loaded) == content(model)  # every setting and every fitted attribute, to the last bit
    np.testing.assert_array_equal(loaded.predict(PAIRS), model.predict(PAIRS))
    assert loaded.row_labels_.tolist() == model.row_labels_.tolist()
    assert loaded.col_labels_.dtype == model.col_labels_.dtype
    assert loaded.data_fingerprint_ == model.data_fingerprint_
    assert type(loaded.biases_) is type(model.biases_)
    assert clone(loaded).set_params(rank=1, regularization=0.5).fit(PAIRS, VALUES).rank_ == 1


@pytest.mark.parametrize("bias", [True, False])
def test_a_model_of_earlier_days_has_what_later_ones_note(tmp_path, bias):
    """Each attribute that a file of this format had not at first is what it would have been then."""
    model, path = fitted(bias=bias), tmp_path / "model.rankfold"
    counts = model.counts_
    for name in schemas.LATER:
        vars(model).pop(name, None)
    rf.save(model, path)
    loaded = rf.load(path)
    for found, expected in zip(loaded.counts_, counts, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert loaded.shrinkage_ == (Shrinkage(2.0, 2.0) if bias else None)
    assert loaded.posterior_ is loaded.value_range_ is loaded.information_ is None
    assert loaded.features_ == (None, None)
    np.testing.assert_array_equal(loaded.predict(PAIRS), model.predict(PAIRS))
    rf.save(rf.MatrixCompletion(), path)  # one that was never fitted has none of them
    assert not set(schemas.LATER) & set(vars(rf.load(path)))
    imputer = rf.LowRankImputer(1, random_state=0).fit([[1.0, 2.0], [2.0, 4.5], [3.0, np.nan], [4.0, 8.0]])
    del imputer.smoothing_
    rf.save(imputer, path)
    assert rf.load(path).smoothing_ is None


def test_an_estimator_that_is_not_fitted(tmp_path):
    rf.save(rf.MatrixCompletion(rank=7), tmp_path / "model")
    assert rf.load(tmp_path / "model").rank == 7


@pytest.mark.parametrize("dump", ["pickle", "joblib"])
def test_pickles(tmp_path, dump):
    model = fitted()
    model.predict(PAIRS)  # which remembers how to find labels
    if dump == "pickle":
        loaded = pickle.loads(pickle.dumps(model))
    else:
        joblib.dump(model, tmp_path / "model.joblib")
        loaded = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(loaded.predict(PAIRS), model.predict(PAIRS))


@pytest.fixture(scope="module", params=NAMES)
def saved(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.rankfold"
    rf.save(example(request.param).fitted(), path)
    return path, path.read_bytes()


def regions(whole):
    """Where the line with the format, the length, the text, the arrays and the checksum begin and end."""
    line = whole.index(b"\n") + 1
    text = line + 8 + int.from_bytes(whole[line : line + 8], "little")
    bounds = 0, line, line + 8, text, len(whole) - 32, len(whole)
    return list(itertools.pairwise(bounds))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_changed_byte_in_any_region_is_noticed(saved, data):
    path, whole = saved
    first, last = data.draw(st.sampled_from(regions(whole)))
    at = data.draw(st.integers(first, last - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[at]))
    damaged = path.with_name(f"damaged{threading.get_ident()}")
    damaged.write_bytes(whole[:at] + bytes([other]) + whole[at + 1 :])
    with pytest.raises(rf.ModelFileError, match=r"damaged.*(damaged|format)"):
        rf.load(damaged)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_cut_or_lengthened_file_is_noticed(saved, data):
    path, whole = saved
    damaged = path.with_name(f"cut{threading.get_ident()}")
    damaged.write_bytes(
        data.draw(
            st.one_of(
                st.integers(0, len(whole) - 1).map(lambda length: whole[:length]),
                st.binary(min_size=1, max_size=70).map(lambda more: whole + more),
            )
        )
    )
    with pytest.raises(rf.ModelFileError, match=r"cut.*damaged"):
        rf.load(damaged)


@pytest.mark.parametrize(("number", "message"), [(3, "newer than this.*upgrade"), (1, "old format 1.*fit")])
def test_other_formats_are_named(saved, number, message):
    path, whole = saved
    other = path.with_name("other")
    other.write_bytes(whole.replace(b"format 2", f"format {number}".encode(), 1))
    with pytest.raises(rf.ModelFileError, match=f"other.*{message}"):
        rf.load(other)


@pytest.mark.parametrize(("rest", "message"), [(bytes(7), "is damaged"), (bytes(8), "does not fit rankfold")])
def test_a_file_without_room_for_a_model_is_named(tmp_path, rest, message):
    beginning = files.MODELS.magic + f"{files.MODELS.format}\n".encode() + rest
    (tmp_path / "model").write_bytes(beginning + hashlib.sha256(beginning).digest())
    with pytest.raises(rf.ModelFileError, match=message):
        rf.load(tmp_path / "model")


def test_other_files_are_no_models(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.ones(3))
    (tmp_path / "empty").touch()
    for name in ("x.npz", "empty"):
        with pytest.raises(rf.ModelFileError, match=f"{name}.*is not a model"):
            rf.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        rf.load(tmp_path / "missing")


def test_a_file_names_no_class_that_is_not_listed(tmp_path, monkeypatch):
    path = tmp_path / "model"
    rf.save(fitted(), path)
    monkeypatch.delitem(files.ESTIMATORS, "MatrixCompletion")
    with pytest.raises(rf.ModelFileError, match="'MatrixCompletion', which is no estimator of this version"):
        rf.load(path)


@pytest.mark.parametrize("thing", [3, clone, type("Mine", (rf.MatrixCompletion,), {})(), rf.MatrixCompletion])
def test_only_our_own_estimators_are_saved(tmp_path, thing):
    with pytest.raises(TypeError, match="save takes an estimator"):
        rf.save(thing, tmp_path / "model")


def test_what_a_file_cannot_hold_is_named(tmp_path):
    model = rf.MatrixCompletion(random_state=np.random.RandomState(0))
    with pytest.raises(TypeError, match=r"MatrixCompletion.random_state .* a file cannot hold"):
        rf.save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fails", ["write", "fsync"])
def test_a_full_disk_leaves_the_previous_file(tmp_path, monkeypatch, fails):
    path = tmp_path / "model"
    rf.save(fitted(), path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    if fails == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(container._Hashing, "write", full)
    with pytest.raises(OSError, match="No space left"):
        rf.save(fitted(rank=1), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_comes_back_as_it_was(tmp_path, name):
    shown = example(name)
    model = shown.fitted()
    rf.save(model, tmp_path / "model")
    loaded = rf.load(tmp_path / "model")
    assert type(loaded) is type(model)
    assert content(loaded) == content(model)
    np.testing.assert_array_equal(shown.answer(loaded), shown.answer(model))
    assert loaded.data_fingerprint_ == model.data_fingerprint_ == shown.fitted().data_fingerprint_
    clone(loaded).fit(shown.X, shown.y)


@pytest.mark.parametrize("name", NAMES)
def test_other_data_have_another_fingerprint(name):
    shown = example(name)
    before = shown.fitted().data_fingerprint_
    if name == "PairRegressor":
        other = clone(shown.model).set_params(right=shown.model.right * 2).fit(shown.X, shown.y)
    else:
        other = clone(shown.model).fit(shown.X[::-1][:50], None if shown.y is None else shown.y[::-1][:50])
    assert other.data_fingerprint_ != before


@pytest.mark.parametrize("name", NAMES)
def test_feature_names_are_kept(tmp_path, name):
    shown = example(name)
    frame = pd.DataFrame(shown.X, columns=[f"c{k}" for k in range(shown.X.shape[1])])
    model = shown.model.fit(frame, shown.y)
    rf.save(model, tmp_path / "model")
    loaded = rf.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(shown.answer(loaded, frame), shown.answer(model, frame))
    with pytest.raises(ValueError, match="feature names should match"):
        shown.answer(loaded, frame[frame.columns[::-1]])


def test_the_form_of_the_output_is_kept(tmp_path):
    shown = example("LowRankImputer")
    rf.save(shown.fitted().set_output(transform="pandas"), tmp_path / "model")
    assert isinstance(shown.answer(rf.load(tmp_path / "model")), pd.DataFrame)


def test_tables_among_the_settings(tmp_path):
    shown = example("PairRegressor")
    left, right = pd.DataFrame(shown.model.left), shown.model.right
    model = clone(shown.model).set_params(left=left).fit(shown.X, shown.y)
    rf.save(model, tmp_path / "model")
    loaded = rf.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.left, left)
    np.testing.assert_array_equal(loaded.right.toarray(), right.toarray())
    np.testing.assert_array_equal(shown.answer(loaded), shown.answer(model))


def test_labels_of_classes_are_kept(tmp_path):
    shown = example("PairClassifier")
    model = shown.model.fit(shown.X, np.where(shown.y, "binds", "does not"))
    rf.save(model, tmp_path / "model")
    loaded = rf.load(tmp_path / "model")
    assert loaded.classes_.tolist() == ["binds", "does not"]
    np.testing.assert_array_equal(loaded.predict_proba(shown.X), model.predict_proba(shown.X))


def part_of(model, first, last, **other):
    """A model of some of the rows."""
    (L, R), (mean, b, c), (of_rows, of_cols) = model.factors_, model.biases_, model.counts_
    part, rows = copy.copy(model), slice(first, last)
    part.factors_, part.biases_, part.counts_ = (
        (L[rows], R),
        Offsets(mean, b[rows], c),
        (of_rows[rows], of_cols),
    )
    part.observed_ = model.observed_.rows(np.arange(first, last))
    part.row_labels_, part.shape_ = model.row_labels_[rows], (last - first, model.shape_[1])
    vars(part).update(other)
    return part


def test_parts_of_rows_are_joined_to_the_model_they_are_of():
    model = fitted()
    assert model.shape_ == (5, 4)
    parts = [part_of(model, *rows) for rows in ((0, 2), (2, 3), (3, 5))]
    assert _joined(parts[1:2]) is parts[1]
    whole = _joined(parts)
    assert whole.shape_ == (5, 4)
    assert whole.row_labels_.tolist() == model.row_labels_.tolist()
    for name in ("factors_", "biases_", "counts_", "observed_"):
        for mine, theirs in zip(getattr(whole, name), getattr(model, name), strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=name)
    np.testing.assert_allclose(whole.predict(PAIRS), model.predict(PAIRS), atol=1e-12)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"factors_": (np.ones((2, 2)), np.ones((4, 2)))}, "do not belong together"),
        ({"data_fingerprint_": "other"}, "do not belong together"),
        ({"row_labels_": None}, "does not say what its rows are called"),
    ],
)
def test_parts_of_other_models_are_not_joined(other, message):
    model = fitted()
    with pytest.raises(rf.ModelFileError, match=message):
        _joined([part_of(model, 0, 3), part_of(model, 3, 5, **other)])


def test_a_manifest_of_parts_has_so_many_bytes_at_most(tmp_path):
    names = ["01234567-part-00000.rankfold"]
    text = json.dumps({"format": 1, "files": names})
    (tmp_path / "manifest.json").write_text(text.ljust(1 << 20))
    assert _named(tmp_path) == names
    (tmp_path / "manifest.json").write_text(text.ljust((1 << 20) + 1))
    with pytest.raises(rf.ModelFileError, match="is no manifest of a model"):
        _named(tmp_path)


def test_an_array_of_strings_and_others_cannot_be_kept(tmp_path):
    model = rf.PairRegressor(1, left=np.array(["a", 5], dtype=object))
    with pytest.raises(TypeError, match="left is an array of Python objects, which a file cannot hold"):
        rf.save(model, tmp_path / "model")
