"""Runs the command line as ``python -m nnconv``."""

from nnconv.cli import main

if __name__ == "__main__":
    main()
