"""Where we search: the four geometries of matrices of fixed rank."""

from rankfold.geometry.base import Geometry
from rankfold.geometry.embedded import Embedded
from rankfold.geometry.full_rank import FullRank
from rankfold.geometry.polar import Polar
from rankfold.geometry.subspace import SubspaceProjection

__all__ = ["Embedded", "FullRank", "Geometry", "Polar", "SubspaceProjection"]
