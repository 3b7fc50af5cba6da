import errno
import io
import os
import pickle
import threading

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import rankfold as rf
from rankfold import files

PAIRS = [(f"user{i}", 10 * j) for i in range(8) for j in range(6) if (i * j + i) % 3]
VALUES = [float((7 * i) % 5) for i in range(len(PAIRS))]


def fitted(**options):
    return rf.MatrixCompletion(**{"rank": 2, "regularization": 0.5, "random_state": 0} | options).fit(
        PAIRS, VALUES
    )


def content(model):
    buffer = io.BytesIO()
    packer = files._ModelPacker(files._records())
    tree = packer.pack(model)
    files._write(buffer, repr(tree).encode(), packer.arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": np.float32, "geometry": rf.Polar, "solver": rf.TrustRegion(kappa=0.2)},
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
    clone(loaded).fit(PAIRS, VALUES)


def test_an_estimator_that_is_not_fitted(tmp_path):
    rf.save(rf.MatrixCompletion(rank=7), tmp_path / "model")
    assert rf.load(tmp_path / "model").rank == 7


def test_feature_names_are_kept(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(PAIRS, columns=["who", "what"])
    rf.save(rf.MatrixCompletion(1, regularization=1.0).fit(frame, VALUES), tmp_path / "model")
    loaded = rf.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["who", "what"]
    loaded.predict(frame)


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


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.rankfold"
    rf.save(fitted(), path)
    return path, path.read_bytes()


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_changed_byte_anywhere_is_noticed(saved, data):
    path, whole = saved
    at = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[at]))
    damaged = path.with_name(f"damaged{threading.get_ident()}")
    damaged.write_bytes(whole[:at] + bytes([other]) + whole[at + 1 :])
    with pytest.raises(rf.ModelFileError, match=r"damaged.*(damaged|format)"):
        rf.load(damaged)


@settings(max_examples=100, deadline=None)
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


@pytest.mark.parametrize(("number", "message"), [(2, "newer than this.*upgrade"), (0, "old format 0.*fit")])
def test_other_formats_are_named(saved, number, message):
    path, whole = saved
    other = path.with_name("other")
    other.write_bytes(whole.replace(b"format 1", f"format {number}".encode(), 1))
    with pytest.raises(rf.ModelFileError, match=f"other.*{message}"):
        rf.load(other)


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
    monkeypatch.setattr(files, "ESTIMATORS", ("PairRegressor",))
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
        monkeypatch.setattr(files._Hashing, "write", full)
    with pytest.raises(OSError, match="No space left"):
        rf.save(fitted(rank=1), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_other_estimators_are_kept_too(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    model = rf.ReducedRankRegression(rank=1).fit(X, X @ rng.standard_normal((5, 3)))
    rf.save(model, tmp_path / "model")
    loaded = rf.load(tmp_path / "model")
    assert content(loaded) == content(model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
