"""`rankfold complete`: from a file of triples to a model, a plot and a report."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import join
from time import perf_counter
from typing import Annotated

import typer

from rankfold.cli import options
from rankfold.cli.console import check_writable, working
from rankfold.interrupts import Scope


def complete(
    triples: Annotated[
        list[str],
        typer.Argument(
            help="CSV, TSV, Parquet, Matrix Market or npz, also .gz; - for standard input. Several files of "
            "text, or of Parquet, are taken together."
        ),
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where the model goes.")] = None,
    rank: Annotated[str, typer.Option(help="Rank of the matrix: a number, or auto.")] = "auto",
    row: options.RowColumn = None,
    col: options.ColColumn = None,
    value: Annotated[
        str | None, typer.Option(help="Column with the value; by default named like rating, or the third.")
    ] = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = ".",
    header: options.Header = None,
    holdout: Annotated[
        str, typer.Option(help="What to measure the error on: a part of the entries, or a file like TRIPLES.")
    ] = "0",
    loss: options.Loss = "square",
    bias: Annotated[bool, typer.Option("--bias/--no-bias", help="Offsets of rows and columns.")] = True,
    regularization: Annotated[str, typer.Option(help="A number >= 0, or auto.")] = "auto",
    bayesian: Annotated[
        bool | None,
        typer.Option(
            "--bayesian/--no-bayesian",
            help="Finish the fit by variational Bayes; by default where regularization is auto.",
        ),
    ] = None,
    clip: options.Clip = False,
    duplicates: Annotated[
        str, typer.Option(help="Pairs that come twice: keep (each is an observation) or error.")
    ] = "keep",
    max_iter: Annotated[int, typer.Option(help="At most so many iterations.", min=1)] = 500,
    tol: Annotated[
        str, typer.Option(help="Stop when three iterations gain less than this part of the cost, or auto.")
    ] = "auto",
    row_features: Annotated[
        str | None,
        typer.Option(help="Features of rows: a table with a header, labels in its first column."),
    ] = None,
    col_features: Annotated[str | None, typer.Option(help="Features of columns, likewise.")] = None,
    seed: options.Seed = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the fit: .png, .svg or .pdf.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Save the run here every minute.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on from a checkpoint of the same command.")] = None,
    spill: Annotated[
        Path | None,
        typer.Option(
            help="Sort the entries into this folder, and fit from there: for more than memory holds."
        ),
    ] = None,
    memory: Annotated[
        str, typer.Option(help="With --spill: what sorting may take, beside labels and the program itself.")
    ] = "1GB",
    device: Annotated[str, typer.Option(help="Where the last fit runs: cpu, cuda or auto.")] = "cpu",
    parts: Annotated[
        bool,
        typer.Option(
            "--parts",
            help="With several processes: write a folder, to which each adds the model of its rows.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Complete a matrix from files of known entries: row, column, value.

    Example, from string labels to a model that is measured on a tenth of the entries:

      rankfold complete ratings.csv --row user --col film --value stars --holdout 0.1 -o model.rankfold

    More: --rank 10 takes a given rank, which is faster; --report report.html --plot fit.png show how it went.

      zcat ratings.csv.gz | rankfold complete - --rank 10 -o model.rankfold

    More entries than memory holds are sorted on disk first; a sort that was ended goes on when called again:

      rankfold complete 'big/*.parquet' --rank 10 --spill sorted -o model.rankfold

    Or they are read and fitted by several processes (docs: "Several machines"):

      torchrun --nproc-per-node 4 -m rankfold complete 'shards/*.parquet' --rank 10 -o model.rankfold

    Ctrl-C, or SIGTERM, ends the fit and keeps the best model so far; a second one ends at once.
    """
    with working("starting"):  # a sign of life: what the library is made of takes a while to load
        import rankfold as rf
        from rankfold.cli import completing, together
        from rankfold.report.figure import check_format
        from rankfold.run.stopping import StopKind

    spread = together.is_spread()
    if parts and not spread:
        raise typer.BadParameter("--parts is for several processes: let torchrun start them, or leave it out")
    # of several processes, a checkpoint is a folder, and so is a model in parts
    for path in (None if parts else output, report, plot, None if spread else checkpoint):
        check_writable(path)
    if plot is not None:
        check_format(plot)
    options.check_device(device)
    if duplicates not in ("keep", "error"):
        raise typer.BadParameter(f"--duplicates is keep or error, not {duplicates!r}")
    columns = options.column_of(row), options.column_of(col), options.column_of(value)
    held_out = options.part_or_file(holdout)
    given = options.files_of(triples, twice=spill is not None)
    unique, features = duplicates == "error", (row_features, col_features)
    source = completing.Source(
        given, columns, delimiter, header, held_out, unique, seed, decimal, spill, memory, *features
    )
    model = rf.MatrixCompletion(
        options.number_or_auto(rank, int, "--rank"),
        bias=bias,
        loss=loss,
        regularization=options.number_or_auto(regularization, float, "--regularization"),
        bayesian="auto" if bayesian is None else bayesian,
        clip=clip,
        max_iter=max_iter,
        tol=options.number_or_auto(tol, float, "--tol"),
        device=device,
        random_state=seed,
        verbose=1,
    )
    if spread:
        asked = {"output": output, "report": report, "plot": plot, "checkpoint": checkpoint}
        if together.complete(source, model, asked, resume, json, parts):
            raise KeyboardInterrupt(model.stop_reason_)
        return
    data = completing.read(source)
    with Scope() as scope:  # from the first iteration of the last fit on, a signal waits for the files
        found = completing.fit(data, model, checkpoint, resume, lambda progress: scope.keep())
        began = perf_counter()
        files = completing.write_model(found, output)  # before anything else can fail
        made = completing.report_of(
            data.train, data.held_out, found, source, join(["rankfold", *sys.argv[1:]])
        )
        files |= completing.write_pages(made, report, plot)
        seconds = {"read": data.seconds, "fit": found.seconds, "write": perf_counter() - began}
        (completing.tell_json if json else completing.tell)(found, made, seconds, files)
        signalled = scope.answer() or scope.received
    ended_early = StopKind(model.stop_kind_) is StopKind.INTERRUPTED
    if signalled or ended_early:
        kept = f"; the best model so far is in {output}" if output else "; give -o to keep the model"
        kept += f"; --resume {checkpoint} goes on" if checkpoint and checkpoint.exists() else ""
        raise KeyboardInterrupt(f"{model.stop_reason_ if ended_early else 'interrupted after the fit'}{kept}")
