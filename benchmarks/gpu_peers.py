"""implicit's alternating least squares on a GPU, for `python -m benchmarks.gpu --peers`.

It solves another problem: clicks with confidences, where entries that are not given count as zeros, in
float32, each row by three steps of conjugate gradients. So times of its sweeps say how fast a program passes
over entries, and not how soon it is done.
"""

from __future__ import annotations

from typing import Any

_WARP = 32  # its kernels have a thread for each factor, and add up over whole warps


def sweep(rows: Any, cols: Any, confidence: Any, shape: tuple[int, int], rank: int) -> tuple[float, int]:
    """Median seconds of a sweep over both sides, entries on the device, and the number of factors used."""
    from scipy.sparse import csr_matrix

    sweeps, factors, took = 10, -(-rank // _WARP) * _WARP, []
    model = _class()(factors=factors, iterations=sweeps, random_state=0)
    clicks = csr_matrix((confidence, (rows, cols)), shape)
    model.fit(clicks, show_progress=False, callback=lambda number, seconds, loss: took.append(seconds))
    return sorted(took[1:])[(sweeps - 1) // 2], factors  # the first one warms up


def _class() -> Any:
    """The class of its GPU solver, or an exit that says what is missing."""
    try:
        import implicit.gpu
        from implicit.gpu.als import AlternatingLeastSquares
    except ImportError as error:
        raise SystemExit(f"--peers needs implicit, 0.7 or later (pip install implicit): {error}") from None
    if not (implicit.gpu.HAS_RMM and implicit.gpu.HAS_CUDA):
        raise SystemExit("--peers: implicit finds no GPU, or not RMM, which it needs (pip install rmm-cu13)")
    return AlternatingLeastSquares
