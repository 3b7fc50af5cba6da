"""Small numbers between host and GPU, and launches that are kept; on torch's CPU, where there is no GPU."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from array_api_compat import is_torch_array
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from entries.stores import draw, on_gpu
from rankfold.kernels import gpu_launch
from rankfold.linalg import exchange, primitives, svd_of_product
from rankfold.linalg.exchange import desk
from rankfold.linalg.tall import Tall, real

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def home(monkeypatch):
    """A desk with room for little."""
    monkeypatch.setattr(exchange, "_SLOTS", 3)
    monkeypatch.setattr(exchange, "_SIZE", 5)
    monkeypatch.setattr(exchange, "_ROOM", 4)
    return exchange.Desk(torch.device(DEVICE, 0) if DEVICE == "cuda" else torch.device("cpu"))


def parts(home, rows):
    numbers = torch.as_tensor(rows, dtype=torch.float64, device=DEVICE)
    room = home.scratch(numbers.numel())
    room[: numbers.numel()] = numbers.reshape(-1)
    return home.summed(room, *numbers.shape)


def test_who_reads_one_sum_has_waited_for_all(home):
    first, second = parts(home, [[1.0, 2.0], [3.0, 4.0]]), parts(home, [[5.0, 6.0, 7.0]])
    assert first.found is None
    assert second.found is None
    assert_array_equal(second.numbers(), [18.0])
    assert_array_equal(first.found, [3.0, 7.0])


def test_sums_outlive_the_room_that_they_came_through(home):
    early = parts(home, [[1.0], [2.0], [3.0]])
    late = parts(home, [[4.0], [5.0]])  # there is room for one of them
    assert_array_equal(early.found, [1.0, 2.0, 3.0])
    assert_array_equal(late.numbers(), [4.0, 5.0])
    assert_array_equal(parts(home, [[1.0, 1.0]] * 5).numbers(), [2.0] * 5)  # more than there ever is room for


def test_two_sums_take_one_launch_and_have_the_bits_that_they_have_alone(monkeypatch):
    rng, launches, launch = np.random.default_rng(0), [], gpu_launch.launch
    monkeypatch.setattr(gpu_launch, "launch", lambda *given: (launches.append(given[1]), launch(*given)))
    home = exchange.Desk(torch.device(DEVICE, 0) if DEVICE == "cuda" else torch.device("cpu"))
    rows = [rng.standard_normal(shape) for shape in ((3, 7), (1, 40_000), (2, 40))]
    together = [parts(home, each) for each in rows]
    assert launches == [(4,)]
    assert_allclose(together[2].numbers(), rows[2].sum(1), rtol=1e-12)
    assert launches == [(4,), (2,)]
    for found, each in zip(together, rows, strict=True):
        assert_array_equal(found.found, parts(home, each).numbers())


def test_tables_are_there_until_the_next_few_were_sent(home):
    for _ in range(2):
        sent = [home.send(np.arange(4) + 10 * k) for k in range(3)]
        assert [table[:4].tolist() for table in sent] == [list(range(10 * k, 10 * k + 4)) for k in range(3)]
    assert home.send(np.array([[0.5, 2.0]]))[:2].tolist() == [0.5, 2.0]
    assert home.send(np.arange(6.0)).tolist() == list(range(6))  # longer than a slot
    assert home.lend(np.arange(5)).tolist() == list(range(5))
    assert home.lend(np.arange(6)).tolist() == list(range(6))


def test_the_desk_of_a_thread_is_kept():
    A = torch.zeros(1, device=DEVICE)
    assert desk(A) is desk(torch.ones(2, device=DEVICE))


class Kernel:
    """What a launch sees of Triton's kernels."""

    arg_names = ("A", "B", "lines", "R", "WIDE")

    def __init__(self, compiles=True):
        self.calls, self.compiles = [], compiles

    def __getitem__(self, grid):
        return lambda *arguments, **options: (
            self.calls.append((grid, options)) or (SimpleNamespace(run=None) if self.compiles else None)
        )


def launched(monkeypatch):
    """Handles that write down how they are called."""
    ran = []
    monkeypatch.setattr(gpu_launch, "_ready", {})
    monkeypatch.setattr(
        gpu_launch,
        "_handle",
        lambda compiled, grid, constants, device: lambda *plain: ran.append((grid, constants, plain)),
    )
    return ran


def test_calls_of_one_kind_are_looked_at_once(monkeypatch):
    kernel, ran = Kernel(), launched(monkeypatch)
    A, B = torch.zeros(4), torch.zeros(4)
    options = {"WIDE": True, "R": 5, "num_warps": 2}
    for lines in (7, 8):
        gpu_launch.launch(kernel, (3,), (A, B), (lines,), options)
    assert kernel.calls == [((3,), options)]
    assert ran == [((3, 1, 1), (5, True), (A.data_ptr(), B.data_ptr(), 8))]
    others = [
        ((4,), (A, B), (7,), options),
        ((3,), (A, B.double()), (7,), options),
        ((3,), (A, B), (7,), options | {"R": 6}),
    ]
    for other in others:
        gpu_launch.launch(kernel, *other)
    assert len(kernel.calls) == 4
    unaligned = torch.zeros(5)[1:]
    for _ in range(2):
        gpu_launch.launch(kernel, (3,), (A, unaligned), (7,), options)
    assert len(kernel.calls) == 6
    assert len(ran) == 1


def test_tensors_that_are_kept_come_first_and_copies_are_looked_at_anew(monkeypatch):
    kernel, ran = Kernel(), launched(monkeypatch)
    A, B = torch.zeros(4), torch.zeros(4)
    kept = gpu_launch.Kept(A)
    copied = copy.deepcopy(kept)
    for first in (kept, kept, copied, gpu_launch.Kept(A.double())):
        gpu_launch.launch(kernel, (3,), (B,), (7,), {"R": 5, "WIDE": True}, first)
    assert [grid for grid, _ in kernel.calls] == [(3,)] * 2  # one for each type
    assert [plain for _, _, plain in ran] == [(Z.data_ptr(), B.data_ptr(), 7) for Z in (A, *copied.tensors)]
    assert copied.tensors[0].data_ptr() != A.data_ptr()
    unaligned = gpu_launch.Kept(torch.zeros(5)[1:])
    gpu_launch.launch(kernel, (3,), (B,), (7,), {"R": 5, "WIDE": True}, unaligned)
    assert len(ran) == 2


def test_the_interpreter_is_asked_each_time_and_few_kinds_are_kept(monkeypatch):
    kernel, _ = Kernel(compiles=False), launched(monkeypatch)
    arguments = (torch.zeros(4), torch.zeros(4)), (1,)
    for _ in range(2):
        gpu_launch.launch(kernel, (3,), *arguments, {"R": 1, "WIDE": False})
    assert len(kernel.calls) == 2
    monkeypatch.setattr(gpu_launch, "_MOST", 2)
    kernel = Kernel()
    for programs in range(3):
        gpu_launch.launch(kernel, (programs,), *arguments, {"R": 1, "WIDE": False})
    assert [key[2] for key in gpu_launch._ready] == [(2,)]


def test_a_handle_runs_on_the_stream_of_the_moment(monkeypatch):
    ran = []
    compiled = SimpleNamespace(run=lambda *given: ran.append(given), function="f", packed_metadata="m")
    active = SimpleNamespace(get_current_stream=lambda device: 100 + device)
    monkeypatch.setattr("triton.runtime.driver", SimpleNamespace(active=active))
    gpu_launch._handle(compiled, (2, 3, 1), (8,), 1)(64, 9)
    assert ran == [(2, 3, 1, 101, "f", "m", None, None, None, 64, 9, 8)]


def test_a_value_on_its_way_is_that_of_an_evaluation():
    entries = draw(3, 8, 7, 0.6)
    cost = rf.Completion.from_observed(on_gpu(entries, DEVICE))
    L, R = (torch.ones((d, 1), dtype=torch.float64, device=DEVICE) for d in cost.shape)
    ahead, plain = cost.evaluate_ahead(L, R), cost.evaluate(L, R)
    assert isinstance(plain.value, float)
    assert float(ahead.value) == plain.value
    for one, two in zip(ahead[1:], plain[1:], strict=True):
        assert_array_equal(one.cpu(), two.cpu())

    class Doubled(rf.Completion):
        def evaluate(self, L, R):
            return tuple(2 * part for part in super().evaluate(L, R))

    assert Doubled.from_observed(cost.store).evaluate_ahead(L, R).value == 2 * plain.value


def test_grams_of_both_sides_are_fetched_together(monkeypatch):
    monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)
    asked, grams = [], primitives.grams
    monkeypatch.setattr(primitives, "grams", lambda *sides: asked.append(len(sides)) or grams(*sides))
    rng = np.random.default_rng(0)
    L, R = (torch.as_tensor(rng.standard_normal((d, 2)), device=DEVICE) for d in (9, 7))
    U, s, V = svd_of_product(Tall.of(L), Tall.of(R))
    assert asked == [2, 2]  # of the factors, and of the bases that come of them
    W = (real(U).cpu().numpy() * s) @ real(V).cpu().numpy().T
    assert_allclose(W, (L @ R.T).cpu(), atol=1e-12)
    entries = draw(3, 9, 8, 0.8)
    problem = rf.Problem.of(rf.Completion.from_observed(on_gpu(entries, DEVICE)), 2)
    x = problem.geometry.random_point(0, like=L)
    asked.clear()
    rf.ConjugateGradient(metric="geometry").init(problem, x)
    assert asked == [2]


@pytest.mark.parametrize("width", [3, 20])
def test_a_step_along_a_line_needs_no_table(width, monkeypatch):
    monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)
    monkeypatch.setattr("rankfold.linalg.on_gpu.taken", None)  # must not be asked for
    A, B, C, D = (
        torch.full((d, width), v, device=DEVICE) for d, v in ((4, 1.0), (4, 2.0), (3, 3.0), (3, 4.0))
    )
    left, right = primitives.sums([(A, 1.0), (B, 0.5)], [(C, 1.0), (D, -2.0)])
    assert_array_equal(left.cpu(), np.full((4, width), 2.0))
    assert_array_equal(right.cpu(), np.full((3, width), -5.0))


@pytest.mark.parametrize("factors", [(2.0, 0.5), (1.0, np.eye(3)), (1.0, 0.5, 1.0)])
def test_other_sums_are_no_steps(factors, monkeypatch):
    monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)
    arrays = [torch.full((4, 3), float(k), device=DEVICE, dtype=torch.float64) for k in (1, 2, 3)]
    (found,) = primitives.sums(list(zip(arrays, factors, strict=False)))
    scales = [factor if isinstance(factor, float) else 1.0 for factor in factors]
    assert_allclose(found.cpu(), np.full((4, 3), sum(k * f for k, f in zip((1, 2, 3), scales, strict=False))))
