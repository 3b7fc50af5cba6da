"""The report that `rankfold complete` writes: of the data, the choices, and what was held out."""

import re

from cli_runs import ratings, run


def test_the_report_tells_of_data_choices_and_held_out_entries(tmp_path):
    header, *lines = ratings().splitlines()
    (tmp_path / "r.csv").write_text("\n".join([header, *lines, *lines[:4]]))
    names = ("--row", "user", "--col", "film", "--value", "stars")
    page = tmp_path / "report.html"
    run("complete", tmp_path / "r.csv", *names, "--rank", "2", "--holdout", "0.2", "--report", page)
    text = page.read_text("utf-8")
    assert "user × film → stars" in text
    repeated = re.search(r"(\d) entr(?:y repeats|ies repeat) the row and the column of another one", text)
    assert 1 <= int(repeated[1]) <= 4  # some of the four are among those held out
    assert "Predicted against true" in text
    assert "true stars" in text
    assert "weight λ of the penalty" in text
    assert "whisker" in text
    assert "Calibration" in text
