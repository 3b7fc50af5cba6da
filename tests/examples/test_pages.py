"""Every example on a page runs: Python blocks in one namespace per page, `$ rankfold` lines as commands.

A text block after an example is what it prints; "..." in it stands for anything.
"""

import doctest
import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

from rankfold.cli.app import app

ROOT = Path(__file__).parents[2]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = ("python", "console")
# Pages whose examples cannot run here, each with the reason.
SKIPPED = {
    "docs/gpu.md": "needs a GPU",
    "docs/several-machines.md": "needs torchrun; tests/distributed does what it shows",
}


def blocks_of(page):
    return BLOCK.findall(page.read_text("utf-8"))


def name_of(page):
    return page.relative_to(ROOT).as_posix()


EVERY = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages about one job each, and what fits take there: `make docs` runs their examples, the tests all others.
LONG = ("docs/jobs/", "docs/extend/", "docs/how-good.md")
PAGES = [page for page in EVERY if any(kind in RUN for kind, _ in blocks_of(page))]


def write_data(folder):
    """Write the files that pages talk of: ratings, pairs, a table with holes, and a table to regress on."""
    rng = np.random.default_rng(0)
    users, films = [f"user{i}" for i in range(60)], ["Alien", "Heat", *(f"film{j}" for j in range(28))]
    U, V = rng.standard_normal((60, 2)), rng.standard_normal((30, 2))
    stars = 3 + 0.5 * (U @ V.T) + 0.1 * rng.standard_normal((60, 30))
    known = rng.random((60, 30)) < 0.5
    lines = [f"{users[i]},{films[j]},{stars[i, j]:.2f}" for i, j in zip(*np.nonzero(known), strict=True)]
    (folder / "ratings.csv").write_text("\n".join(["user,film,stars", *lines, "ann,Alien,5", "ann,film3,4"]))
    liked = (stars > 3.2) & known
    lines = [f"{users[i]},{films[j]}" for i, j in zip(*np.nonzero(liked), strict=True)]
    (folder / "clicks.csv").write_text(
        "\n".join(["user,film", *lines, *(f"ann,film{j}" for j in (1, 3, 5, 7))])
    )
    (folder / "pairs.csv").write_text("user,film\nann,Heat\nuser7,Alien\n")
    table = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((80, 6))
    holes = np.where(rng.random(table.shape) < 0.15, np.nan, table)
    cells = [",".join("" if np.isnan(x) else f"{x:.3f}" for x in row) for row in holes]
    header = "hour,north,south,east,west,centre,airport"
    (folder / "sensors.csv").write_text("\n".join([header, *(f"{k},{row}" for k, row in enumerate(cells))]))
    cells = [",".join(f"{x:.3f}" for x in row) for row in table]
    (folder / "samples.csv").write_text("\n".join(["a,b,c,d,y1,y2", *cells]))


def marked(page):
    name = name_of(page)
    return pytest.param(page, id=name, marks=pytest.mark.docs if name.startswith(LONG) else ())


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_examples_of_the_page_run(page, tmp_path, monkeypatch):
    if name_of(page) in SKIPPED:
        pytest.skip(SKIPPED[name_of(page)])
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    namespace, printed = {"__name__": "__page__"}, None
    for kind, content in blocks_of(page):
        if kind == "python":
            with redirect_stdout(io.StringIO()) as stream:
                exec(compile(content, str(page), "exec"), namespace)
            printed = stream.getvalue()
        elif kind == "console":
            printed = "".join(map(command, re.findall(r"^\$ rankfold (.*)$", content, re.MULTILINE)))
        elif kind == "text" and printed is not None:
            assert doctest.OutputChecker().check_output(content, printed, FLAGS), printed
    plt.close("all")


def command(words):
    result = CliRunner().invoke(app, shlex.split(words, comments=True))
    assert result.exit_code == 0, (words, result.output)
    return result.stdout
