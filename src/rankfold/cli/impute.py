"""`rankfold impute`: a table without its holes."""

from __future__ import annotations

from typing import Annotated

import typer

from rankfold.cli.console import check_writable, note, print_json
from rankfold.cli.options import Delimiter, Json, Missing, Seed, Table, number_or_auto


def impute(
    table: Table,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where the table goes; - for standard output.")
    ] = "-",
    rank: Annotated[str, typer.Option(help="How many hidden traits rows have: a number, or auto.")] = "auto",
    column: Annotated[
        list[str] | None, typer.Option(help="A column to impute; may repeat. By default all numbers.")
    ] = None,
    missing: Missing = None,
    delimiter: Delimiter = None,
    max_iter: Annotated[int, typer.Option(help="At most so many iterations.", min=1)] = 50,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fill the holes of a table from what its rows and columns have in common.

    Known numbers stay as they are; columns of text, and columns without any number, are copied.

    Example: rankfold impute sensors.csv -o filled.csv
    """
    import numpy as np

    import rankfold as rf
    from rankfold.cli.table_files import numbers, numeric_columns, read_table, with_columns, write_table

    check_writable(output)
    data = read_table(table, delimiter, missing)
    names = column or [name for name in numeric_columns(data) if data[name].null_count < len(data)]
    values = numbers(data, names, table)
    imputer = rf.LowRankImputer(number_or_auto(rank, int, "--rank"), max_iter=max_iter, random_state=seed)
    write_table(output, with_columns(data, names, imputer.fit_transform(values)))
    copied = [name for name in data.column_names if name not in names]
    filled = int(np.isnan(values).sum())
    if json and output != "-":
        print_json({"rows": len(values), "rank": imputer.rank_, "filled": filled,
                    "known": values.size - filled, "columns": names, "copied_columns": copied})  # fmt: skip
    else:
        note(f"{filled:,} of {values.size:,} values filled at rank {imputer.rank_}; copied: {copied or '-'}")
