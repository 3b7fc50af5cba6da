"""The form of models and checkpoints in files: whatever the bytes, an error that names the file, at once."""

import hashlib
import io
import json
import os

import numpy as np
import pytest

from rankfold.run import container
from rankfold.run.container import Container


class WrongError(ValueError):
    pass


KIND = Container("thing", 3, WrongError, "throw it away")
ARRAYS = {"array0": np.arange(6.0).reshape(2, 3), "array1": np.asfortranarray(np.ones((3, 2), np.float32))}


def file_of(path, text, rest=b"", length=None):
    """A file with any text and any arrays, and a checksum that fits."""
    length = len(text) if length is None else length
    content = KIND.magic + b"3\n" + length.to_bytes(8, "little") + text + rest
    path.write_bytes(content + hashlib.sha256(content).digest())
    return path


def npy(header, data=b"", magic=b"\x93NUMPY\x01\x00"):
    return magic + len(header).to_bytes(2, "little") + header + data


def header(descr="'<f8'", shape="(2,)", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()


def test_what_is_written_is_read(tmp_path):
    names = np.array([("a", 1), ("é", 2)], dtype=[("name", "U3"), ("count", "i8")])
    arrays = ARRAYS | {"array2": names, "array3": np.array(3.0), "array4": np.empty((0, 2))}
    with (tmp_path / "x").open("wb") as file:
        KIND.write(file, {"a": [1, None]}, arrays)
    meta, again = KIND.read(tmp_path / "x")
    assert meta == {"a": [1, None], "arrays": 5}
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype
        assert again[name].flags.f_contiguous == array.flags.f_contiguous
        np.testing.assert_array_equal(again[name], array)
        assert again[name].flags.writeable


def test_arrays_of_the_other_byte_order_come_back_native(tmp_path):
    path = file_of(
        tmp_path / "x", b'{"arrays": 1}', npy(header("'>f8'"), np.array([1.0, 2.0], ">f8").tobytes())
    )
    array = KIND.read(path)[1]["array0"]
    assert array.dtype.isnative
    assert array.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "text",
    [b"", b"5", b"[]", b"null", b"{", b'{"arrays": -1}', b'{"arrays": true}', b'{"arrays": 1e99}', b"{}",
     b'{"arrays": 99999999999}', b"[" * 100_000, b'{"a":' * 100_000, "é".encode(), b"\xff", b"9" * 5000,
     b'{"arrays": 1}', b'{"arrays": null}'],
)  # fmt: skip
def test_texts_that_no_file_has(tmp_path, text):
    with pytest.raises(WrongError, match=r"bad.*does not fit rankfold"):
        KIND.read(file_of(tmp_path / "bad", text))


@pytest.mark.parametrize("length", [10**6, 2**31, 2**63, 2**64 - 1])
def test_a_text_longer_than_the_file(tmp_path, length):
    with pytest.raises(WrongError, match=f"bad.*{length} bytes, more than the file has"):
        KIND.read(file_of(tmp_path / "bad", b"{}", length=length))


HUGE = "9" * 18


@pytest.mark.parametrize(
    "array",
    [
        npy(header(shape=f"({HUGE},)"), bytes(16)),
        npy(header(shape=f"({HUGE}, {HUGE}, {HUGE})"), bytes(16)),
        npy(header(shape=f"(0, {HUGE})")),
        npy(header(shape="(3,)"), bytes(16)),  # a number more than there is
        npy(header(shape="(1,)"), bytes(16)),  # and one less: something is left over
        npy(header("'<U999999999'"), bytes(16)),
        npy(header("'<U0'", f"({HUGE},)"), bytes(16)),
        npy(header("'<U1'"), b"a\0\0\0\xff\xff\xff\x7f"),
        npy(header("[('a', '<i8'), ('b', '<U1')]", "(1,)"), bytes(8) + b"\0\0\x11\0"),
        npy(header("'|b1'"), b"\1\2"),
        npy(header("'|O'"), bytes(16)),
        npy(header("'<m8'"), bytes(16)),
        npy(header("'|V8'"), bytes(16)),
        npy(header("'<f7'"), bytes(16)),
        npy(header("'f8,f8'"), bytes(16)),
        npy(header("[('a', '<f8'), ('a', '<f8')]", "(1,)"), bytes(16)),
        npy(header("[('a', '<f8', (2,))]", "(1,)"), bytes(16)),
        npy(header(shape="(-1,)"), bytes(16)),
        npy(header(shape="2"), bytes(16)),
        npy(header(order="1"), bytes(16)),
        npy(b"(" * 9000, bytes(16)),
        npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2L,), }\n", bytes(16)),
        npy(header(), bytes(16), magic=b"\x93NUMPY\x02\x00"),
        npy(header(), bytes(16), magic=b"\x93NUMPX\x01\x00"),
        npy("{'é".encode(), bytes(16)),
    ],
)
def test_arrays_that_no_file_has(tmp_path, array):
    with pytest.raises(WrongError, match=r"bad.*does not fit rankfold"):
        KIND.read(file_of(tmp_path / "bad", b'{"arrays": 1}', array))


@pytest.mark.parametrize("shape", ["(3,)", "(16, 16)"])
def test_an_array_longer_than_the_file_takes_no_memory(tmp_path, shape):
    with pytest.raises(WrongError, match=r"the file is too short"):
        KIND.read(file_of(tmp_path / "bad", b'{"arrays": 1}', npy(header(shape=shape), bytes(16))))


def test_a_text_of_too_many_parts_is_neither_read_nor_written(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "MAX_MARKS", 50)
    with pytest.raises(WrongError, match=r"bad.*marks in its text"):
        KIND.read(file_of(tmp_path / "bad", b'{"arrays": 0, "a": [' + b"[]," * 60 + b"[]]}"))
    with pytest.raises(ValueError, match=r"too many parts"):
        KIND.write(io.BytesIO(), {"a": [[]] * 60}, {})
    monkeypatch.setattr(container, "MAX_TEXT", 100)
    long = json.dumps({"arrays": 0, "a": "x" * 200}).encode()
    with pytest.raises(WrongError, match=r"bad.*a text of"):
        KIND.read(file_of(tmp_path / "bad", long))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX")
def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WrongError, match=r"pipe.*not a regular file"):
        KIND.read(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"directory"):
        KIND.read(tmp_path)


def test_letters_and_truth_values_are_those_that_there_are():
    for good in (np.array([0x10FFFF, 0], np.uint32).view("U1"), np.array([0, 1], np.uint8).view(bool)):
        container._check_items(good)
        container._check_items(good[:0])
    with pytest.raises(ValueError, match="letters that there are not"):
        container._check_items(np.array([0x110000], np.uint32).view("U1"))
    with pytest.raises(ValueError, match="neither true nor false"):
        container._check_items(np.array([0, 2], np.uint8).view(bool))


def test_what_a_file_holds_is_shown_in_few_characters():
    assert container._short("a" * 78) == repr("a" * 78)  # with quotes, 80
    assert container._short("a" * 79) == "'" + "a" * 76 + "..."


def test_a_file_is_refused_for_an_error_that_is_told():
    why = ValueError("it is odd")
    with pytest.raises(WrongError, match=r"'name' does not fit rankfold .*: it is odd") as caught:
        KIND.refuse("name", why)
    assert caught.value.__cause__ is why
