"""`python -m rankfold`, which is what torchrun starts: `torchrun ... -m rankfold complete ...`."""

from rankfold.cli import main

if __name__ == "__main__":
    main()
