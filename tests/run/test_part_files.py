"""The parts of a checkpoint: what one process finds in them, whoever wrote them, with no other process."""

import json

import numpy as np
import pytest

from rankfold.distributed import Group, Places
from rankfold.run.container import Container
from rankfold.run.parts import PartFiles, write_parts


class WrongError(ValueError):
    pass


KIND = Container("thing", 3, WrongError, "throw it away")
L, R = np.arange(20.0).reshape(10, 2), -np.arange(14.0).reshape(7, 2)
SMALL = np.eye(2)
CUTS = [[0, 4, 10], [0, 3, 7]]
RUN = {
    "point": [{"rows": {"array": "array0"}, "of": 10}, {"rows": {"array": "array1"}, "of": 7}],
    "small": {"array": "array2"},
}


def places(rank, rows, cols):
    group = Group(rank=rank, size=len(rows) - 1)
    return Places(group, tuple(rows)), Places(group, tuple(cols))


@pytest.fixture
def parts(tmp_path):
    """Two files, of the first 4 rows of L and 3 of R, and of the others."""
    folder = tmp_path / "iteration-00000003"
    folder.mkdir()
    for k in range(2):
        arrays = [X[cuts[k] : cuts[k + 1]] for X, cuts in zip((L, R), CUTS, strict=True)]
        with (folder / f"part-0000{k}-of-00002").open("wb") as file:
            KIND.write(
                file,
                {"cuts": CUTS, "run": RUN, "rank": k},
                {f"array{n}": array for n, array in enumerate([*arrays, SMALL])},
            )
    return PartFiles(tmp_path, KIND, folder.name, 2)


@pytest.mark.parametrize(
    ("rows", "cols"),
    [
        ([0, 4, 10], [0, 3, 7]),  # as they were
        ([0, 4, 10], [0, 5, 7]),
        ([0, 6, 10], [0, 3, 7]),
        ([0, 10], [0, 7]),
        ([0, 2, 5, 10], [0, 1, 6, 7]),
        ([0, 0, 4, 4, 10], [0, 0, 0, 7, 7]),
    ],
)
def test_a_process_finds_its_rows_whoever_wrote_them(parts, rows, cols):
    for rank in range(len(rows) - 1):
        here = places(rank, rows, cols)
        meta, arrays = parts.read(here)
        np.testing.assert_array_equal(arrays["array0"], L[here[0].own])
        np.testing.assert_array_equal(arrays["array1"], R[here[1].own])
        np.testing.assert_array_equal(arrays["array2"], SMALL)
        assert meta["rank"] == (rank if [rows, cols] == CUTS else 0)


def test_of_a_matrix_of_other_rows_nothing_is_at_hand(parts):
    _, arrays = parts.read(places(0, [0, 9], [0, 7]))
    assert arrays["array0"].shape == (0, 2)
    np.testing.assert_array_equal(arrays["array1"], R)


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        ([[0, 4, 10], [0, 7]], "does not say which rows it has"),
        ([[0, 4, 7, 10], [0, 3, 7]], "does not say which rows it has"),
        ([[0, 4, 10.0], [0, 3, 7]], "does not say which rows it has"),
        ([[0, 4, 10]], "does not say which rows it has"),
        (None, "does not say which rows it has"),
        ([[0, 4, 9], [0, 3, 7]], "holds a matrix of 10 rows"),
    ],
)
def test_parts_that_do_not_say_which_rows_they_have_are_refused(tmp_path, cuts, message):
    (tmp_path / "iteration-00000003").mkdir()
    with (tmp_path / "iteration-00000003" / "part-00000-of-00002").open("wb") as file:
        KIND.write(file, {"cuts": cuts, "run": RUN}, {"array0": L[:4], "array1": R[:3], "array2": SMALL})
    with pytest.raises(ValueError, match=message):
        PartFiles(tmp_path, KIND, "iteration-00000003", 2).read(places(0, [0, 10], [0, 7]))


def test_a_manifest_names_the_last_files_and_older_ones_go(tmp_path):
    for iteration in (3, 12):
        write_parts(tmp_path, iteration, Group(), lambda file: file.write(b"x"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["iteration-00000012", "manifest.json"]
    assert (tmp_path / "iteration-00000012" / "part-00000-of-00001").read_bytes() == b"x"
    found = PartFiles.of(tmp_path, KIND)
    assert (found.files, found.processes) == ("iteration-00000012", 1)


def test_a_part_that_cannot_be_written_leaves_the_manifest(tmp_path):
    def full(file):
        raise OSError("full")

    write_parts(tmp_path, 3, Group(), lambda file: file.write(b"x"))
    with pytest.raises(OSError, match="full"):
        write_parts(tmp_path, 4, Group(), full)
    assert PartFiles.of(tmp_path, KIND).files == "iteration-00000003"
    assert (tmp_path / "iteration-00000003" / "part-00000-of-00001").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "is newer than this rankfold .*: upgrade it"),
        ({"format": 0}, "is no manifest of a checkpoint, or damaged"),
        ({"files": "../secret"}, "is no manifest"),
        ({"files": "iteration-1"}, "is no manifest"),
        ({"processes": 0}, "is no manifest"),
        ({"processes": (1 << 20) + 1}, "is no manifest"),
        ({"processes": "2"}, "is no manifest"),
        ({"padding": "x" * (1 << 20)}, "is no manifest"),
    ],
)
def test_what_is_no_manifest_is_refused(tmp_path, change, message):
    named = {"format": 1, "files": "iteration-00000003", "processes": 1 << 20}
    (tmp_path / "manifest.json").write_text(json.dumps(named))
    assert PartFiles.of(tmp_path, KIND).processes == 1 << 20
    (tmp_path / "manifest.json").write_text(json.dumps(named | change))
    with pytest.raises(WrongError, match=message):
        PartFiles.of(tmp_path, KIND)


def test_a_manifest_has_so_many_bytes_at_most(tmp_path):
    text = json.dumps({"format": 1, "files": "iteration-00000003", "processes": 2})
    (tmp_path / "manifest.json").write_text(text.ljust(1 << 20))
    assert PartFiles.of(tmp_path, KIND).processes == 2
    (tmp_path / "manifest.json").write_text(text.ljust((1 << 20) + 1))
    with pytest.raises(WrongError, match="is no manifest"):
        PartFiles.of(tmp_path, KIND)
