"""The paper's numerical figures, and the command that makes them: `rankfold reproduce`."""
