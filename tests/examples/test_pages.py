"""Every example on a page runs: Python blocks in one namespace per page, `$ rankfold` lines as commands.

A text block after an example is what it prints; "..." in it stands for anything.
"""

import doctest
import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rankfold.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "jobs").glob("*.md"))]
PAGES.append(ROOT / "docs" / "beyond-memory.md")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_examples_of_the_page_run(page, tmp_path, monkeypatch):
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(page.read_text("utf-8"))
    assert any(kind in ("python", "console") for kind, _ in blocks)
    namespace, printed = {"__name__": "__page__"}, None
    for kind, content in blocks:
        if kind == "python":
            with redirect_stdout(io.StringIO()) as stream:
                exec(compile(content, str(page), "exec"), namespace)
            printed = stream.getvalue()
        elif kind == "console":
            printed = "".join(map(command, re.findall(r"^\$ rankfold (.*)$", content, re.MULTILINE)))
        elif kind == "text" and printed is not None:
            assert doctest.OutputChecker().check_output(content, printed, FLAGS), printed


def command(words):
    result = CliRunner().invoke(app, shlex.split(words, comments=True))
    assert result.exit_code == 0, (words, result.output)
    return result.stdout
