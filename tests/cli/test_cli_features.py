"""Features of rows and columns on the command line."""

import numpy as np
import pytest
from cli_runs import FAST, fails, ratings, run

import rankfold as rf


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "ratings.csv"
    path.write_text(ratings())
    return path


def test_a_film_without_ratings_is_known_by_its_features(tmp_path, table):
    model, films, page = tmp_path / "m", tmp_path / "films.csv", tmp_path / "r.html"
    b = np.random.default_rng(0)
    b.permutation(1200), b.standard_normal(40)
    liked = np.sign(b.standard_normal(30))
    lines = [f'"film, {j}",{"good" if liked[j] > 0 else "bad"},{j}' for j in range(30)]
    films.write_text("\n".join(["film,kind,length", *lines, "unheard of,good,7", "unseen,bad,"]) + "\n")
    held_out = tmp_path / "new.csv"
    held_out.write_text("user,film,stars\nu1,unheard of,4\nu2,unseen,2\n")
    words = (table, *FAST, "--col-features", films, "--holdout", held_out, "--report", page)
    said = run("complete", *words, "-o", model)
    assert "never seen" not in said.stderr
    assert "column features" in page.read_text("utf-8")
    found = rf.load(model)
    assert found.shape_ == (40, 32)
    good, bad = found.predict([("u1", "unheard of"), ("u1", "unseen")])
    assert good > bad + 0.5
    pairs = "user,film\nu1,unheard of\n"
    assert "never seen" not in run("predict", model, "-", stdin=pairs).stderr


def test_files_of_features_that_say_nothing_are_refused(tmp_path, table):
    features = tmp_path / "features.csv"
    for text, why in (
        ("user\nu1\n", "it has labels alone"),
        ("user,age\nu1,3\nu1,4\n", "a label comes twice in the column 'user'"),
    ):
        features.write_text(text)
        assert why in fails("complete", table, *FAST, "--row-features", features)
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("r,c,v\n" + "".join(f"{i},{j},{i + j}\n" for i in range(6) for j in range(5)))
    features.write_text("r,age\nx,3\n")
    assert "labels are integers in the entries" in fails(
        "complete", numbers, *FAST, "--row-features", features
    )
    features.write_text("r,age\n" + "".join(f"{i},{i}\n" for i in range(9)))
    run("complete", numbers, *FAST, "--row-features", features, "-o", tmp_path / "m")
    assert rf.load(tmp_path / "m").shape_ == (9, 5)
