"""Draw ratings, complete them, and photograph the top of the report: `python docs/figures/report.py`.

Needs Chromium, without a window, for the photograph: docs/figures/report.png.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

USERS, FILMS, RANK = 600, 200, 3
WIDE, HIGH = 960, 1010


def write_ratings(path: Path) -> None:
    """Write about 13,500 ratings in half stars, of which 37 come twice and two are mistyped."""
    rng = np.random.default_rng(0)
    taste = 0.35 * rng.standard_normal((USERS, RANK)) @ rng.standard_normal((RANK, FILMS))
    offsets = 0.4 * rng.standard_normal((USERS, 1)) + 0.4 * rng.standard_normal((1, FILMS))
    stars = 3.3 + taste + offsets + 0.45 * rng.standard_normal((USERS, FILMS))
    stars = np.clip(np.round(2 * stars) / 2, 0.5, 5)
    seen = rng.random((USERS, FILMS)) < 0.08 * np.exp(rng.standard_normal((1, FILMS)))
    lines = [f"user{i:03d},film{j:03d},{stars[i, j]}" for i, j in zip(*np.nonzero(seen), strict=True)]
    lines[10], lines[11] = lines[10].rpartition(",")[0] + ",8", lines[11].rpartition(",")[0] + ",9"
    path.write_text("\n".join(["user,film,stars", *lines, *lines[:37]]))


def main() -> None:
    """Make the picture."""
    target = Path(__file__).with_name("report.png")
    with tempfile.TemporaryDirectory() as folder:
        write_ratings(Path(folder, "ratings.csv"))
        words = "complete ratings.csv --row user --col film --value stars --holdout 0.1 --report report.html"
        subprocess.run([sys.executable, "-m", "rankfold.cli", *words.split()], cwd=folder, check=True)
        browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        size = [f"--user-data-dir={folder}/profile", f"--window-size={WIDE},{HIGH}", f"--screenshot={target}"]
        subprocess.run([*browser, *size, f"file://{folder}/report.html"], check=True)


if __name__ == "__main__":
    main()
