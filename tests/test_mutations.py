"""What counts as a mutant."""

from pathlib import Path

import pytest

from mutants import PACKAGE, ROOT, Judge, concerning
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


OWN = "tests/geometry/test_a.py"
SLOW, QUICK, ELSEWHERE, OF_COSTS = (
    f"{OWN}::slow", f"{OWN}::quick", f"{OWN}::elsewhere", "tests/costs/test_b.py::quickest"
)  # fmt: skip
REACHED = {
    SLOW: (5.0, [("geometry/base.py", 1)]),
    QUICK: (1.0, [("geometry/base.py", 1)]),
    OF_COSTS: (0.1, [("geometry/base.py", 1)]),
    ELSEWHERE: (0.1, [("geometry/other.py", 1)]),
}


@pytest.mark.parametrize(
    ("budget", "path", "expected"),
    [
        (10.0, "geometry/base.py", [QUICK, SLOW, OF_COSTS]),
        (6.0, "geometry/base.py", [QUICK, SLOW]),
        (0.5, "geometry/base.py", [QUICK]),
        (1.5, "geometry/__init__.py", [ELSEWHERE, QUICK]),
    ],
)
def test_a_mutant_meets_those_of_its_room_first_then_the_quickest(budget, path, expected):
    source = Source(ROOT, PACKAGE / path)
    assert Judge(Path(), REACHED, budget, deadline=0.0).chosen(source, (0, 0, "")) == expected


def test_after_the_deadline_there_is_no_verdict():
    source = Source(ROOT, PACKAGE / "geometry/base.py")
    assert Judge(Path(), REACHED, budget=1.0, deadline=0.0).verdict(source, (0, 0, "")) == ""
