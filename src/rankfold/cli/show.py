"""Commands that show what rankfold does: demo, bench, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankfold.cli.console import (
    check_installed,
    check_writable,
    print_json,
    print_table,
    program,
    say,
    working,
)
from rankfold.cli.options import Json


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The picture, .png; report and data get the same name.")
    ] = Path("demo.png"),
    seed: Annotated[int, typer.Option(help="Seed of the choice of known pixels.")] = 0,
    json: Json = False,
) -> None:
    """Complete a picture of which four pixels of five are missing: a table, the picture and a report.

    Example: rankfold demo -o picture.png
    """
    from rankfold.cli import demo as demonstration
    from rankfold.cli.cloth import RANK

    check_writable(output)
    demonstration.check_format(output)
    with working("completing a picture"):
        found = demonstration.run(seed)
    files = demonstration.write(found, output, f"rankfold demo -o {output} --seed {seed}")
    d1, d2 = found.known.shape
    if json:
        print_json({"shape": (d1, d2), "known": found.known.sum(), "rank": RANK,
                    "seconds": found.seconds, "iterations": found.result.iterations, "errors": found.errors,
                    "files": files})  # fmt: skip
        return
    say(
        f"A picture of {d1} × {d2} pixels, {found.known.sum():,} of {found.known.size:,} known "
        f"({demonstration.KNOWN:.0%}), completed at rank {RANK} in {found.seconds:.1f} s "
        f"({found.result.iterations} iterations, compilation included)."
    )
    rows = [(name, f"{error:.3g}") for name, error in found.errors.items()]
    print_table(("unknown pixels predicted by", "error (RMSE), in levels of 255"), rows)
    _, report, data = files
    say(
        f"The picture is in {output}, the report in {report}, the known pixels in {data}.\n\n"
        "Try next, with these pixels or with a CSV of your own:\n"
        f"  {program()} complete {data} --rank {RANK} --holdout 0.1 --report report.html "
        "-o model.rankfold\n"
        f"  {program()} predict model.rankfold {data} | head"
    )


def bench(
    size: Annotated[int, typer.Option(help="Rows and columns of the matrix.", min=50)] = 4000,
    rank: Annotated[int, typer.Option(help="Its rank.", min=1)] = 5,
    oversampling: Annotated[
        float, typer.Option(help="Known entries over degrees of freedom.", min=1.0)
    ] = 8.0,
    seed: Annotated[int, typer.Option(help="Seed of the matrix and its known entries.")] = 0,
    json: Json = False,
) -> None:
    """Time rankfold beside other methods on a matrix of known rank, on this machine.

    The others are the published LMaFit and the paper's gradient descent, which come with rankfold. The
    repository compares with other packages: make bench.

    Example: rankfold bench --size 10000
    """
    from rankfold.cli.bench import compare

    runs = compare((size, size), rank, oversampling, seed)
    if json:
        print_json({"shape": (size, size), "rank": rank, "oversampling": oversampling, "seed": seed,
                    "methods": [run._asdict() for run in runs]})  # fmt: skip
        return
    rows = [
        (name, f"{seconds:.2f}", f"{seconds / runs[0].seconds:.1f} ×", f"{iterations}", f"{error:.0e}")
        for name, seconds, iterations, error in runs
    ]
    columns = ("method", "seconds", "of the first", "iterations", "relative error of W")
    print_table(columns, rows, f"{size} × {size}, rank {rank}, oversampling {oversampling:g}")


def reproduce(
    figure: Annotated[
        str,
        typer.Argument(
            help="step-issue, gh, polar-vs-svd, ubv-svp, uy-metric, uy-rtrmc, quotient-vs-embedded or all."
        ),
    ],
    scale: Annotated[str, typer.Option(help="paper: minutes; small: seconds.")] = "small",
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where plots, traces and claims go; the report is OUTPUT.md."),
    ] = Path("reproduction"),
    seed: Annotated[int, typer.Option(help="Seed of the first instance.")] = 0,
    seeds: Annotated[int | None, typer.Option(help="How many instances; 5 if not given.")] = None,
    jobs: Annotated[int, typer.Option(help="How many processes, of one thread each.")] = 1,
    start: Annotated[
        str, typer.Option(help="scaled: the SVD of the zero-filled data times d1·d2/|Ω|; plain: as it is.")
    ] = "scaled",
    armijo: Annotated[float, typer.Option(help="Armijo's constant of the gradient descents.")] = 0.25,
) -> None:
    """Reproduce a figure of the paper: plot, traces, and each claim next to what was measured.

    Example: rankfold reproduce gh --scale paper --start plain --armijo 1e-4
    """
    from rankfold.experiments.reproduce import reproduce as run
    from rankfold.experiments.running import Setting

    check_installed("matplotlib")
    try:
        setting = Setting(start, armijo)
        report = run(figure, scale, output, seed=seed, seeds=seeds, jobs=jobs, setting=setting, show=say)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    say(f"The report is in {report}.")
