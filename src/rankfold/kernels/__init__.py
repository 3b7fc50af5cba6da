"""The inner loops over the observed set, compiled by numba for the CPU.

Submodules load on first use, so that importing rankfold does not pay for numba.
"""
