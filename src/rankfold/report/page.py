"""A report as one HTML file: style and charts inside, no scripts, nothing fetched, readable on a phone."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

import numpy as np

from rankfold._version import __version__
from rankfold.atomic import replace_text
from rankfold.report import charts
from rankfold.report.content import Picture, Report, Tried
from rankfold.report.data import Columns, DataSummary, Integers

RESIDUAL_BARS = 41  # odd, so that one is centred at 0
# Whatever a label might smuggle in, browsers run no script of this page and fetch nothing for it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
SPREAD = 4.0  # standard deviations of the residuals that are drawn
TELLING = 1.2  # a cost that falls by less than this factor makes a chart that says nothing
_LOOKED_FOR = ("pairs that come twice", "rows and columns with fewer entries than the rank")
_AMONG_VALUES = ("constant rows and columns", "values far out")


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
        _pictures(report.pictures),
        _quality(report),
        _data(report.data, report.rank),
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
        ("fit", f"{report.trace[-1].iteration} iterations, {report.seconds:.2g}\u00a0s"),  # on one line
    ]
    if report.errors:
        cards.insert(0, ("held-out error (RMSE)", f"{[*report.errors.values()][-1]:.4g}"))
    items = (f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in cards)
    return f'<dl class="cards">{"".join(items)}</dl>'


def _pictures(pictures: Sequence[Picture]) -> str:
    """Show pictures beside each other, as a part of the page: nothing is fetched."""
    shown = (
        f"<figure><figcaption>{escape(picture.caption)}</figcaption>"
        f'<img alt="{escape(picture.caption)}" src="data:image/png;base64,'
        f'{b64encode(picture.content).decode("ascii")}"></figure>'
        for picture in pictures
    )
    return f'<div class="pictures">{"".join(shown)}</div>' if pictures else ""


def _quality(report: Report) -> str:
    unit = f" ({report.data.unit})" if report.data.columns else ""
    drawn = [
        *_choice(report.ranks, "rank", unit, f"the rank: {report.rank} was chosen"),
        *_choice(report.weights, "weight λ of the penalty", unit, "the weight of the penalty", log=True),
    ]
    if not report.errors:
        words = f"<p>Nobody can tell: no entries were held out.</p>{_calibration(report)}"
        return _section("How good is it?", words + _grid(*_calibration_chart(report), *drawn))
    *others, (_, ours) = report.errors.items()
    lines = [
        f"{percent(1 - ours / error)} below {escape(name)}" if ours <= error
        else f"{percent(ours / error - 1)} <strong>above</strong> {escape(name)}"
        for name, error in others if error > 0
    ]  # fmt: skip
    sentence = f"On {report.held_out:,} entries that the fit never saw, its error is {ours:.4g}"
    words = f"<p>{sentence}{': ' if lines else ''}{', '.join(lines)}.</p>"
    caption = f"Root-mean-square error on held-out entries{unit}"
    first = [_figure(charts.bars([*report.errors.items()]), caption)]
    if report.values.size:
        predicted, name = report.values - report.residuals, report.data.unit
        chart = charts.density(report.values, predicted, f"true {name}", f"predicted {name}")
        caption = "Predicted against true, of held-out entries: the darker the more; dashed if equal"
        first.append(_figure(chart, caption))
    words += _calibration(report)
    return _section("How good is it?", words + _grid(*first, *_calibration_chart(report), *drawn))


def _choice(choice: Tried | None, name: str, unit: str, of: str, log: bool = False) -> list[str]:
    """Draw what a choice was made from, if there was one among several; `unit` is that of the values."""
    if choice is None or len(choice.candidates) < 2:
        return []
    chosen = "" if not log else f": {choice.chosen:.4g} was chosen"
    caption = f"Error on entries held out to choose {of}{chosen}"
    caption += "; bars are standard errors" if choice.bars else ""
    caption += "; the best were tried with the Bayesian finish too" if choice.finished else ""
    error = choice.unit + (unit if choice.square else "")
    return [_figure(charts.tried(choice, name, error, log), caption)]


def _calibration(report: Report) -> str:
    """Say whether intervals hold what they promise: of entries held out, or of those of the fit itself."""
    if not report.coverage:
        return ""
    promised, found = report.coverage[_nearest([part for part, _ in report.coverage], 0.9)]
    said = f"Intervals that are to hold {percent(promised)} of the entries hold {percent(found)} of these."
    if not report.errors:
        said = (
            f"Of {report.calibrated:,} entries that the fit held out for a while, intervals that are to hold "
            f"{percent(promised)} held {percent(found)}: their errors have put intervals right since."
        )
    return f"<p>{said}</p>"


def _calibration_chart(report: Report) -> list[str]:
    if not report.coverage:
        return []
    promised, found = zip(*report.coverage, strict=True)
    chart = charts.calibration(promised, found, "part that intervals promise", "part that they hold")
    when = "" if report.errors else ", before they were put right"
    return [
        _figure(chart, f"Calibration: how many held-out entries lie in intervals, by what they promise{when}")
    ]


def _nearest(numbers: Sequence[float], wanted: float) -> int:
    return min(range(len(numbers)), key=lambda k: abs(numbers[k] - wanted))


def _data(data: DataSummary, rank: int) -> str:
    names = data.columns or Columns()
    facts = [
        *([("columns used", f"{names.row} × {names.col} → {names.value}")] if data.columns else []),
        ("rows", _counts(data.row_counts)),
        ("columns", _counts(data.col_counts)),
        ("values", _spread(data)),
    ]
    drawn = []
    for name, called, counts in (("row", names.row, data.row_counts), ("column", names.col, data.col_counts)):
        edges, heights, log = charts.bins(counts)
        chart = charts.histogram(edges, heights, f"entries of a {name}", f"{name}s", log)
        beside = "" if called == name else f" ({called})"
        drawn.append(_figure(chart, f"Number of {name}s{beside} by their number of entries"))
    return _section("The data", _table(facts)) + _section(
        "Problems in the data", _found(data, rank) + _grid(*drawn)
    )


def _spread(data: DataSummary) -> str:
    """Say what is known of the values: a model that was read from a file knows their range at most."""
    parts = []
    if np.isfinite(data.least):
        parts.append(f"{data.least:.4g} to {data.largest:.4g}")
    if np.isfinite(data.mean):
        parts.append(f"mean {data.mean:.4g} ± {data.deviation:.3g}")
    return ", ".join(parts) or "not kept with the model"


def _found(data: DataSummary, rank: int) -> str:
    """List the problems found, or what was looked for; and say what was not."""
    problems = data.problems(rank)
    looked = _LOOKED_FOR + (_AMONG_VALUES if data.searched else ())
    words = f"<p>None found. Looked for: {', '.join(looked)}.</p>"
    if problems:
        listed = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
        words = f'<ul class="problems">{listed}</ul>'
    return words if data.searched else f"{words}<p>Not looked for: {' and '.join(_AMONG_VALUES)}.</p>"


def _counts(counts: Integers) -> str:
    empty = int(np.count_nonzero(counts == 0))
    words = f"{len(counts):,}; entries in each: median {np.median(counts):g}, at most {counts.max():,}"
    return f"{words}; {empty:,} have none" if empty else words


def _fit(report: Report) -> str:
    words, drawn = _course(report)
    values = charts.spectrum(report.singular_values, "k-th largest", "singular value")
    drawn.append(_figure(values, "Singular values of the completed matrix, offsets not included"))
    if report.residuals.size:
        drawn.append(_residuals(report))
    return _section("The fit", words + _grid(*drawn))


def _residuals(report: Report) -> str:
    reach = SPREAD * float(np.std(report.residuals)) or 1.0
    edges = np.linspace(-reach, reach, RESIDUAL_BARS + 1)
    counts, _ = np.histogram(np.clip(report.residuals, -reach, reach), edges)
    whose = "held-out" if report.errors else "fitted"
    bars = charts.histogram(edges, counts, f"{report.data.unit} − prediction", "entries")
    caption = f"Residuals of {len(report.residuals):,} {whose} entries; the end bars hold all beyond them"
    return _figure(bars, caption)


def _course(report: Report) -> tuple[str, list[str]]:
    """Say how the cost fell, or draw it where that says more."""
    iterations, costs = report.trace["iteration"], report.trace["value"]
    if costs[0] > TELLING * costs[-1] and len(costs) > 1:
        chart = charts.line(iterations, costs, "iteration", "cost")
        return "", [_figure(chart, "Cost after each iteration")]
    steps = f"{iterations[-1]:,} iteration{'' if iterations[-1] == 1 else 's'}"
    went = f"its cost went from {costs[0]:.5g} to {costs[-1]:.5g} in {steps}"
    return f"<p>The last fit began close to its end: {went}.</p>", []


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
