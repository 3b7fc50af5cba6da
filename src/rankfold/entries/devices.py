"""Where entries can be: what a machine has to have for a GPU, and which store is for it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from rankfold.entries.observed import Observed


def usable_device(device: Any) -> str:
    """Return "cpu" or "cuda", or raise an error that says what the GPU lacks; for "auto", what there is."""
    if device not in ("cpu", "cuda", "auto"):
        raise ValueError(f"device must be 'cpu', 'cuda' or 'auto', not {device!r}")
    if device != "cpu":
        try:
            gpu_store("cuda")
        except (ImportError, RuntimeError):
            if device == "cuda":
                raise
            return "cpu"
    return "cpu" if device == "cpu" else "cuda"


def gpu_store(device: Any, count: int = 0) -> Any:
    """Return the store for entries on a GPU, or for more than it holds, if this machine can have it."""
    try:
        import torch

        from rankfold.entries.gpu import GpuObserved

        import_module("triton")  # which kernels need, later
    except ImportError as missing:
        raise ImportError(
            f"device={str(device)!r} needs torch and Triton ({missing.name} is not installed): "
            "pip install 'rankfold[torch]' triton, or leave device out"
        ) from missing
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(
            f"device={str(device)!r}, but torch finds no GPU here: leave device out, or use 'cpu'"
        )
    from rankfold.entries.gpu_streamed import StreamedObserved, outgrows

    return StreamedObserved if outgrows(count, device) else GpuObserved


def moved(observed: Observed, device: Any) -> Any:
    """Return the same entries, now in memory, on a GPU, in the type that they are computed in."""
    side = observed.by_row
    data = side.data.astype(observed.dtype, copy=False)
    weights = data[:, 1] if observed.weighted else None
    entries = side.keys.astype(np.int64), side.indices.astype(np.int64), data[:, 0]
    store = gpu_store(device).from_triples(*entries, observed.shape, weights, "keep", device)
    return replace(store, among=observed.among)
