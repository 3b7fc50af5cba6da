"""The paper's numerical figures, one module each, and the command that makes them: `rankfold reproduce`."""
