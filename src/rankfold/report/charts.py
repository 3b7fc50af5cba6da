"""Small charts as SVG text: no plotting package, crisp at any size, colours from the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankfold.report.axis import ChartAxis, tick_text
from rankfold.report.content import Tried

WIDTH, HEIGHT = 360, 236  # at about this width a phone shows a chart, and its text is readable there
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 28, 40
BAR = 46  # height of a horizontal bar with its name
CELLS, SHADES = 36, 6  # of a density, along each axis and from few points to many
MOST_DOTS = 40  # more points run together to a line

Floats = NDArray[np.float64]


def line(x: ArrayLike, y: ArrayLike, x_title: str, y_title: str) -> str:
    """Draw y over x, a point each; the y axis is logarithmic where y > 0 spans much."""
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    across, up = ChartAxis.around(xs.min(), xs.max()), _room(ys.min(), ys.max())
    return _framed(across, up, x_title, y_title, _joined(_places(across, up, xs, ys)), integers=True)


def tried(choice: Tried, x_title: str, y_title: str, log: bool = False) -> str:
    """Draw the error of every candidate with its standard error, and mark the one chosen.

    On a logarithmic axis a candidate that is 0 stands left of all others.
    """
    xs, ys = np.asarray(choice.candidates, dtype=np.float64), np.asarray(choice.errors)
    bars = np.asarray(choice.bars) if choice.bars else np.zeros(len(ys))
    nothing = float(xs[xs > 0].min(initial=1.0)) / 3 if log and (xs == 0).any() else None
    places = xs if nothing is None else np.where(xs == 0, nothing, xs)
    order = np.argsort(places, kind="stable")
    across = ChartAxis.around(places.min(), places.max(), log)
    up = _room(float((ys - bars).min()), float((ys + bars).max()))
    marks = "".join(
        f'<path class="whisker" d="M{_x(across(a)):.1f} {_y(up(b - bar)):.1f}V{_y(up(b + bar)):.1f}"/>'
        for a, b, bar in zip(places, ys, bars, strict=True)
        if bar
    )
    points = _places(across, up, places[order], ys[order])
    a, b = points[[*order].index(choice.candidates.index(choice.chosen))]
    marks += f'{_joined(points)}<circle class="ring" cx="{a:.1f}" cy="{b:.1f}" r="7"/>'
    return _framed(across, up, x_title, y_title, marks, integers=not log, zero=nothing)


def calibration(promised: ArrayLike, found: ArrayLike, x_title: str, y_title: str) -> str:
    """Draw what was found over what was promised, beside the line on which they are equal."""
    xs, ys = np.asarray(promised, dtype=np.float64), np.asarray(found, dtype=np.float64)
    low = float(min(xs.min(), ys.min())) - 0.05
    axis = ChartAxis(low, 1.0)
    marks = _diagonal() + _joined(_places(axis, axis, xs, ys))
    return _framed(axis, axis, x_title, y_title, marks)


def density(x: ArrayLike, y: ArrayLike, x_title: str, y_title: str) -> str:
    """Draw where points (x, y) lie, the darker the more, and the line on which x = y, but for 1% of all."""
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    low, high = (float(end) for end in np.quantile(np.concatenate([xs, ys]), (0.005, 0.995)))
    axis = ChartAxis.around(low, high)
    edges = np.linspace(axis.low, axis.high, CELLS + 1)
    along, above = np.clip(xs, axis.low, axis.high), np.clip(ys, axis.low, axis.high)
    counts, _, _ = np.histogram2d(along, above, bins=[edges, edges])
    shades = np.ceil(SHADES * np.log1p(counts) / np.log1p(counts.max())).astype(int)
    wide, tall = (WIDTH - LEFT - RIGHT) / CELLS, (HEIGHT - TOP - BOTTOM) / CELLS
    around = f"h{wide:.1f}v{tall:.1f}h{-wide:.1f}z"
    marks = []
    for shade in range(1, SHADES + 1):
        cells = "".join(
            f"M{LEFT + i * wide:.1f} {HEIGHT - BOTTOM - (j + 1) * tall:.1f}{around}"
            for i, j in zip(*np.nonzero(shades == shade), strict=True)
        )
        if cells:
            marks.append(f'<path class="cell" opacity="{shade / SHADES:.2f}" d="{cells}"/>')
    return _framed(axis, axis, x_title, y_title, "".join(marks) + _diagonal())


def _places(across: ChartAxis, up: ChartAxis, xs: Floats, ys: Floats) -> list[tuple[float, float]]:
    return [(_x(across(a)), _y(up(b))) for a, b in zip(xs, ys, strict=True)]


def _joined(places: Sequence[tuple[float, float]]) -> str:
    """Draw a line through points, and the points themselves where there is room for them."""
    path = " ".join(f"{'L' if k else 'M'}{a:.1f} {b:.1f}" for k, (a, b) in enumerate(places))
    shown = places if len(places) <= MOST_DOTS else places[-1:]
    dots = "".join(f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in shown)
    return f'<path class="line" d="{path}"/>{dots}'


def _diagonal() -> str:
    return f'<path class="even" d="M{LEFT} {HEIGHT - BOTTOM}L{WIDTH - RIGHT} {TOP}"/>'


def _room(low: float, high: float) -> ChartAxis:
    """Return an axis with some room above and below a curve."""
    if low > 0 and high > 20 * low:
        return ChartAxis(low / 1.5, high * 1.5, log=True)
    room = 0.1 * (high - low)
    return ChartAxis.around(low - room, high + room)


def histogram(edges: ArrayLike, counts: ArrayLike, x_title: str, y_title: str, log: bool = False) -> str:
    """Draw counts between edges, as `numpy.histogram` returns them."""
    ends, heights = np.asarray(edges, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    across, up = ChartAxis(ends[0], ends[-1], log), ChartAxis.around(0.0, max(heights.max(), 1.0))
    marks = []
    for low, high, height in zip(ends[:-1], ends[1:], heights, strict=True):
        left, right, top = _x(across(low)), _x(across(high)), _y(up(height))
        note = f"{tick_text(float(low))} to {tick_text(float(high))}: {int(height):,}"
        marks.append(
            f'<rect class="bar" x="{left + 0.5:.1f}" y="{top:.1f}" width="{max(right - left - 1, 0.5):.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}"><title>{note}</title></rect>'
        )
    return _framed(across, up, x_title, y_title, "".join(marks))


def spectrum(values: ArrayLike, x_title: str, y_title: str) -> str:
    """Draw numbers in their order as dots on stems, with a logarithmic axis where they span much."""
    heights = np.asarray(values, dtype=np.float64)
    log = bool(heights.min() > 0 and heights.max() > 100 * heights.min())
    across = ChartAxis(0.5, len(heights) + 0.5)
    up = ChartAxis.around(heights.min() / 2 if log else 0.0, heights.max() * 1.02, log)
    marks = []
    for k, height in enumerate(heights, start=1):
        x, y = _x(across(k)), _y(up(height))
        marks.append(
            f'<path class="stem" d="M{x:.1f} {HEIGHT - BOTTOM}V{y:.1f}"/>'
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{k}: {height:.6g}</title></circle>'
        )
    return _framed(across, up, x_title, y_title, "".join(marks), integers=True)


def bars(named: Sequence[tuple[str, float]]) -> str:
    """Draw a horizontal bar for each name, the last one marked as ours; all from 0."""
    longest = max(value for _, value in named) or 1.0
    marks = []
    for k, (name, value) in enumerate(named):
        top = k * BAR
        width = (WIDTH - 72) * value / longest
        kind = "bar ours" if k == len(named) - 1 else "bar other"
        marks.append(
            f'<text x="0" y="{top + 14}">{escape(name)}</text>'
            f'<rect class="{kind}" x="0" y="{top + 20}" width="{width:.1f}" height="16" rx="2"/>'
            f'<text class="number" x="{width + 6:.1f}" y="{top + 33}">{value:.4g}</text>'
        )
    return _svg("".join(marks), "error by method", height=BAR * len(named))


def bins(values: ArrayLike, count: int = 30) -> tuple[Floats, Floats, bool]:
    """Return edges and counts of numbers >= 0, and whether the edges grow: so they do for long tails.

    Examples
    --------
    >>> edges, counts, log = bins([1, 1, 2, 3, 500])
    >>> log, counts.sum()
    (True, np.float64(5.0))
    """
    numbers = np.asarray(values, dtype=np.float64)
    largest = max(float(numbers.max()), 1.0)
    if log := bool(largest > 20 * max(float(np.median(numbers)), 1.0)):
        powers = 2.0 ** np.arange(0, ceil(np.log2(largest + 1)) + 1)
        edges = np.unique(np.concatenate([powers, 1.5 * powers[1:-1]])) - 0.5
        edges = edges[: int(np.searchsorted(edges, largest)) + 1]
        numbers = np.maximum(numbers, 1.0)  # an empty row has no logarithm: it is counted in the first bar
    else:
        # edges halfway between integers: no bar holds more integers than another
        width = ceil((largest + 1) / count)
        edges = np.arange(0, ceil((largest + 1) / width) + 1, dtype=np.float64) * width - 0.5
    counts, _ = np.histogram(numbers, edges)
    return edges, counts.astype(np.float64), log


def _x(fraction: float) -> float:
    return LEFT + fraction * (WIDTH - LEFT - RIGHT)


def _y(fraction: float) -> float:
    return HEIGHT - BOTTOM - fraction * (HEIGHT - TOP - BOTTOM)


def _framed(
    across: ChartAxis,
    up: ChartAxis,
    x_title: str,
    y_title: str,
    marks: str,
    integers: bool = False,
    zero: float | None = None,
) -> str:
    """Put axes, ticks and titles around the marks; `zero` is the place on a logarithmic axis that means 0."""
    bottom, parts = HEIGHT - BOTTOM, [f'<text x="0" y="12">{escape(y_title)}</text>']
    for tick in up.ticks():
        y = _y(up(tick))
        parts.append(
            f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick_text(tick)}</text>'
        )
    named = [(tick, tick_text(tick)) for tick in across.ticks() if not integers or tick == round(tick)]
    if zero is not None:
        named = [(zero, "0"), *(pair for pair in named if pair[0] > 2 * zero)]
    for tick, text in named:
        x = _x(across(tick))
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{text}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<path class="axis" d="M{LEFT} {bottom}H{WIDTH - RIGHT}"/>{marks}'
        f'<text x="{middle}" y="{HEIGHT - 5}" text-anchor="middle">{escape(x_title)}</text>'
    )
    return _svg("".join(parts), f"{y_title} over {x_title}", HEIGHT)


def _svg(content: str, label: str, height: int) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{content}</svg>'
