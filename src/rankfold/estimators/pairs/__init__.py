"""`PairRegressor`, `PairClassifier` and `PairRanker`: bilinear models on pairs of feature rows."""
