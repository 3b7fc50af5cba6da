"""A report as one HTML file: style and charts inside, no scripts, nothing fetched, readable on a phone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

import numpy as np

from rankfold._version import __version__
from rankfold.atomic import replace_text
from rankfold.report import charts
from rankfold.report.content import DataSummary, Integers, Report

RESIDUAL_BARS = 41  # odd, so that one is centred at 0
# Whatever a label might smuggle in, browsers run no script of this page and fetch nothing for it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
SPREAD = 4.0  # standard deviations of the residuals that are drawn


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the report to `path`, which appears only once it is complete."""
    replace_text(path, render(report))


def render(report: Report) -> str:
    """Return the page as text."""
    title = f"{report.data.source}, completed at rank {report.rank}"
    style = files("rankfold.report").joinpath("style.css").read_text("utf-8")
    again = f"<p>This command makes the same report again:</p><pre>{escape(report.command)}</pre>"
    body = [
        f"<h1>{escape(title)}</h1>",
        _cards(report),
        _quality(report),
        _data(report.data),
        _fit(report),
        _section("Settings", f"{_table(report.settings.items())}{again}"),
        f"<footer>Written by rankfold {__version__}.</footer>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<link rel="icon" href="data:,">\n'  # or the browser would ask for one
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _cards(report: Report) -> str:
    d1, d2 = report.data.shape
    cards = [
        ("matrix", f"{d1:,} × {d2:,}"),
        ("known entries", f"{report.data.entries:,} ({percent(report.data.density)})"),
        ("fit", f"{report.trace[-1].iteration} iterations, {report.seconds:.2g} s"),
    ]
    if report.errors:
        cards.insert(0, ("held-out error (RMSE)", f"{[*report.errors.values()][-1]:.4g}"))
    items = (f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in cards)
    return f'<dl class="cards">{"".join(items)}</dl>'


def _quality(report: Report) -> str:
    if not report.errors:
        return _section("How good is it?", "<p>Nobody can tell: no entries were held out.</p>")
    *others, (_, ours) = report.errors.items()
    lines = [
        f"{percent(1 - ours / error)} below {escape(name)}" if ours <= error
        else f"{percent(ours / error - 1)} <strong>above</strong> {escape(name)}"
        for name, error in others if error > 0
    ]  # fmt: skip
    sentence = f"On {report.held_out:,} entries that the fit never saw, its error is {ours:.4g}"
    words = f"<p>{sentence}{': ' if lines else ''}{', '.join(lines)}.</p>"
    drawn = [_figure(charts.bars([*report.errors.items()]), "Root-mean-square error on held-out entries")]
    if len(report.ranks) > 1:
        ranks, errors = zip(*report.ranks, strict=True)
        path = charts.line(ranks, errors, "rank", "error", mark=ranks.index(report.rank))
        caption = f"Mean loss of entries held out to choose the rank; {report.rank} was chosen"
        drawn.append(_figure(path, caption))
    if report.coverage:
        words += f"<p>{_calibration(report.coverage)}</p>"
        promised, found = zip(*report.coverage, strict=True)
        chart = charts.line(promised, found, "promised", "held", mark=_nearest(promised, 0.9))
        drawn.append(_figure(chart, "Part of the held-out entries in intervals, by the part they promise"))
    return _section("How good is it?", words + _grid(*drawn))


def _calibration(coverage: tuple[tuple[float, float], ...]) -> str:
    """Say whether intervals hold what they promise."""
    promised, found = coverage[_nearest([part for part, _ in coverage], 0.9)]
    return f"Intervals that are to hold {percent(promised)} of the entries hold {percent(found)} of these."


def _nearest(numbers: Sequence[float], wanted: float) -> int:
    return min(range(len(numbers)), key=lambda k: abs(numbers[k] - wanted))


def _data(data: DataSummary) -> str:
    facts = [
        ("rows", _counts(data.row_counts)),
        ("columns", _counts(data.col_counts)),
        ("values", f"{data.least:.4g} to {data.largest:.4g}, mean {data.mean:.4g} ± {data.deviation:.3g}"),
    ]
    drawn = []
    for name, counts in (("row", data.row_counts), ("column", data.col_counts)):
        edges, heights, log = charts.bins(counts)
        chart = charts.histogram(edges, heights, f"entries in the {name}", f"{name}s", log)
        drawn.append(_figure(chart, f"Number of {name}s by their number of entries"))
    return _section("The data", _table(facts) + _grid(*drawn))


def _counts(counts: Integers) -> str:
    empty = int(np.count_nonzero(counts == 0))
    words = f"{len(counts):,}; entries in each: median {np.median(counts):g}, at most {counts.max():,}"
    return f"{words}; {empty:,} have none" if empty else words


def _fit(report: Report) -> str:
    reach = SPREAD * float(np.std(report.residuals)) or 1.0
    edges = np.linspace(-reach, reach, RESIDUAL_BARS + 1)
    counts, _ = np.histogram(np.clip(report.residuals, -reach, reach), edges)
    whose = "held-out" if report.errors else "fitted"
    cost = charts.line(report.trace["iteration"], report.trace["value"], "iteration", "cost")
    values = charts.spectrum(report.singular_values, "k-th largest", "singular value")
    bars = charts.histogram(edges, counts, "value − prediction", "entries")
    caption = f"Residuals of {len(report.residuals):,} {whose} entries; the end bars hold all beyond them"
    figures = (
        _figure(cost, "Cost after each iteration"),
        _figure(values, "Singular values of the completed matrix, offsets not included"),
        _figure(bars, caption),
    )
    return _section("The fit", _grid(*figures))


def percent(part: float) -> str:
    """Write a part of a whole with two digits.

    Examples
    --------
    >>> percent(0.0169), percent(0.5), percent(1.0), percent(2e-7)
    ('1.7%', '50%', '100%', '2e-05%')
    """
    return f"{100 * part:.2g}%" if part < 0.995 else f"{100 * part:.0f}%"


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{content}\n</section>"


def _grid(*figures: str) -> str:
    return f'<div class="grid">{"".join(figures)}</div>'


def _figure(chart: str, caption: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{chart}</figure>"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{''.join(cells)}</table>"
