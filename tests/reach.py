"""A plugin of pytest for `mutants.py`: which lines of the package a test comes by, and which tests to run.

`-p reach` with REACH_OUT, a file, writes down the seconds of each test that passes and the lines that it came
by, and what fails; with REACH_ONLY, a file with a list of tests, it runs these alone, in this order.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

PACKAGE = f"{os.sep}src{os.sep}rankfold{os.sep}"
CALLS = 30  # of a function, whose lines are noted in one test: those of later calls are mostly the same


class Recorder:
    """Notes the lines of the package that each test comes by."""

    def __init__(self) -> None:
        self.left: dict[CodeType, int] = {}
        self.lines: set[tuple[CodeType, int]] = set()
        self.tests: dict[str, tuple[float, dict[str, int]]] = {}
        self.failed: set[str] = set()

    def called(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        left = self.left.get(code, -1)
        if left < 0:
            left = CALLS if PACKAGE in code.co_filename else 0
        self.left[code] = max(0, left - 1)
        if not left:
            return None
        self.lines.add((code, code.co_firstlineno))
        return self.came_by

    def came_by(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        self.lines.add((frame.f_code, frame.f_lineno))
        return self.came_by

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.left, self.lines, start = {}, set(), time.monotonic()
        threading.settrace(self.called)
        sys.settrace(self.called)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.tests[item.nodeid] = time.monotonic() - start, masks(self.lines)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.noted(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.noted(report)

    def noted(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        passed = {test: what for test, what in self.tests.items() if test not in self.failed}
        found = {"passed": passed, "failed": sorted(self.failed)}
        Path(os.environ["REACH_OUT"]).write_text(json.dumps(found))


def masks(lines: Iterable[tuple[CodeType, int]]) -> dict[str, int]:
    """Return the lines of each file as the bits of a number: a list of each test's would fill memories."""
    found: dict[str, int] = {}
    for code, line in lines:
        name = code.co_filename.rpartition(PACKAGE)[2]
        found[name] = found.get(name, 0) | 1 << line
    return found


class Selector:
    """Leaves the tests that are asked for."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        collected = list(items)
        if only := os.environ.get("REACH_ONLY"):
            order = {test: k for k, test in enumerate(json.loads(Path(only).read_text()))}
            items[:] = [item for item in items if item.nodeid in order]
            items.sort(key=lambda item: order[item.nodeid])
        chosen = set(items)
        config.hook.pytest_deselected(items=[item for item in collected if item not in chosen])


def pytest_configure(config: pytest.Config) -> None:
    if "REACH_OUT" in os.environ:
        config.pluginmanager.register(Recorder())
    config.pluginmanager.register(Selector())
