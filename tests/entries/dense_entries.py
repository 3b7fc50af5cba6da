"""What stores compute, from W = L Rᵀ formed densely, by autodiff of the formulas in the documentation."""

import numpy as np
import torch

from costs.losses import FORMULAS


def mean_loss(entries, loss, W):
    """The mean loss of the entries at W, a torch tensor."""
    rows, cols, values = (torch.from_numpy(a) for a in (entries.rows, entries.cols, entries.values))
    losses = FORMULAS[loss](W[rows, cols], values.double())
    return (losses if entries.weights is None else losses * torch.from_numpy(entries.weights)).mean()


def passes(entries, loss, L, R, dL, dR):
    """The value, its two partial derivatives, and the change of these along (dL, dR)."""
    tensors = [torch.from_numpy(factor).requires_grad_() for factor in (L, R)]
    value = mean_loss(entries, loss, tensors[0] @ tensors[1].T)
    partials = torch.autograd.grad(value, tensors, create_graph=True)
    along = sum((p * torch.from_numpy(d)).sum() for p, d in zip(partials, (dL, dR), strict=True))
    derivatives = torch.autograd.grad(along, tensors)
    return value.item(), *(a.detach().numpy() for a in (*partials, *derivatives))


def gradient(entries, loss, W):
    """∇f(W) as a dense matrix."""
    W = torch.from_numpy(W).requires_grad_()
    return torch.autograd.grad(mean_loss(entries, loss, W), W)[0].numpy()


def model(entries, loss, L, R, dL, dR):
    """Ṡ R and ṠᵀL for the change Ṡ of ∇f(W) along dL Rᵀ + L dRᵀ."""
    W = torch.from_numpy(L @ R.T).requires_grad_()
    S = torch.autograd.grad(mean_loss(entries, loss, W), W, create_graph=True)[0]
    along = (S * torch.from_numpy(dL @ R.T + L @ dR.T)).sum()
    change = torch.autograd.grad(along, W)[0].numpy()
    return change @ R, change.T @ L


def curve_values(entries, Ls, Rs, times):
    """Mean squares along (Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ."""
    points = (
        (sum(A * t**i for i, A in enumerate(Ls)), sum(B * t**i for i, B in enumerate(Rs))) for t in times
    )
    return np.array([mean_loss(entries, "square", torch.from_numpy(L @ R.T)).item() for L, R in points])


def targets(entries, loss):
    """Where a gradient step from W = 0 leads, entry by entry, zero where there is none; repeats add up."""
    values = torch.from_numpy(entries.values).double()
    w = torch.zeros(values.shape, dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad(FORMULAS[loss](w, values).sum(), w, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), w)[0] if first.requires_grad else torch.zeros_like(w)
    wanted = entries.values if loss == "square" else (-first / (second.max().item() or 1.0)).detach().numpy()
    filled = np.zeros(entries.shape)
    np.add.at(filled, (entries.rows, entries.cols), wanted)
    return filled
