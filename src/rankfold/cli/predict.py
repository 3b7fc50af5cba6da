"""Commands that use a model: predict and recommend."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from rankfold.cli.console import check_writable, fail, note, print_json, print_table
from rankfold.cli.labels import visible
from rankfold.cli.models import clipping, names_of, of_pairs
from rankfold.cli.options import (
    Clip,
    ColColumn,
    Decimal,
    Delimiter,
    EscapeFormulas,
    Header,
    Json,
    Missing,
    ModelFile,
    RowColumn,
    column_of,
)


def predict(
    model: ModelFile,
    pairs: Annotated[
        str,
        typer.Argument(help="CSV, TSV or Parquet of row and column, or of features; - for standard input."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="Where predictions go: CSV, TSV or Parquet; - for standard output."
        ),
    ] = "-",
    row: RowColumn = None,
    col: ColColumn = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    header: Header = None,
    missing: Missing = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse rows and columns that the model does not know.")
    ] = False,
    std: Annotated[
        bool, typer.Option("--std", help="Also the standard deviation of an entry about its prediction.")
    ] = False,
    clip: Clip = False,
    json: Annotated[bool, typer.Option("--json", help="Write a JSON object per line.")] = False,
    escape_formulas: EscapeFormulas = False,
) -> None:
    """Predict the entries at pairs of row and column labels, a line for each.

    A model of `regress` predicts its targets for the rows of a table of features instead.

    A row that the model does not know is predicted by the mean and the offset of the column, and the other
    way round; a note says how many there were.

    Examples
    --------
      rankfold predict model.rankfold pairs.csv -o predictions.csv

      echo "ann,Alien" | rankfold predict model.rankfold -

    Several processes share out the pairs; of a model in parts, each has its rows (docs: "Several machines"):

      torchrun --nproc-per-node 4 -m rankfold predict model.parts pairs.parquet -o predictions.parquet
    """
    import rankfold as rf
    from rankfold.cli import shared_out
    from rankfold.cli.predictions import expected, predicted, watched
    from rankfold.cli.regressing import predicted_rows
    from rankfold.cli.table_files import write_batches
    from rankfold.data import LabelIndex, read_pairs

    check_writable(output)
    columns = column_of(row), column_of(col)
    guessed = header is None and not any(isinstance(column, str) for column in columns)
    if shared_out.concerns(model):
        if std or missing:
            raise ValueError("--std and --missing are for one process, and for models in one file")
        reading = {"delimiter": delimiter, "header": header}
        asked = {"strict": strict, "guessed": guessed, "clip": clip, "json": json, "escape": escape_formulas}
        shared_out.predict(model, pairs, columns, reading, asked, output)
        return
    fitted = rf.load(model)
    if isinstance(fitted, rf.ReducedRankRegression):
        if strict or std or clip or header is not None or (row, col) != (None, None):
            raise ValueError(
                f"{model} predicts rows of a table: --strict, --std, --clip, --row, --col, --header and "
                "--no-header are for models of pairs"
            )
        rows = predicted_rows(fitted, pairs, delimiter, missing, decimal).to_batches()
        write_batches(output, iter(rows), json, escape_formulas)
        return
    if missing:
        raise ValueError(f"{model} predicts pairs: --missing is for models of `rankfold regress`")
    names = names_of(fitted)
    known = clipping(of_pairs(fitted, model), clip, model)
    if std and getattr(known, "posterior_", None) is None:
        raise ValueError(
            f"{model} does not know how sure it is: --std is for models of `rankfold complete` with the "
            "square loss, and --regularization auto or --bayesian"
        )
    rows, cols = map(LabelIndex, known.shape_, (known.row_labels_, known.col_labels_), names)
    chosen = expected(columns, names)
    with closing(read_pairs(pairs, rows, cols, chosen, delimiter=delimiter, header=header)) as batches:
        known_pairs = watched(batches, (rows, cols), strict, guessed)
        write_batches(output, predicted(known, known_pairs, std), json, escape_formulas)


def recommend(
    model: ModelFile,
    who: Annotated[
        list[str] | None, typer.Option("--for", help="The row label to recommend columns for; may repeat.")
    ] = None,
    whose: Annotated[
        Path | None, typer.Option("--for-file", help="A file of row labels, one in each line.")
    ] = None,
    count: Annotated[int, typer.Option("-n", help="How many columns.", min=1)] = 10,
    seen: Annotated[
        bool, typer.Option("--include-seen", help="Also columns that the row has an entry in.")
    ] = False,
    clip: Clip = False,
    json: Json = False,
) -> None:
    """Recommend for a row the columns with the highest predictions.

    With --clip, predictions beyond the range of the known values are shown as its end, in their order before.

    Example: rankfold recommend model.rankfold --for ann -n 5

    Several processes share out the rows of a file (docs: "Several machines"):

      torchrun --nproc-per-node 4 -m rankfold recommend model.parts --for-file users.txt --json
    """
    from rankfold.cli.shared_out import recommended_by_all

    who = list(dict.fromkeys([*(who or []), *(whose.read_text("utf-8").splitlines() if whose else [])]))
    if not who:
        raise typer.BadParameter("give --for LABEL, or --for-file FILE of labels")
    speaks, fitted, recommended = recommended_by_all(model, who, count, seen, clip)
    if not speaks:
        return
    _, item = names_of(fitted)
    _tell_clipped(fitted, recommended)
    if json:
        keys = (item, "prediction")
        print_json({name: [dict(zip(keys, line, strict=True)) for line in recommended[name]] for name in who})
        return
    for name, lines in recommended.items():
        if not lines:
            fail(f"{name!r} has an entry in every column: --include-seen shows them")
        rows = [(visible(str(column), keep=""), f"{score:.4g}") for column, score in lines]
        print_table((visible(f"{item} for {name}", keep=""), "prediction"), rows)


def _tell_clipped(model: Any, recommended: dict[str, list[tuple[Any, float]]]) -> None:
    """Say what equal predictions mean, if a model that clips them shows some at the end of its range."""
    if not getattr(model, "clip", False):
        return
    low, high = model.value_range_
    if any(score in (low, high) for lines in recommended.values() for _, score in lines):
        note(
            f"rankfold: predictions beyond the range of the data, {low:g} to {high:g}, are shown as its end; "
            "their order is that before they were clipped"
        )
