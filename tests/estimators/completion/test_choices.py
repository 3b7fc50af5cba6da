"""The rank and the regularisation, chosen by entries held out."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import rankfold as rf
from estimators.completion.rating_data import everywhere, model, ratings
from rankfold.estimators.completion.offsets import fit_offsets


def test_the_regularisation_is_the_best_of_those_tried():
    X, y, _ = ratings()
    fitted = model().fit(X, y)
    path = fitted.regularization_path_
    assert len(path.errors) >= 3
    assert path.chosen == path.regularizations[np.argmin(path.errors)] == fitted.regularization_
    assert str(path).splitlines()[1 + np.argmin(path.errors)].endswith("<- chosen")
    assert model(regularization=1.0).fit(X, y).regularization_path_ is None


def test_rank_auto():
    data = rf.data.random_completion((80, 60), rank=2, oversampling=5, seed=0, noise=0.01)
    fitted = model(rank="auto", bias=False).fit(data)
    assert fitted.rank_ == 2 == fitted.rank_path_.chosen
    assert fitted.factors_[0].shape == (80, 2)
    X, y, _ = ratings(entries=1600)
    kept = y.copy()
    chosen = model(rank="auto").fit(X, y)
    assert chosen.rank_ == 2  # offsets are fitted first
    assert model(rank="auto", bias=False).fit(X, y).rank_ == 4  # and else take a rank for either side
    np.testing.assert_array_equal(y, kept)
    np.testing.assert_array_equal(everywhere(chosen), everywhere(model(rank=2).fit(X, y)))


def test_settings_are_refused_before_any_work(monkeypatch):
    def worked(*_):
        raise AssertionError("offsets were fitted")

    monkeypatch.setattr("rankfold.estimators.completion.penalised.fit_offsets", worked)
    X, y, _ = ratings()
    for options, message in (
        ({"rank": "auto", "loss": "huber"}, "takes bias=False"),
        ({"rank": "best"}, "rank must be 'auto' or an integer"),
        ({"regularization": "best"}, "regularization must be"),
    ):
        with pytest.raises(ValueError, match=message):
            model(**options).fit(X, y)


def test_offsets_are_fitted_once_to_all_entries_and_once_without_those_held_out(monkeypatch):
    sizes = []

    def counted(cost):
        sizes.append(cost.observed.size)
        return fit_offsets(cost)

    monkeypatch.setattr("rankfold.estimators.completion.penalised.fit_offsets", counted)
    X, y, _ = ratings()
    model(rank="auto").fit(X, y)
    assert sizes == [1200, 1080]


def test_ctrl_c_before_there_is_a_model_is_an_interrupt(monkeypatch):
    X, y, _ = ratings()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankfold.solvers.ConjugateGradient.step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model().fit(X, y)


def test_verbose_tells_of_every_rank_and_weight_tried(capsys):
    X, y, _ = ratings()
    fitted = model(rank="auto", verbose=2).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    ranks = [line for line in lines if line.startswith("choosing the rank: rank ")]
    weights = [line for line in lines if line.startswith("choosing the regularization: λ ")]
    assert len(ranks) == len(fitted.rank_path_.ranks)
    assert [float(line.split()[4]) for line in weights] == pytest.approx(
        fitted.regularization_path_.regularizations, rel=1e-3
    )


def test_the_paths_are_drawn():
    X, y, _ = ratings()
    path = model().fit(X, y).regularization_path_
    ax = path.plot(Figure().add_subplot())
    drawn, chosen = ax.lines
    np.testing.assert_array_equal(drawn.get_xdata(), path.regularizations)
    np.testing.assert_array_equal(drawn.get_ydata(), path.errors)
    assert set(chosen.get_xdata()) == {path.chosen}
