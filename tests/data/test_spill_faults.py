"""Sorts on disk that are ended: whenever that was, the next goes on, and nothing half done is believed."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from data.spilled import MEMORY, assert_same, draw, tiny
from rankfold.data import DataFileError, SortedFolder, sort_into
from rankfold.data.spill.buckets import Order
from rankfold.data.spill.manifest import Manifest, locked
from rankfold.data.spill.sources import Reading
from rankfold.data.spill.steps import Sort
from rankfold.entries.on_disk import files_of


class EndError(Exception):
    """What ends a sort."""


def ending(monkeypatch, owner, name, when, after=False):
    """Let the call number `when` of a method raise, before or after it has done its work."""
    honest, calls = getattr(owner, name), []

    def method(*args, **kwargs):
        calls.append(name)
        if len(calls) == when and not after:
            raise EndError
        done = honest(*args, **kwargs)
        if len(calls) == when:
            raise EndError
        return done

    monkeypatch.setattr(owner, name, method)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Manifest, "note"), (Order, "split"), (Order, "sort"), (Order, "clear"), (Order, "make_room")],
)
@pytest.mark.parametrize("after", [False, True])
def test_a_sort_goes_on_wherever_it_ended(tmp_path, monkeypatch, owner, name, after):
    entries, ended = draw(count=30), 0
    paths = entries.write(tmp_path, 2)
    with tiny(room=15):
        whole = sort_into(tmp_path / "whole", paths, memory=MEMORY, held_out=0.2)
        for when in range(1, 100):
            with monkeypatch.context() as patch:
                ending(patch, owner, name, when, after)
                try:
                    folder = sort_into(tmp_path / str(when), paths, memory=MEMORY, held_out=0.2)
                    break
                except EndError:
                    ended += 1
            if not (name == "note" and after and "finished" in Manifest.read(tmp_path / str(when)).facts):
                with pytest.raises(DataFileError, match=r"not sorted to the end|no sorted folder"):
                    SortedFolder.open(tmp_path / str(when))
            again = sort_into(tmp_path / str(when), paths, memory=MEMORY, held_out=0.2)
            for file in whole.path.iterdir():
                if file.name not in ("manifest.json", "lock"):
                    assert (again.path / file.name).read_bytes() == file.read_bytes(), file.name
    assert ended >= (2 if name == "make_room" else 4)
    assert folder.repeated == whole.repeated


def test_what_is_finished_is_not_done_again(tmp_path, monkeypatch):
    entries, read, said = draw(count=50), [], []
    paths = entries.write(tmp_path, 3)
    honest = Reading.blocks

    def blocks(self, path, limit):
        read.append(path.name)
        return honest(self, path, limit)

    monkeypatch.setattr(Reading, "blocks", blocks)
    with tiny(room=25):
        with monkeypatch.context() as patch:
            ending(patch, Manifest, "note", 4, after=True)  # started, looked, split of two sources
            with pytest.raises(EndError):
                sort_into(tmp_path / "s", paths, memory=MEMORY)
        assert read == ["part0.parquet", "part1.parquet", "part2.parquet", "part0.parquet", "part1.parquet"]
        read.clear()
        folder = sort_into(tmp_path / "s", paths, memory=MEMORY, tell=lambda *told: said.append(told))
    assert read == ["part2.parquet"]
    assert said[0] == (f"going on with the sort in {tmp_path / 's'}", True)
    assert_same(folder, entries)


def test_an_unfinished_sort_with_other_memory_begins_anew(tmp_path, monkeypatch):
    entries, said = draw(count=50), []
    paths = entries.write(tmp_path, 1)
    with tiny(room=25), monkeypatch.context() as patch:
        ending(patch, Order, "sort", 2)
        with pytest.raises(EndError):
            sort_into(tmp_path / "s", paths, memory=MEMORY)
    folder = sort_into(tmp_path / "s", paths, memory=2 * MEMORY, tell=lambda *told: said.append(told))
    assert "sorting anew" in said[0][0]
    assert_same(folder, entries)


KILLED = """
import os, signal, sys
from rankfold.data import sort_into
from rankfold.data.spill import buckets
buckets.BYTES = {scale}
def tell(text, news):
    if text.startswith("sorting by column: part 2"):
        os.kill(os.getpid(), signal.SIGKILL)
sort_into({folder!r}, {paths!r}, memory={memory}, tell=tell)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_process_leaves_what_it_had_finished(tmp_path):
    entries = draw(count=50)
    paths = [str(path) for path in entries.write(tmp_path, 2)]
    code = KILLED.format(scale=MEMORY // (25 * 16), folder=str(tmp_path / "s"), paths=paths, memory=MEMORY)
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    with pytest.raises(DataFileError, match="was not sorted to the end"):
        SortedFolder.open(tmp_path / "s")
    said = []
    with tiny(room=25, batch=1 << 18):
        folder = sort_into(tmp_path / "s", paths, memory=MEMORY, tell=lambda *told: said.append(told[0]))
    assert said[0].startswith("going on")
    assert said[1].startswith("sorting by column: part 2")
    assert_same(folder, entries)


def test_a_full_disk_is_said_and_can_be_mended(tmp_path, monkeypatch):
    entries = draw()
    path = entries.write(tmp_path, 1)[0]

    def full(handle, start, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full, raising=False)
        with pytest.raises(OSError, match="the disk is full: free some room and sort again") as caught:
            sort_into(tmp_path / "s", path)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path / "s" / "rows.indptr")
    assert_same(sort_into(tmp_path / "s", path), entries)


def test_two_do_not_sort_into_one_folder(tmp_path):
    path = draw().write(tmp_path, 1)[0]
    sort_into(tmp_path / "s", path)
    with (
        locked(tmp_path / "s"),
        pytest.raises(ValueError, match="another process is sorting into this folder"),
    ):
        sort_into(tmp_path / "s", path)


def test_files_that_change_meanwhile_are_noticed(tmp_path, monkeypatch):
    paths = draw().write(tmp_path, 2)
    honest = Sort._orders

    def touched(self, counts):
        os.utime(paths[1], ns=(1, 1))
        return honest(self, counts)

    monkeypatch.setattr(Sort, "_orders", touched)
    with pytest.raises(DataFileError, match=r"part1\.parquet: the file changed while it was sorted"):
        sort_into(tmp_path / "s", paths)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("1,1,5555555\n", "the files have other entries than when they were first read: sort again"),
        ("1,1,5\n3,2,5\n", "a file has other labels than when it was first read: sort again"),
        ("1,1,5\n2,9,5\n", "a file has other labels than when it was first read: sort again"),
    ],
)
def test_other_entries_are_noticed_in_a_file_of_the_same_size_and_time(tmp_path, monkeypatch, text, what):
    path = tmp_path / "a.csv"
    path.write_text("1,1,5\n2,2,5\n")
    with monkeypatch.context() as patch:
        ending(patch, Order, "split", 1)
        with pytest.raises(EndError):
            sort_into(tmp_path / "s", path)
    time = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(time, time))
    with pytest.raises(DataFileError, match=what):
        sort_into(tmp_path / "s", path)


@pytest.mark.parametrize("name", ["rows.indices", "columns.data", "row_labels.parquet"])
def test_a_file_that_was_cut_is_noticed(tmp_path, name):
    folder = sort_into(tmp_path / "s", draw().write(tmp_path, 1)).path
    with (folder / name).open("r+b") as file:
        file.truncate(8)
    with pytest.raises(DataFileError, match=rf"{name} has 8 bytes where [\d,]+ were written: sort again"):
        SortedFolder.open(folder)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"format": 1}', "damaged"),
        ('{"format": 7, "task": {}, "facts": {}}', "of another version"),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path, text, what):
    folder = sort_into(tmp_path / "s", draw().write(tmp_path, 1)).path
    (folder / "manifest.json").write_text(text)
    with pytest.raises(DataFileError, match=rf"manifest\.json: {what}.*remove the folder"):
        SortedFolder.open(folder)


def test_room_is_made_for_all_that_is_written(tmp_path, monkeypatch):
    honest, made = Order.make_room, {}

    def make_room(self):
        honest(self)
        made.update({path.name: path.stat().st_size for path in files_of(self.folder, self.side)})

    monkeypatch.setattr(Order, "make_room", make_room)
    for weighted in (False, True):
        folder = sort_into(tmp_path / f"{weighted}", draw(weighted=weighted).write(tmp_path, 1)).path
        assert made == {name: (folder / name).stat().st_size for name in made}
        assert len(made) == 6


def test_no_folder_at_all(tmp_path):
    with pytest.raises(
        DataFileError, match=r"is no sorted folder: it has no manifest\.json; sort_into does that"
    ):
        SortedFolder.open(tmp_path)


def test_a_bucket_that_was_cut_is_noticed(tmp_path, monkeypatch):
    paths = draw(count=50).write(tmp_path, 2)
    with tiny(room=25):
        with monkeypatch.context() as patch:
            ending(patch, Order, "sort", 1)
            with pytest.raises(EndError):
                sort_into(tmp_path / "s", paths, memory=MEMORY)
        (tmp_path / "s" / "bucket-rows-0").unlink()
        with pytest.raises(DataFileError, match=r"bucket-rows-0 has 0 bytes where \d+ were written"):
            sort_into(tmp_path / "s", paths, memory=MEMORY)


def test_a_file_system_without_locks_is_one_without_locks(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def flock(handle, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    assert_same(sort_into(tmp_path / "s", draw().write(tmp_path, 1)), draw())
