"""Run every example and draw what it found, a bar each: `python docs/figures/gallery.py [folder]`."""

import runpy
import sys
from pathlib import Path

from matplotlib.figure import Figure

EXAMPLES = Path(__file__).parent.parent / "examples"
INK, OTHER = "#2563a8", "#a9b4c2"
# What each number that `main` returns is called, ours first; none where it returns names itself.
SHOWN = {
    "drug_target": ("average precision, new drugs", ("rankfold", "guessing")),
    "stock_returns": ("mean square error on test weeks", ("rank 1", "training mean")),
    "domain_adaptation": ("accuracy in the other domain", ("carried over", "guessing")),
    "ranking": ("part of the comparisons in order", ()),
    "one_bit": ("log-loss on entries held out", ()),
    "robust_completion": ("relative error of W", ()),
    "custom_cost": ("relative error of W", ("torch, rank 2", "W = 0")),
}

OURS = {"robust_completion": "huber 0.005"}  # where it is not the first


def found(name: str) -> dict[str, float]:
    """Return the numbers of an example by name."""
    result = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    if isinstance(result, dict):
        return result
    numbers = result if isinstance(result, tuple) else (result, 1.0)
    return dict(zip(SHOWN[name][1], numbers, strict=True))


def draw(name: str, folder: Path) -> None:
    """Write the picture of an example."""
    numbers, (title, _) = found(name), SHOWN[name]
    ours = OURS.get(name, next(iter(numbers)))
    figure = Figure(figsize=(5.2, 0.62 + 0.36 * len(numbers)), layout="constrained")
    ax = figure.add_subplot()
    colours = [INK if called == ours else OTHER for called in numbers]
    bars = ax.barh(list(numbers), list(numbers.values()), color=colours)
    ax.bar_label(bars, fmt="%.3g", padding=3)
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    if max(numbers.values()) > 100 * min(numbers.values()):
        ax.set_xscale("log")
        ax.margins(x=0.2)
    else:
        ax.set_xlim(0, 1.18 * max(numbers.values()))
    ax.set_xlabel(title)
    figure.savefig(folder / f"example-{name.replace('_', '-')}.png", dpi=110)


if __name__ == "__main__":
    for example in SHOWN:
        draw(example, Path(*sys.argv[1:]) if sys.argv[1:] else Path(__file__).parent)
