"""NumPy archives that somebody made to do harm: refused by name, before they take memory."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy import sparse

from rankfold.data import DataFileError, read_triples

GOOD = {"rows": np.array([0, 1]), "cols": np.array([1, 0]), "values": np.ones(2), "shape": np.array([2, 2])}
CSR = {
    "format": b"csr",
    "shape": np.array([2, 3]),
    "data": np.ones(3),
    "indices": np.array([0, 1, 2], np.int32),
    "indptr": np.array([0, 1, 3], np.int32),
}


def archive(save=np.savez, **arrays):
    buffer = io.BytesIO()
    save(buffer, **{name: array for name, array in arrays.items() if array is not None})
    return buffer.getvalue()


def refused(tmp_path, name, data, message):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataFileError, match=message) as error:
        read_triples(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indptr": np.array([0, 1_500_000_000, 3], np.int32)}, "indptr does not rise"),
        ({"indptr": np.array([0, 1, 4])}, "indptr does not rise from 0 to at most 3"),
        ({"indptr": np.array([1, 1, 3])}, "the first 0"),
        ({"indptr": np.array([0, 1, 2, 3])}, "holds 4 pointers; 3"),
        ({"indptr": None}, "no array named 'indptr'"),
        ({"indices": np.array([0, 1, 3])}, "cols of entry 3 is 3, not between 0 and 2"),
        ({"indices": np.array([0.0, 1, 2])}, "indices holds floating point numbers"),
        ({"data": np.ones(2)}, "3 indices, and 2 data"),
        ({"data": np.float64(1)}, "data holds .* in 0 dimensions"),
        ({"data": np.ones((3, 1))}, "data holds .* in 2 dimensions"),
        ({"data": np.array([1, 1, 1j])}, "data holds complex numbers"),
        ({"data": np.array([1, 1, np.inf])}, "entry 3 is inf"),
        ({"shape": np.array([2, 10**12])}, "a matrix of 1,000,000,000,000 columns"),
        ({"shape": np.array([2, -3])}, "a matrix of -3 columns"),
        ({"shape": np.array([-3, 3])}, "a matrix of -3 rows"),
        ({"shape": np.array([2, 3, 1])}, "shape holds 3 numbers"),
        ({"format": b"lil"}, "format is 'lil'"),
    ],
)
def test_arrays_of_a_sparse_matrix_that_do_not_agree(tmp_path, change, message):
    refused(tmp_path, "x.npz", archive(**CSR | change), message)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("coo", {"coords": np.zeros((3, 2), int), "row": None}, "coords holds 3 coordinates"),
        ("coo", {"row": np.array([0, 9])}, "rows of entry 2 is 9"),
        ("dia", {"offsets": np.array([1, 1])}, "one comes twice"),
        ("dia", {"offsets": np.array([1, 2**62])}, "is not between"),
        ("bsr", {"data": np.ones((1, 4, 2))}, "blocks of 4 × 2 do not tile"),
        ("bsr", {"data": np.ones((1, 0, 2))}, "blocks of 0 × 2 do not tile"),
        ("bsr", {"indices": np.array([2**62])}, "is not between 0 and 2"),
    ],
)
def test_other_sparse_formats_that_do_not_agree(tmp_path, kind, change, message):
    good = {
        "coo": {"row": np.array([0, 1]), "col": np.array([0, 1]), "data": np.ones(2)},
        "dia": {"offsets": np.array([0, 1]), "data": np.ones((2, 6))},
        "bsr": {"indptr": np.array([0, 1, 1, 1]), "indices": np.array([0]), "data": np.ones((1, 2, 2))},
    }[kind]
    arrays = {"format": kind.encode(), "shape": np.array([6, 6])} | good
    assert len(read_triples(io.BytesIO(archive(**arrays)), format="npz")) > 1
    refused(tmp_path, "x.npz", archive(**arrays | change), message)


@pytest.mark.parametrize("last", [-4, 5])
def test_diagonals_may_pass_by_the_matrix_and_no_further(tmp_path, last):
    def made(offset):
        parts = {"offsets": np.array([offset]), "data": np.ones((1, 5)), "shape": np.array([4, 5])}
        return archive(format=b"dia", **parts)

    assert len(read_triples(io.BytesIO(made(last)), format="npz")) == 0
    assert len(read_triples(io.BytesIO(made(last - np.sign(last))), format="npz")) == 1
    refused(tmp_path, "x.npz", made(last + np.sign(last)), "is not between 0 and 9")


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("make", [sparse.coo_array, sparse.coo_matrix])
def test_every_sparse_format_holds_what_scipy_says(kind, make, compressed):
    dense = np.arange(54.0).reshape(9, 6) * (np.arange(54).reshape(9, 6) % 4 == 0)
    buffer = io.BytesIO()
    sparse.save_npz(buffer, make(dense).asformat(kind), compressed)
    buffer.seek(0)
    back = read_triples(buffer, format="npz")
    found = sparse.coo_array((back.values, (back.rows, back.cols)), back.shape).toarray()
    assert (found == dense).all()
    assert back.rows.dtype == back.cols.dtype == np.int32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": np.array([0.0, 1.0])}, "rows holds floating point numbers in 1 dimensions; integers"),
        ({"rows": np.array([[0], [1]])}, "rows holds int64 in 2 dimensions"),
        ({"values": np.array([1, 1j])}, "values holds complex numbers"),
        ({"values": np.array(["1", "2"])}, "values holds text"),
        ({"values": np.array([0, 0x7FA00000], np.uint32).view(np.float32)}, "entry 2 is nan"),  # signalling
        ({"row_labels": np.array(["a", "a"])}, "row_labels holds 'a' twice"),
        ({"col_labels": np.array([7, 7])}, "col_labels holds 7 twice"),
        ({"row_labels": np.array(["a", "b", "b"]), "shape": np.array([3, 2])}, "row_labels holds 'b' twice"),
        ({"col_labels": np.array([1.5, 2.5])}, "col_labels holds floating point numbers"),
        ({"row_labels": np.array([0x110000, 1], np.uint32).view("U1")}, "no Unicode text"),
        ({"rows": np.array([0, 2**63], np.uint64)}, "rows of entry 2 is 9223372036854775808"),
        ({"shape": np.array([2.0, 2.0])}, "shape holds floating point numbers"),
        ({"values": np.zeros(2, "M8[s]")}, "no array of numbers or strings"),
    ],
)
def test_arrays_of_triples_of_the_wrong_kind(tmp_path, change, message):
    refused(tmp_path, "x.npz", archive(**GOOD | change), message)


@pytest.mark.parametrize("first", [0xD800, 0xDFFF, 0x110000])
def test_labels_are_text_up_to_its_last_character(tmp_path, first):
    def labelled(code):
        return archive(**GOOD | {"row_labels": np.array([code, 1], np.uint32).view("U1")})

    beside = first + 1 if first == 0xDFFF else first - 1
    labels = read_triples(io.BytesIO(labelled(beside)), format="npz").row_labels
    assert labels.tolist() == [chr(beside), chr(1)]
    refused(tmp_path, "x.npz", labelled(first), "no Unicode text")


def test_big_endian_arrays_are_read():
    data = archive(**{name: array.astype(array.dtype.newbyteorder(">")) for name, array in GOOD.items()})
    triples = read_triples(io.BytesIO(data), format="npz")
    assert (triples.rows.tolist(), triples.values.tolist()) == ([0, 1], [1.0, 1.0])
    assert triples.rows.dtype.isnative
    assert triples.values.dtype.isnative


def with_member(name, content, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO(archive(**{key: array for key, array in GOOD.items() if key != name}))
    with zipfile.ZipFile(buffer, "a", method) as file:
        file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def header(shape, descr="'<f8'"):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header("(1000000000000,)") + bytes(16), "needs 8,000,000,000,000 bytes for the shape"),
        (header("(2,)") + bytes(24), r"needs 16 bytes .* and has 24"),
        (header("(2,)", "'|O'") + bytes(16), "Python objects, which are never unpickled"),
        (header("(2,)", "[('a', '<f8')]") + bytes(16), "no array of numbers or strings"),
        (header("(2,)", "'<f7'") + bytes(14), "'<f7', which is no type"),
        (header("(2,)", "'|a8'") + bytes(16), "'.a8', which is neither numbers nor text"),
        (header("(2,)", "'<U0'"), "text of no length"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + bytes(9), "a header of 2,147,483,647 bytes"),
        (b"PK", "is no array"),
        (header("(2,)").replace(b"NUMPY", b"NUMPX") + bytes(16), "is no array"),
        (header("(2,)").replace(b"Y\x01", b"Y\x04") + bytes(16), "is no array"),
        (header("(2,)")[:11], "is no array"),
        (header("(2,)".ljust(9947)) + bytes(16), "a header of 10,001 bytes"),
        (header("('a',)") + bytes(16), "no array of numbers or strings"),
        (header("(10000000,)") + bytes(8 * 10**7), "its arrays would take 80,000,560 bytes or more"),
    ],
)
def test_an_array_that_is_not_what_its_header_says(tmp_path, content, message):
    data = with_member("values", content)
    tracemalloc.start()
    refused(tmp_path, "x.npz", data, message)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


def test_two_arrays_of_one_name(tmp_path):
    data = archive(**GOOD).replace(b"cols.npy", b"rows.npy")
    refused(tmp_path, "x.npz", data, "two arrays are called 'rows.npy'")


@pytest.mark.parametrize("further", [0, 2**31])
def test_an_array_that_begins_behind_the_end_of_the_file(tmp_path, further):
    data = bytearray(archive(**GOOD))
    place = data.index(b"PK\x01\x02") + 42
    data[place : place + 4] = (len(data) + further).to_bytes(4, "little")
    refused(tmp_path, "x.npz", bytes(data), "'rows.npy' begins behind the end of the file")


def test_an_archive_has_at_most_a_thousand_members(tmp_path):
    arrays = {f"a{k}": np.empty(0) for k in range(1000 - len(GOOD))}
    assert len(read_triples(io.BytesIO(archive(**GOOD, **arrays)), format="npz")) == 2
    refused(tmp_path, "x.npz", archive(**GOOD, **arrays, more=np.empty(0)), "it has 1,001 members")


def test_arrays_of_one_column_after_the_other_are_read_so():
    data = np.arange(8.0).reshape(2, 4)
    kind = {"format": b"bsr", "shape": np.array([2, 4])}
    parts = {"indptr": np.array([0, 1]), "indices": np.array([0]), "data": np.asfortranarray(data[None])}
    back = read_triples(io.BytesIO(archive(**kind, **parts)), format="npz")
    found = sparse.coo_array((back.values, (back.rows, back.cols)), back.shape).toarray()
    assert (found == data).all()


@pytest.mark.parametrize("shape", [(2, 3), (3, 1), (1, 2)])
def test_each_block_of_a_sparse_matrix_of_blocks_stands_in_its_place(shape):
    blocks = np.kron(np.array([[0, 1, 0], [1, 0, 1]]), np.ones(shape)) * np.arange(1.0, 3 * shape[1] + 1)
    buffer = io.BytesIO()
    sparse.save_npz(buffer, sparse.csr_array(blocks).tobsr(shape))
    buffer.seek(0)
    back = read_triples(buffer, format="npz")
    assert (sparse.coo_array((back.values, (back.rows, back.cols)), back.shape).toarray() == blocks).all()


def test_an_encrypted_archive(tmp_path):
    data = bytearray(archive(**GOOD))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    refused(tmp_path, "x.npz", bytes(data), "is encrypted, or compressed by another method")


def test_an_array_whose_compressed_bytes_end_too_early(tmp_path):
    data = bytearray(with_member("values", header("(2,)") + bytes(8), zipfile.ZIP_STORED))
    place = data.rindex(b"PK\x01\x02") + 24  # of the last member, how long it is
    data[place : place + 4] = (len(header("(2,)")) + 16).to_bytes(4, "little")
    refused(tmp_path, "x.npz", bytes(data), r"'values\.npy' ends too early")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("length", [128, 10_000])
def test_headers_of_every_version_are_read_up_to_the_longest(version, length):
    plain = io.BytesIO()
    np.lib.format.write_array(plain, np.array([5.0, 7.0]), version)
    start, room = plain.getvalue(), 2 if version == (1, 0) else 4
    text = start[8 + room : -16].rstrip().ljust(length - 1) + b"\n"
    content = start[:8] + len(text).to_bytes(room, "little") + text + start[-16:]
    back = read_triples(io.BytesIO(with_member("values", content)), format="npz")
    assert back.values.tolist() == [5.0, 7.0]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_are_stored_or_deflated(tmp_path, method):
    data = with_member("values", header("(2,)") + bytes(16), method)
    refused(tmp_path, "x.npz", data, r"'values\.npy' is encrypted, or compressed by another method than def")


def test_arrays_that_nobody_asked_for_are_not_read():
    data = archive(**GOOD, more=np.array([None], dtype=object))
    assert len(read_triples(io.BytesIO(data), format="npz")) == 2
