"""A plugin of pytest for `mutants.py`: which functions of the package a test calls, and which tests to run.

`-p reach` with REACH_OUT, a file, writes down the seconds of each test that passes and the functions that it
called, and what fails; with REACH_ONLY, a file with a list of tests, it runs these alone, in this order.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

PACKAGE = f"{os.sep}src{os.sep}rankfold{os.sep}"


class Recorder:
    """Notes calls, not lines: a tenth of what a tracer of lines costs."""

    def __init__(self) -> None:
        self.called: set[CodeType] = set()
        self.tests: dict[str, tuple[float, set[CodeType]]] = {}
        self.failed: set[str] = set()

    def note(self, frame: FrameType, event: str, argument: Any) -> None:
        self.called.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.called, start = set(), time.monotonic()
        threading.settrace(self.note)
        sys.settrace(self.note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            ours = {code for code in self.called if PACKAGE in code.co_filename}
            self.tests[item.nodeid] = time.monotonic() - start, ours

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.noted(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.noted(report)

    def noted(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        passed = {
            test: (seconds, sorted(map(place, codes)))
            for test, (seconds, codes) in self.tests.items()
            if test not in self.failed
        }
        found = {"passed": passed, "failed": sorted(self.failed)}
        Path(os.environ["REACH_OUT"]).write_text(json.dumps(found))


def place(code: CodeType) -> tuple[str, int]:
    """Return where a function stands: its file in the package, and its first line."""
    return code.co_filename.rpartition(PACKAGE)[2], code.co_firstlineno


class Selector:
    """Leaves the tests that are asked for."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        collected = list(items)
        if only := os.environ.get("REACH_ONLY"):
            order = {test: k for k, test in enumerate(json.loads(Path(only).read_text()))}
            items[:] = [item for item in items if item.nodeid in order]
            items.sort(key=lambda item: order[item.nodeid])
        config.hook.pytest_deselected(items=[item for item in collected if item not in set(items)])


def pytest_configure(config: pytest.Config) -> None:
    if "REACH_OUT" in os.environ:
        config.pluginmanager.register(Recorder())
    config.pluginmanager.register(Selector())
