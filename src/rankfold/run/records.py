"""Immutable states as plain arrays and JSON, and back, without running anything that a file names.

A state is made of frozen dataclasses and named tuples. A file holds their names only; what a name means is
looked up among the classes that method and geometry declare (`declared_classes`), never imported. A tree may
come from anyone: one that no `Packer` made is refused with an error among `UNFIT`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from rankfold.costs.base import Cost
from rankfold.distributed.sharded import Places, Sharded
from rankfold.linalg.rows import is_spread
from rankfold.problem import Here, Problem
from rankfold.remembered import remembered
from rankfold.solvers.base import StepReport

Classes = Mapping[str, type]
# What may go wrong with a tree that no `Packer` made.
UNFIT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_PLAIN = (type(None), bool, int, float, str)
# References to one array, and points to evaluate: more than any state has. A short text could ask for more.
_MAX_USES, _MAX_POINTS = 100, 16
_DEVICE = r"(cpu|cuda|mps|xpu)(:\d{1,3})?"
_THE_COST = {"cost": "of the problem"}
_REMEMBERED = {name for name, thing in vars(Here).items() if isinstance(thing, remembered)}


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls)) if is_dataclass(cls) else tuple(cls._fields)


def _defaults(cls: Any) -> dict[str, Any]:
    if not is_dataclass(cls):
        return dict(cls._field_defaults)
    return {f.name: f.default for f in fields(cls) if f.default is not MISSING}


def _parts(options: Any) -> list[Any]:
    """`options` and whatever it is made of, where these are dataclasses."""
    if not is_dataclass(options) or isinstance(options, type):
        return [options]
    return [options, *(part for f in fields(options) for part in _parts(getattr(options, f.name)))]


def declared_classes(method: Any, geometry: Any) -> Classes:
    """Return the records of a run's states, by name: those that the method and the geometry declare.

    A method declares them in `state_types`, as do the methods among its options; a geometry in `point_type`
    and `tangent_type`.
    """
    if not hasattr(method, "state_types"):
        raise TypeError(
            f"{type(method).__qualname__} does not declare what its states are made of, so no checkpoint of "
            "it could be read back: add `state_types = (ItsState, ...)`, all records of a state, to the class"
        )
    states = [cls for part in _parts(method) for cls in getattr(part, "state_types", ())]
    points = [getattr(geometry, n) for n in ("point_type", "tangent_type") if hasattr(geometry, n)]
    return {_name(cls): cls for cls in [StepReport, *points, *states]}


def describe(options: Any) -> str:
    """Return a line that tells two objects' options apart, and is the same in every process."""
    if isinstance(options, np.generic):
        options = options.item()
    if is_dataclass(options) and not isinstance(options, type):
        shown = [f"{f.name}={describe(getattr(options, f.name))}" for f in fields(options) if f.compare]
        return f"{type(options).__qualname__}({', '.join(shown)})"
    if isinstance(options, tuple):
        return f"({', '.join(map(describe, options))})"
    # The default repr, and that of functions, would hold an address.
    if hasattr(options, "__qualname__"):
        return str(options.__qualname__)
    inherited = next(base for base in type(options).__mro__ if "__repr__" in vars(base)) is object
    return type(options).__qualname__ if inherited else repr(options)


@dataclass(frozen=True)
class Packer:
    """Takes values apart into a JSON tree and, in `arrays`, the arrays that the tree refers to by name.

    `cost` is the cost of the run, for which a mark is left: a file holds no data.
    """

    remedy: ClassVar[str] = "list it in the method's state_types"

    classes: Classes
    cost: Cost | None = None
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    _kept: dict[int, tuple[str, Any]] = field(default_factory=dict)

    def pack(self, value: Any, where: str = "state") -> Any:
        """Return the tree of `value`; `where` says in errors which part of the state it is."""
        if isinstance(value, Here):
            known = sorted(vars(value).keys() & _REMEMBERED)
            cost = self.pack(value.problem.cost, f"{where}.problem.cost")
            return {"here": self.pack(value.x, f"{where}.x"), "cost": cost, "known": known}
        if isinstance(value, Cost) and value is self.cost:
            return _THE_COST
        if isinstance(value, np.generic):
            return {"scalar": self._keep(np.asarray(value), value, where)}
        if isinstance(value, np.ndarray):
            return {"array": self._keep(value, value, where)}
        if is_spread(value):  # this process's rows: each has a file
            return {"rows": self.pack(value.block, where), "of": value.shape[0]}
        if is_torch_array(value):
            held = value.detach().cpu().numpy()
            return {"torch": self._keep(held, value, where), "device": str(value.device)}
        if type(value) is tuple:
            return {"tuple": [self.pack(part, f"{where}[{i}]") for i, part in enumerate(value)]}
        if is_dataclass(type(value)) or (isinstance(value, tuple) and hasattr(value, "_fields")):
            return self._record(value, where)
        if type(value) in _PLAIN:
            return value
        raise TypeError(f"{where} is a {_name(type(value))}, which a file cannot hold")

    def _record(self, value: Any, where: str) -> dict[str, Any]:
        name = _name(type(value))
        if self.classes.get(name) is not type(value):
            raise TypeError(
                f"{where} is a {name}, which is not among the classes that can be read back: {self.remedy}"
            )
        names = _field_names(type(value))
        return {"record": name, "fields": {n: self.pack(getattr(value, n), f"{where}.{n}") for n in names}}

    def _keep(self, array: NDArray[Any], owner: Any, where: str) -> str:
        """Store `array` once, however often its `owner` occurs, and return its name."""
        if array.dtype.hasobject:
            raise TypeError(f"{where} is an array of Python objects, which a file cannot hold")
        if id(owner) not in self._kept:
            name = f"array{len(self._kept)}"
            # Without gaps, and with its axes in the same order in memory: matrix products round differently
            # for rows and for columns first, so that a slice of a matrix stored by columns comes back so.
            self.arrays[name] = array if array.flags.forc else array.copy(order="K")
            self._kept[id(owner)] = name, owner  # the reference keeps the id from being used again
        return self._kept[id(owner)][0]


@dataclass(frozen=True)
class Unpacker:
    """Puts together what a `Packer` took apart; `Here` objects come back at home in `problem`.

    `places` are those of rows that are spread over processes.
    """

    classes: Classes
    arrays: Mapping[str, NDArray[Any]]
    problem: Problem | None = None
    places: tuple[Places, Places] | None = None
    _uses: Counter[str] = field(default_factory=Counter)

    def unpack(self, tree: Any) -> Any:
        """Return the value of `tree`."""
        match tree:
            case {"here": x, "cost": cost, "known": known}:
                return self._here(x, cost, known)
            case {"cost": "of the problem"} if self.problem is not None:
                return self.problem.cost
            case {"scalar": str() as name}:
                return self._array(name, ndim=0)[()]
            case {"array": str() as name}:
                return self._array(name)
            case {"torch": str() as name, "device": str() as device} if re.fullmatch(_DEVICE, device):
                return _tensor(self._array(name), device)
            case {"rows": block, "of": int() as rows} if self.places is not None:
                return self._spread(self.unpack(block), rows)
            case {"tuple": parts}:
                return tuple(self.unpack(part) for part in parts)
            case {"record": name, "fields": parts}:
                return self._record(name, parts)
            case None | bool() | int() | float() | str():
                return tree
        raise ValueError(f"no value has the form {repr(tree)[:80]}")

    def _array(self, name: str, ndim: int | None = None) -> NDArray[Any]:
        self._use(name, _MAX_USES)
        array = self.arrays[name]
        if ndim is not None and array.ndim != ndim:
            raise ValueError(f"{name} has {array.ndim} dimensions, where {ndim} are due")
        return array

    def _spread(self, block: Any, rows: int) -> Sharded:
        for places in self.places or ():
            if places.cuts[-1] == rows:
                return Sharded(block, places)
        raise ValueError(f"it holds a matrix of {rows} rows, which the problem has not")

    def _use(self, what: str, most: int) -> None:
        self._uses[what] += 1
        if self._uses[what] > most:
            raise ValueError(f"it refers to {what!r} more than {most} times")

    def _here(self, x: Any, cost: Any, known: list[str]) -> Here:
        if self.problem is None:
            raise ValueError("it holds a point of a problem, and no problem is given")
        self._use("here", _MAX_POINTS)
        point = self.unpack(x)
        # A method may stand at another rank than the problem's, or work on another cost, made from it.
        here = replace(self.problem.with_rank_of(point), cost=self.unpack(cost)).at(point)
        # What was known then is computed now, so that later steps count the same evaluations.
        for name in sorted(_REMEMBERED & set(known)):
            getattr(here, name)
        return here

    def _record(self, name: str, parts: dict[str, Any]) -> Any:
        if name not in self.classes:
            raise ValueError(f"it holds a {name}, which neither the solver nor the geometry declares")
        cls = self.classes[name]
        names, later = set(_field_names(cls)), _defaults(cls)
        if not names - later.keys() <= set(parts) <= names:
            raise ValueError(f"its {name} has the fields {sorted(parts)}, not {sorted(names)}")
        # An option that came after the file was written has its default.
        values = later | {part: self.unpack(tree) for part, tree in parts.items()}
        if not is_dataclass(cls):
            return cls(**values)
        # Set field by field, for not every field is a parameter of __init__; what that checks is checked too.
        record = object.__new__(cls)
        for part, value in values.items():
            object.__setattr__(record, part, value)
        if hasattr(record, "__post_init__"):
            record.__post_init__()
        return record


def _tensor(array: NDArray[Any], device: str) -> Any:
    try:
        import torch

        return torch.from_numpy(array).to(device)
    except (ImportError, RuntimeError, AssertionError) as error:  # torch's own, if there is no such device
        raise ValueError(f"it holds a tensor on the device {device!r}, which is not here: {error}") from error
