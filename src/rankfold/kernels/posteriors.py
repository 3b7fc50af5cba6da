"""Gaussian posteriors of lines, given what is believed of the other side: one small linear system per line.

Entry p of line i, at line j of the other side, has the value y = centre + o_j + x_i·f_j + noise. What the
posteriors of the other side say of (f_j, o_j) comes as two arrays: `F` holds E[f] and then E[o], `C` the
lower triangle of the covariance of the unknowns of j row by row. Without offsets f is these unknowns and o is
0; with them the last unknown is o, and the last number of f is 1. Rows of F and of all sums are made of
blocks of so many numbers, filled up with zeros, which are rows of the arrays: so one kernel serves all ranks,
and adds a block at once. Lines have nothing to do with each other, and the entries of a line are added in
their order, so any number of threads gives the same bits.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from rankfold.kernels.chunks import chunks
from rankfold.kernels.compiling import compiled
from rankfold.kernels.layout import ONE
from rankfold.kernels.registers import axpy, load, load_wide, prefetch, store, zero

# A pivot below this part of its diagonal entry is rounding: its unknown becomes zero.
SINGULAR = 1e-14
BLOCK = 8  # numbers of double precision that a register holds
WIDE_BLOCK = 16  # of covariances, which in single precision are what memory brings at once
_TWO, _THREE, _FOUR, _EIGHT = (np.uint64(n) for n in (2, 3, 4, BLOCK))


@register_jitable
def _cleared(X):  # type: ignore[no-untyped-def]
    """Fill blocks with zeros."""
    for b in range(np.uint64(len(X))):
        store(X, b, zero(load(X, b, BLOCK)))


@register_jitable
def _four(p, end, data, m, centre):  # type: ignore[no-untyped-def]
    """Places of four entries from p on, their weights, which are 0 beyond the end, and values y − centre."""
    stop = end - ONE
    p1, p2, p3 = min(p + ONE, stop), min(p + _TWO, stop), min(p + _THREE, stop)
    w0, w1, w2, w3 = 1.0, 1.0, 1.0, 1.0
    if m == _TWO:
        w0, w1 = np.float64(data[m * p + ONE]), np.float64(data[m * p1 + ONE])
        w2, w3 = np.float64(data[m * p2 + ONE]), np.float64(data[m * p3 + ONE])
    w1 = w1 if p + ONE < end else 0.0
    w2 = w2 if p + _TWO < end else 0.0
    w3 = w3 if p + _THREE < end else 0.0
    t0, t1, t2, t3 = data[m * p] - centre, data[m * p1] - centre, data[m * p2] - centre, data[m * p3] - centre
    return (p, p1, p2, p3), (w0, w1, w2, w3), (t0, t1, t2, t3)


@register_jitable
def _add_products(j, w, t, ahead, F, D, S, q):  # type: ignore[no-untyped-def]
    """Add Σ w F_j F_jᵀ to S, but for blocks above its diagonal, and Σ w t F_j to q; ask for F ahead."""
    n = np.uint64(len(q))
    j0, j1, j2, j3 = n * j[0], n * j[1], n * j[2], n * j[3]
    for b in range(n):
        prefetch(F, n * ahead[0] + b, BLOCK)
        prefetch(F, n * ahead[1] + b, BLOCK)
        prefetch(F, n * ahead[2] + b, BLOCK)
        prefetch(F, n * ahead[3] + b, BLOCK)
        f0, f1 = load_wide(F, j0 + b, BLOCK), load_wide(F, j1 + b, BLOCK)
        f2, f3 = load_wide(F, j2 + b, BLOCK), load_wide(F, j3 + b, BLOCK)
        right = axpy(w[0] * t[0], f0, axpy(w[1] * t[1], f1, load(q, b, BLOCK)))
        store(q, b, axpy(w[2] * t[2], f2, axpy(w[3] * t[3], f3, right)))
        for a in range(_EIGHT * b, D):
            c, k = a // _EIGHT, a % _EIGHT
            row = axpy(w[0] * F[j0 + c, k], f0, load(S, n * a + b, BLOCK))
            row = axpy(w[1] * F[j1 + c, k], f1, row)
            row = axpy(w[2] * F[j2 + c, k], f2, row)
            store(S, n * a + b, axpy(w[3] * F[j3 + c, k], f3, row))


@register_jitable
def _add_covariances(j, w, ahead, C, V):  # type: ignore[no-untyped-def]
    """Add Σ w C_j to V, and ask for those of the entries ahead."""
    n = np.uint64(len(V))
    j0, j1, j2, j3 = n * j[0], n * j[1], n * j[2], n * j[3]
    for b in range(n):
        prefetch(C, n * ahead[0] + b, WIDE_BLOCK)
        prefetch(C, n * ahead[1] + b, WIDE_BLOCK)
        prefetch(C, n * ahead[2] + b, WIDE_BLOCK)
        prefetch(C, n * ahead[3] + b, WIDE_BLOCK)
        row = axpy(w[0], load_wide(C, j0 + b, WIDE_BLOCK), load(V, b, WIDE_BLOCK))
        row = axpy(w[1], load_wide(C, j1 + b, WIDE_BLOCK), row)
        row = axpy(w[2], load_wide(C, j2 + b, WIDE_BLOCK), row)
        store(V, b, axpy(w[3], load_wide(C, j3 + b, WIDE_BLOCK), row))


@register_jitable
def _add_line(i, lines, indptr, indices, step, data, m, centre, F, C, D, S, q, V):  # type: ignore[no-untyped-def]
    """Sum over the entries of line i, and return Σ w (y − centre)².

    Four entries at a time: the sums, which no register holds, are read and written a quarter as often.
    """
    squares = 0.0
    _cleared(S)
    _cleared(q)
    for b in range(np.uint64(len(V))):
        store(V, b, zero(load(V, b, WIDE_BLOCK)))
    last = np.uint64(indices.size - 1)
    for s in range(np.uint64((indptr.size - 1) // lines)):
        base, p, end = s * step, indptr[s * lines + i], indptr[s * lines + i + ONE]
        while p < end:
            (p0, p1, p2, p3), w, t = _four(p, end, data, m, centre)
            squares += (w[0] * t[0] * t[0] + w[1] * t[1] * t[1]) + (w[2] * t[2] * t[2] + w[3] * t[3] * t[3])
            j = (
                base + np.uint64(indices[p0]),
                base + np.uint64(indices[p1]),
                base + np.uint64(indices[p2]),
                base + np.uint64(indices[p3]),
            )
            p += _FOUR
            ahead = (
                base + np.uint64(indices[min(p, last)]),
                base + np.uint64(indices[min(p + ONE, last)]),
                base + np.uint64(indices[min(p + _TWO, last)]),
                base + np.uint64(indices[min(p + _THREE, last)]),
            )
            _add_products(j, w, t, ahead, F, D, S, q)
            _add_covariances(j, w, ahead, C, V)
    return squares


@register_jitable
def _packed(S, q, V, d, bias, second, first):  # type: ignore[no-untyped-def]
    """Add the lower triangle of Σ w E[f fᵀ], Σ w E[o f] and Σ w E[o²] to `second`, Σ w t E[F] to `first`."""
    n, at = len(q), 0
    triangle = d * (d + 1) // 2
    for a in range(d + 1):
        first[a] += q[a // BLOCK, a % BLOCK]
        for k in range(a + 1):
            second[at] += S[n * a + k // BLOCK, k % BLOCK]
            at += 1
    # The last line of the covariances is that of o, if there is one: f has a constant in its place.
    alone = triangle - d if bias else triangle
    for k in range(triangle):
        if k < alone:
            second[k] += V[k // WIDE_BLOCK, k % WIDE_BLOCK]
        elif k < triangle - 1:
            second[k + d] += V[k // WIDE_BLOCK, k % WIDE_BLOCK]
        else:
            second[k + d + 1] += V[k // WIDE_BLOCK, k % WIDE_BLOCK]


@register_jitable
def _inverted(Q, X, diagonal):  # type: ignore[no-untyped-def]
    """Overwrite X, the identity, by the inverse of the Cholesky factor of Q, and return log det Q.

    Q, of which blocks below the diagonal are not looked at, is overwritten.
    """
    d = np.uint64(len(diagonal))
    n = np.uint64(len(Q)) // d
    logdet = 0.0
    for k in range(d):
        middle = k // _EIGHT
        pivot = Q[n * k + middle, k % _EIGHT]
        inverse = 1.0 / np.sqrt(pivot) if pivot > SINGULAR * diagonal[k] else 0.0
        logdet -= 2.0 * np.log(inverse) if inverse > 0.0 else 0.0
        for b in range(n):
            row = load(Q, n * k + b, BLOCK)
            store(Q, n * k + b, axpy(inverse, row, zero(row)))
            row = load(X, n * k + b, BLOCK)
            store(X, n * k + b, axpy(inverse, row, zero(row)))
        for a in range(k + ONE, d):
            factor = -Q[n * k + a // _EIGHT, a % _EIGHT]
            for b in range(a // _EIGHT, n):
                store(Q, n * a + b, axpy(factor, load(Q, n * k + b, BLOCK), load(Q, n * a + b, BLOCK)))
            for b in range(middle + ONE):
                store(X, n * a + b, axpy(factor, load(X, n * k + b, BLOCK), load(X, n * a + b, BLOCK)))
    return logdet


@register_jitable
def _add_squares(X, d, Q):  # type: ignore[no-untyped-def]
    """Add XᵀX, of which blocks above the diagonal are left out, to Q; X is lower triangular."""
    n = np.uint64(len(X)) // d
    for a in range(d):
        for k in range(a + ONE):
            factor = X[n * a + k // _EIGHT, k % _EIGHT]
            for b in range(k // _EIGHT + ONE):
                store(Q, n * k + b, axpy(factor, load(X, n * a + b, BLOCK), load(Q, n * k + b, BLOCK)))


@register_jitable
def _solve(i, precision, alpha, pulls, second, first, Q, X, diagonal, x, C):  # type: ignore[no-untyped-def]
    """Write the posterior of line i, given its sums, to x and C; return log det of the covariance."""
    d = len(diagonal)
    n, triangle, at = len(Q) // d, d * (d + 1) // 2, 0
    _cleared(X)
    for k in range(d):
        for a in range(k + 1):
            Q[n * a + k // BLOCK, k % BLOCK] = precision[k, a] + alpha * second[at]
            at += 1
        diagonal[k] = Q[n * k + k // BLOCK, k % BLOCK]
        X[n * k + k // BLOCK, k % BLOCK] = 1.0
    logdet = -_inverted(Q, X, diagonal)
    _cleared(Q)
    _add_squares(X, np.uint64(d), Q)
    at = 0
    for k in range(d):
        diagonal[k] = pulls[i, k] + alpha * (first[k] - second[triangle + k])
        for a in range(k + 1):
            C[i, at] = Q[n * k + a // BLOCK, a % BLOCK]
            Q[n * a + k // BLOCK, k % BLOCK] = Q[n * k + a // BLOCK, a % BLOCK]
            at += 1
    for k in range(d):
        sum_ = 0.0
        for a in range(d):
            sum_ += Q[n * k + a // BLOCK, a % BLOCK] * diagonal[a]
        x[i, k] = sum_
    return logdet


@register_jitable
def _expected_squares(i, squares, second, first, x, C):  # type: ignore[no-untyped-def]
    """Σ w E[(y − o − x·f)²] over the entries of line i, whose Σ w y² is `squares`."""
    d = x.shape[1]
    triangle = d * (d + 1) // 2
    error = squares - 2.0 * first[d] + second[triangle + d]
    at = 0
    for k in range(d):
        error -= 2.0 * (first[k] - second[triangle + k]) * x[i, k]
        for n in range(k + 1):
            moment = x[i, k] * x[i, n] + C[i, at]
            error += second[at] * (moment if n == k else 2.0 * moment)
            at += 1
    return error


@compiled
def update(progress, entries, believed, bias, alpha, precision, pulls, known, found):  # type: ignore[no-untyped-def]
    """Posteriors of all lines under the priors N(precision⁻¹ pulls_i, precision⁻¹) and noise of 1/alpha.

    `entries` are (bounds, indptr, indices, step, data, numbers per entry, centre), `believed` (F, C). `known`
    holds what entries that are not given any more summed up to (`second` and `first` of `_packed`, side by
    side), or has no line at all. Of `found`, x gets the means, C the lower triangles of the covariances,
    errors the expected squares of what is left of each line's values, and logs the logarithms of the
    covariances' determinants.
    """
    bounds, indptr, indices, step, data, m, centre = entries
    F, C = believed
    x, covariances, errors, logs = found
    lines, d = np.uint64(len(x)), x.shape[1]
    K, D = (d + 1) * (d + 2) // 2, d + 1
    second, first = np.empty(K), np.empty(D)
    wide, narrow = -(-D // BLOCK), -(-d // BLOCK)
    S, q = np.empty((wide * D, BLOCK)), np.empty((wide, BLOCK))
    V = np.empty((-(-(K - D) // WIDE_BLOCK), WIDE_BLOCK))
    Q, X, diagonal = np.zeros((narrow * d, BLOCK)), np.empty((narrow * d, BLOCK)), np.empty(d)
    for c in chunks(progress, bounds.size - 1):
        for i in range(bounds[c], bounds[c + 1]):
            # Loops, and no views of lines: NumPy's ways of writing these take seconds to compile.
            for k in range(K):
                second[k] = known[i, k] if len(known) else 0.0
            for k in range(D):
                first[k] = known[i, K + k] if len(known) else 0.0
            squares = _add_line(i, lines, indptr, indices, step, data, m, centre, F, C, np.uint64(D), S, q, V)
            _packed(S, q, V, d, bias, second, first)
            logs[i] = _solve(i, precision, alpha, pulls, second, first, Q, X, diagonal, x, covariances)
            errors[i] = _expected_squares(i, squares, second, first, x, covariances)
