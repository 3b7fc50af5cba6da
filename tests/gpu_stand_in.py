"""A GPU for tests, or torch on the CPU where there is none; and a watch over what must not leave it."""

from __future__ import annotations

import contextlib
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
_WAYS_OUT = {getattr(torch.Tensor, name) for name in ("numpy", "__array__", "cpu", "tolist", "to")}


def stand_in(monkeypatch):
    """Let torch on the CPU stand for "cuda" where there is no GPU; Triton's kernels are interpreted then."""
    if HAS_GPU:
        return
    from rankfold.entries.gpu import GpuObserved
    from rankfold.entries.gpu_checks import tensor_of

    class Here(GpuObserved):
        @staticmethod
        def from_triples(*entries, device=None):
            return GpuObserved.from_triples(*entries[:6], device="cpu")

    for place in ("costs.completion", "costs.positions_on_gpu", "entries.devices"):
        monkeypatch.setattr(f"rankfold.{place}.gpu_store", lambda device, count=0: Here)
    monkeypatch.setattr("rankfold.costs.features_on_gpu.brought", lambda array, device: tensor_of(array))


class _Watch(TorchFunctionMode):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = set(sizes)
        self.asleep = False

    def __torch_function__(self, function, types, arguments=(), options=None):
        if function in _WAYS_OUT and not self.asleep and self._leaves(function, arguments, options or {}):
            raise AssertionError(f"a tensor of shape {tuple(arguments[0].shape)} leaves the device")
        return function(*arguments, **(options or {}))

    def _leaves(self, function, arguments, options):
        if not self.sizes & set(arguments[0].shape):
            return False
        if function is not torch.Tensor.to:
            return True
        places = [str(place) for place in (*arguments[1:], *options.values())]
        return arguments[0].is_cuda and "cpu" in places  # where the CPU is the device, nothing is left


@contextlib.contextmanager
def nothing_tall_leaves(*sizes):
    """Raise AssertionError if a tensor with a dimension of one of these sizes becomes an array of NumPy's.

    The interpreter of Triton's kernels, which stands for a GPU, may look at what it is given.
    """
    from rankfold.kernels import gpu_launch

    watch, launch = _Watch(sizes), gpu_launch.launch

    def unwatched(*arguments, **options):
        watch.asleep = True
        try:
            launch(*arguments, **options)
        finally:
            watch.asleep = False

    with mock.patch.object(gpu_launch, "launch", unwatched), watch:
        yield
