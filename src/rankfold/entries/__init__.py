"""The observed set Ω behind one seam: stores of entries, and their sparse matrices as operators.

`store` says what any store answers, `observed` is the one in memory, whose kernels numba compiles.
"""
