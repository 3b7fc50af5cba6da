"""The names of `rankfold.data`, and what importing them costs."""

import subprocess
import sys

import pytest

from rankfold import data


def test_every_name_is_found_and_listed():
    assert {"read_triples", "write_triples", "read_pairs", "random_completion", "Triples"} <= set(dir(data))
    for name in data.__all__:
        assert getattr(data, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'rankfold\.data' has no attribute 'read_nothing'"):
        _ = data.read_nothing


def loaded(code):
    words = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def test_entries_of_memory_need_numpy_alone():
    made = "import rankfold.data as d; d.split(d.random_completion((9, 8), 1, 2, seed=0))"
    assert not {"pyarrow", "scipy", "numba", "rankfold.data.io"} & loaded(made)
    assert "pyarrow" in loaded("from rankfold.data import read_triples")
