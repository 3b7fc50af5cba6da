"""What a mutant is: one small change of a module that leaves valid Python."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

SWAPS = {
    ast.Lt: ("<", "<=", ">="), ast.LtE: ("<=", "<", ">"), ast.Gt: (">", ">=", "<="),
    ast.GtE: (">=", ">", "<"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"), ast.Mod: ("%", "*"), ast.Pow: ("**", "*"),
}  # fmt: skip
RENAMED = {"min": "max", "any": "all", "argmin": "argmax", "minimum": "maximum"}
RENAMED |= {new: old for old, new in RENAMED.items()}
# Keywords that promise nothing: how a warning is shown, a check of our own, speed.
SILENT = {"stacklevel", "strict", "copy"}
TYPES = {"TYPE_CHECKING", "TypeVar"}
HINTS = {"prefetch"}  # calls that change no number, only how soon it is there
REMOVABLE = ast.Raise | ast.Break | ast.Continue | ast.Delete | ast.AugAssign
Change = tuple[int, int, str]  # bytes start:end, replaced


class Source:
    """A file, and where its nodes stand in it."""

    def __init__(self, root: Path, path: Path) -> None:
        self.path, self.text = path, (root / path).read_bytes()
        self.tree = ast.parse(self.text)
        self.starts = [0]
        for line in self.text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def start(self, node: ast.AST) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.AST) -> int:
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def put(self, node: ast.AST, new: str) -> Change:
        return self.start(node), self.end(node), new

    def changed(self, change: Change) -> bytes:
        start, end, new = change
        return self.text[:start] + new.encode() + self.text[end:]

    def line(self, change: Change) -> int:
        return self.text.count(b"\n", 0, change[0]) + 1

    def statement(self, change: Change) -> range:
        """Return the lines of the innermost statement that a change is in, without those of its body."""
        line, found = self.line(change), range(1, len(self.starts) + 1)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno:
                body = [inner.lineno for inner in getattr(node, "body", []) if isinstance(inner, ast.stmt)]
                end = max(node.lineno + 1, *body[:1]) if body else node.end_lineno + 1
                if line < end and end - node.lineno <= len(found):
                    found = range(node.lineno, end)
        return found

    def around(self, change: Change) -> range:
        """Return the lines of the innermost function that a change is in; of the file, outside of all."""
        line = self.line(change)
        found = range(1, len(self.starts) + 1)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                top = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if top <= line <= node.end_lineno and node.end_lineno - top < len(found):
                    found = range(top, node.end_lineno + 1)
        return found

    def is_default(self, change: Change) -> bool:
        """Whether it changes what a function, or a field of a class, is given where nothing is."""
        return any(
            self.start(default) <= change[0] < self.end(default)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            for default in defaults_of(node)
        )

    def differs(self, change: Change) -> bool:
        try:
            return ast.dump(ast.parse(self.changed(change))) != ast.dump(self.tree)
        except SyntaxError:  # a comma too few, say
            return False

    def told(self, change: Change) -> str:
        """Return where a change is, the lines it is in, and what becomes of them, in one line."""
        start, end, new = change
        first = self.text.rfind(b"\n", 0, start) + 1
        last = self.text.find(b"\n", end) % (len(self.text) + 1)
        old = self.text[first:last].decode()
        changed = (self.text[first:start] + new.encode() + self.text[end:last]).decode()
        return f"{self.path}:{self.line(change)}: {' '.join(old.split())} -> {' '.join(changed.split())}"

    def diff(self, change: Change) -> str:
        old, new = (text.decode().splitlines(keepends=True) for text in (self.text, self.changed(change)))
        return "".join(difflib.unified_diff(old, new, str(self.path), "mutant", n=2))


def defaults_of(node: ast.FunctionDef | ast.ClassDef) -> list[ast.expr]:
    if isinstance(node, ast.ClassDef):
        return [field.value for field in node.body if isinstance(field, ast.AnnAssign) and field.value]
    return [default for default in [*node.args.defaults, *node.args.kw_defaults] if default]


def nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk, but not into what no test should pin: types, decorators, messages, hints."""
    if isinstance(node, ast.Expr) and name_of(getattr(node.value, "func", None)) in HINTS:
        return
    yield node
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            types = name_of(getattr(child, "test", getattr(child, "func", None))) in TYPES
            if isinstance(child, ast.AST) and not types and getattr(child, "arg", "") not in SILENT:
                yield from nodes(child)


def name_of(node: object) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def mutants(source: Source) -> list[Change]:
    """Return what may be changed, some of which may not be valid Python or make no difference."""
    return sorted({change for node in nodes(source.tree) for change in changes(source, node)})


def changes(source: Source, node: ast.AST) -> Iterator[Change]:
    """Yield what may be changed at a node itself."""
    match node:
        case ast.Compare():
            sides = [node.left, *node.comparators]
            yield from swaps(source, zip(node.ops, sides, sides[1:], strict=False))
        case ast.BinOp():
            yield from swaps(source, [(node.op, node.left, node.right)])
        case ast.AugAssign():
            yield from swaps(source, [(node.op, node.target, node.value)])
        case ast.BoolOp():
            pairs = zip(node.values, node.values[1:], strict=False)
            yield from swaps(source, ((node.op, *pair) for pair in pairs))
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield source.put(node, f"({ast.unparse(node.operand)})")
        case ast.Constant(value=bool() as value):
            yield source.put(node, str(not value))
        case ast.Constant(value=int() as value) if abs(value) < 5:
            yield from (source.put(node, str(value + by)) for by in (1, -1))
        case ast.Constant(value=int() | float() as value):
            yield source.put(node, repr(value + 1 if abs(value) < 5 else 10 * value))
        case ast.Name() | ast.Attribute() if name_of(node) in RENAMED:
            old = name_of(node)
            yield source.put(node, ast.unparse(node).removesuffix(old) + RENAMED[old])
        case ast.If() | ast.IfExp() | ast.While():
            yield from (source.put(node.test, value) for value in ("True", "False"))
        case ast.FunctionDef(returns=ast.expr() as kind) if "None" in ast.unparse(kind):
            found = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return))
            yield from (source.put(value, "None") for value in found if value)
        case ast.Call():
            yield from dropped(source, node)
    if isinstance(node, REMOVABLE) or is_second_assignment(node):
        yield source.put(node, "pass")


def swaps(source: Source, operators: Iterable[tuple[ast.AST, ast.AST, ast.AST]]) -> Iterator[Change]:
    for operator, left, right in operators:
        old, *others = SWAPS.get(type(operator), [""])
        start = source.text.find(old.encode(), source.end(left), source.start(right))
        yield from ((start, start + len(old), new) for new in others)


def dropped(source: Source, call: ast.Call) -> Iterator[Change]:
    """Yield the call without each of its keywords."""
    arguments = [*call.args, *call.keywords]
    for k, argument in enumerate(arguments):
        if isinstance(argument, ast.keyword) and argument.arg not in SILENT:
            if k + 1 < len(arguments):
                yield source.start(argument), source.start(arguments[k + 1]), ""
            else:
                yield source.end(arguments[k - 1]) if k else source.start(argument), source.end(argument), ""


def is_second_assignment(node: ast.AST) -> bool:
    """Whether it changes something that was there before; without any other, nothing would run."""
    if not isinstance(node, ast.Assign):
        return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    names = {name_of(used) for used in ast.walk(node.value) if isinstance(used, ast.Name)}
    return any(not isinstance(target, ast.Name) or target.id in names for target in node.targets)
