"""The square loss along a curve of factors, as a polynomial: a pass over the rows, as in `sweeps`.

Its products and coefficients are written out, one by one, because rows live in registers: numba has no local
arrays of such values, tuples of them cannot be indexed by a loop variable, and terms that a curve lacks must
not cost anything. So each is a name, and the `if`s on `terms1`, `terms2` and `degree`, which are constants of
a compiled kernel, leave those out that are zero.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rankfold.kernels.chunks import chunks_in_order
from rankfold.kernels.compiling import compiled
from rankfold.kernels.layout import ONE, ahead_by, numbers
from rankfold.kernels.registers import load, multiply_add, prefetch, total, zero

RUN = np.uint64(3)  # the logarithm of how many rows in succession a sample takes
SUMS = 10  # numbers by chunk: coefficients of degree 0 to 8, and the count of entries


@functools.cache
def coefficients(rank: int, terms1: int, terms2: int, weighted: bool, apart: bool, few: bool = False) -> Any:
    """Kernel for the coefficients of t ↦ Σ ((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ - W*)² on Ω, by chunk of rows.

    Ls and Rs are `terms1` and `terms2` arrays, one to three, of which the last may be repeated; the Rs are
    side by side in one array unless `apart`. Only one in `share` runs of 8 rows is taken: the entries of one
    row are asked for while those of the one before are in use. Rows count from `origin`, the number that the
    first one has in a larger matrix. The last column of `sums` counts the entries. For few entries, one
    kernel serves those with weights and those without.
    """
    kernel = _coefficients(rank, terms1, terms2, weighted and not few, apart, few)
    return functools.partial(kernel, numbers(weighted))


@functools.cache
def _coefficients(rank: int, terms1: int, terms2: int, of_weighted: bool, apart: bool, any_: bool) -> Any:
    degree = terms1 + terms2 - 2
    ahead, numbers_ = ahead_by(terms2 * rank), numbers(of_weighted)
    step2, shift2, width = (ONE, np.uint64(0), rank) if apart else (np.uint64(terms2), ONE, terms2 * rank)

    def kernel(  # type: ignore[no-untyped-def]
        chosen, progress, bounds, indptr, indices, step, data, Ls, Rs, share, origin, sums
    ):
        m = chosen if any_ else numbers_
        weighted = m > ONE if any_ else of_weighted
        last = np.uint64(indices.size - 1)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base = stripe * step
            c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = c8 = entries = 0.0
            for i in range(bounds[c], bounds[c + ONE]):
                if ((origin + i) >> RUN) % share:
                    continue
                entries += indptr[first + i + ONE] - indptr[first + i]
                a0 = load(Ls[0], i, rank)
                a1, a2 = load(Ls[1], i, rank), load(Ls[2], i, rank)  # those that no term has are not read
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    soon = base + np.uint64(indices[min(p + ahead, last)])
                    prefetch(Rs[0], soon, width)
                    if apart and terms2 > 1:
                        prefetch(Rs[1], soon, width)
                    if apart and terms2 > 2:
                        prefetch(Rs[2], soon, width)
                    j = step2 * (base + np.uint64(indices[p]))
                    b0 = load(Rs[0], j, rank)
                    w0 = multiply_add(a0, b0, zero(a0))
                    w1 = multiply_add(a1, b0, zero(a0)) if terms1 > 1 else zero(a0)
                    w2 = multiply_add(a2, b0, zero(a0)) if terms1 > 2 else zero(a0)
                    w3 = zero(a0)
                    w4 = zero(a0)
                    if terms2 > 1:
                        b1 = load(Rs[1], j + shift2, rank)
                        w1 = multiply_add(a0, b1, w1)
                        w2 = multiply_add(a1, b1, w2) if terms1 > 1 else w2
                        w3 = multiply_add(a2, b1, w3) if terms1 > 2 else w3
                    if terms2 > 2:
                        b2 = load(Rs[2], j + shift2 + shift2, rank)
                        w2 = multiply_add(a0, b2, w2)
                        w3 = multiply_add(a1, b2, w3) if terms1 > 1 else w3
                        w4 = multiply_add(a2, b2, w4) if terms1 > 2 else w4
                    weight = np.float64(data[m * p + ONE]) if weighted else 1.0
                    e0 = np.float64(total(w0)) - data[m * p]
                    c0 += weight * e0 * e0
                    if degree > 0:
                        e1 = np.float64(total(w1))
                        c1 += weight * 2.0 * e0 * e1
                        c2 += weight * e1 * e1
                    if degree > 1:
                        e2 = np.float64(total(w2))
                        c2 += weight * 2.0 * e0 * e2
                        c3 += weight * 2.0 * e1 * e2
                        c4 += weight * e2 * e2
                    if degree > 2:
                        e3 = np.float64(total(w3))
                        c3 += weight * 2.0 * e0 * e3
                        c4 += weight * 2.0 * e1 * e3
                        c5 += weight * 2.0 * e2 * e3
                        c6 += weight * e3 * e3
                    if degree > 3:
                        e4 = np.float64(total(w4))
                        c4 += weight * 2.0 * e0 * e4
                        c5 += weight * 2.0 * e1 * e4
                        c6 += weight * 2.0 * e2 * e4
                        c7 += weight * 2.0 * e3 * e4
                        c8 += weight * e4 * e4
            for k, coefficient in enumerate((c0, c1, c2, c3, c4, c5, c6, c7, c8, entries)):
                sums[stripe, c, k] = coefficient

    return compiled(kernel)
