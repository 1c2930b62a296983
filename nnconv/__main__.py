"""Runs the command line as ``python -m nnconv``."""

import sys

from nnconv.cli import main

if __name__ == "__main__":
    sys.exit(main())
