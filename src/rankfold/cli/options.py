"""Options that several commands have."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Seed = Annotated[int, typer.Option(help="Seed of every random choice: the same seed gives the same result.")]
Delimiter = Annotated[
    str | None, typer.Option(help="What separates the fields of a text file; found out by default.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first line names the columns; found out by default."
    ),
]
RowColumn = Annotated[
    str | None,
    typer.Option(
        "--row",
        help="Column of the file with the row: name, or position from 0. By default found by names such as "
        "user, or the first.",
    ),
]
ColColumn = Annotated[
    str | None,
    typer.Option("--col", help="Column with the column label; by default named like item, or the second."),
]
Decimal = Annotated[str, typer.Option(help="What stands before the fraction of a number: . or ,")]
Table = Annotated[str, typer.Argument(help="CSV, TSV or Parquet with a header; - for standard input.")]
ModelFile = Annotated[Path, typer.Argument(help="A file that `complete`, `clicks` or `regress` wrote (-o).")]
Missing = Annotated[
    list[str] | None, typer.Option(help="What stands for no value; may repeat. By default empty, NA, nan, ?.")
]
EscapeFormulas = Annotated[
    bool,
    typer.Option(
        "--escape-formulas",
        help="In CSV and TSV, put ' before text that begins with = + - @, which a spreadsheet would execute.",
    ),
]
Clip = Annotated[
    bool, typer.Option("--clip", help="Let no prediction lie outside of the range of the known values.")
]
Device = Annotated[str, typer.Option(help="Where fits run: cpu, cuda or auto.")]
Loss = Annotated[str, typer.Option(help="square, huber, logistic (0 or 1) or poisson (counts).")]
Criterion = Literal["cv", "aic", "bic", "gcv"]
CRITERIA: dict[str, Criterion] = {name: name for name in get_args(Criterion)}


def check_device(device: str) -> None:
    """Refuse what is no device."""
    if device not in ("cpu", "cuda", "auto"):
        raise typer.BadParameter(f"--device is cpu, cuda or auto, not {device!r}")


def column_of(text: str | None) -> str | int | None:
    """Return a column as given on the command line: a position if it is a number, else a name.

    Examples
    --------
    >>> column_of("2"), column_of("rating"), column_of(None)
    (2, 'rating', None)
    """
    return int(text) if text is not None and text.isdecimal() else text


def files_of(names: list[str], twice: bool) -> tuple[str, ...]:
    """Return the files that are named, or that patterns stand for; one that is read `twice` is no stream."""
    from rankfold.data.io.files import matching_files

    if "-" in names:
        if len(names) > 1 or twice:
            raise typer.BadParameter("standard input is read alone, once, and without --spill: name files")
        return tuple(names)
    return tuple(map(str, matching_files(names)))


def number_or_auto(text: str, kind: type[int] | type[float], option: str) -> Any:
    """Return "auto", or the number that `text` stands for."""
    if text == "auto":
        return text
    with suppress(ValueError):
        return kind(text)
    raise typer.BadParameter(f"{option} is a number or auto, not {text!r}")


def part_or_file(text: str) -> float | str:
    """Return what `--holdout` stands for: a part of the entries, or the name of a file.

    Examples
    --------
    >>> part_or_file("0.1"), part_or_file("new.csv")
    (0.1, 'new.csv')
    """
    with suppress(ValueError):
        part = float(text)
        if 0 <= part <= 0.9:
            return part
        raise typer.BadParameter(f"--holdout is a part from 0 to 0.9, or a file, not {text}")
    return text
