"""The memory of a GPU, as strict as it may be: for kernels in Triton's interpreter."""

from __future__ import annotations

import numpy as np
import torch
from triton.runtime.interpreter import TensorHandle, _get_np_dtype, interpreter_builder

from rankfold.kernels import gpu_launch


class Memory:
    """While it watches, kernels may touch the tensors of their launch, and those `lent`, and nothing beside.

    Where a load is masked and nothing else is asked for, they find NaN, or a number that is no place. On a
    GPU, where nothing is interpreted, it does nothing.
    """

    def __init__(self, monkeypatch):
        self._own, self._lent = [], []
        self._load, self._store = (
            getattr(interpreter_builder, f"create_masked_{name}") for name in ("load", "store")
        )
        self._launch = gpu_launch.launch
        if torch.cuda.is_available():
            return
        monkeypatch.setattr(interpreter_builder, "create_masked_load", self._loaded)
        monkeypatch.setattr(interpreter_builder, "create_masked_store", self._stored)
        monkeypatch.setattr(gpu_launch, "launch", self._launched)

    def lend(self, *tensors):
        self._lent += [_place(tensor) for tensor in tensors]

    def _launched(self, kernel, grid, tensors, numbers, options, *first):
        beside = [tensor for kept in first for tensor in kept.tensors]
        self._own = [_place(tensor) for tensor in (*tensors, *beside)]
        self._launch(kernel, grid, tensors, numbers, options, *first)

    def _check(self, pointers, mask):
        size = _get_np_dtype(pointers.get_element_ty()).itemsize
        at = np.asarray(pointers.data, np.int64)[np.broadcast_to(mask.data, pointers.data.shape)][:, None]
        starts, ends = np.array(self._own + self._lent, np.int64).T
        assert ((at >= starts) & (at + size <= ends)).any(axis=1).all(), "not the memory of this launch"

    def _loaded(self, pointers, mask, other, *policy):
        self._check(pointers, mask)
        if other is None:
            kind = _get_np_dtype(pointers.get_element_ty())
            nothing = np.nan if kind.kind == "f" else np.iinfo(kind).max // 2
            other = TensorHandle(np.full(pointers.data.shape, nothing, kind), pointers.get_element_ty())
        return self._load(pointers, mask, other, *policy)

    def _stored(self, pointers, value, mask, *policy):
        self._check(pointers, mask)
        return self._store(pointers, value, mask, *policy)


def _place(tensor):
    return tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size()
