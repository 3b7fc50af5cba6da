"""The built-in losses for tensors: `kernels.formulas`, by functions of torch."""

from __future__ import annotations

from typing import Any

import torch

from rankfold.costs.losses import Loss
from rankfold.kernels import formulas

Tensor = Any


def built_in(loss: Loss) -> Loss:
    """Return a loss, or say that it cannot be computed on a GPU."""
    if loss.formula not in formulas.BUILT_IN:
        names = ", ".join(formula.__name__ for formula in formulas.BUILT_IN)
        raise TypeError(f"on a GPU the loss must be built in ({names}); use device='cpu' for others")
    return loss


def losses(loss: Loss, w: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ℓ(w, y) of a built-in loss, and its first and second derivatives in w."""
    e, one = w - y, torch.ones_like(w)
    match loss.formula.__name__:
        case "square":
            return e * e, 2.0 * e, 2.0 * one
        case "logistic":
            p = torch.sigmoid(w)
            return torch.logaddexp(torch.zeros_like(w), w) - y * w, p - y, p * (1.0 - p)
        case "huber":
            c = torch.clamp(e, -loss.parameter, loss.parameter)
            return c * (2.0 * e - c), 2.0 * c, 2.0 * one * (e.abs() <= loss.parameter)
        case "poisson":
            mean = torch.exp(w)
            return mean - y * w, mean - y, mean
    sign = 2.0 * y - 1.0  # the squared hinge
    short = torch.clamp(1.0 - sign * w, min=0.0)
    return short * short, -2.0 * sign * short, 2.0 * one * (short > 0.0)
