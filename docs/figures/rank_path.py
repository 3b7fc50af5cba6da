"""Choose the rank of a matrix of rank 6, and draw what was tried: `python docs/figures/rank_path.py`."""

import sys

from matplotlib.figure import Figure

import rankfold as rf


def main(path: str = "docs/figures/rank_path.png") -> int:
    """Write the figure, and return the rank chosen."""
    data = rf.data.random_completion((400, 300), rank=6, oversampling=4, seed=0, noise=0.1)
    found = rf.choose_rank(rf.Completion.from_triples(data))
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    ax = found.plot(figure.add_subplot())
    ax.set_title("400 × 300, rank 6, noise 0.1: 4 entries per degree of freedom", fontsize=10)
    figure.savefig(path, dpi=110)
    return found.chosen


if __name__ == "__main__":
    main(*sys.argv[1:])
