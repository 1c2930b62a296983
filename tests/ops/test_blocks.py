"""Space to depth and batch, and back: op x dtype, pads and crops, 3-D and 4-D, in both layouts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import DType, Graph, Layout, Model, Signature
from nnconv.ir.builder import Builder
from nnconv.ops.blocks import DepthToSpace
from support.moves import ALL, QUANT, ints, move
from support.spine import Case, check, onnx_ops, onnx_session
from support.tflite_builder import TfliteBuilder

DEPTH = [
    *(
        move(
            "DEPTH_TO_SPACE",
            (2, 3, 4, 12),
            (2, 6, 8, 3),
            options={"block_size": 2},
            dtype=d,
        )
        for d in ("float32", "int8", "uint8", "int32", "int64")
    ),
    *(
        move(
            "SPACE_TO_DEPTH",
            (2, 6, 8, 3),
            (2, 3, 4, 12),
            options={"block_size": 2},
            dtype=d,
        )
        for d in ("float32", "int8", "uint8", "int32", "int64")
    ),
    move("DEPTH_TO_SPACE", (1, 3, 2, 18), (1, 9, 6, 2), options={"block_size": 3}),
    move("SPACE_TO_DEPTH", (1, 9, 6, 2), (1, 3, 2, 18), options={"block_size": 3}),
    move("DEPTH_TO_SPACE", (1, 3, 2, 5), (1, 3, 2, 5), options={"block_size": 1}),
]


def to_batch(
    shape: Sequence[int], block: Sequence[int], pads: Sequence[Sequence[int]], **fields: Any
) -> Case:
    """A case of SPACE_TO_BATCH_ND."""
    sizes = [n + sum(p) for n, p in zip(shape[1:], pads, strict=False)]
    small = [n // b for n, b in zip(sizes, block, strict=True)]
    out = (shape[0] * int(np.prod(block)), *small, *shape[1 + len(block) :])
    rest = [ints(*block), np.asarray(pads, np.int32)]
    label = f"{'x'.join(map(str, shape))}-{block}"
    return move("SPACE_TO_BATCH_ND", shape, out, rest=rest, label=label, **fields)


def to_space(
    shape: Sequence[int], block: Sequence[int], crops: Sequence[Sequence[int]], **fields: Any
) -> Case:
    """A case of BATCH_TO_SPACE_ND."""
    big = [n * b - sum(c) for n, b, c in zip(shape[1:], block, crops, strict=False)]
    out = (shape[0] // int(np.prod(block)), *big, *shape[1 + len(block) :])
    rest = [ints(*block), np.asarray(crops, np.int32)]
    label = f"{'x'.join(map(str, shape))}-{block}"
    return move("BATCH_TO_SPACE_ND", shape, out, rest=rest, label=label, **fields)


BATCH = [
    *(
        to_batch((2, 5, 4, 3), (3, 2), ((0, 1), (1, 1)), dtype=d, run_time=run)
        for d in ALL
        for run in ((False, True) if d in ("float32", "int8", "int16") else (False,))
    ),
    *(
        to_space((12, 3, 4, 5), (3, 2), ((1, 0), (2, 1)), dtype=d, run_time=run)
        for d in ALL
        for run in ((False, True) if d in ("float32", "int8", "int16") else (False,))
    ),
    *(to_batch((1, 4, 6, 3), (2, 2), ((0, 0), (1, 1)), dtype=d) for d in ("float32", "int8")),
    *(to_space((4, 2, 3, 5), (2, 2), ((0, 1), (0, 0)), dtype=d) for d in ("float32", "int8")),
    *(to_batch((2, 5, 3), (3,), ((1, 0),), dtype=d) for d in ("float32", "int8")),
    *(to_space((6, 5, 3), (3,), ((1, 2),), dtype=d) for d in ("float32", "int8")),
]


@pytest.mark.parametrize("case", [*DEPTH, *BATCH], ids=str)
def test_blocks(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def around_pools(dtype: str) -> Case:
    """SPACE_TO_BATCH_ND and back between pools: all in NCHW."""

    def build(b: TfliteBuilder) -> None:
        quant = QUANT.get(dtype)
        window = {"stride_h": 1, "stride_w": 1, "filter_height": 1, "filter_width": 1}
        x = b.input("x", dtype, (1, 6, 8, 3), quant=quant)
        pool = b.op("MAX_POOL_2D", [x], [(dtype, (1, 6, 8, 3), quant)], options=window)
        block = b.const(ints(2, 2))
        none = b.const(np.zeros((2, 2), np.int32))
        out = b.op("SPACE_TO_BATCH_ND", [pool, block, none], [(dtype, (4, 3, 4, 3), quant)])
        pool = b.op("MAX_POOL_2D", [out], [(dtype, (4, 3, 4, 3), quant)], options=window)
        back = b.op("BATCH_TO_SPACE_ND", [pool, block, none], [(dtype, (1, 6, 8, 3), quant)])
        b.output(b.op("MAX_POOL_2D", [back], [(dtype, (1, 6, 8, 3), quant)], options=window))

    return Case(dtype, build)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_batch_moves_stay_in_nchw(dtype: str, tmp_path: Path) -> None:
    check(around_pools(dtype), tmp_path)
    counts = onnx_ops(tmp_path / "model.onnx")
    assert counts["Transpose"] == 2, "one at each edge"
    assert counts["SpaceToDepth"] == counts["DepthToSpace"] == 1


@pytest.mark.parametrize(
    ("shape", "block", "columns_first", "first"),
    [
        ((1, 8, 1, 1), 2, False, [0, 2, 4, 6]),
        ((1, 8, 1, 1), 2, True, [0, 1, 2, 3]),
        ((1, 18, 3, 2), 3, False, [0, 12, 24, 1, 13, 25]),
        ((1, 18, 3, 2), 3, True, [0, 6, 12, 1, 7, 13]),
    ],
)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT32])
def test_both_orders_of_depth(
    shape: tuple[int, ...],
    block: int,
    columns_first: bool,
    first: list[int],
    dtype: DType,
    tmp_path: Path,
) -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", dtype, shape)
    op = DepthToSpace(layout=Layout.NCHW, block=block, column_row_depth=columns_first)
    graph.outputs = [b.add(op, [x], name="y")]
    data = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype.numpy)
    (reference,) = run_graph(graph, [data])
    path = tmp_path / "m.onnx"
    nnconv.save(Model([Signature("", graph)]), path)
    (result,) = onnx_session(path).run(None, {"x": data})
    np.testing.assert_array_equal(result, reference)
    rows = reference[0, 0].reshape(-1)[: len(first)]
    np.testing.assert_array_equal(rows, first)
