"""What the tests of commands share: a run in this process, and a small table of ratings."""

import numpy as np
from typer.testing import CliRunner

from rankfold.cli.app import app

FAST = ("--rank", "2", "--regularization", "0.5", "--no-bias")  # choosing their shrinkage takes longest


def run(*words, code=0, stdin=None):
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


def fails(*words, code=1, stdin=None):
    """Run a command that must fail, and return what it says."""
    result = run(*words, code=code, stdin=stdin)
    assert result.stdout == ""
    return result.stderr


def ratings(count=600, seed=0):
    """Lines `user,film,stars`: a rank-one structure with offsets, and string labels."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(40 * 30)[:count]
    a, b = rng.standard_normal(40), rng.standard_normal(30)
    lines = [
        f'u{i},"film, {j}",{3 + 0.5 * np.sign(b[j]) + a[i] * b[j] + 0.05 * rng.standard_normal():.3f}'
        for i, j in zip(chosen // 30, chosen % 30, strict=True)
    ]
    return "\n".join(["user,film,stars", *lines]) + "\n"
