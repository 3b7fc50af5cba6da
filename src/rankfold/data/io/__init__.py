"""Files of triples and of pairs: text, Parquet, Matrix Market and npz."""
