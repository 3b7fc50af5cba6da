from rankfold import data as data
from rankfold.checks import check_geometry as check_geometry
from rankfold.checks import check_gradient as check_gradient
from rankfold.checks import check_hessian as check_hessian
from rankfold.checks import check_retraction as check_retraction
from rankfold.costs import Completion as Completion
from rankfold.costs import Cost as Cost
from rankfold.costs import Custom as Custom
from rankfold.costs import Frobenius as Frobenius
from rankfold.costs import Loss as Loss
from rankfold.costs import Multinomial as Multinomial
from rankfold.costs import MultinomialPairs as MultinomialPairs
from rankfold.costs import Nuclear as Nuclear
from rankfold.costs import Pairs as Pairs
from rankfold.costs import RankedPairs as RankedPairs
from rankfold.costs import Regression as Regression
from rankfold.costs import Unobserved as Unobserved
from rankfold.costs import WithOffsets as WithOffsets
from rankfold.estimators.categories.categorical_completion import (
    CategoricalCompletion as CategoricalCompletion,
)
from rankfold.estimators.completion.matrix_completion import MatrixCompletion as MatrixCompletion
from rankfold.estimators.completion.regularization_path import RegularizationPath as RegularizationPath
from rankfold.estimators.imputer.low_rank_imputer import LowRankImputer as LowRankImputer
from rankfold.estimators.model_files import ModelFileError as ModelFileError
from rankfold.estimators.model_files import load as load
from rankfold.estimators.model_files import save as save
from rankfold.estimators.pairs.pair_models import PairClassifier as PairClassifier
from rankfold.estimators.pairs.pair_models import PairRegressor as PairRegressor
from rankfold.estimators.pairs.pair_ranker import PairRanker as PairRanker
from rankfold.estimators.regression.reduced_rank import ReducedRankRegression as ReducedRankRegression
from rankfold.geometry import Embedded as Embedded
from rankfold.geometry import FullRank as FullRank
from rankfold.geometry import Geometry as Geometry
from rankfold.geometry import Polar as Polar
from rankfold.geometry import SubspaceProjection as SubspaceProjection
from rankfold.problem import Problem as Problem
from rankfold.run import stopping as stopping
from rankfold.run.checkpoint import Checkpoint as Checkpoint
from rankfold.run.checkpoint import CheckpointError as CheckpointError
from rankfold.run.driver import minimize as minimize
from rankfold.run.result import Progress as Progress
from rankfold.run.result import Result as Result
from rankfold.selection.rank import RankPath as RankPath
from rankfold.selection.rank import choose_rank as choose_rank
from rankfold.solvers import Auto as Auto
from rankfold.solvers import ConjugateGradient as ConjugateGradient
from rankfold.solvers import GradientDescent as GradientDescent
from rankfold.solvers import RankContinuation as RankContinuation
from rankfold.solvers import ReweightedContinuation as ReweightedContinuation
from rankfold.solvers import TrustRegion as TrustRegion

__version__: str
