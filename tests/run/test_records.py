"""What a checkpoint can hold, and that it comes back as it was."""

import json
from dataclasses import dataclass, field, replace
from math import inf, nan
from typing import NamedTuple

import numpy as np
import pytest
from run_toys import Draws, Flat, HeavyBall, HeavyBallState, Pair, make_problem

from rankfold.costs.factor_ridge import FactorRidge
from rankfold.run.records import Packer, Unpacker, declared_classes, describe
from rankfold.solvers.base import StepReport


def roundtrip(value, problem=None):
    packer = Packer(declared_classes(HeavyBall(), Flat((1, 1), 1)), problem and problem.cost)
    tree = json.loads(json.dumps(packer.pack(value)))
    return Unpacker(packer.classes, packer.arrays, problem).unpack(tree)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**80),
        0.1,
        -0.0,
        5e-324,
        nan,
        inf,
        -inf,
        "é\n\x00",
        (),
        (1, (2.0, "a")),
        np.float64(0.1),
        np.float32(nan),
        np.int64(3),
        np.bool_(True),
        Draws(1, np.float64(2), (nan, 3.0)),
        Pair(1.0, None),
    ],
)
def test_values_come_back_as_they_were(value):
    again = roundtrip(value)
    assert type(again) is type(value)
    assert repr(again) == repr(value)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int32, np.bool_])
def test_arrays_come_back_as_they_were(dtype):
    base = (np.arange(24).reshape(4, 6) % 5).astype(dtype)
    for array in (
        base,
        base.T,
        base[:, :2],
        base.T[:, :2],
        base[::2],
        base[0, 0],
        np.array(base[0, 0]),
        base[:0],
    ):
        again = roundtrip(array)
        assert again.dtype == array.dtype
        assert again.shape == array.shape
        np.testing.assert_array_equal(again, array)
        if array.ndim == 2 and array.size:
            assert (again.strides[0] > again.strides[1]) == (array.strides[0] > array.strides[1])


def test_files_get_arrays_without_gaps():
    base = np.arange(24.0).reshape(4, 6)
    packer = Packer(declared_classes(HeavyBall(), Flat((1, 1), 1)))
    packer.pack((base[:, :2], base.T[:, :2]))
    assert [array.flags.forc for array in packer.arrays.values()] == [True, True]
    assert [array.flags.c_contiguous for array in packer.arrays.values()] == [True, False]


def test_torch_tensors_come_back_as_they_were():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float64):
        tensor = torch.arange(6, dtype=dtype).reshape(2, 3).T
        again = roundtrip(Pair(tensor, tensor)).H
        assert again.dtype == dtype
        assert again.stride() == tensor.stride()
        assert torch.equal(again, tensor)


def test_a_tensor_of_a_device_that_is_not_here_is_refused():
    pytest.importorskip("torch")
    tree = {"torch": "a", "device": "xpu:99"}
    with pytest.raises(ValueError, match="it holds a tensor on the device 'xpu:99', which is not here: "):
        Unpacker({}, {"a": np.ones(2)}).unpack(tree)


def test_an_array_that_occurs_twice_is_stored_once():
    array = np.ones(3)
    packer = Packer(declared_classes(HeavyBall(), Flat((1, 1), 1)))
    packer.pack((Pair(array, array), array))
    assert len(packer.arrays) == 1


def test_a_point_with_its_evaluation_counts_what_the_run_did():
    problem = make_problem()
    here = problem.at(problem.start())
    assert roundtrip(here, problem).value == here.value
    for known, count in [([], 0), (["value"], 1), (["gradient_norm"], 1)]:
        fresh = replace(problem, counts=type(problem.counts)())
        here = problem.at(problem.start())
        for name in known:
            getattr(here, name)
        roundtrip(here, fresh)
        assert fresh.counts.gradients == count


def test_a_point_comes_back_only_to_a_problem():
    problem = make_problem()
    packer = Packer(declared_classes(HeavyBall(), Flat((1, 1), 1)), problem.cost)
    tree = packer.pack(problem.at(problem.start()))
    with pytest.raises(ValueError, match="no problem is given"):
        Unpacker(packer.classes, packer.arrays).unpack(tree)


@dataclass(frozen=True)
class Stranger:
    a: int


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Draws(1, np.float64(2), {"a": 1}), r"state\.scales is a builtins\.dict"),
        (Pair(1.0, (2.0, [3])), r"state\.H\[1\] is a builtins\.list"),
        (np.array([None]), "array of Python objects"),
        (Stranger(1), "Stranger, which is not among .*list it in the method's state_types"),
    ],
)
def test_what_a_file_cannot_hold_is_named(value, message):
    with pytest.raises(TypeError, match=message):
        roundtrip(value)


@dataclass(frozen=True)
class Undeclared:
    def init(self, problem, x0):
        raise NotImplementedError


def test_a_method_that_does_not_declare_its_states_is_told_how():
    with pytest.raises(TypeError, match=r"Undeclared does not declare .* add `state_types = \("):
        declared_classes(Undeclared(), Flat((1, 1), 1))


@dataclass(frozen=True)
class Wrapping:
    state_types = (Stranger,)

    inner: HeavyBall = field(default_factory=HeavyBall)


def test_the_classes_are_those_that_method_its_options_and_geometry_declare():
    found = set(declared_classes(Wrapping(), Flat((1, 1), 1)).values())
    assert found == {Stranger, HeavyBallState, Draws, Pair, StepReport}


def test_a_point_of_a_cost_made_from_the_problem_s_comes_back_on_that_cost():
    problem = make_problem()
    ridged = replace(problem, cost=FactorRidge(problem.cost, np.array([0.3, 0.7])))
    classes = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in (FactorRidge, Pair)}
    packer = Packer(classes, problem.cost)
    tree = json.loads(json.dumps(packer.pack(ridged.at(problem.start()))))
    again = Unpacker(classes, packer.arrays, problem).unpack(tree)
    assert again.problem.cost.cost is problem.cost
    assert again.value == ridged.at(problem.start()).value > problem.at(problem.start()).value


class Written:
    def __repr__(self):
        return "Written(3)"


class Derived(Written):
    pass


class Plain:
    pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (Flat((np.int64(2), 3), 1), "Flat(shape=(2, 3), rank=1, metric='euclidean')"),
        (Derived(), "Written(3)"),
        (Plain(), "Plain"),
        (make_problem, "make_problem"),
        (Pair, "Pair"),
        ((None, 0.1, np.float64(0.1), "a"), "(None, 0.1, 0.1, 'a')"),
    ],
)
def test_descriptions_are_the_same_in_every_process(options, text):
    assert describe(options) == text


def test_what_a_file_refers_to_too_often_is_refused():
    unpacker = Unpacker({}, {"a": np.ones(2)})
    for _ in range(100):
        unpacker._array("a")
    with pytest.raises(ValueError, match="refers to 'a' more than 100 times"):
        unpacker._array("a")


@dataclass(frozen=True)
class Later:
    a: int
    b: int = 5
    c: int = field(default=2, init=False)
    d: tuple = field(default_factory=tuple)

    def __post_init__(self):
        if self.a < 0:
            raise ValueError("a is below 0")


class Named(NamedTuple):
    a: int
    b: int = 7


@pytest.mark.parametrize(
    ("cls", "parts", "due"),
    [
        (Later, {"a": 1, "d": {"tuple": []}}, (1, 5, 2, ())),
        (Later, {"a": 1, "c": 9, "d": {"tuple": [3]}}, (1, 5, 9, (3,))),
        (Named, {"a": 1}, (1, 7)),
        (Named, {"b": 1, "a": 2}, (2, 1)),
        (Later, {"a": 1}, r"its Later has the fields \['a'\], not \['a', 'b', 'c', 'd'\]"),
        (Later, {"a": 1, "d": 0, "e": 0}, r"its Later has the fields \['a', 'd', 'e'\], not"),
        (Later, {"a": -1, "d": 0}, "a is below 0"),
        (Named, {"b": 1}, r"its Named has the fields \['b'\], not \['a', 'b'\]"),
        (Named, {"a": 1, "c": 1}, r"its Named has the fields \['a', 'c'\], not"),
    ],
)
def test_a_record_may_lack_what_has_a_default_and_nothing_else(cls, parts, due):
    unpacker = Unpacker({cls.__name__: cls}, {})
    tree = {"record": cls.__name__, "fields": parts}
    if isinstance(due, str):
        with pytest.raises(ValueError, match=due):
            unpacker.unpack(tree)
    else:
        names = cls._fields if cls is Named else "abcd"
        back = unpacker.unpack(tree)
        assert (type(back), tuple(getattr(back, name) for name in names)) == (cls, due)


@pytest.mark.parametrize(
    "tree", [[1], {"array": 5}, {"tuple": 5}, {"scalar": "a"}, {"torch": "a", "device": "cpu:1234"}]
)
def test_forms_that_no_value_has(tree):
    with pytest.raises((TypeError, ValueError), match=r"no value has the form|not iterable|has 1 dimensions"):
        Unpacker({}, {"a": np.ones(2)}).unpack(tree)
