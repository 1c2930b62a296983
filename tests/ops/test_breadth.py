"""Every op x kind of element that LiteRT's CPU kernels run right, in one canonical model each.

LiteRT decides when the test runs: what the installed one refuses is skipped. Control flow, states,
convolutions, recurrent ops and casts have tables of their own, in the tests of their families.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.breadth import with_litert
from support.breadth_moves import MOVING
from support.breadth_values import COMPUTING
from support.spine import Case, check

RECIPES = [*COMPUTING, *MOVING]


@pytest.mark.parametrize("case", [c for recipe in RECIPES for c in recipe.cases()], ids=str)
def test_breadth(case: Case, tmp_path: Path) -> None:
    check(with_litert(case), tmp_path)
