"""Properties that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class remembered(Generic[T]):  # noqa: N801 - written as a decorator, like property
    """A property that is computed when first asked for, and then kept with its object.

    No lock is held meanwhile. That of `functools.cached_property` is, before Python 3.12, one for all objects
    of a class: threads that fit would wait for each other, and a process forked from one of them for ever.
    Threads that ask one object at the same time may each compute the value; all of them get the same one.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        # Found from now on by Python itself, for this class has no `__set__`.
        value: T = vars(instance).setdefault(self._name, self._compute(instance))
        return value
