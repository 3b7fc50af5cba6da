"""Gaussian posteriors of lines, given the moments of the other side: one small linear system for each line.

Entry p of line i, at line j of the other side, has the value y = centre + o_j + x_i·f_j + noise. What the
posteriors of the other side say of (f_j, o_j) comes as two arrays. `M` holds, for each j, the lower triangle
of E[f fᵀ] row by row, then E[o f], then E[o²]; `F` holds E[f] and then E[o]. Lines have nothing to do with
each other, and the entries of a line are added in their order, so any number of threads gives the same bits.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from rankfold.kernels.chunks import chunks
from rankfold.kernels.compiling import compiled
from rankfold.kernels.layout import ONE

# A pivot below this part of its diagonal entry is rounding: its unknown becomes zero.
SINGULAR = 1e-14
_TWO, _THREE, _FOUR = (np.uint64(n) for n in (2, 3, 4))


@register_jitable
def _add_line(i, lines, indptr, indices, step, data, m, centre, M, F, second, first):  # type: ignore[no-untyped-def]
    """Add Σ w M_j to `second` and Σ w t F_j to `first`, t = y − centre; return Σ w t².

    Four entries at a time: the sums, which no register holds, are read and written a quarter as often.
    """
    squares = 0.0
    K, D = M.shape[1], F.shape[1]
    for s in range(np.uint64((indptr.size - 1) // lines)):
        base, p, end = s * step, indptr[s * lines + i], indptr[s * lines + i + ONE]
        while p < end:
            stop = end - ONE
            q0, q1, q2, q3 = p, min(p + ONE, stop), min(p + _TWO, stop), min(p + _THREE, stop)
            j0, j1 = base + np.uint64(indices[q0]), base + np.uint64(indices[q1])
            j2, j3 = base + np.uint64(indices[q2]), base + np.uint64(indices[q3])
            w0 = np.float64(data[m * q0 + ONE]) if m == _TWO else 1.0
            w1 = np.float64(data[m * q1 + ONE]) if m == _TWO else 1.0
            w2 = np.float64(data[m * q2 + ONE]) if m == _TWO else 1.0
            w3 = np.float64(data[m * q3 + ONE]) if m == _TWO else 1.0
            if p + ONE >= end:
                w1 = 0.0
            if p + _TWO >= end:
                w2 = 0.0
            if p + _THREE >= end:
                w3 = 0.0
            t0, t1 = data[m * q0] - centre, data[m * q1] - centre
            t2, t3 = data[m * q2] - centre, data[m * q3] - centre
            squares += (w0 * t0 * t0 + w1 * t1 * t1) + (w2 * t2 * t2 + w3 * t3 * t3)
            for k in range(K):
                second[k] += (w0 * M[j0, k] + w1 * M[j1, k]) + (w2 * M[j2, k] + w3 * M[j3, k])
            t0, t1, t2, t3 = w0 * t0, w1 * t1, w2 * t2, w3 * t3
            for k in range(D):
                first[k] += (t0 * F[j0, k] + t1 * F[j1, k]) + (t2 * F[j2, k] + t3 * F[j3, k])
            p += _FOUR
    return squares


@register_jitable
def _inverted(Q, half):  # type: ignore[no-untyped-def]
    """Overwrite `half` by the inverse of the Cholesky factor of Q, and return log det Q; Q is overwritten."""
    d = len(Q)
    logdet = 0.0
    for k in range(d):
        least = SINGULAR * Q[k, k]
        for n in range(k):
            Q[k, k] -= Q[k, n] * Q[k, n]
        inverse = 1.0 / np.sqrt(Q[k, k]) if Q[k, k] > least else 0.0
        logdet -= 2.0 * np.log(inverse) if inverse > 0.0 else 0.0
        for a in range(k + 1, d):
            sum_ = Q[a, k]
            for n in range(k):
                sum_ -= Q[a, n] * Q[k, n]
            Q[a, k] = sum_ * inverse
        for c in range(k):
            sum_ = 0.0
            for n in range(c, k):
                sum_ -= Q[k, n] * half[n, c]
            half[k, c] = sum_ * inverse
        half[k, k] = inverse
    return logdet


@register_jitable
def _solve(i, precision, alpha, pulls, second, first, Q, half, x, C):  # type: ignore[no-untyped-def]
    """Write the posterior of line i, given its sums, to x and C; return log det of the covariance."""
    d = x.shape[1]
    triangle = d * (d + 1) // 2
    at = 0
    for k in range(d):
        for n in range(k + 1):
            Q[k, n] = precision[k, n] + alpha * second[at]
            at += 1
    logdet = -_inverted(Q, half)
    at = 0
    for k in range(d):
        for n in range(k + 1):
            sum_ = 0.0
            for a in range(k, d):
                sum_ += half[a, k] * half[a, n]
            Q[k, n] = sum_
            Q[n, k] = sum_
            C[i, at] = sum_
            at += 1
    for k in range(d):
        sum_ = 0.0
        for n in range(d):
            sum_ += Q[k, n] * (pulls[i, n] + alpha * (first[n] - second[triangle + n]))
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
def update(progress, entries, moments, alpha, precision, pulls, known, found):  # type: ignore[no-untyped-def]
    """Posteriors of all lines under the priors N(precision⁻¹ pulls_i, precision⁻¹) and noise of 1/alpha.

    `entries` are (bounds, indptr, indices, step, data, numbers per entry, centre), `moments` (M, F). `known`
    holds what entries that are not given any more summed up to, as `sums` does, or has no line at all. Of
    `found`, x gets the means, C the lower triangles of the covariances, errors the expected squares of what
    is left of each line's values, and logs the logarithms of the covariances' determinants.
    """
    bounds, indptr, indices, step, data, m, centre = entries
    M, F = moments
    x, C, errors, logs = found
    lines, d, K, D = np.uint64(len(x)), x.shape[1], M.shape[1], F.shape[1]
    second, first = np.empty(K), np.empty(D)
    Q, half = np.empty((d, d)), np.zeros((d, d))
    for c in chunks(progress, bounds.size - 1):
        for i in range(bounds[c], bounds[c + 1]):
            # Loops, and no views of lines: NumPy's ways of writing these take seconds to compile.
            for k in range(K):
                second[k] = known[i, k] if len(known) else 0.0
            for k in range(D):
                first[k] = known[i, K + k] if len(known) else 0.0
            squares = _add_line(i, lines, indptr, indices, step, data, m, centre, M, F, second, first)
            logs[i] = _solve(i, precision, alpha, pulls, second, first, Q, half, x, C)
            errors[i] = _expected_squares(i, squares, second, first, x, C)


@compiled
def sums(progress, entries, moments, out):  # type: ignore[no-untyped-def]
    """Σ w M_j and Σ w (y − centre) F_j of each line, side by side."""
    bounds, indptr, indices, step, data, m, centre = entries
    M, F = moments
    lines, K, D = np.uint64(len(out)), M.shape[1], F.shape[1]
    second, first = np.empty(K), np.empty(D)
    for c in chunks(progress, bounds.size - 1):
        for i in range(bounds[c], bounds[c + 1]):
            second[:] = 0.0
            first[:] = 0.0
            _add_line(i, lines, indptr, indices, step, data, m, centre, M, F, second, first)
            for k in range(K):
                out[i, k] = second[k]
            for k in range(D):
                out[i, K + k] = first[k]
