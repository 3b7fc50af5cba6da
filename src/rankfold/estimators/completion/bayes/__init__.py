"""How sure a prediction is: Gaussian posteriors of rows and columns, started from a fit."""
