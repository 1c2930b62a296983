"""Transposes in two steps give what one gives, and stand only where one is slow."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from nnconv.formats.onnx import wire
from nnconv.formats.onnx.exporter import Target
from nnconv.formats.onnx.graph_parts import Names
from nnconv.formats.onnx.protobuf import write
from nnconv.formats.onnx.turn import turn
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.ir.dtype import DType
from support.spine import onnx_session


def turned(x: np.ndarray, perms: list[tuple[int, ...]], folder: Path) -> list[np.ndarray]:
    """``x`` transposed in every way by onnxruntime."""
    target = Target(opset=21, resign=True, names=Names())
    names = [turn(target, "x", perm, x.shape) for perm in perms]
    kind = DATA_TYPES[DType.of(x)]
    outputs = [
        wire.ValueInfo(name, kind, tuple(x.shape[p] for p in perm))
        for name, perm in zip(names, perms, strict=True)
    ]
    inputs = [wire.ValueInfo("x", kind, x.shape)]
    graph = wire.Graph("g", target.nodes, inputs, outputs, target.initializers)
    write(wire.Model(graph, 21), folder / "m.onnx")
    return onnx_session(folder / "m.onnx").run(None, {"x": x})


def steps(shape: tuple[int, ...] | None, perm: tuple[int, ...]) -> int:
    """How many Transposes are written."""
    target = Target(opset=21, resign=True, names=Names())
    turn(target, "x", perm, shape)
    return sum(node.op_type == "Transpose" for node in target.nodes)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("shape", [(7, 5, 6, 8), (3, 1, 7, 8, 9), (2, 3, 4, 7, 8)], ids=str)
def test_every_order_comes_out(shape: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)
    perms = list(permutations(range(len(shape))))
    for perm, found in zip(perms, turned(x, perms, tmp_path), strict=True):
        assert np.array_equal(found, x.transpose(perm)), perm


@pytest.mark.parametrize(
    ("shape", "perm", "count"),
    [
        ((1, 4, 100, 100, 8), (0, 3, 1, 4, 2), 2),
        ((1, 100, 4, 8, 100), (0, 2, 4, 1, 3), 2),
        ((20, 30, 40), (2, 1, 0), 1),  # no two exchanges do it
        ((2, 30, 40, 50), (0, 3, 1, 2), 1),  # one does
        ((2, 3, 40, 1, 50), (0, 4, 3, 1, 2), 1),
        ((20, 30, 4, 50), (1, 0, 2, 3), 1),  # rows stay
        ((20, 4, 5, 6), (2, 0, 1, 3), 1),
        ((2, 4, 5, 6), (1, 3, 0, 2), 1),  # small
        (None, (1, 3, 0, 2), 1),
    ],
)
def test_two_steps_stand_where_one_is_slow(
    shape: tuple[int, ...] | None, perm: tuple[int, ...], count: int
) -> None:
    assert steps(shape, perm) == count
