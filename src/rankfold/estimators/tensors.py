"""torch tensors in and out of the estimators, which work on NumPy arrays."""

from __future__ import annotations

from typing import Any

from array_api_compat import is_torch_array
from numpy.typing import NDArray


def without_tensors(*things: Any) -> list[Any]:
    """Return tensors as NumPy arrays, wherever they live, and anything else as it is."""
    return [thing.detach().cpu().numpy() if is_torch_array(thing) else thing for thing in things]


def like_given(X: Any, answer: NDArray[Any]) -> NDArray[Any]:
    """Return what is answered to X: a tensor where X lives if it is one, unless the answer is of strings.

    Types say what nearly everybody gets, an array: a tensor has no type where torch is not installed.
    """
    if not is_torch_array(X) or answer.dtype.kind not in "fiub":
        return answer
    import torch

    tensor: NDArray[Any] = torch.as_tensor(answer, device=X.device)
    return tensor


class TensorScore:
    """A `score` of tensors, which scikit-learn's metrics cannot take."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return scikit-learn's score of this kind of estimator: R², or the part of labels that is right."""
        score: float = super().score(*without_tensors(X, y, sample_weight))  # type: ignore[misc]
        return score
