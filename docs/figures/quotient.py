"""Draw the quotient W = gh of the plane by (g, h) -> (g/m, mh), with the invariant metric, to scale.

python docs/figures/quotient.py [docs/figures/quotient.png]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

INK, UP, ALONG, GREY = "#1c2430", "#2563a8", "#c2410c", "#9aa5b4"
FIBRES = (0.5, 1.0, 2.0, 3.5)  # values of W = gh
START, END = 1.0, 2.0


def plane(ax) -> None:
    """Draw fibres, and at two points of one the vertical and the horizontal direction."""
    g = np.linspace(0.15, 4, 400)
    for w in FIBRES:
        main = w in (START, END)
        ax.plot(g, w / g, color=INK if main else GREY, linewidth=1.8 if main else 0.9)
    for g0 in (0.55, 1.6):
        h0 = START / g0
        factor = np.sqrt(END / START)
        ax.plot([0, 3 * g0], [0, 3 * h0], color=UP, linewidth=0.7, linestyle=":")
        arrow = {"width": 0.012, "length_includes_head": True, "head_width": 0.09, "zorder": 3}
        ax.arrow(g0, h0, (factor - 1) * g0, (factor - 1) * h0, color=UP, **arrow)
        size = 0.55 / np.hypot(g0, h0)
        ax.arrow(g0, h0, size * g0, -size * h0, color=ALONG, **arrow)
        ax.plot(g0, h0, "o", color=INK, markersize=6, zorder=4)
        ax.plot(factor * g0, factor * h0, "o", color=INK, markersize=4, zorder=4)
    ax.text(1.75, 3.1, "→ horizontal: to another fibre", color=UP, fontsize=11)
    ax.text(1.75, 2.8, "→ vertical: along the fibre, where W stays", color=ALONG, fontsize=11)
    for w in (START, END):
        ax.text(4.05, w / 4, f"gh = {w:g}", color=INK, va="center")
    ax.set(xlim=(0, 4.65), ylim=(0, 3.6), xlabel="g", ylabel="h", aspect="equal")
    ax.set_title("factors (g, h): one curve for each W")


def line(ax) -> None:
    """Draw the quotient: a point for each fibre."""
    ax.plot([0, 0], [0, 3.6], color=INK, linewidth=1)
    for w in FIBRES:
        main = w in (START, END)
        ax.plot(0, w, "o", color=INK if main else GREY, markersize=6 if main else 4)
        ax.text(0.12, w, f"{w:g}", va="center", color=INK if main else GREY)
    ax.annotate(
        "", (-0.13, END), (-0.13, START), arrowprops={"arrowstyle": "-|>", "color": UP, "linewidth": 2}
    )
    ax.text(-0.2, 1.5, "one step", color=UP, rotation=90, va="center", ha="right")
    ax.set(xlim=(-0.6, 0.6), ylim=(0, 3.6), title="the quotient: W")
    ax.axis("off")


def main(path: str = "docs/figures/quotient.png") -> None:
    """Write the figure."""
    figure = Figure(figsize=(9, 5.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[4, 1])
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    plane(left)
    line(right)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
