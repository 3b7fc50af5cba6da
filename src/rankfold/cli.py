"""The command line. Heavy imports wait inside the commands, so that `--help` answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Optimisation over low-rank matrices: matrix completion and more.", no_args_is_help=True
)


@app.callback()
def main() -> None:
    """Optimisation over low-rank matrices: matrix completion and more."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("demo.png"),
    seed: Annotated[int, typer.Option(help="Of the random choice of known pixels.")] = 0,
) -> None:
    """Complete a photograph of which a third of the pixels are known: a table and a picture.

    Example: rankfold demo --out picture.png
    """
    from rich.console import Console
    from rich.table import Table

    from rankfold import demo as demonstration

    found = demonstration.run(seed)
    d1, d2 = found.picture.shape
    console = Console()
    console.print(
        f"A {d1} × {d2} photograph, {found.known.sum():,} of its {found.known.size:,} pixels known, "
        f"completed at rank {demonstration.RANK} in {found.seconds:.2f} s "
        f"({found.result.iterations} iterations, compilation included)."
    )
    table = Table("unknown pixels predicted by", "error (grey levels of 255)")
    table.columns[1].justify = "right"
    for name, error in found.errors.items():
        table.add_row(name, f"{error:.1f}")
    console.print(table)
    demonstration.plot(found, out)
    console.print(f"The picture is in {out}.")


@app.command()
def reproduce(
    figure: Annotated[
        str,
        typer.Argument(
            help="step-issue, gh, polar-vs-svd, ubv-svp, uy-metric, uy-rtrmc, quotient-vs-embedded or all."
        ),
    ],
    scale: Annotated[str, typer.Option(help="paper: minutes; small: seconds.")] = "small",
    out: Annotated[
        Path, typer.Option(help="Where plots, traces and claims go; the report is OUT.md.")
    ] = Path("reproduction"),
    seed: Annotated[int, typer.Option(help="Of the first instance.")] = 0,
) -> None:
    """Reproduce a figure of the paper: plot, traces, and each claim next to what was measured.

    Example: rankfold reproduce gh --scale paper
    """
    from rankfold.experiments.reproduce import reproduce as run

    try:
        report = run(figure, scale, out, seed, typer.echo)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(f"The report is in {report}.")


if __name__ == "__main__":
    app()
