"""`CategoricalCompletion`: tables of categories with holes."""
