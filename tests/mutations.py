"""What a mutant is: one small change of a module that leaves valid Python."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Container, Iterable, Iterator
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
# Keywords that promise nothing: how a warning is shown, a check of our own, speed, how a plot looks.
SILENT = {"stacklevel", "strict", "copy", "dpi", "figsize", "fontsize", "ha", "va", "linewidth", "markersize"}
SILENT |= {"capsize", "frameon", "handlelength", "padding", "rwidth"}
OF_AXES = {"alpha", "color"}  # such keywords, where axes are drawn on
TYPES = {"TYPE_CHECKING", "TypeVar"}
HINTS = {"prefetch"}  # calls that change no number, only how soon it is there
ESTIMATES = {"run": 2, "sweep": 1}  # which argument of a call tells its work: for how many threads
WAITS = {"looks"}  # counts of how long a thread has waited
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


def nodes(node: ast.AST, silent: Container[ast.AST]) -> Iterator[ast.AST]:
    """Walk, but not into what no test should pin: types, decorators, messages, what is `without_effect`."""
    if node in silent:
        return
    yield node
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            types = name_of(getattr(child, "test", getattr(child, "func", None))) in TYPES
            if isinstance(child, ast.AST) and not types:
                yield from nodes(child, silent)


def without_effect(tree: ast.AST) -> set[ast.AST]:
    """Return what changes no result: the `silent_parts`, and what is there for nothing else."""
    found = {part for node in ast.walk(tree) for part in silent_parts(node)}
    size = -1
    while size < len(found):
        size = len(found)
        names = used_only_in(found, tree)
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Tuple() as left], value=ast.Tuple() as right):
                    pairs = zip(left.elts, right.elts, strict=False)
                    found |= {value for target, value in pairs if name_of(target) in names}
                case ast.Assign(targets=[target]) | ast.AugAssign(target=target) if name_of(target) in names:
                    found.add(node)
                case ast.For() | ast.If() | ast.While() if found.issuperset([*node.body, *node.orelse]):
                    found.add(node)
    return found


def used_only_in(parts: set[ast.AST], tree: ast.AST) -> set[str]:
    """Return the names that are used, in these parts only: anywhere else in the file, another one counts."""
    inside = {id(node) for part in parts for node in ast.walk(part)}
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    elsewhere = {node.id for node in used if id(node) not in inside}
    return {node.id for node in used} - elsewhere


def silent_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield hints, and how they are made, estimates of work, counts of looks, and `SILENT` keywords."""
    match node:
        case ast.Expr(value=ast.Call(func=called)) if name_of(called) in HINTS:
            yield node
        case ast.FunctionDef(name=name) if name in HINTS:
            yield node
        case ast.AugAssign(target=used) | ast.Compare(left=used) if name_of(used) in WAITS:
            yield node
        case ast.Call():
            place = ESTIMATES.get(name_of(node.func), len(node.args))
            if len(node.args) > place + 1:
                yield node.args[place]
            on_axes = name_of(getattr(node.func, "value", None)) in {"ax", "axes"}
            yield from (key for key in node.keywords if key.arg in SILENT or (on_axes and key.arg in OF_AXES))


def name_of(node: object) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def mutants(source: Source) -> list[Change]:
    """Return what may be changed, some of which may not be valid Python or make no difference."""
    silent = without_effect(source.tree)
    return sorted({change for node in nodes(source.tree, silent) for change in changes(source, node, silent)})


def changes(source: Source, node: ast.AST, silent: Container[ast.AST]) -> Iterator[Change]:
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
            yield from dropped(source, node, silent)
    if isinstance(node, REMOVABLE) or is_second_assignment(node):
        yield source.put(node, "pass")


def swaps(source: Source, operators: Iterable[tuple[ast.AST, ast.AST, ast.AST]]) -> Iterator[Change]:
    for operator, left, right in operators:
        old, *others = SWAPS.get(type(operator), [""])
        start = source.text.find(old.encode(), source.end(left), source.start(right))
        yield from ((start, start + len(old), new) for new in others)


def dropped(source: Source, call: ast.Call, silent: Container[ast.AST]) -> Iterator[Change]:
    """Yield the call without each of its keywords."""
    arguments = [*call.args, *call.keywords]
    for k, argument in enumerate(arguments):
        if isinstance(argument, ast.keyword) and argument not in silent:
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
