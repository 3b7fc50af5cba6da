"""Numerical proofs that derivatives and geometries are right; run them on a cost or geometry of your own."""

from rankfold.checks.derivatives import HessianCheck, acceleration, check_gradient, check_hessian
from rankfold.checks.geometries import GeometryCheck, check_geometry, check_retraction
from rankfold.checks.slopes import SlopeCheck

__all__ = [
    "GeometryCheck",
    "HessianCheck",
    "SlopeCheck",
    "acceleration",
    "check_geometry",
    "check_gradient",
    "check_hessian",
    "check_retraction",
]
