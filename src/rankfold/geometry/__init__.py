"""Where we search: the geometries of matrices of fixed rank."""

from rankfold.geometry.base import Geometry as Geometry
from rankfold.geometry.embedded import Embedded as Embedded
from rankfold.geometry.full_rank import FullRank as FullRank
from rankfold.geometry.polar import Polar as Polar
from rankfold.geometry.positive_semidefinite import PositiveSemidefinite as PositiveSemidefinite
from rankfold.geometry.subspace import SubspaceProjection as SubspaceProjection
