"""What counts as a mutant."""

from pathlib import Path

import pytest

from mutants import PACKAGE, concerning
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
