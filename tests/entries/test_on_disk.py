"""The store on disk beside the one in memory: the same bits, bounded memory, files that are not trusted."""

import os
import tempfile
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from entries.stores import draw, factors, in_memory, in_stripes, on_disk
from rankfold.entries import disk_side
from rankfold.entries.disk_side import Mapped, reserve
from rankfold.entries.observed import Observed
from rankfold.entries.on_disk import OnDisk, blocks_of, files_of
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.kernels import layout
from rankfold.kernels.polynomial import RUN

SQUARE = rf.Loss.named("square")
both = pytest.mark.parametrize("build", [in_memory, in_stripes])


def stores(build, part, **options):
    entries = draw(3, 50, 40, 0.4, repeat=9, **options)
    return build(entries), on_disk(entries, build, part)


@both
@pytest.mark.parametrize("weighted", [False, True])
def test_one_part_has_the_bits_of_memory(build, weighted):
    held, disk = stores(build, 10**6, weighted=weighted)
    points = factors(held.shape, 3)
    for store in (held, disk):
        assert isinstance(store, OnDisk) == (store is disk)
    for one, two in zip(passes(held, points), passes(disk, points), strict=True):
        assert_array_equal(one, two)


@both
def test_lines_have_the_bits_of_memory_in_parts_of_any_size(build):
    for part in (1, 7, 300):
        held, disk = stores(build, part)
        assert all(len(side.cuts) > 2 for side in disk.sides)
        points = factors(held.shape, 3)
        (value, *arrays), (other, *others) = passes(held, points), passes(disk, points)
        assert_allclose(other, value, rtol=1e-14)
        for k, (one, two) in enumerate(zip(arrays, others, strict=True)):
            if np.ndim(one) > 1:
                assert_array_equal(one, two)
            else:  # sums over all entries
                assert_allclose(two, one, rtol=1e-12, err_msg=str(k))


def passes(store, points):
    """The value first, then all that a store answers."""
    L, R, dL, dR = points
    S, T = store.gradient(L, R, SQUARE), store.targets(SQUARE)
    value, *partials = store.evaluate(L, R, SQUARE)
    return [
        value, *partials, *store.derivative(L, R, dL, dR, SQUARE), *store.gauss_newton(L, R, dL, dR, SQUARE),
        *store.blocks(L, R, SQUARE), S @ dR, S.transposed_times(dL), T @ R, T.transposed_times(L),
        store.polynomial((L, dL), (R, dR)), store.polynomial((L, dL), (R, dR), 4), store.mean_value,
    ]  # fmt: skip


@both
@pytest.mark.parametrize("every", [2, 5, 16])
def test_a_sample_has_the_rows_and_the_bits_of_memory(build, every):
    entries = draw(5, 400, 30, 0.7)  # several chunks
    held, disk = build(entries), on_disk(entries, build, 1000)
    points = factors(entries.shape, 3)
    assert held.by_row.chunks[1] > 1
    assert_array_equal(
        disk.polynomial(points[::2], points[1::2], every), held.polynomial(points[::2], points[1::2], every)
    )
    with pytest.raises(ValueError, match="every must be at least 1"):
        disk.polynomial(points[::2], points[1::2], 0)


@both
@pytest.mark.parametrize(("lines", "every"), [(64, 2), (81, 5), (400, 1), (2, 3)])
def test_a_sample_has_the_entries_of_its_rows_and_no_others(build, lines, every, monkeypatch):
    """Eight rows in succession, of so many; the last row of all may be one of them. No others are read."""
    monkeypatch.setattr("rankfold.entries.sorted_entries.CHUNK_ENTRIES", 30)
    asked, read, fill = [], [], Mapped.read
    monkeypatch.setattr(Mapped, "ask", lambda self, first, last: asked.append((first, last - first)))
    monkeypatch.setattr(
        Mapped, "read", lambda self, first, out: (read.append((first, len(out))), fill(self, first, out))
    )
    entries = draw(5, lines, 9, 0.7, weighted=True)
    side = on_disk(entries, build, 100).by_row
    wanted = [i for i in range(lines) if (i >> int(RUN)) % every == 0]
    assert (lines - 1 in wanted) == (lines in (81, 400, 2))
    found, seen = [], []
    for s, chunks, rows, part in side.sampled(every):
        assert part.chunks == (1, chunks.stop - chunks.start)
        assert (part.lines, part.length) == (len(rows), 9)
        largest = np.diff(part.indptr[part.bounds.astype(int)].astype(int)).max()
        assert part.size < 100 + largest  # a part, and what ends its last chunk
        i = np.repeat(rows, np.diff(part.indptr.astype(int)))
        assert_array_equal(part.indptr[part.bounds[[0, -1]].astype(int)], [0, len(i)])
        found += zip(i, part.indices + s * side.step, part.data[:, 0], part.data[:, 1], strict=True)
        seen += [(s, k) for k in range(chunks.start, chunks.stop)]
    assert sorted(seen) == list(np.ndindex(side.chunks))
    assert sorted(asked) == sorted(read)
    assert sum(size for _, size in read) == 2 * len(found)
    runs = side.stripes * (-(-lines // (8 * every)) if every > 1 else 1)
    assert len(read) <= 2 * (runs + len(seen))
    triples = zip(entries.rows, entries.cols, entries.values, entries.weights, strict=True)
    assert sorted(found) == sorted(each for each in triples if each[0] in wanted)


@both
@pytest.mark.parametrize("weighted", [False, True])
def test_it_knows_of_itself_what_memory_does(build, weighted):
    held, disk = stores(build, 60, weighted=weighted)
    assert disk.fingerprint == held.fingerprint
    assert disk.mean_value == held.mean_value
    for one, two in zip(disk.counts, held.counts, strict=True):
        assert_array_equal(one, two)
    for side, other in zip(disk.plain.sides, held.plain.sides, strict=True):
        assert side.stripes == 1
        for name in ("indptr", "indices", "data"):
            assert_array_equal(getattr(side, name), getattr(other, name))
    for side, other in zip(disk.sides, held.sides, strict=True):
        for one, two in zip(side.pattern(), other.pattern(), strict=True):
            assert_array_equal(one, two)
            assert one.dtype == two.dtype


def test_the_mean_of_many_values(monkeypatch):
    for weighted in (False, True):
        held, disk = stores(in_memory, 60, weighted=weighted)
        monkeypatch.setattr("rankfold.entries.on_disk.BLOCK", 7)
        assert_allclose(disk.mean_value, held.mean_value, rtol=1e-13)
        assert len(list(blocks_of(disk))) == -(-disk.size // 7)
        monkeypatch.undo()
    entries = draw(1, 9, 8)
    zero = on_disk(type(entries)(entries.rows, entries.cols, entries.values, (9, 8), 0 * entries.values))
    monkeypatch.setattr("rankfold.entries.on_disk.BLOCK", 7)
    assert_allclose(zero.mean_value, entries.values.mean(), rtol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_of_many_negative_values_is_weighted_as_well(weighted, monkeypatch):
    entries = draw(1, 9, 8, weighted=weighted)
    entries.values[:] -= 10.0
    monkeypatch.setattr("rankfold.entries.on_disk.BLOCK", 7)
    expected = np.average(entries.values, weights=entries.weights)
    assert_allclose(on_disk(entries).mean_value, expected, rtol=1e-13)


def test_other_data_are_in_memory():
    _, disk = stores(in_memory, 60)
    doubled = disk.with_data(*(2 * side.data for side in disk.sides))
    assert type(doubled) is Observed
    assert_array_equal(doubled.by_row.data, 2 * disk.by_row.data)
    assert disk.astype(np.float64).by_row is disk.by_row


def test_no_pass_holds_a_number_for_each_entry(monkeypatch):
    for block in ("entries.values.BLOCK", "entries.on_disk.BLOCK", "fingerprint._BLOCK"):
        monkeypatch.setattr(f"rankfold.{block}", 10_000)
    monkeypatch.setattr(layout, "FEW", 10**7)  # so that it takes the kernels of other tests
    rng = np.random.default_rng(0)
    n, shape = 600_000, (3000, 2000)
    entries = draw(0, 2, 2)
    entries = type(entries)(
        rng.integers(3000, size=n), rng.integers(2000, size=n), rng.standard_normal(n), shape
    )
    disk, (L, R, dL, dR) = on_disk(entries, part=20_000), factors(shape, 8)

    def work(store, L, R, dL, dR):
        yield store.evaluate(L, R, SQUARE)
        yield store.derivative(L, R, dL, dR, SQUARE)
        yield store.polynomial((L, dL), (R, dR))
        yield store.polynomial((L, dL), (R, dR), 4)
        for S in (store.gradient(L, R, SQUARE), store.targets(SQUARE)):
            yield S @ R, S.transposed_times(L)
        yield store.value_at_zero(SQUARE), store.mean_value, store.fingerprint
        yield (
            store.with_values(lambda rows, cols, old: 2 * old),
            store.astype(np.float32),
            store.by_row.pattern(),
        )

    for _ in work(on_disk(entries, part=20_000), L, R, dL, dR):  # compiles
        pass
    tracemalloc.start()
    for k, _ in enumerate(work(disk, L, R, dL, dR)):
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 4 * n, k  # the entries take 24 bytes each, and slopes of them would 16
    tracemalloc.stop()


def test_files_that_change_lead_no_kernel_astray():
    entries = draw(3, 50, 40, 0.4)
    held = in_memory(entries)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, part in zip(("rows", "columns"), held.sides, strict=True):
            for path, array in zip(
                files_of(folder, side), (part.indptr, part.indices, part.data), strict=True
            ):
                array.tofile(path)
        store = OnDisk.opened(folder, held.shape, np.float64, False, 1e9, part=50)
        with files_of(folder, "rows")[1].open("r+b") as file:
            file.seek(400)
            file.write(b"\xff" * 4)
        points = factors(held.shape, 3)
        with pytest.raises(ValueError, match="an index is 4294967295, and there are 40 columns"):
            store.evaluate(*points[:2], SQUARE)
        with pytest.raises(ValueError, match="these are no sorted entries"):
            OnDisk.opened(folder, held.shape, np.float64, False, 1e9)


def test_a_system_that_reads_files_by_maps_alone_reads_the_same(monkeypatch):
    held, disk = stores(in_stripes, 60)
    points = factors(held.shape, 3)
    expected = passes(disk, points)
    monkeypatch.delattr("os.preadv", raising=False)
    monkeypatch.delattr("os.posix_fadvise", raising=False)
    for one, two in zip(passes(stores(in_stripes, 60)[1], points), expected, strict=True):
        assert_array_equal(one, two)


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="a map of a file that was cut ends the process")
def test_a_file_that_is_cut_while_it_is_read_is_an_error(tmp_path):
    np.arange(9.0).tofile(tmp_path / "x")
    with (tmp_path / "x").open("rb") as file:
        mapped = Mapped(file, np.float64)
    os.truncate(tmp_path / "x", 40)
    found = np.zeros(3)
    mapped.read(2, found)
    assert found.tolist() == [2.0, 3.0, 4.0]
    with pytest.raises(
        OSError, match="a file of sorted entries became shorter while it was read: sort again"
    ):
        mapped.read(3, found)


def test_what_is_derived_takes_room_in_the_folder_of_the_entries_alone(monkeypatch):
    held, disk = stores(in_stripes, 60)
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere at all")
    made = disk.with_values(lambda rows, cols, old: old + rows - 2 * cols)
    whole = held.with_values(lambda rows, cols, old: old + rows - 2 * cols)
    for store, same in (
        (made, whole),
        (disk.astype(np.float32), held.astype(np.float32)),
        (disk.plain, held.plain),
    ):
        for one, two in zip(store.sides, same.sides, strict=True):
            assert_array_equal(one.data, two.data)
            assert one.data.dtype == two.data.dtype
            assert_array_equal(one.indices, two.indices)


def test_a_reader_that_fails_says_so(monkeypatch):
    _, disk = stores(in_memory, 7)

    def broken(self, first, last):
        raise OSError("the disk is gone")

    monkeypatch.setattr(Mapped, "ask", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        disk.value(*factors(disk.shape, 3, count=1), SQUARE)


def test_in_memory_a_side_is_one_part():
    held = in_memory(draw(3, 50, 40))
    ((lines, side),) = held.by_row.parts()
    assert (lines, side) == (slice(0, 50), held.by_row)
    assert type(side) is SortedEntries


def test_other_errors_than_of_a_full_disk_are_left_alone(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        reserve(file, 100, tmp_path / "a")
    assert (tmp_path / "a").stat().st_size == 100
    with (tmp_path / "a").open("rb") as file, pytest.raises(OSError, match="Bad file descriptor"):
        reserve(file, 100, tmp_path / "a")


def test_baselines_say_that_they_need_memory():
    from rankfold.baselines.entries import residual

    _, disk = stores(in_memory, 7)
    with pytest.raises(TypeError, match="baselines need the entries in memory"):
        residual(disk, *factors(disk.shape, 3, count=1))


@both
def test_memory_of_parts_is_used_again_but_not_while_somebody_has_them(build, monkeypatch):
    made, room = [], disk_side.mmap.mmap

    def counted(handle, size):
        made.append(size)
        return room(handle, size)

    held, disk = stores(build, 100)
    for side, whole in zip(disk.sides, held.plain.sides, strict=True):
        expected = [whole.data[whole.indptr[a] : whole.indptr[b]] for a, b in pairwise(side.cuts)]
        with monkeypatch.context() as patched:
            patched.setattr(disk_side.mmap, "mmap", counted)
            seen = [(np.sort(part.data[:, 0]), part.data.shape) for _, part in side.parts()]
            count = len(made)
            kept = [part for _, part in side.parts()]  # of which none may be written over
        assert len(seen) > 6
        # two parts that are read, one that is used and the one before it, of indices and data each
        assert count <= 8 < len(made) - count == 2 * len(kept)
        assert len(set(made)) == 2
        for entries, (numbers, shape), part in zip(expected, seen, kept, strict=True):
            assert shape == entries.shape
            assert_array_equal(numbers, np.sort(entries[:, 0]))
            assert_array_equal(np.sort(part.data[:, 0]), numbers)
        made.clear()
