"""The store on a GPU, where there is none: under Triton's interpreter, and compiled but not run.

On a machine with a GPU, `test_stores.py` runs all its tests on this store.
"""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from entries import test_stores as every_store
from entries.stores import draw, factors, on_gpu
from rankfold.kernels import formulas

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
gpu = pytest.importorskip("rankfold.kernels.gpu")
Memory = pytest.importorskip("gpu_memory").Memory
pytestmark = pytest.mark.gpu
HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
SMALL = (8, 11)  # the interpreter takes a line in milliseconds


def build(entries):
    return on_gpu(entries, DEVICE)


@triton.jit
def _each_loss(w, y, constants, found, size, ROOM: tl.constexpr, LOSS: tl.constexpr):
    n = tl.arange(0, ROOM)
    here = n < size
    parameter = tl.load(constants)
    value, slope, bend = gpu._losses(
        tl.load(w + n, mask=here, other=0.0), tl.load(y + n, mask=here, other=0.0), parameter, LOSS
    )
    tl.store(found + n, value, mask=here)
    tl.store(found + size + n, slope, mask=here)
    tl.store(found + 2 * size + n, bend, mask=here)


@pytest.fixture(params=[2048, 7], ids=["lines", "pieces of lines"])
def piece(request, monkeypatch):
    Memory(monkeypatch)
    monkeypatch.setattr("rankfold.kernels.gpu.PIECE", request.param)


@pytest.mark.parametrize(
    ("loss", "weighted"),
    [("square", True), ("logistic", False), pytest.param("huber", True, marks=pytest.mark.soak)],
)
def test_passes(piece, loss, weighted):
    entries = draw(1, 5, 23, 0.5, weighted=weighted, loss=loss)  # programs take several lines, or pieces
    every_store.agrees_with_dense(build(entries), entries, loss, factors(entries.shape, 3))


@pytest.mark.parametrize("loss", ["huber", "poisson", "squared_hinge"])
def test_more_losses(loss):
    every_store.passes_agree(build, loss, True, SMALL)


@pytest.mark.parametrize("number", range(5))
def test_losses_are_those_of_the_formulas(number):
    """Values and both derivatives, for small and large W, at each datum, at huber's bounds and beyond."""
    w, y = (A.ravel() for A in np.meshgrid(np.r_[np.linspace(-4, 4, 17), -40.0, 40.0], [0.0, 1.0]))
    found = torch.zeros((3, w.size), dtype=torch.float64, device=DEVICE)
    constants = torch.tensor([1.0], dtype=torch.float64, device=DEVICE)
    _each_loss[(1,)](
        *(torch.as_tensor(A, device=DEVICE) for A in (w, y)), constants, found, w.size, 64, number
    )
    for part, expected in zip(found.cpu().numpy(), formulas.BUILT_IN[number](w, y, 1.0), strict=True):
        assert_allclose(part, expected, rtol=1e-12, atol=1e-15)


def test_polynomial_of_most_terms(piece):
    entries, (A, B, dA, dB, ddA, ddB) = draw(2, 5, 12, 0.6, weighted=True), factors((5, 12), 5, count=3)
    coefficients = build(entries).polynomial((A, dA, ddA), (B, dB, ddB))
    times = np.linspace(-1, 1, 5)
    found = np.polynomial.polynomial.polyval(times, coefficients)
    every_store.close(found, every_store.dense.curve_values(entries, (A, dA, ddA), (B, dB, ddB), times))


@pytest.mark.parametrize("terms", [(1, 1), (1, 2), (2, 2), (3, 2)])
def test_polynomial_of_fewer_terms(terms):
    entries, points = draw(2, 4, 6, 0.5), factors((4, 6), 2, count=3)
    Ls, Rs = points[::2][: terms[0]], points[1::2][: terms[1]]
    coefficients = build(entries).polynomial(Ls, Rs)
    assert len(coefficients) == 2 * sum(terms) - 3
    times = np.linspace(-1, 1, 5)
    found = np.polynomial.polynomial.polyval(times, coefficients)
    every_store.close(found, every_store.dense.curve_values(entries, Ls, Rs, times))


@pytest.mark.parametrize("every", [2, 3])
def test_a_sampled_polynomial_is_that_of_one_in_so_many_lines(every, monkeypatch):
    Memory(monkeypatch)
    entries, points = draw(3, 7, 6, 0.7, weighted=True), factors((7, 6), 3)
    curves = points[::2], points[1::2]
    found = build(entries).polynomial(*curves, every)
    some, times = entries.take(entries.rows % every == 0), np.linspace(-1, 1, 4)
    values = np.polynomial.polynomial.polyval(times, found)
    every_store.close(values, every_store.dense.curve_values(some, *curves, times))


def test_few_entries():
    every_store.test_one_entry(build, (1, 7))
    every_store.test_what_a_store_knows_of_itself(build)


def test_factors_of_other_matrices_are_refused():
    every_store.refuses_other_shapes(build)


def test_entries_of_weight_zero():
    every_store.zero_weights_count_for_nothing(build)


def test_large_ranks():
    every_store.test_large_ranks(build, 50)


def test_float32():
    every_store.float32_is_kept(build, True, SMALL)


def test_arrays_of_other_libraries():
    every_store.answers_in_kind(build, torch, SMALL)


def test_the_order_of_entries_does_not_matter_nor_that_of_repeated_ones():
    entries = draw(7, 9, 12, repeat=5, weighted=True)
    entries.values[-5:] = 0.0  # repeated entries, some of which differ in weight alone
    points = factors(entries.shape, 2)
    shuffled = entries.take(np.random.default_rng(0).permutation(len(entries.rows)))
    results = [
        every_store.all_passes(build(given), every_store.SQUARE, *points) for given in (entries, shuffled)
    ]
    for one, two in zip(*results, strict=True):
        assert_array_equal(one, two)


def test_other_values():
    entries = draw(9, 12, 9, repeat=2, weighted=True)
    other = build(entries).with_values(lambda rows, cols, values: values + rows - 2.0 * cols)
    changed = replace(entries, values=entries.values + entries.rows - 2.0 * entries.cols)
    every_store.agrees_with_dense(other, changed, "square", factors(entries.shape, 2))


def test_pieces_do_not_change_what_is_found(monkeypatch):
    entries = draw(3, 9, 30)
    points = factors(entries.shape, 3)
    whole = every_store.all_passes(build(entries), every_store.SQUARE, *points)
    monkeypatch.setattr("rankfold.kernels.gpu.PIECE", 4)
    cut = build(entries)
    assert cut.by_row.pieces > cut.by_row.lines
    for one, two in zip(whole, every_store.all_passes(cut, every_store.SQUARE, *points), strict=True):
        assert_allclose(one, two, rtol=1e-12, atol=1e-14)
    assert_array_equal(cut.counts[0], build(entries).counts[0])


def test_passes_one_after_the_other_find_what_one_launch_finds(piece, monkeypatch):
    entries = draw(1, 4, 24, 0.5, weighted=True)
    every_store.agrees_with_dense(build(entries), entries, "square", factors(entries.shape, 3))
    monkeypatch.setattr("rankfold.entries.gpu_side.TOGETHER", 0)
    every_store.agrees_with_dense(build(entries), entries, "square", factors(entries.shape, 3))


def test_the_start_is_that_of_the_cpu_and_stays_on_the_device():
    entries = draw(4, 12, 14, 0.5)
    cost = rf.Completion.from_observed(build(entries))
    U, s, V = cost.start(2, seed=1)
    assert {x.device.type for x in (U, s, V)} == {DEVICE}
    expected = rf.Completion(entries.rows, entries.cols, entries.values, entries.shape).start(2, seed=1)
    assert_allclose((U * s @ V.T).cpu(), (expected[0] * expected[1]) @ expected[2].T, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [0, 5]}, r"rows\[1\] is 5; out of range: must be from 0 to 3"),
        ({"cols": [-1, 0]}, r"cols\[0\] is -1; out of range"),
        ({"rows": [0.0, 1.0]}, "rows must be integers"),
        ({"values": [1.0, np.nan]}, r"values\[1\] is nan; all must be finite"),
        ({"weights": [1.0, -2.0]}, r"weights\[1\] is -2.0; weights must be finite and zero or more"),
        ({"values": [1.0]}, "values has 1"),
        ({"rows": [1, 1], "cols": [2, 2]}, r"entry \(1, 2\) is given more than once, at positions 0 and 1"),
        ({"rows": [[0, 1]]}, "rows must be one-dimensional"),
        ({"rows": [], "cols": [], "values": []}, "values is empty"),
        ({"shape": (2**31, 4)}, "at most 2147483647 lines"),
        ({"cols": [0, 3]}, r"cols\[1\] is 3; out of range: must be from 0 to 2"),
        ({"cols": [0, 1j]}, "cols must be integers; got torch.complex128"),
        ({"rows": [True, False]}, "rows must be integers; got torch.bool"),
        ({"values": [1j, 2.0]}, "values must be real numbers; got torch.complex128"),
        ({"values": [np.inf, 2.0]}, r"values\[0\] is inf; all must be finite"),
        ({"values": [[1.0, 2.0]]}, r"values must be one-dimensional; got shape \(1, 2\)"),
        ({"weights": [1.0, 1j]}, "weights must be real numbers; got torch.complex128"),
        ({"weights": [np.nan, 1.0]}, r"weights\[0\] is nan; weights must be finite"),
        ({"weights": [1.0, np.inf]}, r"weights\[1\] is inf; weights must be finite"),
        ({"weights": [1.0, 0.0, 1.0]}, "rows has 2, cols has 2, values has 2, weights has 3"),
        ({"rows": [0, 3, 1], "cols": [2, 2, 2], "values": [1.0] * 3, "weights": [1.0] * 2}, "weights has 2"),
    ],
)
def test_what_is_no_entry_is_refused_by_name(change, message):
    from rankfold.entries.gpu import GpuObserved

    given = {"rows": [0, 1], "cols": [0, 1], "values": [1.0, 2.0], "shape": (4, 3)} | change
    kinds = {"rows": np.int64, "cols": np.int64}
    empty = {name: np.array(given[name], kinds.get(name)) for name in given if given[name] == []}
    with pytest.raises((ValueError, TypeError), match=message):
        GpuObserved.from_triples(**given | empty, device=DEVICE)


def test_the_longest_side_that_indices_can_tell_apart():
    from rankfold.entries.gpu_checks import checked_tensors

    for shape in ((2**31 - 1, 1), (1, 2**31 - 1)):
        last = [np.array([d - 1]) for d in shape]
        i, j, y, w = checked_tensors(*last, np.array([2.0]), None, shape, "cpu")
        assert (i.tolist(), j.tolist(), y.tolist(), w) == ([shape[0] - 1], [shape[1] - 1], [2.0], None)


@pytest.mark.parametrize(
    ("values", "weights", "kind"),
    [("f4", "f8", "f4"), ("f8", "f4", "f8"), ("i4", "f4", "f8"), ("f2", "i8", "f8"), ("?", "?", "f8")],
)
def test_values_are_held_in_the_type_that_they_are_given_in_and_weights_in_theirs(values, weights, kind):
    from rankfold.entries.gpu import GpuObserved

    rows, given = np.arange(3), [np.array([0, 1, 1]).astype(each) for each in (values, weights)]
    store = GpuObserved.from_triples(rows, rows[::-1].copy(), given[0], (3, 4), given[1], device=DEVICE)
    assert store.dtype == np.dtype(kind)
    for side in (store.by_row, store.by_column):
        assert {str(each.dtype) for each in (side.value, side.weight)} == {
            "torch.float32" if kind == "f4" else "torch.float64"
        }
    given[0][:] = 1  # the store has its own
    assert store.by_row.value.tolist() == [0, 1, 1]


def test_factors_of_one_type_are_computed_with_in_it_and_others_in_double_precision():
    every_store.factors_of_several_types(build)


def test_factors_that_want_gradients_are_taken_without():
    store, (L, R) = build(draw(1, 5, 4, 0.6)), factors((5, 4), 2, count=1)
    for kind in (np.float64, np.float32):  # tensors that are used as they are, and others
        asking = [torch.tensor(X, requires_grad=True, device=DEVICE) for X in (L.astype(kind), R)]
        value, *partials = store.evaluate(*asking, every_store.SQUARE)
        assert value == store.evaluate(L.astype(kind), R, every_store.SQUARE)[0]
        assert [each.requires_grad for each in partials] == [False, False]


def test_a_loss_of_one_s_own_is_refused():
    loss = rf.Loss.from_functions(lambda w, y: (w - y) ** 4, lambda w, y: 4 * (w - y) ** 3, lambda w, y: w)
    with pytest.raises(TypeError, match="on a GPU the loss must be built in"):
        build(draw(1, 5, 5)).value(*factors((5, 5), 1, count=1), loss)


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
def test_without_a_gpu_the_device_is_refused():
    with pytest.raises(RuntimeError, match="device='cuda', but torch finds no GPU here"):
        rf.Completion([0], [0], [1.0], (2, 2), device="cuda")


# What a GPU would be given, compiled for one of compute capability 9.0: the interpreter takes more than that.
COMPILE = """
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from rankfold.kernels import gpu, gpu_lines, gpu_tall
import triton.language as tl

def compiled(kernel, floats, **constants):
    kinds = {"start": "*i64", "line": "*i32", "index": "*i32", "lines": "i32", "pieces": "i32",
             "every": "i32", "constants": "*fp64", "losses": "*fp64", "cut": "*i64", "after": "*i64",
             "table": "*i64", "chunk": "i32", "terms": "i32", "small": "i32", "numbers": "*fp64",
             "N": "*fp64", "U": "*fp32", "V": "*fp32", "others": "i32", "first": "i32", "count": "i32",
             "rows": "i32", "length": "i32", "other_start": "*i64", "other_line": "*i32",
             "other_index": "*i32", "other_pieces": "i32"}
    names = kernel.arg_names
    signature = {n: "constexpr" if n in constants else kinds.get(n, floats) for n in names}
    places = {(names.index(n),): value for n, value in constants.items()}
    compile(ASTSource(kernel, signature, places), target=GPUTarget("cuda", 90, 32))

shape = {"R": 5, "RP": 8, "P": 2, "E": 16}
for loss, floats in enumerate(("*fp64", "*fp32", "*fp64", "*fp32", "*fp64")):
    compiled(gpu.slopes, floats, **shape, LOSS=loss, WEIGHTED=True)
compiled(gpu.value, "*fp32", **shape, LOSS=0, WEIGHTED=True)
compiled(gpu.evaluate, "*fp64", **shape, LOSS=1, WEIGHTED=False)
compiled(gpu.evaluate_both, "*fp64", **shape, OTHER_P=4, OTHER_E=8, LOSS=0, WEIGHTED=True)
for model in (False, True):
    compiled(gpu.derivative, "*fp64", **shape, LOSS=1, WEIGHTED=True, MODEL=model)
compiled(gpu.polynomial, "*fp64", **shape, M=3, N=3, WEIGHTED=True)
compiled(gpu.polynomial, "*fp32", **shape, M=2, N=2, WEIGHTED=False)
compiled(gpu.product, "*fp32", **shape)
compiled(gpu.join, "*fp64", R=5, RP=8)
compiled(gpu_tall.grams, "*fp64", R=5, RP=8, ROWS=16, FLOATS=tl.float32)
compiled(gpu_tall.sums, "*fp64", R=5, RP=8, ROWS=64, FLOATS=tl.float64)
compiled(gpu_tall.totals, "*fp64", BLOCK=8192, BESIDE=1024)
compiled(gpu_lines.blocks, "*fp32", R=5, RP=8, P=1, E=16, LOSS=1, WEIGHTED=True)
compiled(gpu_lines.invert, "*fp64", R=5, RP=8, P=16)
compiled(gpu_lines.solve, "*fp64", R=5, RP=8, P=16)
print("compiled")
"""


def test_the_kernels_compile_for_a_gpu(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True)
    assert done.stdout == "compiled\n", done.stderr[-2000:]
