"""The axes of a chart: from numbers to places, and which numbers to write beside them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

_STEPS = (1.0, 2.0, 5.0, 10.0)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class ChartAxis:
    """A linear or logarithmic axis from `low` to `high`.

    Examples
    --------
    >>> ChartAxis(0.0, 10.0)(2.5), ChartAxis(1.0, 100.0, log=True)(10.0)
    (0.25, 0.5)
    >>> ChartAxis(0.0, 10.0).ticks()
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    >>> ChartAxis(0.5, 2000.0, log=True).ticks()
    [1.0, 10.0, 100.0, 1000.0]
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise ValueError(f"an axis goes from a number to a larger one, not {self.low} to {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic axis begins above 0, not at {self.low}")

    @classmethod
    def around(cls, low: float, high: float, log: bool = False) -> ChartAxis:
        """Return an axis that holds both numbers, also where they are equal.

        Examples
        --------
        >>> ChartAxis.around(3.0, 3.0)
        ChartAxis(low=2.5, high=3.5, log=False)
        """
        if high > low:
            return cls(low, high, log)
        return cls(low / 2, low * 2, log) if log else cls(low - 0.5, low + 0.5)

    def __call__(self, value: float) -> float:
        """Return how far along the axis `value` is: 0 at `low`, 1 at `high`."""
        if self.log:
            return log10(value / self.low) / log10(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return about five round numbers on the axis."""
        if self.log and log10(self.high / self.low) >= 2:
            first, last = ceil(log10(self.low) - 1e-9), floor(log10(self.high) + 1e-9)
            return [10.0**k for k in range(first, last + 1, max(1, ceil((last - first) / 5)))]
        wanted = (self.high - self.low) / 5
        unit = 10.0 ** floor(log10(wanted))
        step = next(unit * s for s in _STEPS if unit * s >= wanted * (1 - 1e-9))
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def tick_text(value: float) -> str:
    """Write a number in few characters.

    Examples
    --------
    >>> [tick_text(v) for v in (0.0, 0.25, 1e-7, 1200.0, 1e6)]
    ['0', '0.25', '10⁻⁷', '1200', '10⁶']
    """
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e5:
        return f"{value:.6g}"
    mantissa, exponent = f"{value:.4e}".split("e")
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    mantissa = f"{float(mantissa):g}"
    return power if mantissa == "1" else f"{mantissa}·{power}"
