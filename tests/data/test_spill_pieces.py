"""The pieces of a sort on disk, one by one: labels that are merged, notes, sources of every kind."""

import numpy as np
import pytest

from data.spilled import MEMORY, Labelled, assert_same, draw, tiny
from data.test_spill_faults import EndError, ending
from rankfold.data import DataFileError, SortedFolder, Triples, sort_into
from rankfold.data.spill import merging
from rankfold.data.spill.manifest import Manifest, prepared
from rankfold.data.spill.merging import MergedLabels, places_of, read_labels, write_labels


def merged(text, *blocks):
    labels = MergedLabels("row", text)
    for k, (names, counts) in enumerate(blocks):
        labels.add(np.array(names), np.array(counts), f"file{k}")
    return labels


@pytest.mark.parametrize("merge", [0, 3, 1 << 18])
@pytest.mark.parametrize(
    ("blocks", "labels", "counts"),
    [
        ([([7, 3], [1, 2]), ([3, 9], [4, 8])], [3, 7, 9], [6, 1, 8]),
        ([([7, 3], [1, 2])], [3, 7], [2, 1]),
        ([([7], [1]), (["x", "7"], [2, 4]), ([8], [8]), ([10], [16])], ["10", "7", "8", "x"], [16, 5, 8, 2]),
        ([(["b"], [1]), (["a", "b"], [2, 4]), (["c"], [8])], ["a", "b", "c"], [2, 5, 8]),
        ([([7], [1]), ([8], [2]), (["007"], [4]), (["8"], [8])], ["007", "7", "8"], [4, 1, 10]),
    ],
)
def test_labels_of_all_blocks_come_in_order_with_their_counts(monkeypatch, merge, blocks, labels, counts):
    monkeypatch.setattr(merging, "_MERGE", merge)
    found, numbers = merged(True, *blocks).finish()
    assert (found.tolist(), numbers.tolist(), numbers.dtype) == (labels, counts, np.int64)


def test_labels_that_end_in_nul_stay_so():
    labels = MergedLabels("row", True)
    for name in ("a", "a\0", "a\0\0"):
        labels.add(np.array([name], dtype=object), np.array([1]), "file")
    assert labels.finish()[0].tolist() == ["a", "a\0", "a\0\0"]


def test_labels_of_few_blocks_are_kept_apart(monkeypatch):
    monkeypatch.setattr(merging, "_MERGE", 3)
    labels, apart = MergedLabels("row", True), []
    for k in range(0, 20, 2):
        labels.add(np.array([k, k + 1]), np.array([1, 1]), "file")
        apart.append(sum(len(part) for part, _ in labels._pending))
    assert apart == [0, 2, 0, 2, 4, 6, 0, 2, 4, 6]


@pytest.mark.parametrize("between", [[], [([9, 8], [1, 1])]])
def test_files_of_labels_of_two_kinds_are_named(between):
    labels = merged(False, ([5, 3], [1, 1]), *between)
    like = 9 if between else 5
    with pytest.raises(
        DataFileError,
        match=rf"^other: the labels of rows are like x, strings, and integers in file0, like {like}: cast",
    ):
        labels.add(np.array(["x", "y"]), np.array([1, 1]), "other")


def test_no_labels_at_all_are_no_entries():
    with pytest.raises(DataFileError, match="the files hold no entries: rows of row, column and value"):
        MergedLabels("row", True).finish()


def test_places_are_those_among_labels_that_are_all_there():
    known = np.array(["007", "7", "x"])
    assert places_of(np.array(["x", "007"]), known).tolist() == [2, 0]
    assert places_of(np.array([7]), known).tolist() == [1]
    assert places_of(np.array([9, 3, 9]), np.array([3, 5, 9])).tolist() == [2, 0, 2]
    for other in (["y"], ["0"], ["7", "8"]):
        with pytest.raises(DataFileError, match="a file has other labels than when it was first read"):
            places_of(np.array(other), known)


@pytest.mark.parametrize(
    "labels",
    [
        None,
        np.array([-3, 2**40]),
        np.array([2**63 + 1], np.uint64),
        np.array(["a", "bé"]),
        np.array(["a", "a\0"], dtype=object),
    ],
)
def test_labels_and_counts_come_back_from_their_file(tmp_path, labels):
    write_labels(tmp_path / "labels", labels, np.array([4, 2]) if labels is None else np.ones(len(labels)))
    found, counts = read_labels(tmp_path / "labels")
    if labels is None:
        assert (found, counts.tolist()) == (None, [4, 2])
    else:
        assert (found.tolist(), found.dtype) == (labels.tolist(), labels.dtype)
        assert counts.sum() == len(labels)


def test_a_sort_anew_removes_what_a_sort_has_made_and_nothing_else(tmp_path):
    for name in ("rows.data", ".columns.indptr.draft", "bucket-rows-0", "held_out.entries", "lock"):
        (tmp_path / name).write_text("old")
    (tmp_path / "given.parquet").write_text("given")
    (tmp_path / "rows.folder").mkdir()
    manifest = Manifest(tmp_path, {"old": 1}, {"finished": {}})
    manifest.restart({"new": 2})
    assert {path.name for path in tmp_path.iterdir()} == {
        "given.parquet", "lock", "manifest.json", "rows.folder",
    }  # fmt: skip
    again = Manifest.read(tmp_path)
    assert (again.task, again.facts) == (manifest.task, manifest.facts) == ({"new": 2}, {})
    again.note(looked=1)
    again.note(split=2)
    assert Manifest.read(tmp_path).facts == {"looked": 1, "split": 2}


def test_a_new_folder_is_made_with_those_that_lead_to_it(tmp_path):
    for _ in range(2):
        prepared(tmp_path / "new" / "sorted")
    (tmp_path / "new" / "sorted" / "mine").write_text("")
    with pytest.raises(ValueError, match=r"sorted holds other files, such as 'mine': name a new folder"):
        prepared(tmp_path / "new" / "sorted")


def test_a_bucket_that_was_cut_before_all_was_split_is_noticed(tmp_path, monkeypatch):
    paths = draw(count=50).write(tmp_path, 3)
    with tiny(room=25):
        with monkeypatch.context() as patch:
            ending(patch, Manifest, "note", 4, after=True)  # started, looked, split of two sources
            with pytest.raises(EndError):
                sort_into(tmp_path / "s", paths, memory=MEMORY)
        bucket = tmp_path / "s" / "bucket-columns-0"
        bucket.write_bytes(bucket.read_bytes()[:-1])
        with pytest.raises(DataFileError, match=r"bucket-columns-0 has [\d,]+ bytes where [\d,]+ were writt"):
            sort_into(tmp_path / "s", paths, memory=MEMORY)


def test_entries_with_weights_may_be_given_and_held_out(tmp_path):
    entries = draw(count=60, weighted=True)
    blocks = [tuple(part[k : k + 20] for part in entries.columns) for k in range(0, 60, 20)]
    for name, given in (("whole", tuple(entries.columns)), ("blocks", blocks)):
        folder = sort_into(tmp_path / name, given)
        assert_same(folder, entries)
        assert folder.names is None
    folder = sort_into(tmp_path / "held", blocks, held_out=0.4, seed=3)
    rows, cols, values = folder.held_out
    assert 10 < len(values) == 60 - len(folder) < 40
    there = set(zip(*(part.tolist() for part in entries.columns[:3]), strict=True))
    found = zip(folder.row_labels[rows].tolist(), folder.col_labels[cols], values.tolist(), strict=True)
    assert set(found) <= there


def test_triples_may_be_given_one_after_the_other_and_whole_numbers_beside_others(tmp_path):
    labels = np.array(["a", "b", "c"])
    first = Triples(np.array([2, 0]), np.array([1, 0]), np.array([1, 2]), (3, 2), labels, np.array([5, 7]))
    second = Triples(np.array([0]), np.array([1]), np.array([0.5]), (1, 2), np.array(["d"]), np.array([7, 9]))
    folder = sort_into(tmp_path / "s", [first, second, (["e"], [5], [3])])
    entries = Labelled(np.array(["c", "a", "d", "e"]), np.array([7, 5, 9, 5]), np.array([1, 2, 0.5, 3]))
    assert_same(folder, entries)


def test_empty_blocks_are_no_entries(tmp_path):
    empty = (np.empty(0, int), np.empty(0, int), np.empty(0))
    assert_same(sort_into(tmp_path / "s", [empty, tuple(draw().columns), empty]), draw())
    with pytest.raises(ValueError, match="there are no entries: give blocks"):
        sort_into(tmp_path / "t", [empty])
    with pytest.raises(ValueError, match="block 1 has 5 parts, not rows, cols, values, and maybe weights"):
        sort_into(tmp_path / "t", [tuple(draw().columns), ([1],) * 5])


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.tsv", "1;5\t2\t3\n", {"delimiter": ";"}),
        ("a.csv", "1;5-2-3\n", {"delimiter": "-"}),
        ("a.csv", "1;5|2|3,0\n", {"decimal": ","}),
        ("a.csv", "u|i|v\n1;5|2|3\n", {}),
        ("a.csv", "v|x|i|u\n3|9|2|1;5\n", {"columns": ("u", "i", "v")}),
    ],
)
def test_files_are_read_as_they_are_in_memory(tmp_path, name, text, options):
    (tmp_path / name).write_text(text)
    folder = sort_into(tmp_path / "s", tmp_path / name, **options)
    assert (folder.row_labels.tolist(), folder.col_labels.tolist()) == (["1;5"], [2])
    assert folder.store.by_row.data.tolist() == [[3.0]]
    assert folder.names == (("u", "i", "v") if "u" in text else ("0", "1", "2"))


def test_a_folder_is_opened_with_the_memory_of_its_sort_or_other(tmp_path):
    path = sort_into(tmp_path / "s", tuple(draw().columns), memory=MEMORY + 7).path
    assert SortedFolder.open(path).store.memory == MEMORY + 7
    assert SortedFolder.open(path, memory=5e7).store.memory == 5e7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,1e-100,1\n3,4,1,1e-100\n", None),  # each column has one that is not too small
        ("1,2,0,0\n3,4,1,1\n", None),
        ("1,2,1,1e-100\n3,4,1,1e-100\n", "weights holds no number beyond 1e-100"),
        ("1,2,1e-100,1\n3,4,-1e-100,1\n", "values holds no number beyond 1e-100"),
    ],
)
@pytest.mark.parametrize("batch", [1, 5])
def test_values_and_weights_are_large_enough_somewhere_in_all_files(tmp_path, text, message, batch):
    (tmp_path / "a.csv").write_text(text)
    with tiny(batch=batch):
        if message is None:
            assert len(sort_into(tmp_path / "s", tmp_path / "a.csv", range(4))) == 2
        else:
            with pytest.raises(ValueError, match=message):
                sort_into(tmp_path / "s", tmp_path / "a.csv", range(4))
