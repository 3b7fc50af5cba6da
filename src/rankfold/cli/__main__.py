"""`python -m rankfold.cli`."""

from rankfold.cli import main

main()
