"""`rankfold complete`: from a file of triples to a model, a plot and a report."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankfold.cli.console import INTERRUPTED, check_writable, fail, note, print_json, print_table
from rankfold.cli.options import (
    ColColumn,
    Delimiter,
    Header,
    Json,
    RowColumn,
    Seed,
    column_of,
    number_or_auto,
)

if TYPE_CHECKING:
    from rankfold.report import Report


def complete(
    triples: Annotated[
        str, typer.Argument(help="CSV, TSV, Parquet, Matrix Market or npz, also .gz; - for standard input.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where the model goes.")] = None,
    rank: Annotated[str, typer.Option(help="Of the matrix: a number, or auto.")] = "5",
    row: RowColumn = "0",
    col: ColColumn = "1",
    value: Annotated[str, typer.Option(help="Column with the value.")] = "2",
    delimiter: Delimiter = None,
    header: Header = None,
    test: Annotated[str | None, typer.Option(help="A file like TRIPLES, to measure the error on.")] = None,
    holdout: Annotated[
        float, typer.Option(help="The part of the entries to hold out and measure on.", min=0.0, max=0.9)
    ] = 0.0,
    loss: Annotated[
        str, typer.Option(help="square, huber, logistic (0 or 1) or poisson (counts).")
    ] = "square",
    bias: Annotated[bool, typer.Option("--bias/--no-bias", help="Offsets of rows and columns.")] = True,
    regularization: Annotated[str, typer.Option(help="A number >= 0, or auto.")] = "auto",
    duplicates: Annotated[
        str, typer.Option(help="Pairs that come twice: keep (each is an observation) or error.")
    ] = "keep",
    max_iterations: Annotated[int, typer.Option(help="At most so many iterations.", min=1)] = 500,
    tolerance: Annotated[
        float, typer.Option(help="Stop when three iterations gain less than this part of the cost.")
    ] = 1e-4,
    seed: Seed = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the fit: .png, .svg or .pdf.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Save the run here every minute.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on from a checkpoint of the same command.")] = None,
    json: Json = False,
) -> None:
    """Complete a matrix from a file of known entries: row, column, value.

    Example, from string labels to a model that is measured on a tenth of the entries:

      rankfold complete ratings.csv --row user --col film --value stars --holdout 0.1 -o model.rankfold

    More: --rank auto chooses the rank; --report report.html --plot fit.png show how it went.

      zcat ratings.csv.gz | rankfold complete - --rank 10 -o model.rankfold

    Ctrl-C ends the fit and keeps the best model so far.
    """
    from rankfold.cli.fitting import Job

    for path in (output, plot, report, checkpoint):
        check_writable(path)
    if plot is not None:
        from rankfold.report.figure import check_format

        check_format(plot)
    if test is not None and holdout:
        raise typer.BadParameter("give --test or --holdout, not both")
    if duplicates not in ("keep", "error"):
        raise typer.BadParameter(f"--duplicates is keep or error, not {duplicates!r}")
    job = Job.read(
        triples,
        {"columns": tuple(map(column_of, (row, col, value))), "delimiter": delimiter, "header": header},
        test,
        holdout,
        seed,
        unique=duplicates == "error",
    )
    job.fit(
        {"rank": number_or_auto(rank, int, "--rank"), "bias": bias, "loss": loss, "tol": tolerance,
         "regularization": number_or_auto(regularization, float, "--regularization"),
         "max_iter": max_iterations, "random_state": seed, "verbose": 1},
        checkpoint=checkpoint, resume=resume,
    )  # fmt: skip
    began = perf_counter()
    if output is not None:
        job.save(output)
    made = job.report(_command())
    if report is not None:
        from rankfold.report import write_report

        write_report(made, report)
    if plot is not None:
        from rankfold.report.figure import draw

        draw(made, plot)
    job.seconds["write"] = perf_counter() - began
    _tell(job, made, {"model": output, "report": report, "plot": plot}, json)
    if job.interrupted:
        kept = f"; the best model so far is in {output}" if output else "; give -o to keep the model"
        fail(f"{job.model.stop_reason_}{kept}", INTERRUPTED)


def _command() -> str:
    from shlex import join

    return join(["rankfold", *sys.argv[1:]])


def _tell(job: Any, report: Report, files: dict[str, Path | None], json: bool) -> None:
    model, written = job.model, {name: path for name, path in files.items() if path is not None}
    last = model.trace_[-1]
    if json:
        print_json({
            "shape": report.data.shape, "entries": report.data.entries, "held_out": report.held_out,
            "rank": model.rank_, "regularization": model.regularization_, "iterations": last.iteration,
            "converged": model.converged_, "stop_reason": model.stop_reason_, "cost": last.value,
            "errors": report.errors, "duplicates": job.repeated, "seconds": job.seconds, "files": written,
        })  # fmt: skip
        return
    d1, d2 = report.data.shape
    typer.echo(
        f"{report.data.entries:,} entries of a {d1:,} × {d2:,} matrix, completed at rank {model.rank_} in "
        f"{job.seconds['fit']:.1f} s ({last.iteration} iterations; {model.stop_reason_})."
    )
    if report.errors:
        rows = [(name, f"{error:.4g}") for name, error in report.errors.items()]
        print_table((f"{report.held_out:,} held-out entries predicted by", "error (RMSE)"), rows)
    for name, path in written.items():
        typer.echo(f"The {name} is in {path}.")
    if not report.errors:
        note("To see how good it is, add --holdout 0.1, or --test FILE.")
    if "model" not in written:
        note("The model was not kept: add -o model.rankfold to use it with `rankfold predict`.")
