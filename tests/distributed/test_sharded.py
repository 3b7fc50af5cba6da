"""Sharded arrays and their processes, as far as one process can tell."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from array_api_compat import array_namespace

import rankfold as rf
from distributed.threads import on_threads
from rankfold.costs.offset_system import _at_hand
from rankfold.distributed import Group, Places, RanksError, Sharded, spread_triples, start
from rankfold.distributed.launch import _neighbours, _roomy, own_gpu
from rankfold.distributed.sharded import even_cuts
from rankfold.linalg import column_norms, normal_like, orthonormal, rows_like, thin_svd
from rankfold.linalg.rows import added_up, at_hand, in_place_of, is_spread, normal_in_blocks, spread_of, whole


@pytest.fixture
def block():
    return np.random.default_rng(0).standard_normal((7, 3))


@pytest.fixture
def A(block):
    return Sharded(block, Places(Group(), (0, 7)))


class Half(Group):
    """The second of two processes, of which the first never answers."""

    def __init__(self):
        super().__init__(rank=1, size=2)


def test_rows_are_cut_evenly():
    assert even_cuts(7, 3) == (0, 2, 4, 7)
    assert even_cuts(2, 4) == (0, 0, 1, 1, 2)


def test_places_of_another_matrix_are_even_unless_it_has_as_many_rows():
    places = Places(Half(), (0, 5, 7))
    assert places.bounds == (5, 7)
    assert places.of(7) is places
    assert places.of(4).cuts == (0, 2, 4)
    assert Sharded(np.zeros((2, 3)), places).shape == (7, 3)
    assert repr(Sharded(np.zeros((2, 3)), places)) == "Sharded(rows 5 to 7 of 7, 3 columns)"


def test_a_block_of_other_rows_is_refused():
    with pytest.raises(ValueError, match="block must have the 2 rows from 5 to 7 of 7; got shape"):
        Sharded(np.zeros((3, 3)), Places(Half(), (0, 5, 7)))


def test_arithmetic_is_that_of_the_rows(A, block):
    s = np.array([1.0, 2.0, 4.0])
    for found, truth in [
        (A + A, 2 * block), (A - 2 * A, -block), (A * s, block * s), (A / s, block / s), (-A, -block),
        (A @ np.diag(s), block * s), (A[:, 1:], block[:, 1:]), (block[:, :1] * A, block[:, :1] * block),
    ]:  # fmt: skip
        np.testing.assert_allclose(found.block, truth)
    np.testing.assert_allclose(A.T @ A, block.T @ block)


def test_an_operand_that_everybody_has_gives_the_rows_at_hand():
    mine = Sharded(np.ones((2, 1)), Places(Half(), (0, 5, 7)))
    np.testing.assert_array_equal((np.arange(7.0)[:, None] * mine).block, [[5.0], [6.0]])
    np.testing.assert_array_equal(mine.placed(np.arange(14.0).reshape(7, 2)).block, [[10, 11], [12, 13]])


def test_an_operand_in_memory_goes_to_where_the_rows_are():
    torch = pytest.importorskip("torch")
    mine = Sharded(torch.ones((2, 2), dtype=torch.float32), Places(Half(), (0, 5, 7)))
    for found in (np.arange(7.0)[:, None] * mine, mine * np.array([5.0, 6.0])[:, None]):
        assert found.block.dtype == torch.float32
        np.testing.assert_array_equal(found.block, [[5.0, 5.0], [6.0, 6.0]])


def test_random_rows_are_those_of_the_whole():
    truth = np.random.default_rng(3).standard_normal((9000, 2))
    found = normal_in_blocks(np.random.default_rng(3), (9000, 2), (4000, 8200))
    np.testing.assert_array_equal(found, truth[4000:8200])
    mine = Sharded(np.ones((2, 1)), Places(Half(), (0, 5, 7)))
    np.testing.assert_array_equal(
        normal_like(np.random.default_rng(3), (7, 2), mine).block,
        np.random.default_rng(3).standard_normal((7, 2))[5:],
    )


def test_decompositions(A, block):
    Q = orthonormal(A)
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-14)
    U, s, Vt = thin_svd(A)
    np.testing.assert_allclose((U.block * s) @ Vt, block, atol=1e-14)
    np.testing.assert_allclose(column_norms(A), np.linalg.norm(block, axis=0))
    with pytest.raises(ValueError, match="thin decomposition only"):
        array_namespace(A).linalg.svd(A)


def test_functions_row_by_row(A, block):
    xp = array_namespace(A)
    np.testing.assert_array_equal(xp.concat([A, A], axis=1).block, np.hstack([block, block]))
    np.testing.assert_array_equal(xp.zeros_like(A).block, 0 * block)
    kept = np.array([True, False, True])
    np.testing.assert_array_equal(xp.where(kept, A, -A).block, np.where(kept, block, -block))
    assert xp.all(xp.isfinite(A))
    assert not xp.all(xp.isfinite(A * np.inf))
    copy = xp.asarray(A, copy=True)
    assert copy.block is not block
    with pytest.raises(ValueError, match="side by side"):
        xp.concat([A, A], axis=0)


def test_what_cannot_be_done_raises(A):
    with pytest.raises(IndexError, match=r"\[:, a:b\]"):
        A[1:]
    with pytest.raises(TypeError, match="rows of this matrix are elsewhere"):
        np.asarray(A)
    other = Sharded(np.zeros((7, 3)), Places(Group(), (0, 7)))
    other.spread = Places(Group(), (0, 3, 7))
    with pytest.raises(ValueError, match="rows are cut at"):
        A + other


def test_rows_at_hand_of_any_array(A, block):
    assert is_spread(A)
    assert not is_spread(block)
    assert at_hand(A) is block
    assert at_hand(block) is block
    assert in_place_of(A, block).spread is A.spread
    assert in_place_of(block, A.block) is A.block
    assert whole(A) is block
    assert spread_of([block, A]) is A.spread
    assert spread_of([block]) is None
    np.testing.assert_array_equal(added_up(A, np.ones(2)), np.ones(2))
    np.testing.assert_array_equal(rows_like(block, A).block, block)


def test_processes_that_do_not_know_where_to_meet_are_told(monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_NTASKS", "2")
    with pytest.raises(RanksError, match="there are 2 processes, and MASTER_ADDR and MASTER_PORT do not say"):
        start()


def test_processes_of_a_machine_take_its_gpus_in_turn(monkeypatch):
    torch = pytest.importorskip("torch")
    for name in ("LOCAL_RANK", "SLURM_LOCALID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert own_gpu() == "cuda:0"
    monkeypatch.setenv("SLURM_LOCALID", "1")
    assert own_gpu() == "cuda:1"
    monkeypatch.setenv("LOCAL_RANK", "4")
    assert own_gpu() == "cuda:0"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert own_gpu() == "cuda:0"


def test_room_is_a_quarter_of_a_share_of_the_memory(monkeypatch):
    pages = {"SC_PHYS_PAGES": 10_000_000, "SC_PAGE_SIZE": 4000}
    monkeypatch.setattr("os.sysconf", pages.__getitem__, raising=False)
    assert _roomy(2) == 5e9
    assert _roomy(100) == 1e9
    monkeypatch.delattr("os.sysconf")
    assert _roomy(2) == 1e9


def test_one_process_alone():
    group = Group()
    assert group.agree(2.5, True, False, "x") == (2.5, True, False)
    assert group.failed_alike(ValueError())
    assert group.together(lambda: 3) == 3
    assert group.texts(b"ab") == [b"ab"]
    assert group.most(4.0) == 4.0
    with pytest.raises(ZeroDivisionError):
        group.together(lambda: 1 / 0)


def test_no_entries_at_all_are_refused():
    with pytest.raises(ValueError, match="no entry in any process"):
        spread_triples([], [], [], (3, 2))
    with pytest.raises(ValueError, match="rows must be integers from 0 to 2"):
        spread_triples([3], [0], [1.0], (3, 2))
    with pytest.raises(ValueError, match="cols must be integers from 0 to 1"):
        spread_triples([2, 0], [2, 0], [1.0, 1.0], (3, 2))
    with pytest.raises(ValueError, match="values has entries that are NaN"):
        spread_triples([2], [0], [np.nan], (3, 2))
    with pytest.raises(ValueError, match="weights must be zero or more"):
        spread_triples([2], [0], [1.0], (3, 2), weights=[-1.0])
    with pytest.raises(ValueError, match=r"entry \(2, 1\) is given more than once"):
        spread_triples([0, 2, 2], [0, 1, 1], [1.0, 2.0, 3.0], (3, 2))
    kept = spread_triples([2, 0, 2], [1, 0, 1], [3.0, 1.0, 2.0], (3, 2), duplicates="keep")
    np.testing.assert_array_equal(kept.block.by_row.data[:, 0], [1.0, 2.0, 3.0])


def test_entries_of_one_process_are_those_of_observed():
    data = rf.data.random_completion((30, 20), 2, 4, seed=0)
    spread = rf.Completion.from_observed(spread_triples(data.rows, data.cols, data.values, data.shape))
    plain = rf.Completion.from_triples(data)
    assert spread.value(data.L, data.R) == plain.value(data.L, data.R)
    for mine, theirs in zip(spread.store.counts, plain.store.counts, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert spread.store.astype(np.float32).dtype == np.float32
    assert spread.fingerprint() != rf.Completion.from_observed(
        spread_triples(data.rows, data.cols, data.values[::-1], data.shape)
    ).fingerprint()  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "count"),
    [({}, 6), ({"SLURM_TASKS_PER_NODE": "2(x3)"}, 2), ({"SLURM_TASKS_PER_NODE": "3,2,1"}, 3),
     ({"SLURM_TASKS_PER_NODE": "2(x3)", "LOCAL_WORLD_SIZE": "4"}, 4)],
)  # fmt: skip
def test_processes_of_one_machine_are_counted_as_they_were_started(monkeypatch, variables, count):
    for name in ("LOCAL_WORLD_SIZE", "SLURM_TASKS_PER_NODE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _neighbours(6) == count


def test_offsets_over_entries_that_one_process_has_on_disk_are_refused_everywhere():
    in_memory = rf.Completion(np.arange(4), np.zeros(4, int), np.ones(4), (4, 1)).store

    def said(group):
        store = SimpleNamespace(
            places=(Places(group, even_cuts(4, 2)),), block=in_memory if group.rank == 0 else None
        )
        with pytest.raises(ValueError, match="offsets need entries in memory in every process"):
            _at_hand(store)

    on_threads(2, said)
