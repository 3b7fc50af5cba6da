"""Sorting on disk: the same arrays and labels as in memory, whatever the files, blocks and buckets."""

import gzip
import os
import re
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from pyarrow import parquet

import rankfold as rf
from data.spilled import MEMORY, Labelled, assert_same, draw, tiny
from rankfold.data import DataFileError, SortedFolder, sort_into
from rankfold.data.spill import buckets
from rankfold.data.spill.folder import HELD_OUT
from rankfold.data.spill.sorting import bytes_of
from rankfold.data.spill.sources import Reading, is_files
from rankfold.data.spill.steps import Options


@settings(max_examples=30, deadline=None)
@given(
    entries=st.builds(
        draw, st.integers(0, 10**6), st.integers(1, 80), st.integers(1, 9), st.integers(1, 7), st.booleans(),
        st.booleans(),
    ),
    files=st.integers(1, 4),
    kind=st.sampled_from(["parquet", "csv"]),
    stripes=st.sampled_from([None, 3]),
    spread=st.integers(1, 3),
)  # fmt: skip
def test_the_arrays_are_those_of_memory(entries, files, kind, stripes, spread):
    longest = max(np.unique(side, return_counts=True)[1].max() for side in (entries.rows, entries.cols))
    record = 16 if entries.weights is None else 24
    with tempfile.TemporaryDirectory() as name, tiny(int(longest) * spread, stripes, record=record):
        paths = entries.write(Path(name), min(files, len(entries.values)), kind)
        folder = sort_into(Path(name, "sorted"), paths, range(len(entries.columns)), memory=MEMORY)
        assert_same(folder, entries)
        assert len(folder) == len(entries.values)
        pairs = set(zip(entries.rows.tolist(), entries.cols.tolist(), strict=True))
        assert folder.repeated == len(entries.values) - len(pairs)
        assert not [path for path in folder.path.iterdir() if path.name.startswith("bucket")]


def test_single_precision_takes_less_room(tmp_path):
    entries = draw(weighted=True)
    with tiny(room=30, record=16):
        folder = sort_into(
            tmp_path / "s", entries.write(tmp_path, 2), range(4), memory=MEMORY, dtype="float32"
        )
    assert_same(folder, entries, np.float32)
    assert (tmp_path / "s" / "rows.data").stat().st_size == 8 * len(folder)


def test_entries_may_be_given_in_blocks_of_any_kind(tmp_path):
    entries = draw(strings=True)
    blocks = [[part[k : k + 20] for part in entries.columns] for k in range(0, 60, 20)]
    for k, sources in enumerate((blocks, iter(blocks), tuple(entries.columns))):
        assert_same(sort_into(tmp_path / str(k), sources), entries)
    triples = rf.data.read_triples(entries.write(tmp_path, 1, "csv")[0])
    assert_same(sort_into(tmp_path / "triples", triples), entries)


def test_positions_need_no_labels(tmp_path):
    rows, cols, values = np.array([0, 4, 4]), np.array([1, 1, 0]), np.arange(3.0)
    folder = sort_into(tmp_path / "s", (rows, cols, values), shape=(6, 3))
    assert (folder.shape, folder.row_labels, folder.col_labels) == ((6, 3), None, None)
    assert_array_equal(folder.store.counts[0], [1, 0, 0, 0, 2, 0])
    path = Labelled(rows, cols, values).write(tmp_path, 1)[0]
    with (
        tiny(batch=2),
        pytest.raises(DataFileError, match=r"part0.parquet, row 2: column '0' is not between 0 and 3"),
    ):
        sort_into(tmp_path / "t", path, shape=(4, 3))


def test_labels_of_text_are_integers_if_all_are_in_all_files(tmp_path):
    for name, text in {"a.csv": "1,x,1\n12,y,2\n", "b.csv.gz": "3,x,3\n", "c.csv": "007,y,4\n"}.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    numbers = sort_into(tmp_path / "n", [tmp_path / "a.csv", tmp_path / "b.csv.gz"])
    assert numbers.row_labels.tolist() == [1, 3, 12]
    assert_array_equal(numbers.store.by_row.data[:, 0], [1, 3, 2])
    for order in ("acb", "bca", "cab"):
        files = [next(tmp_path.glob(f"{name}.csv*")) for name in order]
        with tiny():
            strings = sort_into(tmp_path / order, files)
        assert strings.row_labels.tolist() == ["007", "1", "12", "3"]
        assert_array_equal(strings.store.by_row.data[:, 0], [4, 1, 2, 3])
        together = rf.data.read_triples(files)
        assert together.row_labels.tolist() == strings.row_labels.tolist()


def test_parquet_files_agree_on_the_kind_of_their_labels(tmp_path):
    draw(strings=True).write(tmp_path, 1)[0].rename(tmp_path / "b.parquet")
    draw().write(tmp_path, 1)[0].rename(tmp_path / "a.parquet")
    with pytest.raises(
        DataFileError,
        match=r"b\.parquet: the labels of rows are like n-?\d+, strings, and integers in .*a\.parquet",
    ):
        sort_into(tmp_path / "s", str(tmp_path / "*.parquet"))


def test_a_finished_sort_is_opened_until_its_sources_or_options_change(tmp_path, monkeypatch):
    entries, said = draw(), []

    def sort(**options):
        said.clear()
        return sort_into(
            tmp_path / "s", str(tmp_path / "*.parquet"), tell=lambda *told: said.append(told), **options
        )

    path = entries.write(tmp_path, 1)[0]
    sort()
    assert all(not news for _, news in said)
    assert [text.split()[0] for text, _ in said] == ["reading", "splitting", "sorting", "sorting"]
    with monkeypatch.context() as patch:
        patch.setattr(Reading, "blocks", None)  # nothing is read
        assert_same(sort(), entries)
        assert said == [(f"{tmp_path / 's'} is sorted already: its sources have not changed", True)]
        assert_same(sort(memory=2 * MEMORY), entries)
    assert sort(dtype="float32").store.dtype == np.float32
    assert said[0] == (f"{tmp_path / 's'} was sorted from other sources, or otherwise: sorting anew", True)
    os.utime(path, ns=(1, 1))
    sort(dtype="float32")
    assert said[0][1]
    assert len(said) == 5
    draw(1).write(tmp_path, 1)
    assert_same(sort(), draw(1))


def test_given_entries_are_told_apart_by_content(tmp_path):
    said = []
    tell = lambda text, news: said.append(text) if news else None  # noqa: E731
    for seed in (0, 0, 1):
        assert_same(sort_into(tmp_path / "s", tuple(draw(seed).columns), tell=tell), draw(seed))
    assert [text.split()[2] for text in said] == ["sorted", "sorted"]
    assert ["already" in text for text in said] == [True, False]


def test_entries_are_held_out_at_random(tmp_path):
    entries = Labelled(np.arange(3000) % 50, np.arange(3000) % 61, np.arange(3000.0))
    paths = entries.write(tmp_path, 2)
    with tiny(batch=500):
        folder, again, other = (
            sort_into(tmp_path / str(k), paths, held_out=0.2, seed=seed, memory=MEMORY)
            for k, seed in enumerate((0, 0, 1))
        )
    rows, cols, values = folder.held_out
    assert 500 < len(values) < 700
    assert len(folder) + len(values) == 3000
    assert_array_equal(folder.row_labels[rows], values.astype(int) % 50)
    assert_array_equal(folder.col_labels[cols], values.astype(int) % 61)
    fitted = folder.store.by_row.data[:, 0]
    assert_array_equal(np.sort(np.concatenate([fitted, values])), entries.values)
    assert_array_equal(again.held_out[2], values)
    assert not np.array_equal(other.held_out[2][:50], values[:50])
    assert len(sort_into(tmp_path / "all", paths).held_out[2]) == 0
    assert not (tmp_path / "all" / HELD_OUT).exists()


def test_memory_stays_bounded(tmp_path):
    rng = np.random.default_rng(0)
    entries = Labelled(
        rng.integers(2000, size=1_600_000), rng.integers(3000, size=1_600_000), rng.standard_normal(1_600_000)
    )
    paths = entries.write(tmp_path, 2)
    sort_into(tmp_path / "first", tuple(part[:9] for part in entries.columns))  # compiles
    tracemalloc.start()
    folder = sort_into(tmp_path / "s", paths, memory=MEMORY)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * MEMORY  # in memory the same takes 80 MB
    assert len(folder) == 1_600_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3\n1,2,x\n", r"a\.csv, line 2: column '2' is not a number: 'x'"),
        ("1,2,3\n1,2,nan\n", r"a\.csv, line 2: column '2' is not finite"),
        ("1,2,3\n1,2\n", r"a\.csv, line 2: 2 columns where the first line has 3"),
        ("row,col,value\n", r"a\.csv: there are no entries"),
        ("1,2,1e300\n", r"a\.csv: values\[0\] is 1e\+300.*divide values by 1e\+300"),
        ("1,2,1e-100\n", r"values holds no number beyond 1e-100"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        sort_into(tmp_path / "s", tmp_path / "a.csv")
    with pytest.raises(DataFileError, match="was not sorted to the end"):
        SortedFolder.open(tmp_path / "s")


def test_rows_of_parquet_files_are_counted_from_the_start_of_each(tmp_path):
    values = pa.array([1.0, 2.0, None, 4.0])
    for name, column in {"a": pa.array([1.0] * 4), "b": values}.items():
        parquet.write_table(
            pa.table({"i": range(4), "j": range(4), "y": column}), tmp_path / f"{name}.parquet"
        )
    for read in (lambda files: sort_into(tmp_path / "s", files), rf.data.read_triples):
        with tiny(batch=2), pytest.raises(DataFileError, match=r"b\.parquet, row 3: column 'y' is empty"):
            read([tmp_path / "a.parquet", tmp_path / "b.parquet"])


def test_weights_are_zero_or_more(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,3,0\n1,3,3,1\n1,4,3,-2\n")
    with (
        tiny(batch=1),
        pytest.raises(DataFileError, match=r"a\.csv, entry 3: the weight is -2\.0; weights must be zero"),
    ):
        sort_into(tmp_path / "s", tmp_path / "a.csv", (0, 1, 2, 3))


def test_what_cannot_be_sorted_is_refused_with_the_remedy(tmp_path):
    path = draw().write(tmp_path, 1)[0]
    (tmp_path / "a.csv").write_text("1,2,3\n")
    (tmp_path / "m.npz").write_bytes(b"")
    target = tmp_path / "s"
    for sources, error, message in [
        ([path, tmp_path / "a.csv"], ValueError, "some files are Parquet and some are text"),
        (tmp_path / "m.npz", ValueError, "read whole: write it as csv or parquet"),
        (tmp_path / "none.csv", FileNotFoundError, r"none\.csv"),
        (str(tmp_path / "none*.csv"), FileNotFoundError, r"none\*\.csv: no file has such a name"),
        ([], ValueError, "no files|no entries"),
        (iter([]), ValueError, "there are no entries"),
        (([1, 2], [1], [1.0]), ValueError, "block 0: rows, cols and values must have one length"),
        ([([1], [1])], ValueError, "block 0 has 2 parts"),
        ([([1], [1], [1.0]), (["a"], [1], [1.0])], ValueError, "blocks must be alike"),
        ((np.array(["2020-01-01"], "M8[D]"), [1], [1.0]), TypeError, "times cannot be labels"),
    ]:
        with pytest.raises(error, match=message):
            sort_into(target, sources)
    for options, message in [
        ({"memory": "1MB"}, "memory must be at least 16 MiB"),
        ({"memory": "much"}, "memory must be a number of bytes"),
        ({"dtype": "int32"}, "dtype must be"),
        ({"duplicates": "mean"}, "duplicates must be"),
        ({"held_out": 1.0}, "held_out must be"),
        ({"columns": (0,)}, "columns must name"),
        ({"shape": (0, 3)}, "shape must be two positive integers"),
    ]:
        with pytest.raises(ValueError, match=message):
            sort_into(target, path, **options)
    with pytest.raises(ValueError, match=r"holds other files, such as 'a\.csv'"):
        sort_into(tmp_path, path)


def test_repeated_pairs_can_be_refused(tmp_path):
    (tmp_path / "a.csv").write_text("ann,Heat,5\nbob,Heat,4\nbob,Dune,1\nbob,Heat,3\n")
    assert sort_into(tmp_path / "keep", tmp_path / "a.csv").repeated == 1
    with pytest.raises(
        ValueError, match=r"entry \('bob', 'Heat'\) is given more than once.*duplicates='keep'"
    ):
        sort_into(tmp_path / "error", tmp_path / "a.csv", duplicates="error")


def test_of_several_repeated_pairs_the_first_by_row_is_named(tmp_path):
    entries = np.array([[5, 4, 3, 3, 5, 4, 3], [9, 8, 8, 7, 9, 8, 8]])
    blocks = (*entries, np.arange(7.0))
    for labels, name in ((None, (3, 8)), ("n", ("n3", "n8"))):
        rows, cols = (side if labels is None else np.array([f"n{k}" for k in side]) for side in entries)
        with pytest.raises(ValueError, match=re.escape(f"entry {name!r} is given more than once")):
            sort_into(tmp_path / "s", (rows, cols, blocks[2]), duplicates="error")
    with pytest.raises(ValueError, match=r"entry \(3, 8\) is given more than once"):
        sort_into(tmp_path / "s", blocks, duplicates="error", shape=(6, 10))
    with tiny(room=3), pytest.raises(ValueError, match=r"entry \(4, 8\) is given more than once"):
        sort_into(
            tmp_path / "s", tuple(part[[0, 3, 1, 4, 5]] for part in blocks), duplicates="error", memory=MEMORY
        )
    assert sort_into(tmp_path / "s", blocks).repeated == 3


def test_clicks_without_a_value_have_the_value_1(tmp_path):
    (tmp_path / "a.csv").write_text("user,item\nbob,9\nann,7\nbob,7\n")
    folder = sort_into(tmp_path / "s", tmp_path / "a.csv", (None, None))
    assert_same(folder, Labelled(np.array(["bob", "ann", "bob"]), np.array([9, 7, 7]), np.ones(3)))


@pytest.mark.parametrize("at", [0, 3, 4, 6])
def test_a_weight_below_zero_is_named_by_its_place_in_the_file(tmp_path, at):
    weights = np.where(np.arange(7) < at, 0.0, -1.0 - np.arange(7))
    path = Labelled(np.arange(7), np.arange(7), np.ones(7), weights).write(tmp_path, 1)[0]
    with (
        tiny(batch=2),
        pytest.raises(DataFileError, match=rf"part0\.parquet, entry {at + 1}: .* -{at + 1}\.0;"),
    ):
        sort_into(tmp_path / "s", path, range(4))


@pytest.mark.parametrize("columns", [(0,), (0, 1, 2, 3, 4)])
def test_a_file_has_two_to_four_columns_that_are_sorted(tmp_path, columns):
    (tmp_path / "a.csv").write_text("1,2,3,4,5\n")
    with pytest.raises(ValueError, match="columns must name row, column, value and weight, or the first two"):
        sort_into(tmp_path / "s", tmp_path / "a.csv", columns)


@pytest.mark.parametrize(
    ("most", "entries"), [(2, 5), (3, 3), (9, 2)], ids=["a half of all", "a third of all", "the longest line"]
)
def test_memory_must_hold_a_line_and_an_even_share_of_the_entries(tmp_path, monkeypatch, most, entries):
    monkeypatch.setattr(buckets, "MOST", most)
    counts, kind = np.array([1, 2, 1, 2, 1, 2]), np.dtype(np.float64)
    record = buckets.BYTES * buckets.record_type((6, 4), kind, False).itemsize

    def planned(memory):
        return buckets.Order.planned(tmp_path, "rows", (6, 4), counts, kind, False, memory)

    assert planned(entries * record).cuts[-1] == 6
    with pytest.raises(ValueError, match=f"one of which has 2, takes {entries * record:,}: give that"):
        planned(entries * record - 1)


@pytest.mark.parametrize(
    ("room", "cuts"), [(2, (0, 1, 2, 4, 5)), (3, (0, 2, 4, 5)), (5, (0, 4, 5)), (7, (0, 4, 5)), (8, (0, 5))]
)
def test_each_bucket_has_as_many_lines_as_fit_memory(tmp_path, room, cuts):
    counts, kind = np.array([1, 2, 2, 0, min(room, 3)]), np.dtype(np.float64)
    record = buckets.BYTES * buckets.record_type((5, 4), kind, True).itemsize
    order = buckets.Order.planned(tmp_path, "rows", (5, 4), counts, kind, True, room * record + record - 1)
    assert order.cuts == cuts


def test_a_line_that_outgrows_memory_is_refused_with_what_it_takes(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"1,{k},{k}\n" for k in range(8)))
    with (
        tiny(room=7),
        pytest.raises(ValueError, match=r"8 entries by row, one of which has 8, takes 19,\d+,\d+: give that"),
    ):
        sort_into(tmp_path / "s", tmp_path / "a.csv", memory=MEMORY)


def test_numbers_of_bytes():
    assert [bytes_of(given) for given in ("16777216", 2e7, "20 mb", "0.5GB", "1GiB", "1tib", "1TB")] == [
        1 << 24, 20_000_000, 20_000_000, 500_000_000, 1 << 30, 1 << 40, 10**12,
    ]  # fmt: skip
    assert [bytes_of(given) for given in ("20000000B", "20000KB", "30000KiB", "20MiB")] == [
        20_000_000, 20_000_000, 30_000 << 10, 20 << 20,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("memory", "limit"),
    [(1 << 24, 1 << 16), ((1 << 26) + 511, 1 << 17), (1 << 29, 1 << 20), (1 << 33, 1 << 20)],
)
def test_a_512th_of_memory_is_read_at_a_time_within_bounds(memory, limit):
    found = Options("float64", "keep", 0.0, 0, memory).limit
    assert (found, type(found)) == (limit, int)


@pytest.mark.parametrize("memory", ["1PB", "GB", "-1GB", "1 G", "1,5GB", "nan", "", "1GBB", "1e9"])
def test_what_is_no_number_of_bytes_is_named(memory):
    with pytest.raises(ValueError, match="memory must be a number of bytes, such as '1GB'"):
        bytes_of(memory)


def test_less_memory_than_a_sort_needs_is_refused():
    for memory in ((1 << 24) - 1, "15.9MiB", 0):
        with pytest.raises(ValueError, match="memory must be at least 16 MiB"):
            bytes_of(memory)


def test_sources_are_files_where_all_of_them_are_names():
    block = np.arange(2), np.arange(2), np.ones(2)
    for names in ("a.csv", Path("a.csv"), ["a.csv", Path("b.csv")], ("a.csv",)):
        assert is_files(names)
    for entries in (block, [block], ["a.csv", block], [block, "a.csv"], iter(["a.csv"])):
        assert not is_files(entries)
