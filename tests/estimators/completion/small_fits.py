"""A small matrix of ratings of low rank as the objective of a fit, and folds of it."""

from dataclasses import replace

import numpy as np

import rankfold as rf
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.trials import Fold

SHAPE = 9, 7


def entries(seed=0, skipped=3, bias=True, expecting=(None, None)):
    """A joint objective of entries with offsets and a factor, and some noise."""
    rng = np.random.default_rng(seed)
    whole = 2.0 + rng.standard_normal((9, 1)) + rng.standard_normal((9, 1)) @ rng.standard_normal((1, 7))
    i, j = np.nonzero(np.arange(63).reshape(SHAPE) % skipped)
    cost = rf.Completion(i, j, whole[i, j] + 0.3 * rng.standard_normal(i.size), SHAPE)
    return replace(Joint.of(cost, 0.1, Shrinkage(1.0, 1.0) if bias else None), expecting=expecting)


def a_choice(rank=1, bias=True, factors=1, **changes):
    """What was chosen with two folds, of unlike numbers of entries."""
    rng = np.random.default_rng(1)
    folds = []
    for k in range(2):
        joint = entries(k, 3 + k, bias)
        point = tuple(rng.standard_normal((d, factors + bias)) for d in SHAPE)
        test = np.array([0, 1]), np.array([0, 2]), np.array([[2.0], [1.0]])
        folds.append((Fold(joint, test, np.zeros(2)), point))
    return Choice(rank, 0.1, folds[0][0].joint.shrinkage, folds=tuple(folds))._replace(**changes)
