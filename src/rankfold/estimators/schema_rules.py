"""Rules that values must obey, to be put together in tables: `estimators.schemas` has one for each model.

A rule is called with a value, what errors call it, and the sizes known so far. Sizes have names: the first
array with rows "m" says how many that are, and every other must agree. "m+1" is one more.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

Sizes = dict[str, int]
Rule = Callable[[Any, str, Sizes], None]
Check = Callable[[NDArray[Any], Sizes], bool]


def wrong(where: str, value: Any, want: str) -> NoReturn:
    """Raise the error of a value that breaks a rule."""
    shown = f"an array {value.shape} of {value.dtype}" if isinstance(value, np.ndarray) else repr(value)[:80]
    raise ValueError(f"{where} is {shown}, not {want}")


def kind(want: str, *types: type) -> Rule:
    """A value of one of the types."""

    def rule(value: Any, where: str, sizes: Sizes) -> None:
        if not isinstance(value, types):
            wrong(where, value, want)

    return rule


def number(low: float = -inf, *, whole: bool = False, finite: bool = True) -> Rule:
    """A number that is no truth value, at least `low`; whole, or finite."""
    want = f"{'a whole' if whole else 'a'} number{'' if low == -inf else f' of {low:g} or more'}"

    def rule(value: Any, where: str, sizes: Sizes) -> None:
        if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
            wrong(where, value, want)
        if isinstance(value, Integral) and abs(int(value)) >= 2**63:  # no count, and not always a float
            wrong(where, value, f"{want} below 2**63")
        if finite and not (isfinite(value) and float(value) >= low):
            wrong(where, value, f"{want}, and finite")

    return rule


def choice(*values: str) -> Rule:
    """One of some words."""

    def rule(value: Any, where: str, sizes: Sizes) -> None:
        if not (isinstance(value, str) and value in values):
            wrong(where, value, f"one of {', '.join(map(repr, values))}")

    return rule


def either(*rules: Rule) -> Rule:
    """A value that obeys one of the rules; the error is that of the last."""

    def rule(value: Any, where: str, sizes: Sizes) -> None:
        for each in rules[:-1]:
            known = dict(sizes)
            try:
                each(value, where, known)
            except ValueError:
                continue
            sizes.update(known)
            return
        rules[-1](value, where, sizes)

    return rule


def optional(rule: Rule) -> Rule:
    """None, or what obeys the rule."""
    return either(kind("None", type(None)), rule)


def each(*rules: Rule) -> Rule:
    """A tuple with a rule for each of its parts."""

    def rule(value: Any, where: str, sizes: Sizes) -> None:
        if type(value) is not tuple or len(value) != len(rules):
            wrong(where, value, f"a tuple of {len(rules)} parts")
        for k, (part, one) in enumerate(zip(value, rules, strict=True)):
            one(part, f"{where}[{k}]", sizes)

    return rule


def many(one: Rule, length: str) -> Rule:
    """A tuple of this length, all of whose parts obey a rule."""

    def rule(value: Any, where: str, sizes: Sizes) -> None:
        if type(value) is not tuple:
            wrong(where, value, "a tuple")
        _agree(len(value), length, where, sizes)
        for k, part in enumerate(value):
            one(part, f"{where}[{k}]", sizes)

    return rule


def record(cls: type, **rules: Rule) -> Rule:
    """An object of this very class, with a rule for each field."""

    def rule(value: Any, where: str, sizes: Sizes) -> None:
        if type(value) is not cls:
            wrong(where, value, f"a {cls.__name__}")
        for name, one in rules.items():
            one(getattr(value, name), f"{where}.{name}", sizes)

    return rule


def size(name: str, low: int = 1) -> Rule:
    """A whole number, the size of this name."""
    whole = number(low, whole=True)

    def rule(value: Any, where: str, sizes: Sizes) -> None:
        whole(value, where, sizes)
        _agree(int(value), name, where, sizes)

    return rule


def array(*shape: str | int, types: str, check: Check | None = None, want: str = "") -> Rule:
    """An array of this shape, of one of the types, that passes a check.

    Types are in NumPy's letters, with a number of bytes or without: "f4 f8 i".
    """

    def rule(value: Any, where: str, sizes: Sizes) -> None:
        right = isinstance(value, np.ndarray) and value.ndim == len(shape)
        if not right or not {value.dtype.kind, value.dtype.str[1:]} & set(types.split()):
            wrong(where, value, f"an array of {len(shape)} dimensions and a type among {types}")
        for found, name in zip(value.shape, shape, strict=True):
            _agree(found, name, where, sizes)
        if check is not None and not check(value, sizes):
            raise ValueError(f"{where} must be {want}")

    return rule


def reals(*shape: str | int, above: float = -inf) -> Rule:
    """An array of finite floats."""
    want = "finite" if above == -inf else f"finite and above {above:g}"
    return array(*shape, types="f4 f8", check=lambda a, _: _within(a, above), want=want)


def positions(length: str, below: str, types: str) -> Rule:
    """An array of integers from 0 on, below a size."""
    want = f"from 0 to one less than {below}"
    return array(length, types=types, check=lambda a, sizes: _in_range(a, sizes[below]), want=want)


def pointers(lines: str, total: str) -> Rule:
    """An array that says where each of the lines begins, the last one where they end: at `total`."""

    def check(a: NDArray[Any], sizes: Sizes) -> bool:
        rising = a.size > 0 and a[0] == 0 and bool((a[1:] >= a[:-1]).all())
        return rising and sizes.setdefault(total, int(a[-1])) == a[-1]

    return array(f"{lines}+1", types="i8", check=check, want="rising from 0 to the number of entries")


def counts(length: str) -> Rule:
    """An array of whole numbers, zero or more."""
    return array(length, types="i8", check=lambda a, _: not a.size or bool(a.min() >= 0), want="zero or more")


def labels(length: str) -> Rule:
    """An array of integers, strings or times, all of them different."""

    def check(a: NDArray[Any], sizes: Sizes) -> bool:
        if a.dtype.hasobject:
            return all(isinstance(name, str) for name in a) and len(set(a.tolist())) == a.size
        return not (a.dtype.kind == "M" and np.isnat(a).any()) and _distinct(a)

    return array(length, types="i u U M O", check=check, want="labels, different from each other")


def names(length: str | int) -> Rule:
    """An array of Python strings."""
    return array(length, types="O", check=lambda a, _: all(isinstance(e, str) for e in a), want="strings")


def _agree(found: int, name: str | int, where: str, sizes: Sizes) -> None:
    if isinstance(name, int):
        due = name
    else:
        base, _, more = name.partition("+")
        due = sizes.setdefault(base, found - int(more or 0)) + int(more or 0)
    if found != due:
        raise ValueError(f"{where} has a length of {found}, which must be {due} beside the rest of the model")


def _within(a: NDArray[Any], above: float) -> bool:
    return not a.size or bool(np.isfinite(a).all() and a.min() > above)


def _in_range(a: NDArray[Any], limit: int) -> bool:
    return not a.size or bool(a.min() >= 0 and a.max() < limit)


def _distinct(a: NDArray[Any]) -> bool:
    # Sorted as they come from a fit, which is seen at once; labels that came later stand behind.
    return bool((a[1:] > a[:-1]).all()) or np.unique(a).size == a.size
