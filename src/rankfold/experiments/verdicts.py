"""What the words of the paper mean here: each verdict is one of these rules, fixed before any run.

Every rule takes numbers of which less is better (iterations, Hessian products, CPU seconds), one for each
instance and method, infinite where a run does not get there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from statistics import median

Numbers = dict[str, list[float]]  # by method, one for each instance

SIMILAR = 1.2
INDISTINGUISHABLE = 1.1
FASTER = 1.1
VERY_DIFFERENT = 3.0
SAME = 1e-12
FLAT = 1e-3
ABOUT_ONE = 0.5, 1.5

RULES = {
    "similar": f"the largest median is at most {SIMILAR:g} times the smallest",
    "similar on some": f"on at least one instance the larger is at most {SIMILAR:g} times the smaller",
    "indistinguishable": f"on every instance the largest is at most {INDISTINGUISHABLE:g} times the smallest",
    "faster": "less on every instance, and the median of the other is at least "
    f"{FASTER:g} times as large; “slower”, “better”, “smaller” and “ahead” are read so too",
    "competitive": f"the median is at most {SIMILAR:g} times that of the other",
    "very different": f"on every instance one is at least {VERY_DIFFERENT:g} times the other",
    "unaffected": "on every instance the two curves have the same length, and their root mean squares differ "
    f"by at most {SAME:g} of the first one",
    "reaches the limit": "every run takes all of its iterations without getting to 1e-20",
    "flattens out": f"on every instance the last cost is above {FLAT:g} of the first, where the other "
    "method gets to 1e-20",
    "about 1": f"every median is between {ABOUT_ONE[0]:g} and {ABOUT_ONE[1]:g}",
    "–": "nothing in the paper to compare with",
}


def medians(numbers: Numbers) -> dict[str, float]:
    """Return the median over the instances of each method."""
    return {name: float(median(of)) for name, of in numbers.items()}


def _instances(numbers: Numbers) -> list[tuple[float, ...]]:
    return list(zip(*numbers.values(), strict=True))


def _within(numbers: Iterable[float], ratio: float) -> bool:
    numbers = list(numbers)
    return max(numbers) < inf and max(numbers) <= ratio * min(numbers)


def similar(numbers: Numbers) -> bool:
    """Judge by the rule of this name, as all functions here."""
    return _within(medians(numbers).values(), SIMILAR)


def similar_on_some(numbers: Numbers) -> bool:
    """One instance is enough."""
    return any(_within(instance, SIMILAR) for instance in _instances(numbers))


def indistinguishable(numbers: Numbers) -> bool:
    """No instance tells one method from another."""
    return all(_within(instance, INDISTINGUISHABLE) for instance in _instances(numbers))


def faster(numbers: Numbers) -> bool:
    """Judge whether the first method is faster than each of the others."""
    (mine, *others), (middle, *middles) = numbers.values(), medians(numbers).values()
    always = all(a < b for of in others for a, b in zip(mine, of, strict=True))
    return always and middle < inf and all(FASTER * middle <= other for other in middles)


def competitive(numbers: Numbers) -> bool:
    """Judge whether the first method is competitive with each of the others."""
    middle, *middles = medians(numbers).values()
    return middle < inf and all(middle <= SIMILAR * other for other in middles)


def very_different(numbers: Numbers) -> bool:
    """Every instance tells the methods apart by far."""
    return all(
        min(instance) < inf and max(instance) >= VERY_DIFFERENT * min(instance)
        for instance in _instances(numbers)
    )


def at_the_limit(numbers: Numbers) -> bool:
    """Judge whether no run of the first method gets there."""
    return min(next(iter(numbers.values()))) == inf


def about_one(numbers: Numbers) -> bool:
    """Judge numbers that should be near 1."""
    low, high = ABOUT_ONE
    return all(low <= number <= high for number in medians(numbers).values())


JUDGES: dict[str, Callable[[Numbers], bool]] = {
    "similar": similar,
    "similar on some": similar_on_some,
    "indistinguishable": indistinguishable,
    "faster": faster,
    "competitive": competitive,
    "very different": very_different,
    "reaches the limit": at_the_limit,
    "about 1": about_one,
}


@dataclass(frozen=True)
class Measured:
    """Numbers of which less is better, with what they are."""

    what: str
    numbers: Numbers

    def __str__(self) -> str:
        """Medians, with the range over the instances.

        Examples
        --------
        >>> print(Measured("iterations", {"GD": [80.0, 88.0, 91.0], "TR": [8.0, 8.0, 8.0]}))
        iterations: GD 88 (80 to 91), TR 8
        """
        spans = (f"{name} {_span(of)}" for name, of in self.numbers.items())
        return f"{self.what}: {', '.join(spans)}"


def _span(of: list[float]) -> str:
    low, middle, high = number(min(of)), number(median(of)), number(max(of))
    return middle if low == high else f"{middle} ({low} to {high})"


def number(of: float) -> str:
    """Return a number in words: counts whole, others by three figures.

    Examples
    --------
    >>> number(88.0), number(1234.0), number(0.01234), number(float("inf"))
    ('88', '1234', '0.0123', 'not reached')
    """
    if of == inf:
        return "not reached"
    return f"{of:.0f}" if of == round(of) else f"{of:.3g}"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what was measured, the rule it is judged by, and whether it holds.

    `holds` is None where the paper says nothing; `why` is shown where it does not hold.
    """

    says: str
    measured: str
    rule: str
    holds: bool | None
    why: str = ""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}, not {self.rule!r}")


def judged(
    rule: str, says: str, *measured: Measured, beside: tuple[Measured, ...] = (), why: str = ""
) -> Claim:
    """Judge what was measured, all of it, by `rule`; what stands `beside` is shown only."""
    holds = all(JUDGES[rule](of.numbers) for of in measured)
    return Claim(says, "; ".join(map(str, (*measured, *beside))), rule, holds, why)


def recorded(says: str, *measured: Measured) -> Claim:
    """Show what the paper says nothing of."""
    return Claim(says, "; ".join(map(str, measured)), "–", None)
