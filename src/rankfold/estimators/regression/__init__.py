"""`ReducedRankRegression`: several responses by coefficients of low rank."""
