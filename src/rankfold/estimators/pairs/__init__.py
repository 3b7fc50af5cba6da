"""`PairRegressor` and `PairClassifier`: bilinear models on pairs of feature rows."""
