"""What we minimise: smooth functions of a low-rank matrix, seen through its two factors."""

from rankfold.costs.base import Combination as Combination
from rankfold.costs.base import Cost as Cost
from rankfold.costs.base import Evaluation as Evaluation
from rankfold.costs.completion import Completion as Completion
from rankfold.costs.custom import Custom as Custom
from rankfold.costs.distances import Distances as Distances
from rankfold.costs.distances import Triplets as Triplets
from rankfold.costs.factor_penalty import FactorPenalty as FactorPenalty
from rankfold.costs.losses import Loss as Loss
from rankfold.costs.multinomial import Multinomial as Multinomial
from rankfold.costs.offsets import Offsets as Offsets
from rankfold.costs.offsets import WithOffsets as WithOffsets
from rankfold.costs.pairs import MultinomialPairs as MultinomialPairs
from rankfold.costs.pairs import Pairs as Pairs
from rankfold.costs.ranking import RankedPairs as RankedPairs
from rankfold.costs.regression import Regression as Regression
from rankfold.costs.regularisers import Frobenius as Frobenius
from rankfold.costs.regularisers import Nuclear as Nuclear
from rankfold.costs.regularisers import Unobserved as Unobserved
