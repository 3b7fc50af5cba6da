"""Files appear whole or not at all."""

import errno
import io
import os
import stat
import subprocess
import sys
import threading
import time

import pytest

from devices import device
from rankfold import atomic
from rankfold.atomic import replacing


def write(path, content=b"new"):
    with replacing(path) as file:
        file.write(content)


def write_half(path, error):
    with replacing(path) as file:
        file.write(b"ne")
        raise error


def test_a_failure_in_the_middle_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_half(path, KeyboardInterrupt())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_until_it_is_complete_readers_see_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_full_disk_names_the_file(tmp_path):
    path = tmp_path / "model.rankfold"
    with pytest.raises(OSError, match=r"model\.rankfold") as caught:
        write_half(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert caught.value.errno == errno.ENOSPC


def test_an_error_that_names_another_file_is_left_alone(tmp_path):
    with pytest.raises(FileNotFoundError, match="other"):
        write_half(tmp_path / "file", FileNotFoundError(errno.ENOENT, "missing", "other"))


def test_a_symbolic_link_is_followed(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_permissions_are_kept(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write(pipe)
    reader.join()
    assert read == [b"new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_drafts_of_dead_processes_are_removed_and_those_of_living_ones_kept(tmp_path):
    path = tmp_path / "file"
    killed = subprocess.run(
        [sys.executable, "-c", "import os, sys; from rankfold.atomic import replacing\n"
         "with replacing(sys.argv[1]) as file: os._exit(1)", path], check=False)  # fmt: skip
    assert killed.returncode == 1
    assert len(os.listdir(tmp_path)) == 1
    with replacing(path):
        (draft,) = os.listdir(tmp_path)  # that of the process above is gone
        write(tmp_path / "other")  # of another name: no business of its drafts
        assert draft in os.listdir(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


def test_a_living_process_keeps_its_draft_whoever_writes_the_same_file(tmp_path):
    path = tmp_path / "file"
    code = """import sys
from rankfold.atomic import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"theirs")
    print(flush=True)
    input()
"""
    other = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    other.stdout.readline()
    write(path, b"ours")
    assert path.read_bytes() == b"ours"
    other.communicate("\n", timeout=600)
    assert other.returncode == 0
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["file"]


def leftover(path, host, age):
    draft = path.with_name(f"{atomic._prefix(path)}{host}-{'0' * 12}.tmp")
    draft.write_bytes(b"half")
    os.utime(draft, (time.time() - age,) * 2)
    return draft


@pytest.mark.parametrize(
    ("host", "age", "locks", "stays"),
    [
        (atomic._host(), 0, True, False),
        ("0" * 12, 3600, True, True),
        ("0" * 12, 2 * 24 * 3600, True, False),
        (atomic._host(), 3600, None, True),
        (atomic._host(), 2 * 24 * 3600, None, False),
        (atomic._host(), 2 * 24 * 3600, False, True),
    ],
    ids=["ours", "of another host", "old, of another host", "without locks", "old, without", "written to"],
)
def test_which_drafts_are_leftovers(tmp_path, monkeypatch, host, age, locks, stays):
    draft = leftover(tmp_path / "file", host, age)
    if locks is not True:
        monkeypatch.setattr(atomic, "_lock", lambda handle: locks)
    atomic._remove_leftovers(tmp_path / "file")
    assert draft.exists() == stays


def test_a_draft_that_was_removed_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    lock, calls = atomic._lock, []

    def late(handle):
        calls.append(1)
        if len(calls) == 1:
            (draft,) = tmp_path.iterdir()
            draft.unlink()
        return lock(handle)

    monkeypatch.setattr(atomic, "_lock", late)
    write(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["x" * 255, "字" * 85], ids=["ascii", "three bytes each"])
def test_the_longest_names(tmp_path, name):
    write(tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_a_draft_is_never_readable_by_more_than_the_old_file(tmp_path, monkeypatch):
    path, seen = tmp_path / "file", []
    path.write_bytes(b"old")
    path.chmod(0o600)
    monkeypatch.setattr(
        atomic, "_give_permissions", lambda handle, old: seen.append(os.fstat(handle).st_mode)
    )
    write(path)
    assert [stat.S_IMODE(mode) for mode in seen] == [0o600]


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write(tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_group_permissions_are_not_given_to_another_group(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o664)
    new, given = path.stat(), []
    old = os.stat_result([*new[:5], new.st_gid + 1, *new[6:10]])

    def refused(*_):
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "fchown", refused)
    monkeypatch.setattr(os, "fchmod", lambda handle, mode: given.append(mode))
    with path.open("rb") as file:
        atomic._give_permissions(file.fileno(), old)
    assert given == [0o604]


def test_the_owner_is_kept(tmp_path, monkeypatch):
    path, given = tmp_path / "file", []
    path.write_bytes(b"old")
    new = path.stat()
    old = os.stat_result([*new[:4], new.st_uid + 1, *new[5:10]])
    monkeypatch.setattr(os, "fchown", lambda handle, *owner: given.append(owner))
    with path.open("rb") as file:
        atomic._give_permissions(file.fileno(), old)
    assert given == [(new.st_uid + 1, new.st_gid)]


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EACCES])
def test_errors_name_the_file_and_not_its_draft(tmp_path, monkeypatch, call, number):
    path = tmp_path / "model.rankfold"

    def failing(first, *others):
        name = os.fspath(first) if isinstance(first, os.PathLike) else None
        raise OSError(number, os.strerror(number), name)

    with monkeypatch.context() as broken:
        broken.setattr(os, call, failing)
        with pytest.raises(OSError, match=r"model\.rankfold") as caught:
            write(path)
    assert (caught.value.errno, caught.value.filename) == (number, str(path))
    assert os.listdir(tmp_path) == []


def test_an_error_without_a_number_names_the_file_too(tmp_path):
    """As `ndarray.tofile` raises them."""
    with pytest.raises(OSError, match="8 requested and 0 written") as caught:
        write_half(tmp_path / "file", OSError("8 requested and 0 written"))
    assert caught.value.filename == str(tmp_path / "file")


@pytest.mark.parametrize("refused", [errno.EACCES, errno.EINVAL])
def test_a_folder_that_cannot_be_synced(tmp_path, monkeypatch, refused):
    """It may be unreadable, or of a file system that syncs no folders: the file is there all the same."""
    honest = os.open if refused == errno.EACCES else os.fsync

    def failing(which, *others):
        if which == tmp_path or (isinstance(which, int) and stat.S_ISDIR(os.fstat(which).st_mode)):
            raise OSError(refused, os.strerror(refused))
        return honest(which, *others)

    monkeypatch.setattr(os, honest.__name__, failing)
    write(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_file_and_folder_are_synced_before_and_after_the_replacement(tmp_path, monkeypatch):
    done, replace = [], os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(stat.S_IFMT(os.fstat(handle).st_mode)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replace"), replace(*names)))
    write(tmp_path / "file")
    assert done == [stat.S_IFREG, "replace", stat.S_IFDIR]


def test_ctrl_c_is_not_hidden_by_a_full_disk(tmp_path, monkeypatch):
    class Full(io.RawIOBase):
        def __init__(self, raw):
            self.raw = raw

        def writable(self):
            return True

        def fileno(self):
            return self.raw.fileno()

        def write(self, content):
            raise OSError(errno.ENOSPC, "full")

        def close(self):
            super().close()
            self.raw.close()

    monkeypatch.setattr(os, "fdopen", lambda handle, mode: io.BufferedWriter(Full(io.FileIO(handle, mode))))
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "file", KeyboardInterrupt())
    assert os.listdir(tmp_path) == []


def test_a_loop_of_links_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop") as caught:
        write(tmp_path / "loop")
    assert caught.value.errno == errno.ELOOP
    assert (tmp_path / "loop").is_symlink()


def test_a_device_is_written_to(tmp_path):
    null = device("null", tmp_path)
    write(null)
    assert stat.S_ISCHR(os.stat(null).st_mode)


def test_a_full_device_names_itself(tmp_path):
    full = device("full", tmp_path)
    with pytest.raises(OSError, match=full):
        write(full)
