"""The observed set Ω: positions and data, sorted both ways, and its sparse matrices as operators."""
