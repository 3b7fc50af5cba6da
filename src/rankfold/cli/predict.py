"""Commands that use a model: predict and recommend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from rankfold.cli.console import check_writable, fail, note, print_json, print_table
from rankfold.cli.options import ColColumn, Delimiter, Header, Json, Missing, ModelFile, RowColumn, column_of

if TYPE_CHECKING:
    from rankfold.data.io.pairs import PairBatch

NAMES = ("row", "column", "prediction")


def predict(
    model: ModelFile,
    pairs: Annotated[
        str,
        typer.Argument(help="CSV, TSV or Parquet of row and column, or of features; - for standard input."),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="CSV, TSV or Parquet; - for standard output.")
    ] = "-",
    row: RowColumn = "0",
    col: ColColumn = "1",
    delimiter: Delimiter = None,
    header: Header = None,
    missing: Missing = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse rows and columns that the model does not know.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Write a JSON object per line.")] = False,
) -> None:
    """Predict the entries at pairs of row and column labels, a line for each.

    A model of `regress` predicts its targets for the rows of a table of features instead.

    A row that the model does not know is predicted by the mean and the offset of the column, and the other
    way round; a note says how many there were.

    Examples
    --------
      rankfold predict model.rankfold pairs.csv -o predictions.csv

      echo "ann,Alien" | rankfold predict model.rankfold -
    """
    import rankfold as rf
    from rankfold.cli.models import as_completion
    from rankfold.cli.tables import predicted_rows
    from rankfold.data import LabelIndex, read_pairs

    check_writable(output)
    fitted = rf.load(model)
    if isinstance(fitted, rf.ReducedRankRegression):
        if strict or header is not None or (row, col) != ("0", "1"):
            raise ValueError(
                f"{model} predicts rows of a table: --strict, --row, --col, --header and --no-header are for "
                "models of pairs"
            )
        _write(output, iter(predicted_rows(fitted, pairs, delimiter, missing).to_batches()), json)
        return
    if missing:
        raise ValueError(f"{model} predicts pairs: --missing is for models of `rankfold regress`")
    fitted = as_completion(fitted, model)
    rows, cols = (
        LabelIndex(size, labels)
        for size, labels in zip(fitted.shape_, (fitted.row_labels_, fitted.col_labels_), strict=True)
    )
    columns = column_of(row), column_of(col)
    guessed = header is None and all(isinstance(column, int) for column in columns)
    unknown = _Unknown(strict, guessed)
    with closing(read_pairs(pairs, rows, cols, columns, delimiter=delimiter, header=header)) as batches:
        _write(output, _predicted(unknown.watched(batches), fitted), json)
    unknown.tell()


class _Unknown:
    """Counts the pairs of which the model does not know the row or the column."""

    def __init__(self, strict: bool, guessed: bool) -> None:
        self.strict, self.guessed = strict, guessed
        self.count, self.total, self.first = 0, 0, ""

    def watched(self, batches: Iterator[PairBatch]) -> Iterator[PairBatch]:
        for batch in batches:
            if self.guessed and batch.header and not self.total:
                names = ", ".join(map(repr, batch.header))
                note(
                    f"rankfold: the first line, {names}, is taken for a header; if it is a pair: --no-header"
                )
            new = (batch.rows < 0) | (batch.cols < 0)
            if new.any() and not self.count:
                k = int(new.argmax())
                side, names = ("row", batch.row_labels) if batch.rows[k] < 0 else ("column", batch.col_labels)
                self.first = f"{batch.place(k)}: the model does not know the {side} {names[k].as_py()!r}"
                if self.strict:
                    raise ValueError(f"{self.first}; leave out --strict to predict it from what is known")
            self.count += int(new.sum())
            self.total += len(batch)
            yield batch

    def tell(self) -> None:
        if self.count:
            note(
                f"rankfold: warning: {self.count:,} of {self.total:,} pairs have a row or column that the "
                f"model does not know; their predictions leave it out. First: {self.first}"
            )


def _write(output: str, tables: Iterator[Any], json: bool) -> None:
    """Write record batches."""
    from rankfold.data.io.files import format_of
    from rankfold.data.io.parquet import write_parquet
    from rankfold.data.io.streams import writing
    from rankfold.data.io.text import write_text

    kind = format_of(output, None)
    if kind not in ("csv", "tsv", "parquet"):
        raise ValueError(f"{output}: predictions are written as csv, tsv or parquet, not as {kind}")
    first = next(tables, None)  # before anything is written: the file of pairs may be bad
    if first is None:
        return

    with writing(output) as stream:
        if json:
            _write_json(stream, chain([first], tables))
        elif kind == "parquet":
            same = (table.cast(first.schema) for table in tables)
            write_parquet(stream, first.schema, chain([first], same))
        else:
            write_text(stream, first.schema, chain([first], tables), "\t" if kind == "tsv" else ",")


def _predicted(batches: Iterator[PairBatch], model: Any) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        values = pa.array(model.predict_at(batch.rows, batch.cols))
        yield pa.record_batch([batch.row_labels, batch.col_labels, values], names=list(NAMES))


def _write_json(stream: BinaryIO, tables: Iterator[Any]) -> None:
    from json import dumps

    for table in tables:
        for line in table.to_pylist():
            stream.write(f"{dumps(line, ensure_ascii=False)}\n".encode())


def recommend(
    model: ModelFile,
    who: Annotated[
        list[str], typer.Option("--for", help="The row label to recommend columns for; may repeat.")
    ],
    count: Annotated[int, typer.Option("-n", help="How many columns.", min=1)] = 10,
    seen: Annotated[
        bool, typer.Option("--include-seen", help="Also columns that the row has an entry in.")
    ] = False,
    json: Json = False,
) -> None:
    """Recommend for a row the columns with the highest predictions.

    Example: rankfold recommend model.rankfold --for ann -n 5
    """
    from rankfold.cli.models import load_completion, row_label

    fitted = load_completion(model)
    told: dict[str, list[dict[str, Any]]] = {}
    for name in who:
        _, columns, scores = fitted.recommend([row_label(fitted, name)], n=count, exclude_seen=not seen)
        told[name] = [
            {"column": column, "prediction": score}
            for column, score in zip(columns.tolist(), scores.tolist(), strict=True)
        ]
    if json:
        print_json(told)
        return
    for name, lines in told.items():
        if not lines:
            fail(f"{name!r} has an entry in every column: --include-seen shows them")
        rows = [(str(line["column"]), f"{line['prediction']:.4g}") for line in lines]
        print_table((f"for {name}", "prediction"), rows)
