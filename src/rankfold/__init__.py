"""rankfold: optimisation over low-rank matrices."""

__version__ = "0.1.0"
