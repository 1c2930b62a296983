"""Every op x kind of element that LiteRT's CPU kernels run right, in one canonical model each.

LiteRT decides when the test runs: what the installed one refuses is skipped. Control flow, states,
convolutions, recurrent ops and casts have tables of their own, in the tests of their families.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nnconv.errors import UnsupportedError
from nnconv.formats.tflite.reader import read
from nnconv.ir.printer import print_model
from support.breadth import Recipe, Slot, ints, of, with_litert, x, y
from support.breadth_moves import MOVING
from support.breadth_values import CODES, COMPARISONS, COMPUTING, OPTIONS, SHAPE, unary
from support.spine import Case, check, model_bytes

RECIPES = [*COMPUTING, *MOVING]


@pytest.mark.parametrize("case", [c for recipe in RECIPES for c in recipe.cases()], ids=str)
def test_breadth(case: Case, tmp_path: Path) -> None:
    check(with_litert(case), tmp_path)


# -------------------------------------------------------------------- what LiteRT gets wrong

MEANINGLESS = {
    **dict.fromkeys(("EXP", "TANH", "HARD_SWISH", "ELU", "RELU", "RELU6"), "int8r int16r"),
    **dict.fromkeys(("RELU_N1_TO_1", "RELU_0_TO_1", "GELU", "LEAKY_RELU"), "int8r uint8r"),
    **dict.fromkeys(("SQRT", "RSQRT", "LOG"), "int16r"),
    "SOFTMAX": "uint8r",
}
"""Integers without parameters that LiteRT's kernels take: some end its process, the others give
numbers that mean nothing."""


@pytest.mark.parametrize("op", sorted(MEANINGLESS))
def test_integers_without_real_values_are_refused(op: str) -> None:
    source = x(*CODES)
    for kind in MEANINGLESS[op].split():
        recipe = Recipe(op, [source], [x(*CODES)], kind, options=OPTIONS.get(op, {}))
        with pytest.raises(UnsupportedError, match="has no quantization parameters"):
            read(model_bytes(recipe.case(kind)), name=op)


def _own(op: str, kinds: str, operands: Sequence[Slot], result: Slot, **options: Any) -> list[Case]:
    return Recipe(op, operands, [result], kinds, options=options, label="own").cases()


WHOLE = x(*SHAPE)
OWN_ORACLE = [
    *(case for op in ("RSQRT", "LOG") for case in unary(op, "int16").cases()),
    *unary("EXP", "int16", variants={}).cases(),
    *(
        case
        for slope in ((1, 1, 5), (3, 4, 5))
        for case in _own("PRELU", "int16", [WHOLE, x(*slope, quant="second", const=True)], WHOLE)
    ),
    *(
        case
        for op in sorted(COMPARISONS)
        for case in _own(op, "int16", [WHOLE, x(*SHAPE, quant="second")], of("bool", *SHAPE))
    ),
    *_own("CONCATENATION", "int16", [WHOLE, x(*SHAPE, quant="second")], y(4, 3, 4, 5)),
    *(
        case
        for op in ("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
        for case in _own(op, "int8 uint8 int16", [WHOLE, ints([1, 2])], y(2, 5))
    ),
    *(
        case
        for op in ("MEAN", "SUM")
        for case in _own(op, "int8r uint8r int16r", [WHOLE, ints([1, 2])], x(2, 5))
    ),
    *_own("MUL", "int8r uint8r", [WHOLE, WHOLE], WHOLE),
    *_own("MATRIX_DIAG", "float16 float64 uint16 bool", [x(2, 3)], x(2, 3, 3)),
    *_own("MATRIX_SET_DIAG", "float16 float64 uint16 bool", [x(2, 3, 4), x(2, 3)], x(2, 3, 4)),
    *_own("NOT_EQUAL", "int16r", [WHOLE, WHOLE], of("bool", *SHAPE)),
]
"""What LiteRT's kernels run to wrong numbers: 16-bit tables, parameters that differ where they are
compared or moved as if they didn't, bytes left over."""


@pytest.mark.parametrize("case", OWN_ORACLE, ids=str)
def test_onnx_agrees_with_the_reference(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


# -------------------------------------------------------------------- versions

NEWEST_VERSION = 14
"""The highest that LiteRT's kernels are registered for (FULLY_CONNECTED's)."""


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: f"{r.op}-{r.label}")
def test_version_of_an_op_changes_nothing(recipe: Recipe) -> None:
    kind = recipe.kinds.split()[0]
    graphs = {
        print_model(read(model_bytes(recipe.case(kind, version=version)), name="m"))
        for version in (1, 2, 5, NEWEST_VERSION)
    }
    assert len(graphs) == 1
