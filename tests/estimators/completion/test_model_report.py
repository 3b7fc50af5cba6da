"""`model.report(path)`: the report of the command line, from Python."""

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import rankfold as rf
from rankfold.costs.offsets import Offsets
from rankfold.estimators.completion import reporting
from rankfold.estimators.completion.choosing import fit_offsets
from rankfold.estimators.completion.entries import completion_of
from rankfold.estimators.completion.offsets import predictions
from rankfold.selection.sampling import sample_lines

DATA = rf.data.random_completion((40, 30), rank=2, oversampling=5, seed=0, noise=0.2)
TRAIN, APART = rf.data.split(DATA, 0.2, seed=0)


def fitted(**settings):
    return rf.MatrixCompletion(rank=2, random_state=0, **settings).fit(TRAIN)


def test_a_report_of_the_fit_alone(tmp_path):
    fitted(regularization=0.5).report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "<h1>the data, completed at rank 2</h1>" in page
    assert "40 × 30" in page
    assert f"{len(TRAIN):,}" in page
    assert "no entries were held out" in page
    assert re.search(r"MatrixCompletion\(.*\)\.fit\(\.\.\.\)\.report\(\.\.\.\)", page, re.DOTALL)


def test_a_report_on_entries_held_out(tmp_path):
    table = pd.DataFrame({"who": DATA.rows, "what": DATA.cols, "value": DATA.values})
    train, apart = table[50:], table[:50]
    model = rf.MatrixCompletion(rank=2, regularization=0.5, random_state=0)
    model.fit(train[["who", "what"]], train["value"])
    model.report(tmp_path / "r.html", apart[["who", "what"]], apart["value"], source="ratings")
    page = (tmp_path / "r.html").read_text("utf-8")
    error = np.sqrt(np.mean((model.predict(apart[["who", "what"]]) - apart["value"]) ** 2))
    assert f"{error:.4g}" in page
    assert "ratings, completed at rank 2" in page
    assert "offsets of rows and columns" in page
    model.report(tmp_path / "r.html", rf.data.Triples(
        apart["who"].to_numpy(), apart["what"].to_numpy(), apart["value"].to_numpy(), (40, 30),
        np.arange(40), np.arange(30),
    ))  # fmt: skip
    assert f"{error:.4g}" in (tmp_path / "r.html").read_text("utf-8")


def test_what_was_chosen_is_shown():
    shown = reporting.shown_settings(rf.MatrixCompletion(random_state=0, bias=False).fit(TRAIN))
    assert shown["rank"].endswith(", chosen")
    assert shown["regularization"].endswith(", chosen")
    assert shown["clip"] == "False"
    assert reporting.shown_settings(fitted(regularization=0.5))["regularization"] == "0.5"


def report_of(model, *held_out):
    with TemporaryDirectory() as folder:
        model.report(Path(folder) / "r.html", *held_out)
        return (Path(folder) / "r.html").read_text("utf-8")


def test_a_model_from_a_file_reports_without_its_values(tmp_path):
    model = fitted(bayesian=True)
    rf.save(model, tmp_path / "m")
    loaded = rf.load(tmp_path / "m")
    page, whole = report_of(loaded), report_of(model)
    low, high = model.value_range_
    assert f"<td>{low:.4g} to {high:.4g}</td>" in page
    assert f"<td>{low:.4g} to {high:.4g}, mean " in whole
    assert "Residuals of" in whole
    assert "Residuals of" not in page
    assert "<p>Not looked for: constant rows and columns and values far out.</p>" in page
    assert "Not looked for" not in whole
    assert "None found. Looked for: pairs that come twice, rows and columns with fewer entries than" in page
    assert "nan" not in page
    held_out = model.posterior_.calibration.held_out
    assert all(f"Of {held_out:,} entries that the fit held out" in text for text in (page, whole))
    page, whole = report_of(loaded, APART), report_of(model, APART)
    error = np.sqrt(np.mean((model.predict(APART) - APART.values) ** 2))
    assert all(f"its error is {error:.4g}" in text for text in (page, whole))
    assert all("Intervals that are to hold 90%" in text for text in (page, whole))
    assert "the mean" in whole
    assert "the mean" not in page
    assert "held-out entries; the end bars" in page


def test_a_model_of_earlier_days_reports_without_a_range():
    model = fitted(regularization=0.5)
    model._entries = model.value_range_ = None
    assert "<td>not kept with the model</td>" in report_of(model)


def test_models_folded_in_and_of_entries_on_disk_report_too(tmp_path):
    assert "40 × 30" in report_of(fitted(regularization=0.5).fold_in(TRAIN))
    model = fitted(regularization=0.5)
    model.fit(rf.data.sort_into(tmp_path / "sorted", TRAIN, shape=TRAIN.shape))
    assert "Residuals of" not in report_of(model)  # of the fit before


def test_the_report_names_columns_as_the_table_does(tmp_path):
    table = pd.DataFrame({"who": DATA.rows, "what": DATA.cols, "stars": DATA.values})
    model = rf.MatrixCompletion(rank=2, regularization=0.5, random_state=0)
    page = report_of(model.fit(table[["who", "what"]], table["stars"]))
    assert "who × what → stars" in page
    assert "who × what → value" in report_of(model.fit(table[["who", "what"]], DATA.values))
    rf.save(model, tmp_path / "m")
    assert "who × what → value" in report_of(rf.load(tmp_path / "m"))
    assert "columns used" not in report_of(model.fit(table[["who", "what"]].to_numpy(), DATA.values))


def test_entries_taken_in_later_are_reported_on(tmp_path):
    pairs = [("ann", "Dune"), ("ann", "Heat"), ("bob", "Dune"), ("cyd", "Heat")]
    model = rf.MatrixCompletion(rank=1, regularization=1.0).fit(pairs, [5.0, 1.0, 4.0, 2.0])
    model.partial_fit([("aaa", "Dune"), ("dan", "Alien")], [3.0, 2.0])
    model.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "5 × 3" in page
    assert "6 (" in page


def test_of_many_entries_a_part_is_kept(monkeypatch):
    monkeypatch.setattr(reporting, "KEPT", 100)
    kept = reporting.kept_entries(TRAIN)
    assert len(kept) == 100
    assert kept.shape == TRAIN.shape
    values = dict(zip(zip(TRAIN.rows, TRAIN.cols, strict=True), TRAIN.values, strict=True))
    assert all(values[i, j] == v for i, j, v in zip(kept.rows, kept.cols, kept.values, strict=True))
    assert reporting.kept_entries(kept) is kept
    assert f"<dd>{len(TRAIN):,} (" in report_of(fitted(regularization=0.5))
    named = replace(TRAIN, names=("who", "what", "stars"))
    assert reporting.kept_entries(named).names == reporting.kept_entries(named, TRAIN).names == named.names


def test_a_clipped_model_covers_as_much():
    model = fitted(bayesian=True)
    apart = reporting.Entries(APART.rows, APART.cols, APART.values)
    making = reporting.Making("x", 0.0, "", {})
    plain = reporting.report_of(model, TRAIN, apart, making)
    clipped = reporting.report_of(model.set_params(clip=True), TRAIN, apart, making)
    assert clipped.coverage == plain.coverage
    assert dict(plain.coverage)[0.9] > 0.8
    assert [*plain.errors] == ["the mean", "offsets of rows and columns", "rankfold, rank 2"]


def test_residuals_are_those_of_entries_held_out_or_else_of_the_fit(tmp_path, monkeypatch):
    folder = rf.data.sort_into(tmp_path / "sorted", TRAIN, shape=TRAIN.shape)
    apart = reporting.Entries(APART.rows, APART.cols, APART.values)

    def known(entries):
        return dict(zip(zip(*entries[:2], strict=True), entries.values, strict=True))

    whole = known(reporting.Entries(TRAIN.rows, TRAIN.cols, TRAIN.values))
    for train in (TRAIN, folder):
        assert known(reporting._sample(train, None, 0)) == whole
        assert reporting._sample(train, apart, 0) is apart
    assert [len(part) for part in reporting._sample(None, None, 0)] == [0, 0, 0]
    monkeypatch.setattr(reporting, "SAMPLE", 50)
    for train in (TRAIN, folder):
        one, other = (reporting._sample(train, None, seed) for seed in (0, 1))
        assert [len(part) for part in one] == [50, 50, 50]
        assert known(one).items() <= whole.items()
        assert known(one) != known(other)
    assert known(reporting._sample(TRAIN, apart, 0)).items() <= known(apart).items()
    assert len(reporting._sample(TRAIN, apart, 0).values) == 50


def apart(data=APART):
    return reporting.Entries(data.rows, data.cols, data.values)


def test_offsets_beside_a_folder_are_shrunk_as_a_part_of_it_says(monkeypatch, tmp_path):
    monkeypatch.setattr(reporting, "FITTED", 200)
    monkeypatch.setattr("rankfold.selection.sampling.MIN_LINES", 3)
    folder = rf.data.sort_into(tmp_path / "sorted", TRAIN, shape=TRAIN.shape)
    loss = rf.Loss.named("square")
    cost = completion_of(TRAIN, None, loss, float)
    for train, sample in ((TRAIN, None), (folder, sample_lines(cost, 200, 0))):
        due = fit_offsets(cost, 0, sample)
        for one, two in zip(reporting._offsets_of(train, loss), due, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-9)
    assert reporting._offsets_of(None, loss) is None


def test_errors_are_those_of_each_way_to_predict():
    model = fitted(regularization=0.5)
    errors = reporting._errors(model, TRAIN, apart(), mean=1.5)
    mean, b, c = fit_offsets(completion_of(TRAIN, None, "square", float))
    by_offsets = mean + b[APART.rows] + c[APART.cols]
    dues = [np.full(len(APART), 1.5), by_offsets, model.predict(APART)]
    assert list(errors) == ["the mean", "offsets of rows and columns", "rankfold, rank 2"]
    for error, due in zip(errors.values(), dues, strict=True):
        assert error == pytest.approx(np.sqrt(np.mean((due - APART.values) ** 2)), rel=1e-6)
    assert list(reporting._errors(model, None, apart(), mean=1.5)) == ["rankfold, rank 2"]


def test_errors_of_labels_are_of_what_offsets_make_one_expect():
    labels = replace(TRAIN, values=(TRAIN.values > 0) * 1.0)
    model = rf.MatrixCompletion(2, loss="logistic", regularization=1.0, random_state=0).fit(labels)
    held_out = apart(replace(APART, values=(APART.values > 0) * 1.0))
    error = reporting._errors(model, labels, held_out, mean=0.5)["offsets of rows and columns"]
    mean, b, c = fit_offsets(completion_of(labels, None, "logistic", float))
    chances = 1 / (1 + np.exp(-(mean + b[APART.rows] + c[APART.cols])))
    assert error == pytest.approx(np.sqrt(np.mean((chances - held_out.values) ** 2)), rel=1e-6)


def test_coverage_is_the_part_of_entries_within_their_intervals():
    model = fitted(bayesian=True)
    for promised, held in reporting._coverage(model, apart()):
        low, high = model.predict_interval(APART, promised)
        assert held == np.mean((low <= APART.values) & (APART.values <= high))
    assert reporting._coverage(fitted(regularization=0.5, bayesian=False), apart()) == ()


def test_the_ends_of_an_interval_belong_to_it():
    model = SimpleNamespace(
        posterior_=SimpleNamespace(ends=lambda part: (-1.0, 2.0)),
        expected_at=lambda rows, cols: 10.0 * rows,
        std_at=lambda rows, cols: 0.5,
    )
    held_out = np.arange(4), np.arange(4), np.array([-0.5, 11.0, 19.4, 31.1])
    assert dict(reporting._coverage(model, held_out)) == dict.fromkeys(reporting.PROMISED, 0.5)


def test_a_sample_may_have_any_of_the_entries(monkeypatch, tmp_path):
    few = rf.data.Triples(np.arange(3), np.arange(3), np.arange(3.0), (3, 3))
    monkeypatch.setattr(reporting, "SAMPLE", 2)
    drawn = [reporting._sample(few, None, seed) for seed in range(20)]
    assert {int(i) for found in drawn for i in found.rows} == {0, 1, 2}
    folder = rf.data.sort_into(tmp_path / "sorted", few, shape=few.shape)
    drawn = [reporting._sample(folder, None, seed) for seed in range(20)]
    assert {int(i) for found in drawn for i in found.rows} == {0, 1, 2}


def test_what_is_kept_to_report_on_has_the_names_of_its_columns(monkeypatch):
    names = "who", "what", "stars"
    first = replace(rf.data.Triples(TRAIN.rows, TRAIN.cols, TRAIN.values, TRAIN.shape), names=names)
    more = rf.data.Triples(APART.rows, APART.cols, APART.values, (50, 60))
    both = reporting.kept_entries(first, more)
    assert (both.names, both.shape, len(both)) == (names, (50, 60), len(TRAIN) + len(APART))
    np.testing.assert_array_equal(both.values, [*TRAIN.values, *APART.values])
    monkeypatch.setattr(reporting, "KEPT", 100)
    part = reporting.kept_entries(first, more)
    assert (part.names, part.shape, len(part)) == (names, (50, 60), 100)


def test_a_model_with_a_loss_of_its_own_parameter_reports():
    model = rf.MatrixCompletion(2, loss=rf.Loss.huber(0.5), regularization=0.5, random_state=0).fit(TRAIN)
    assert "40 × 30" in report_of(model, APART)


def test_offsets_of_what_was_never_seen_are_zero():
    offsets = Offsets(3.0, np.array([0.5, 0.25]), np.array([10.0, 20.0, 30.0]))
    found = predictions(offsets, np.array([-1, 1, 0, -1]), np.array([2, -1, 0, -1]))
    assert found.tolist() == [33.0, 3.25, 13.5, 3.0]
