"""Dense linear algebra for tall (d×r) and small (r×r) matrices, on any array-API backend."""
