"""Where things lie: the checkout, and the reference models that only some machines have."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

FIXTURES = ROOT / "fixtures"
"""Small models that the project made."""


def find_shared_dir() -> Path | None:
    """Give the folder of reference models, or None where this machine has none.

    It is named by the environment variable NNCONV_SHARED, or lies beside the checkout. For use at
    collection time; tests take the fixture ``shared_dir``.
    """
    named = os.environ.get("NNCONV_SHARED")
    folder = Path(named) if named else ROOT.parent / "shared"
    return folder if folder.is_dir() else None
