"""Models whose rows outgrow a process: a folder of parts, and predictions by those who have the rows."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
import typer

import rankfold as rf
from distributed.threads import on_threads
from rankfold.cli import shared_out, together
from rankfold.cli.app import app
from rankfold.cli.console import FAILED
from rankfold.distributed import Group, read
from rankfold.estimators.model_files import ModelFileError
from rankfold.estimators.model_parts import load_parts, save_part

pytest.importorskip("torch")
ROWS, COLS = 23, 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two files of entries, and one of pairs, some of which nobody knows."""
    folder = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((ROWS, 1)), rng.standard_normal((COLS, 1))
    W = 3 + L @ R.T + rng.standard_normal((ROWS, 1))
    known = [(i, j) for i in range(ROWS) for j in range(COLS) if (i + 2 * j) % 3]
    for k in range(2):
        lines = [f"u{i:02d},{7 * j},{W[i, j]}" for i, j in known[k::2]]
        (folder / f"{k}.csv").write_text("\n".join(["user,item,stars", *lines]) + "\n")
    pairs = [(f"u{i:02d}", 7 * j) for i in range(0, ROWS, 2) for j in range(COLS)]
    pairs += [("nobody", 7), ("u03", 5), ("nobody", 5)]
    lines = [f"{user},{item}" for user, item in pairs]
    (folder / "pairs.csv").write_text("\n".join(["user,item", *lines]) + "\n")
    return folder


def fitted(group, folder, parts):
    data = read(f"{folder}/[01].csv", ("user", "item", "stars"), group=group, parts=parts)
    model = rf.MatrixCompletion(rank=1, regularization=1.0, random_state=0)
    return model.fit(data)


@pytest.fixture(scope="module")
def models(folder):
    """The model of one process, and that of three in parts, which are in a folder."""
    alone = fitted(Group(), folder, False)

    def part(group):
        model = fitted(group, folder, True)
        save_part(model, folder / "model.parts", group)
        return model

    return alone, on_threads(3, part)


def test_a_part_is_a_model_of_its_rows(models, folder):
    alone, parts = models
    tops = np.cumsum([0, *(part.shape_[0] for part in parts)])
    assert tops[-1] == ROWS
    assert all(part.shape_[0] for part in parts)
    for top, part in zip(tops, parts, strict=False):
        rows = slice(top, top + part.shape_[0])
        np.testing.assert_array_equal(part.row_labels_, alone.row_labels_[rows])
        np.testing.assert_array_equal(part.counts_[0], alone.counts_[0][rows])
        np.testing.assert_array_equal(part.counts_[1], alone.counts_[1])
        here, there = (L @ R.T for L, R in (part.factors_, alone.factors_))
        np.testing.assert_allclose(here, there[rows], atol=1e-8)
        np.testing.assert_allclose(part.biases_.rows, alone.biases_.rows[rows], atol=1e-8)
        assert part.value_range_ == alone.value_range_
        mine = alone.observed_.rows(np.arange(rows.start, rows.stop))
        for own, expected in zip(part.observed_, mine, strict=True):
            np.testing.assert_array_equal(own, expected)
        np.testing.assert_array_equal(part.factors_[1], parts[0].factors_[1])


def test_parts_are_read_by_as_many_processes_or_fewer(models, folder):
    alone, parts = models
    (whole,) = on_threads(1, lambda group: load_parts(folder / "model.parts", group))
    assert (whole.first, whole.rows) == (0, ROWS)
    for name in ("row_labels_", "shape_"):
        np.testing.assert_array_equal(getattr(whole.model, name), getattr(alone, name))
    for name in ("observed_", "counts_"):
        for own, expected in zip(getattr(whole.model, name), getattr(alone, name), strict=True):
            np.testing.assert_array_equal(own, expected)
    rows, cols = np.divmod(np.arange(ROWS * COLS), COLS)
    np.testing.assert_allclose(whole.model.predict_at(rows, cols), alone.predict_at(rows, cols), atol=1e-7)
    shares = on_threads(2, lambda group: load_parts(folder / "model.parts", group))
    assert [share.first for share in shares] == [0, parts[0].shape_[0]]
    assert [share.model.shape_[0] for share in shares] == [parts[0].shape_[0], ROWS - parts[0].shape_[0]]
    assert {share.rows for share in shares} == {ROWS}
    with pytest.raises(ModelFileError, match="in 3 parts, and there are 4 processes"):
        on_threads(4, lambda group: load_parts(folder / "model.parts", group))


def test_a_second_model_takes_the_place_of_the_first(models, folder, tmp_path):
    _, parts = models

    def both(group):
        save_part(parts[group.rank], tmp_path / "m", group)
        other = rf.load(sorted((folder / "model.parts").glob("*.rankfold"))[group.rank])
        other.factors_ = other.factors_[0], -other.factors_[1]
        save_part(other, tmp_path / "m", group)

    on_threads(3, both)
    assert len(list((tmp_path / "m").iterdir())) == 4
    np.testing.assert_array_equal(load_parts(tmp_path / "m").model.factors_[1], -parts[0].factors_[1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no manifest.json"),
        ("{", "no manifest of a model, or damaged"),
        ('{"format": 1, "files": []}', "no manifest of a model"),
        ('{"format": 1, "files": ["../secret"]}', "no manifest of a model"),
        ('{"format": 2, "files": ["later"]}', "newer than this rankfold"),
    ],
)
def test_what_is_no_model_in_parts_is_refused(tmp_path, text, said):
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ModelFileError, match=said):
        load_parts(tmp_path)


def test_parts_of_two_models_are_refused(models, folder, tmp_path):
    _, parts = models
    for k, part in enumerate(parts[:2]):
        model = rf.load(sorted((folder / "model.parts").glob("*.rankfold"))[k])
        model.factors_ = part.factors_[0], part.factors_[1] + k
        rf.save(model, tmp_path / f"0000000{k}-part-0000{k}.rankfold")
    names = [f"0000000{k}-part-0000{k}.rankfold" for k in range(2)]
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 1, "files": names}))
    with pytest.raises(ModelFileError, match="do not belong together"):
        load_parts(tmp_path)
    with pytest.raises(RuntimeError, match="do not agree"):
        on_threads(2, lambda group: load_parts(tmp_path, group))


def commanded(monkeypatch, size, *words):
    """What `rankfold` does with these words in each of so many processes."""
    local = threading.local()
    for module in (shared_out, together):
        monkeypatch.setattr(module, "joined", lambda: local.group)
        monkeypatch.setattr(module, "is_spread", lambda: size > 1)

    def run(group):
        local.group = group
        return app([str(word) for word in words], standalone_mode=False)

    return on_threads(size, run)


@pytest.mark.parametrize(("size", "in_parts"), [(1, True), (2, True), (3, True), (2, False)])
def test_pairs_are_predicted_by_whoever_has_their_rows(
    monkeypatch, models, folder, tmp_path, capsys, size, in_parts
):
    alone, _ = models
    rf.save(alone, tmp_path / "model.rankfold")
    path = folder / "model.parts" if in_parts else tmp_path / "model.rankfold"
    for name, model, count in (("alone", tmp_path / "model.rankfold", 1), ("together", path, size)):
        commanded(monkeypatch, count, "predict", model, folder / "pairs.csv", "-o", tmp_path / f"{name}.csv")
        said = capsys.readouterr().err
        assert said.count("3 of 147 pairs have a row or column that the model does not know") == 1, said
    one, several = (
        np.genfromtxt(tmp_path / f"{name}.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
        for name in ("alone", "together")
    )
    assert (one[["user", "item"]] == several[["user", "item"]]).all()
    np.testing.assert_allclose(several["prediction"], one["prediction"], atol=1e-6)


@pytest.mark.parametrize("in_parts", [True, False])
def test_rows_are_recommended_columns_by_whoever_has_them(
    monkeypatch, models, folder, tmp_path, capsys, in_parts
):
    alone, _ = models
    rf.save(alone, tmp_path / "model.rankfold")
    path = folder / "model.parts" if in_parts else tmp_path / "model.rankfold"
    (tmp_path / "names").write_text("u22\nu00\nu11\n")
    asked = "--for", "u05", "--for-file", tmp_path / "names", "-n", "3", "--json"
    commanded(monkeypatch, 1, "recommend", tmp_path / "model.rankfold", *asked)
    expected = json.loads(capsys.readouterr().out)
    commanded(monkeypatch, 2, "recommend", path, *asked)
    found = json.loads(capsys.readouterr().out)
    assert list(found) == list(expected) == ["u05", "u22", "u00", "u11"]
    for name, lines in expected.items():
        assert [line["item"] for line in found[name]] == [line["item"] for line in lines]
        np.testing.assert_allclose(
            [line["prediction"] for line in found[name]], [line["prediction"] for line in lines], atol=1e-6
        )
    assert set(commanded(monkeypatch, 2, "recommend", path, "--for", "nobody")) == {FAILED}
    assert "nobody" in capsys.readouterr().err
    with pytest.raises(typer.BadParameter, match="--for-file"):
        commanded(monkeypatch, 2, "recommend", path)


def test_the_command_leaves_parts(monkeypatch, models, folder, tmp_path, capsys):
    alone, _ = models
    files = folder / "0.csv", folder / "1.csv"
    asked = "--rank", "1", "--regularization", "1", "--value", "stars", "--parts", "-o", tmp_path / "m"
    commanded(monkeypatch, 2, "complete", *files, *asked)
    assert f"The model is in {tmp_path / 'm'}" in "".join(capsys.readouterr().out.split("\n"))
    model = load_parts(tmp_path / "m").model
    np.testing.assert_array_equal(model.row_labels_, alone.row_labels_)
    here, there = (L @ R.T for L, R in (model.factors_, alone.factors_))
    np.testing.assert_allclose(here, there, atol=1e-6)
    with pytest.raises(typer.BadParameter, match="--parts is for several processes"):
        commanded(monkeypatch, 1, "complete", *files, *asked)


def test_standard_input_and_deviations_are_for_one_process(monkeypatch, models, folder, capsys):
    for words in (("-",), (folder / "pairs.csv", "--std")):
        assert set(commanded(monkeypatch, 2, "predict", folder / "model.parts", *words)) == {FAILED}
    said = capsys.readouterr().err
    assert "several processes cannot read standard input" in said
    assert "--std and --missing are for one process" in said
