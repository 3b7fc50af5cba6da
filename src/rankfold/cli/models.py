"""Commands about model files: info and export; and loading them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rankfold.cli.console import check_writable, print_json, print_table
from rankfold.cli.labels import visible
from rankfold.cli.options import EscapeFormulas, Json, ModelFile


def of_pairs(model: Any, path: Path) -> Any:
    """Return a model that `complete` or `clicks` wrote, or refuse another one."""
    import rankfold as rf

    if not isinstance(model, (rf.MatrixCompletion, rf.ImplicitFeedback)):
        raise ValueError(
            f"{path} holds a {type(model).__name__}: this command needs a model of `rankfold complete` or "
            "`rankfold clicks`"
        )
    return model


def clipping(model: Any, clip: bool, path: Path) -> Any:
    """Return a model that clips its predictions if that is asked for, here or when it was fitted."""
    if clip and getattr(model, "value_range_", None) is None:
        raise ValueError(
            f"{path} does not know the range of its data: --clip is for models of `rankfold complete` of "
            "this version; fit it again"
        )
    return model.set_params(clip=True) if clip else model


def names_of(model: Any) -> tuple[str, str]:
    """Return what the file that a model was fitted to calls rows and columns."""
    row, col = getattr(model, "feature_names_in_", ("row", "column"))
    return str(row), str(col)


def written(labels: Any) -> list[Any]:
    """Return labels as they are shown: integers and strings as they are, times as text."""
    return list(map(str, labels)) if labels.dtype.kind == "M" else list(labels.tolist())


def info(model: ModelFile, json: Json = False) -> None:
    """Say what a model file holds.

    Example: rankfold info model.rankfold
    """
    import rankfold as rf

    facts = _facts(rf.load(model))
    if json:
        print_json({"file": model, **facts})
    else:
        rows = [(name.replace("_", " "), _text(value)) for name, value in facts.items()]
        print_table(("", visible(str(model), keep="")), rows, numbers=False)


FACTS = ("shape", "rank", "regularization", "n_iter", "converged", "stop_reason", "data_fingerprint")


def _facts(model: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"model": type(model).__name__}
    facts |= {name: getattr(model, f"{name}_") for name in FACTS if hasattr(model, f"{name}_")}
    if hasattr(model, "observed_"):
        facts["entries"] = len(model.observed_.indices)
    if hasattr(model, "biases_"):
        facts["mean"] = float(model.biases_[0])
    for names in ("row_labels_", "col_labels_", "feature_names_in_", "target_names_"):
        labels = getattr(model, names, None)
        if labels is not None:
            facts[names.removesuffix("_")] = written(labels[:3])
    settings = model.get_params().items()
    return facts | {"settings": {k: value for k, value in settings if isinstance(value, str | float | int)}}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name}={part!r}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(visible(str(part), keep="") for part in value) + ", ..."
    if isinstance(value, tuple):
        return " × ".join(f"{part:,}" for part in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def export(
    model: ModelFile,
    format: Annotated[
        str | None, typer.Option(help="parquet, npz or csv; by default what OUTPUT's name says.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where the factors go; - for standard output.")
    ] = "-",
    escape_formulas: EscapeFormulas = False,
) -> None:
    """Write the factors of a model for other programs.

    csv and parquet hold a line for each row and column of the matrix: side, label, offset, factor_1, ... An
    entry is predicted by the offsets of its row and of its column plus the product of their factors. (For a
    logistic or Poisson loss, that is the logit or the logarithm.) npz holds arrays: L, R, mean, row_offsets,
    col_offsets, row_labels, col_labels.

    Example: rankfold export model.rankfold --format csv -o factors.csv
    """
    import rankfold as rf
    from rankfold.cli.table_files import write_factors
    from rankfold.data.io.files import format_of

    check_writable(output)
    fitted = of_pairs(rf.load(model), model)
    kind = format or format_of(output, None)
    if kind not in ("parquet", "npz", "csv"):
        raise typer.BadParameter(f"--format is parquet, npz or csv, not {kind!r}")
    write_factors(fitted, output, kind, escape_formulas)
