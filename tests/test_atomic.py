"""Files appear whole or not at all."""

import errno
import os
import stat
import subprocess
import sys
import threading

import pytest

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
        assert f"-{os.getpid()}-" in draft
        write(tmp_path / "other")  # of another name: no business of its drafts
        assert draft in os.listdir(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]
