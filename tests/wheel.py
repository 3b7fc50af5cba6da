"""Install the built wheel alone, away from the checkout, and use it: `python tests/wheel.py dist`.

What a user without extras gets: the demonstration runs, doctests pass, and commands that need an extra name
it before they work. The source distribution must hold what a contributor needs.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

NEEDED = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "mkdocs.yml",
    "Makefile",
    "tests/wheel.py",
    "docs/index.md",
)
DOCTESTS = ("rankfold.data.triples", "rankfold.report.axis", "rankfold.estimators.model_files")


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of this kind."""
    (found,) = folder.glob(pattern)
    return found.resolve()


def check_sdist(archive: Path) -> None:
    """Raise where the source distribution lacks a file."""
    with tarfile.open(archive) as files:
        inside = {name.partition("/")[2] for name in files.getnames()}
    missing = [name for name in NEEDED if name not in inside]
    assert not missing, f"{archive.name} lacks {missing}"


def check_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel in a new environment, and use it as its first user would."""
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    tools = folder / "env" / "bin"
    subprocess.run([tools / "python", "-m", "pip", "install", "--quiet", wheel], check=True)

    def run(*words: str | Path, code: int = 0) -> str:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    assert "completed at rank" in run(tools / "rankfold", "demo")
    assert all((folder / f"demo.{kind}").stat().st_size for kind in ("png", "html", "csv"))
    for module in DOCTESTS:
        code = f"import doctest, importlib as i; t = doctest.testmod(i.import_module({module!r}))"
        run(tools / "python", "-c", f"{code}; assert t.attempted and not t.failed")
    message = run(tools / "rankfold", "reproduce", "gh", code=1)
    assert "pip install 'rankfold[plot]'" in message, message
    assert not (folder / "reproduction").exists()


if __name__ == "__main__":
    dist = Path(sys.argv[1])
    check_sdist(only(dist, "*.tar.gz"))
    with tempfile.TemporaryDirectory() as scratch:
        check_wheel(only(dist, "*.whl"), Path(scratch))
    print(f"{only(dist, '*.whl').name} works, {only(dist, '*.tar.gz').name} is complete")
