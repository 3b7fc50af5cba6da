"""Files of entries: room on disk, copies in blocks, what is asked of the system."""

import errno
import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from entries.stores import draw, in_memory, in_stripes, on_disk
from rankfold.entries import disk_side
from rankfold.entries.disk_side import Mapped, reserve


@pytest.mark.parametrize("build", [in_memory, in_stripes])
@pytest.mark.parametrize("block", [5, 2**21])
def test_derived_files_are_copied_in_blocks(build, block, monkeypatch):
    monkeypatch.setattr(disk_side, "PART", block)
    entries = draw(3, 12, 9, 0.5, weighted=True)
    store = on_disk(entries, build)
    for made, dtype in (
        (store.astype(np.float32), np.float32),
        (store.by_row.astype(np.float32), np.float32),
    ):
        side = getattr(made, "by_row", made)
        assert side.data.dtype == dtype
        assert_array_equal(side.data, store.by_row.data.astype(dtype))
        assert side.files[0] is store.by_row.files[0]
    other = store.with_values(lambda rows, cols, old: old + 10 * rows + cols)
    side = other.by_row
    assert side.files[0] is store.by_row.files[0]
    assert np.shares_memory(side.files[1].array, side.data)
    assert_array_equal(side.data[:, 0], store.by_row.data[:, 0] + 10 * side.keys + side.indices)
    assert_array_equal(side.data[:, 1], store.by_row.data[:, 1])
    assert store.plain.by_row.plain() is store.plain.by_row
    assert (store.by_row.plain() is store.by_row) == (build is in_memory)


def test_room_on_disk_has_no_name_and_can_be_written_to(tmp_path):
    room = Mapped.scratch(tmp_path, np.float32, 6, 2)
    assert os.listdir(tmp_path) == []
    assert (room.array.shape, room.array.dtype) == ((6, 2), np.float32)
    room.array[:] = np.arange(12).reshape(6, 2)
    out = np.empty((3, 2), np.float32)
    room.read(2, out)
    assert out.tolist() == [[4, 5], [6, 7], [8, 9]]
    assert Mapped.scratch(tmp_path, np.uint64, 3).array.tolist() == [0, 0, 0]


def test_files_that_are_read_cannot_be_written_to(tmp_path):
    np.arange(6.0).tofile(tmp_path / "x")
    with (tmp_path / "x").open("rb") as file:
        mapped = Mapped(file, np.float64, 3)
    assert mapped.array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not mapped.array.flags.writeable


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system reserves no room")
def test_a_full_disk_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    def full(handle, first, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        (tmp_path / "x").open("wb") as file,
        pytest.raises(OSError, match=r"no room on this disk for 3\.21 GB more") as at,
    ):
        reserve(file, 3_210_000_000, tmp_path / "x")
    assert (at.value.errno, at.value.filename) == (errno.ENOSPC, str(tmp_path / "x"))


def test_where_no_room_can_be_reserved_a_file_is_as_long_all_the_same(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    with (tmp_path / "x").open("wb") as file:
        reserve(file, 1000, tmp_path / "x")
    assert (tmp_path / "x").stat().st_size == 1000


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system takes no advice")
def test_records_are_asked_for_by_their_bytes(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(os, "posix_fadvise", lambda handle, *given: asked.append(given))
    mapped = Mapped.scratch(tmp_path, np.float64, 100, 2)
    mapped.ask(3, 10)
    assert asked == [(0, 0, os.POSIX_FADV_RANDOM), (3 * 16, 7 * 16, os.POSIX_FADV_WILLNEED)]


@pytest.mark.parametrize("build", [in_memory, in_stripes])
@pytest.mark.parametrize("part", [1, 20, 10**6])
def test_parts_are_runs_of_lines_with_about_as_many_entries(build, part):
    entries = draw(3, 12, 9, 0.5)
    store = on_disk(entries, build, part)
    for side, lines in zip(store.sides, (entries.rows, entries.cols), strict=True):
        counts = np.bincount(lines, minlength=side.lines)
        assert_array_equal(side.counts, counts)
        assert_array_equal(side.ends, np.append(0, np.cumsum(counts)))
        seen = 0
        for own, entries_of_part in side.parts():
            assert own.start == seen
            seen = own.stop
            assert_array_equal(entries_of_part.counts, counts[own])
            assert entries_of_part.size < part + counts.max()
        assert seen == side.lines
        assert len(side.cuts) - 1 >= side.size // (part + counts.max())
        assert (len(side.cuts) == 2) == (part > side.size)
