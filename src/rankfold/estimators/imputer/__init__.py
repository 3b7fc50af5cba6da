"""`LowRankImputer`: the holes of a table filled by a factor model."""
