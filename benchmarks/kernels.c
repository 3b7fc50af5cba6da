/* The floor: value, f_L and f_R of the square loss, two fused passes, as one would write them in C. */
#include <stdint.h>

static double sweep(int64_t d, const uint64_t *indptr, const uint32_t *indices, const double *values,
                    const double *A, const double *B, double scale, double *f_A) {
  double sum = 0.0;
#pragma omp parallel for schedule(dynamic, 256) reduction(+ : sum)
  for (int64_t i = 0; i < d; i++) {
    const double *a = A + i * RANK;
    double gradient[RANK];
    for (int k = 0; k < RANK; k++) gradient[k] = 0.0;
    for (uint64_t p = indptr[i]; p < indptr[i + 1]; p++) {
      const double *b = B + (uint64_t)indices[p] * RANK;
      double e = -values[p];
      for (int k = 0; k < RANK; k++) e += a[k] * b[k];
      sum += e * e;
      for (int k = 0; k < RANK; k++) gradient[k] += scale * e * b[k];
    }
    for (int k = 0; k < RANK; k++) f_A[i * RANK + k] = gradient[k];
  }
  return sum;
}

double evaluate(int64_t d1, const uint64_t *indptr1, const uint32_t *indices1, const double *values1,
                int64_t d2, const uint64_t *indptr2, const uint32_t *indices2, const double *values2,
                const double *L, const double *R, double scale, double *f_L, double *f_R) {
  double sum = sweep(d1, indptr1, indices1, values1, L, R, scale, f_L);
  sweep(d2, indptr2, indices2, values2, R, L, scale, f_R);
  return sum;
}
