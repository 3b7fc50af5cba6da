"""`MatrixCompletion`: a matrix predicted from the entries that are known."""
