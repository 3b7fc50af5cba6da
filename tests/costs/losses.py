"""The losses as the documentation writes them, in torch: the truth that kernels and costs are tested on."""

import torch

import rankfold as rf

FORMULAS = {
    "square": lambda w, y: (w - y) ** 2,
    "logistic": lambda w, y: torch.nn.functional.softplus(w) - y * w,
    "huber": lambda w, y: torch.where((w - y).abs() <= 1, (w - y) ** 2, 2 * (w - y).abs() - 1),
    "poisson": lambda w, y: torch.exp(w) - y * w,
    "squared_hinge": lambda w, y: torch.relu(1 - (2 * y - 1) * w) ** 2,
    "own": lambda w, y: (w - y) ** 4,
}
OWN = rf.Loss.from_functions(
    lambda w, y: (w - y) ** 4, lambda w, y: 4 * (w - y) ** 3, lambda w, y: 12 * (w - y) ** 2
)


def named(loss):
    """Return what a cost takes for the loss of that name."""
    return OWN if loss == "own" else loss
