"""Side information: features of rows and columns, which say what to expect of them before any entry does."""
