"""Entries on the GPUs of several processes: the numbers of one process on the CPU.

Where there is no GPU, torch on the CPU stands in for one, with Triton's interpreter; matrices are small.
"""

from __future__ import annotations

import numpy as np
import pytest

import rankfold as rf
from distributed.launching import on_ranks
from distributed.test_stripes_of_columns import passes
from rankfold.distributed import Group, spread_triples

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
from distributed.on_gpus import HAS_GPU, data_of, in_memory, model_of, same_runs, share, standing_in  # noqa: E402

pytestmark = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="no GPU")


@pytest.fixture(scope="module")
def alone():
    return in_memory()


@pytest.mark.parametrize("loss", ["square", "huber"])
def test_every_pass_is_that_of_entries_in_memory(loss):
    data, loss = data_of((6, 5)), rf.Loss.named(loss)
    weights = np.linspace(0.5, 2, len(data.values))
    triples = data.rows, data.cols, data.values, data.shape, weights
    expected = passes(rf.Completion(*triples, loss=loss), data.L, data.R, loss)
    with standing_in():
        store = spread_triples(*triples, stripes=2, device="cuda")
    pairs = zip((data.L, data.R), store.places, strict=True)
    L, R = (place.array(torch.as_tensor(A, device=store.place)) for A, place in pairs)
    found = passes(rf.Completion.from_observed(store, loss), L, R, loss)
    for name, arrays in expected.items():
        if name == "polynomial":  # of all rows, where memory takes a sample
            arrays, found[name] = arrays[:1], found[name][:1]
        for mine, theirs in zip(found[name], arrays, strict=True):
            limit = 1e-12 * np.abs(theirs).max()
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=limit, err_msg=name)


@needs_gpu  # elsewhere `test_control` does it, small
def test_two_processes_do_what_one_does_in_memory(alone, tmp_path):
    ranks = [rank["task:on gpus"] for rank in on_ranks(2, tmp_path / "gloo", "task:on gpus")]
    for found in ranks:
        same_runs(found, alone)
        assert found["place"] == "cuda:0"
        np.testing.assert_allclose(found["model"], model_of(Group(), "cpu"), atol=1e-8)
    for name in alone:
        np.testing.assert_array_equal(ranks[0][name]["values"], ranks[1][name]["values"])


@needs_gpu
def test_nccl_does_what_gloo_does(alone, tmp_path):
    (rank,) = on_ranks(1, tmp_path / "nccl", "task:with nccl")
    same_runs(rank["task:with nccl"], alone)


def test_a_process_without_entries_has_zeros_where_the_others_have_tensors():
    with standing_in():
        store = share(data_of((6, 5)), Group())
    none = rf.Completion.from_observed(type(store)(**{**vars(store), "stores": (None,)}))
    L, R = (
        place.array(torch.ones((d, 2), device=store.place, dtype=torch.float64))
        for d, place in zip((6, 5), store.places, strict=True)
    )
    value, f_L, f_R = none.evaluate(L, R)
    S = none.gradient_matrix(L, R)
    assert value == 0.0
    for found, rows in ((f_L, 6), (f_R, 5), (S @ R, 6), (S.transposed_times(L), 5)):
        assert type(found.block) is torch.Tensor
        assert found.block.device == L.block.device
        assert found.shape == (rows, 2)
        assert not found.block.any()


def test_files_are_read_to_gpus(tmp_path):
    (tmp_path / "a.csv").write_text("ann,Dune,5\nbob,Dune,4\nann,Heat,1\n")
    with standing_in():
        store = rf.distributed.read(tmp_path / "a.csv", device="cuda").store
    assert store.place == ("cuda:0" if HAS_GPU else "cpu")
    assert type(store.block.by_row.value) is torch.Tensor
    assert [each.tolist() for each in store.counts] == [[2, 1], [2, 1]]


def test_entries_stay_in_memory_where_a_gpu_is_not_asked_for_or_not_everywhere(monkeypatch):
    data = data_of((6, 5))
    store = spread_triples(data.rows, data.cols, data.values, data.shape)
    assert store.on("cpu") is store
    monkeypatch.setattr("rankfold.distributed.entries.usable_device", lambda device: "cpu")
    assert store.on("auto") is store


def test_offsets_on_gpus_of_several_processes_are_refused():
    data = rf.distributed.SpreadTriples(share(data_of(), Group(), "cpu"), np.arange(9), np.arange(6))
    with pytest.raises(ValueError, match=r"device='auto' holds no offsets .* set bias=False"):
        rf.MatrixCompletion(rank=2, device="auto").fit(data)


def test_a_model_wants_entries_in_memory_and_brings_them_to_gpus_itself():
    with standing_in():
        store = share(data_of((6, 5)), Group())
    data = rf.distributed.SpreadTriples(store, np.arange(6), np.arange(5))
    with pytest.raises(ValueError, match="read them with device='cpu', and give the model device='cuda'"):
        rf.MatrixCompletion(rank=1, bias=False).fit(data)
