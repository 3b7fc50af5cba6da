"""What the file of a completion model may hold of features, of how sure it is, and of what entries said."""

from __future__ import annotations

from typing import Any

from rankfold.estimators.completion.bayes.beliefs import Prior
from rankfold.estimators.completion.bayes.calibration import Calibration
from rankfold.estimators.completion.bayes.posterior import Posterior
from rankfold.estimators.completion.side.learnt import LearntFeatures
from rankfold.estimators.completion.side.tables import Encoding
from rankfold.estimators.completion.side.traits import Traits
from rankfold.estimators.completion.streaming import Information
from rankfold.estimators.schema_rules import (
    Rule,
    Sizes,
    each,
    kind,
    many,
    names,
    number,
    optional,
    reals,
    record,
)

_COUNT = number(1, whole=True)


def learnt_features(lines: str) -> Rule:
    """What was learnt from the features of the lines of this name."""
    inputs, features, traits = (f"{what} of {lines}" for what in ("inputs", "features", "traits"))

    def categories(value: Any, where: str, sizes: Sizes) -> None:
        # How many there are differs from column to column.
        names(f"categories of {where}")(value, where, sizes)

    encoding = record(
        Encoding, names=optional(many(kind("a string", str), inputs)),
        categories=optional(many(optional(categories), inputs)), width=_COUNT,
    )  # fmt: skip
    whole = record(
        LearntFeatures,
        traits=record(Traits, encoding=encoding, centre=reals(features), basis=reals(features, traits)),
        coefficients=reals(f"{traits}+1", "expected"), expected=reals(lines, "expected"),
        unseen=reals("expected"),
    )  # fmt: skip

    def rule(value: Any, where: str, sizes: Sizes) -> None:
        whole(value, where, sizes)
        encoding, due = value.traits.encoding, sizes[features]
        known = encoding.categories or (None,) * encoding.width
        if sizes.get(inputs, encoding.width) != encoding.width or len(known) != encoding.width:
            raise ValueError(f"{where} has {encoding.width} inputs, and names or categories of others")
        if sum(1 if each is None else each.size for each in known) != due:
            raise ValueError(f"{where} makes other numbers of its inputs than {due} features")
        if sizes["expected"] - sizes["rank"] not in (0, 1):
            raise ValueError(f"{where} expects {sizes['expected']} numbers of a line of rank {sizes['rank']}")

    return rule


_INFORMATION = record(
    Information, rows=reals("rows", "sums"), cols=reals("columns", "sums"), row_weights=reals("rows"),
    col_weights=reals("columns"),
)  # fmt: skip


def information(value: Any, where: str, sizes: Sizes) -> None:
    """What entries say of lines: triangles of factors of the rank and, or not, of offsets."""
    _INFORMATION(value, where, sizes)
    due = [d * (d + 1) // 2 for d in (sizes["rank"], sizes["rank"] + 1)]
    if sizes["sums"] not in due:
        raise ValueError(f"{where} has triangles of {sizes['sums']} numbers at rank {sizes['rank']}")


_PRIOR = record(
    Prior, mean=reals("unknowns"), slope=reals("unknowns"), covariance=reals("unknowns", "unknowns"),
    least=number(),
)  # fmt: skip
_POSTERIOR = record(
    Posterior, rows=reals("rows", "triangle"), cols=reals("columns", "triangle"), priors=each(_PRIOR, _PRIOR),
    noise=number(0), sweeps=number(0, whole=True),
    calibration=optional(
        record(Calibration, scale=number(0), scores=reals("scores"), held_out=number(0, whole=True))
    ),
)  # fmt: skip


def posterior(value: Any, where: str, sizes: Sizes) -> None:
    """A posterior of factors of the rank and, or not, of offsets."""
    _POSTERIOR(value, where, sizes)
    d = sizes["unknowns"]
    if d - sizes["rank"] not in (0, 1) or sizes["triangle"] != d * (d + 1) // 2:
        raise ValueError(f"{where} has {d} unknowns and triangles of {sizes['triangle']} numbers")
