"""The reference computes with bfloat16, which numpy doesn't call floating, as with other floats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Op
from nnconv.ops.diagonal import Trilu
from nnconv.ops.elementwise import FloorDiv, FloorMod
from nnconv.ops.gather import NonZero, Reduction, ScatterElements, TopK, Unique
from nnconv.ops.numeric import IsInf, IsNan, TruncatedMod
from nnconv.ops.pool import MaxPool1D
from nnconv.ops.reduce import ArgMax, ArgMin
from nnconv.ops.segment import Bucketize
from nnconv.ops.spatial import Padding
from nnconv.ops.window import ReduceWindow

NAN, INF = np.nan, np.inf

ROWS = [[1.5, NAN, 3, -2], [0, INF, -INF, 0.5]]
DIVIDENDS = [1, -5, 5, -3, 0, NAN, INF, 7.5]
DIVISORS = [0, 3, -3, 2, 0, 1, 2, -2]
WINDOW = {"window": (1, 2), "stride": (1, 1), "dilation": (1, 1)}
POOL = {"window": (2,), "stride": (1,), "padding": Padding((1,), (1,))}

CASES: list[tuple[Op, list[object]]] = [
    *((op, [DIVIDENDS, DIVISORS]) for op in (FloorDiv(), FloorMod(), TruncatedMod())),
    *((TopK(k=3, axis=1, largest=largest), [ROWS]) for largest in (True, False)),
    *((op(axis=1), [ROWS]) for op in (ArgMax, ArgMin)),
    *((op, [ROWS]) for op in (IsNan(), IsInf(negative=False), NonZero(), Trilu())),
    *((ReduceWindow(reduction=r, **WINDOW), [ROWS, 0.25]) for r in (Reduction.MAX, Reduction.ADD)),
    (MaxPool1D(**POOL), [[ROWS]]),
    (ScatterElements(axis=0, reduction=Reduction.MIN), [[1, 2, 3], np.int64([2, 0]), [-1, INF]]),
    (Unique(), [[3, 1, 3, INF, -0.5, 1]]),
    (Bucketize(boundaries=(0.0, 2.0)), [ROWS]),
]


def _results(op: Op, operands: Sequence[object], dtype: DType) -> list[np.ndarray]:
    """What an op gives, with operands of plain numbers in a type."""
    arrays = [a if isinstance(a, np.ndarray) else np.array(a, dtype.numpy) for a in operands]
    b = Builder(Graph("stored"))
    inputs = [b.input(f"x{i}", DType.of(a), a.shape) for i, a in enumerate(arrays)]
    b.graph.outputs = list(b.add_typed(op, inputs, op.infer([value.type for value in inputs])))
    return run_graph(b.graph, arrays)


@pytest.mark.parametrize(("op", "operands"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_bfloat16_is_computed_with_as_float32_is(op: Op, operands: Sequence[object]) -> None:
    """All numbers, results too, are such that both types have them."""
    pairs = zip(*(_results(op, operands, d) for d in (DType.BFLOAT16, DType.FLOAT32)), strict=True)
    for found, wanted in pairs:
        kind = DType.BFLOAT16 if DType.of(wanted).is_float else DType.of(wanted)
        assert DType.of(found) is kind
        np.testing.assert_array_equal(found.astype(wanted.dtype), wanted)
