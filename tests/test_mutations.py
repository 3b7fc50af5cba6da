"""What counts as a mutant."""

import json
import os
from pathlib import Path

import pytest

import mutants as mutation_testing
from mutant_tests import PACKAGE, Chooser, Mentions
from mutants import ROOT, Judge, concerning, kept, within
from mutations import Source, mutants


def changed(tmp_path, text):
    (tmp_path / "module.py").write_text(text)
    source = Source(tmp_path, Path("module.py"))
    return {source.changed(change).decode() for change in mutants(source) if source.differs(change)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <= b", {"a < b", "a > b"}),
        ("(a) + (b)", {"(a) - (b)"}),
        ("é = a and not b", {"é = a or not b", "é = a and (b)"}),
        ("x = -y", {"x = (y)"}),
        ("f(a, b=c, d=e)", {"f(a, d=e)", "f(a, b=c)", "pass"}),
        ("f(b=True)", {"f(b=False)", "f()", "pass"}),
        ("prefetch(B, p + 1)", set()),
        ("x = 1, 'a'", {"x = 2, 'a'", "x = 0, 'a'"}),
        ("x = 2.5, 50", {"x = 3.5, 50", "x = 2.5, 500"}),
        ("x = np.minimum(min(x), y)", {"x = np.maximum(min(x), y)", "x = np.minimum(max(x), y)", "pass"}),
        ("def f(x) -> int | None:\n    return x", {"def f(x) -> int | None:\n    return None"}),
        ("def f(x) -> int:\n    return x", set()),
        ("if x:\n    raise ValueError(f'{x + 1} > 2')", {"if True:\n    raise ValueError(f'{x + 1} > 2')",
          "if False:\n    raise ValueError(f'{x + 1} > 2')", "if x:\n    pass"}),
        ("x: Literal[1] = y\nif TYPE_CHECKING:\n    import z\nzip(a, strict=True)",
         {"x: Literal[1] = y\nif TYPE_CHECKING:\n    import z\npass"}),
    ],
)  # fmt: skip
def test_mutants_are_small_changes_of_what_the_code_does(tmp_path, text, expected):
    assert changed(tmp_path, text) == expected


HINT = "s = a + c\nfor k in range(s + 2):\n    if k > 3:\n        prefetch(B, s + k)\nprefetch(b)\n"
SPUN = "looks = 0\nwhile looks < LIMIT and a[0]:\n    looks += 1\n"
PLOT = "x = ax.plot(y, alpha=0.5, color=a + b, linewidth=1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HINT + "x = a + b", {HINT + "x = a - b"}),
        ("a, b = 1, 2\nprefetch(a)\nx = b", {f"{new}\nprefetch(a)\nx = b"
          for new in ("a, b = 1, 3", "a, b = 1, 1", "pass")}),
        ("for k in x:\n    prefetch(B, k)\n    y[0] = z", {f"for k in x:\n    prefetch(B, k)\n    {new}"
          for new in ("y[1] = z", "y[-1] = z", "pass")}),
        ("w = 2\nw += a * b\nx = run(f, 1, w * 3, A)", {f"w = 2\nw += a * b\nx = run(f, {n}, w * 3, A)"
          for n in "02"}),
        ("x = sweep(f, 2 * a, b)", set()),
        ("def prefetch(A, i):\n    if i > 2:\n        g(A, B=1)", set()),
        ("x = run(a, b, 2)", {"x = run(a, b, 3)", "x = run(a, b, 1)"}),
        (SPUN + "x = 1", {SPUN + "x = 2", SPUN + "x = 0"}),
        (PLOT + ", label=z)", {PLOT + ")"}),
        ("x = add(y, alpha=t)", {"x = add(y)"}),
    ],
)  # fmt: skip
def test_what_changes_no_result_is_left_alone(tmp_path, text, expected):
    assert changed(tmp_path, text) == expected


def test_a_module_without_tests_is_an_error():
    with pytest.raises(SystemExit, match="which tests"):
        concerning(PACKAGE / "nothing.py")


def test_a_change_is_in_the_innermost_function_with_its_decorators(tmp_path):
    text = "x = 1\n\n\n@cached\ndef f():\n    def g():\n        return 2\n\n    return g\n"
    (tmp_path / "module.py").write_text(text)
    source = Source(tmp_path, Path("module.py"))
    assert source.around((text.index("2"), 0, "")) == range(6, 8)
    assert source.around((text.index("return g"), 0, "")) == range(4, 10)
    assert set(source.around((text.index("1"), 0, ""))) >= set(range(1, 10))


def test_a_change_is_told_in_one_line(tmp_path):
    (tmp_path / "module.py").write_text("x = f(\n    1,\n    b=2,\n)\ny = 3")
    source = Source(tmp_path, Path("module.py"))
    lines = {source.told(change) for change in mutants(source)}
    assert "module.py:2: 1, b=2, -> 1," in lines
    assert "module.py:5: y = 3 -> y = 4" in lines


def test_a_statement_ends_where_its_body_begins(tmp_path):
    text = "if (\n    a\n    and b\n):\n    x = f(\n        1,\n    )\n"
    (tmp_path / "module.py").write_text(text)
    source = Source(tmp_path, Path("module.py"))
    assert source.statement((text.index("b"), 0, "")) == range(1, 5)
    assert source.statement((text.index("1"), 0, "")) == range(5, 8)


def test_defaults_are_those_of_functions_and_of_fields(tmp_path):
    text = "def f(a, b=1, *, c=2):\n    return 3\nclass A:\n    x: int = 4\n    y = 5\n"
    (tmp_path / "module.py").write_text(text)
    source = Source(tmp_path, Path("module.py"))
    assert [source.is_default((text.index(n), 0, "")) for n in "12345"] == [True, True, False, True, False]


OWN = "tests/geometry/test_a.py"
SLOW, QUICK, SECOND, CALLER, OF_COSTS = (
    f"{OWN}::slow", f"{OWN}::quick[1]", f"{OWN}::quick[2]", f"{OWN}::caller", "tests/costs/test_b.py::f",
)  # fmt: skip
REACHED = {
    SLOW: (5.0, {"geometry/a.py": 1 << 4}),
    QUICK: (1.0, {"geometry/a.py": 1 << 3 | 1 << 4}),
    SECOND: (1.1, {"geometry/a.py": 1 << 4}),
    OF_COSTS: (0.1, {"geometry/a.py": 1 << 4}),
    CALLER: (0.1, {"geometry/b.py": 1 << 2}),
}


@pytest.mark.parametrize(
    ("budget", "line", "expected"),
    [
        (10.0, 4, [QUICK, SLOW, SECOND, OF_COSTS, CALLER]),
        (6.3, 4, [QUICK, SLOW, OF_COSTS, CALLER]),
        (0.5, 4, [QUICK]),
        (10.0, 3, [QUICK, CALLER, SLOW, SECOND, OF_COSTS]),
        (1.5, 1, [CALLER, QUICK, OF_COSTS]),
    ],
)
def test_a_mutant_meets_one_case_of_each_test_of_its_line_first(tmp_path, budget, line, expected):
    folder = tmp_path / PACKAGE / "geometry"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("LIMIT = 3\ndef f(x):\n    y = x\n    return y + LIMIT\n")
    (folder / "b.py").write_text("def g(x):\n    return f(x)\n")
    source = Source(tmp_path, PACKAGE / "geometry/a.py")
    chooser = Chooser(REACHED, Mentions.of(tmp_path), budget)
    change = source.starts[line - 1], 0, ""
    assert chooser.chosen(source, change, ("tests/geometry",)) == expected


def test_one_test_of_each_way_through_a_function_comes_first():
    ways = {"a": 6, "b": 6, "c": 14, "d": 6, "e": 2}
    reached = {test: (1.0, {"geometry/a.py": way | 1}) for test, way in ways.items()}
    chooser = Chooser(reached, Mentions({}), budget=1.0)
    assert chooser.one_of_each_way(list("abcde"), "geometry/a.py", 0b1110) == list("acebd")


def test_after_the_deadline_there_is_no_verdict():
    source = Source(ROOT, PACKAGE / "geometry/base.py")
    judge = Judge(Path(), Chooser(REACHED, Mentions({}), budget=1.0), deadline=0.0)
    assert judge.verdict(source, (0, 0, "")) == ""


def test_what_a_file_of_tests_comes_by_is_noted_once_whether_its_run_ends_or_not(tmp_path, monkeypatch):
    runs, noted = [], {"passed": {f"{OWN}::quick": [1.0, {"geometry/a.py": 8}]}, "failed": []}

    def pytest_in(tree, tests, limit, REACH_OUT):
        runs.extend(tests)
        if tests == [OWN]:
            Path(REACH_OUT).write_text(json.dumps(noted))
        return None, "killed"

    monkeypatch.setattr(mutation_testing, "ROOT", tmp_path)
    monkeypatch.setattr(mutation_testing, "pytest_in", pytest_in)
    for test in (OWN, "tests/test_dies.py"):
        (tmp_path / test).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / test).write_text("")
    for _ in range(2):
        assert kept(tmp_path, tmp_path, OWN) == noted
        assert kept(tmp_path, tmp_path, "tests/test_dies.py") == {
            "passed": {},
            "failed": ["tests/test_dies.py"],
        }
    assert runs == [OWN, "tests/test_dies.py"]
    os.utime(tmp_path / OWN, (2**33, 2**33))  # changed since
    kept(tmp_path, tmp_path, OWN)
    assert runs[2:] == [OWN]


def test_examples_of_a_module_are_run_with_those_of_its_room():
    assert within(str(PACKAGE / "data/io/text.py")) == [str(PACKAGE / "data")]
    assert "tests/data/io/test_files.py" in within("tests/data")
