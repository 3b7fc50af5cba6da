"""What the tests of commands share: a run in this process, and a small table of ratings."""

import functools
import os
import subprocess
import sys
import tempfile
import traceback
import warnings

import numpy as np
import typer.testing
from typer.testing import CliRunner

from rankfold.cli.app import app

# The commands are the same for all runs: to make them of their functions takes longer than most runs.
typer.testing._get_command = functools.cache(typer.testing._get_command)

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


def forked(code, *words, stdout=None, stderr=None, closed=None):
    """Run a command in a fork of this process, after some code: everything is imported there.

    Standard output and standard error are descriptors, else what is written there is returned; `closed` is
    the number of a stream that there is none of.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with warnings.catch_warnings():  # Python 3.12 warns of threads here; the child needs none of them
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _be_the_command(code, words, (stdout or out.fileno(), stderr or err.fileno()), closed)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told = []
        for file in (out, err):
            file.seek(0)
            told.append(file.read().decode())
    return subprocess.CompletedProcess(words, ended, *told)


def _be_the_command(code, words, streams, closed):
    """Never return: end with the code that an interpreter would end with."""
    ended = 1
    try:
        for number, stream in enumerate(streams, start=1):
            os.dup2(stream, number)
        if closed is not None:
            os.close(closed)
        for number, name in ((1, "stdout"), (2, "stderr")):
            text = None if number == closed else open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, text)
            setattr(sys, f"__{name}__", text)
        sys.argv[:] = ["rankfold", *map(str, words)]
        exec(f"{code}\nfrom rankfold.cli import main\nmain()", {"__name__": "__main__"})
    except SystemExit as end:
        ended = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            try:
                stream.flush()
            except OSError:
                ended = ended or 120
        os._exit(ended)


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
