"""What tests see alike on any machine: a plain terminal, threads, hypothesis without clock or disk."""

import functools
import gc
import inspect
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A terminal of a fixed width without colours, for this process and those that tests start. Set here, before
# any test module is imported: typer looks when it is imported.
for _name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TERMINAL_WIDTH", "TTY_COMPATIBLE"):
    os.environ.pop(_name, None)
os.environ.update(COLUMNS="100", NO_COLOR="1", MPLBACKEND="agg")

# Libraries on one thread each: pytest has a worker on every processor, and their threads would only wait for
# each other. Our own kernels on two, whatever the machine has.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("RANKFOLD_NUM_THREADS", "2")

# Workers, and the many processes that tests start, may keep byte code: else each compiles the library again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What a shell starts in the background ignores Ctrl-C, and so does what that starts; tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Triton's kernels run in its interpreter where there is no GPU; Triton looks when it is imported.
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"

# No deadline, however slow the draws: a busy machine is no defect; no database, since a checkout may be
# read-only. Where CI is set every run draws the same examples; `--hypothesis-profile=random` draws a hundred
# others of each.
settings.register_profile(
    "random", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("few", settings.get_profile("random"), max_examples=16)
settings.register_profile("fixed", settings.get_profile("few"), derandomize=True)
settings.load_profile("fixed" if os.environ.get("CI") else "few")


# The collector of garbage looks seldom, at all that is imported least of all: it took a tenth of all time.
# (Not `gc.freeze`: older versions of hypothesis warn of objects that the collector does not show.)
gc.set_threshold(20_000, 20, 20)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let what is imported by now be old, so that the collector seldom looks at it."""
    gc.collect()
    if interpreter := sys.modules.get("triton.runtime.interpreter"):
        _look_once_for_builtins(interpreter)


def _look_once_for_builtins(interpreter: ModuleType) -> None:
    """Let Triton's interpreter remember which names of its language it has to replace.

    It replaces them for each launch of a kernel, and looked through all names for them: a third of its time.
    """
    is_builtin = interpreter.tl.core.is_builtin

    @functools.cache
    def builtins_of(place: Any) -> list[str]:
        return [name for name, member in inspect.getmembers(place) if is_builtin(member)]

    def patch_builtin(place: Any, builder: Any, scope: Any) -> None:
        for name in builtins_of(place):
            member = getattr(place, name)
            if is_builtin(member):  # not replaced already, as by the kernel that calls this one
                interpreter._patch_attr(place, name, member, builder, scope)

    if hasattr(interpreter, "_LangPatchScope"):
        interpreter._patch_builtin = patch_builtin


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked `soak` or `docs` to those who ask for it: `make soak`, `make docs`."""
    marks = [mark for mark in ("soak", "docs") if mark not in config.option.markexpr]
    long = {item for item in items if any(item.get_closest_marker(mark) for mark in marks)}
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=list(long))
