"""A table of ratings in several files, for tests of what several processes read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import rankfold as rf


def write_shards(folder: Path) -> None:
    """Write one table with a crowded row: shards of it in Parquet and in CSV, and the whole as one file."""
    data = rf.data.random_completion((120, 40), 2, 6, seed=0)
    users = np.array([f"u{i:03d}" for i in range(120)])[data.rows]
    items, order = 7 * data.cols - 100, np.random.default_rng(0).permutation(len(data.values))
    (folder / "shards").mkdir()
    for k, part in enumerate(np.array_split(order, 4)):
        table = pa.table({"stars": data.values[part], "user": users[part], "item": items[part]})
        if k:
            parquet.write_table(table, folder / "shards" / f"{k}.parquet")
        else:
            table.to_pandas().to_csv(folder / "shards" / "0.csv", index=False)
    whole = pa.table({"user": users, "item": items, "stars": data.values})
    parquet.write_table(whole, folder / "whole.parquet")
