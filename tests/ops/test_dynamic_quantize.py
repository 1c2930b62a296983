"""Quantization by a tensor's own range, and products of what comes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Model, Signature, Value
from nnconv.ir.op import Layout
from nnconv.ops import elementwise as e
from nnconv.ops.conv import ConvInteger
from nnconv.ops.product import MatMulInteger
from nnconv.ops.quantize import Cast, DynamicQuantize
from nnconv.ops.shape import Reshape
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.fold_dynamic import FoldDynamicPass
from nnconv.passes.fold_scales import FoldScalesPass
from nnconv.passes.prune import PrunePass
from support.onnx_spine import IrCase, check_ir
from support.qdq import op_names
from support.tflite_spine import TfliteCase, check_tflite

DATA = {
    "both signs": np.linspace(-3.3, 7.1, 24),
    "positive": np.linspace(0.7, 7.1, 24),
    "negative": np.linspace(-7.1, -0.7, 24),
}


def dynamic(b: Builder) -> list[Value]:
    return list(b.add_many(DynamicQuantize(), [b.input("x", DType.FLOAT32, (2, 3, 4))]))


@pytest.mark.parametrize("kind", DATA)
def test_onnx(kind: str, tmp_path: Path) -> None:
    feeds = [DATA[kind].astype(np.float32).reshape(2, 3, 4)]
    nodes = {"DynamicQuantizeLinear": 1}
    check_ir(IrCase(kind, dynamic, feeds=feeds, nodes=nodes), tmp_path)


@pytest.mark.parametrize("kind", [*DATA, "zeros"])
def test_tflite(kind: str, tmp_path: Path) -> None:
    data = DATA.get(kind, np.zeros(24)).astype(np.float32)

    def build(b: Builder) -> list[Value]:
        codes, *scalars = dynamic(b)
        return [codes, *(b.add(Reshape(shape=(1,)), [v]) for v in scalars)]

    check_tflite(TfliteCase(kind, build, feeds=[data.reshape(2, 3, 4)]), tmp_path)


RNG = np.random.default_rng(2)
CONV = ConvInteger(
    layout=Layout.NHWC, stride=(1, 1), dilation=(1, 1), padding=Padding((1, 1), (1, 1)), groups=2
)


def product(b: Builder, x: Value, *, conv: bool, columns: bool, dtype: DType) -> Value:
    codes, scale, point = b.add_many(DynamicQuantize(), [x])
    low, high = dtype.int_range
    shape = (6, 3, 3, 4) if conv else (8, 6)
    weights = b.const(RNG.integers(low, high + 1, shape).astype(dtype.numpy))
    count = (6,) if columns else ()
    points = b.const(np.full(count, 3 if low < 0 else 121, dtype.numpy))
    scales = b.const(RNG.uniform(0.01, 0.02, () if conv else count).astype(np.float32))
    op = CONV if conv else MatMulInteger()
    sums = b.add(op, [codes, weights, point, points])
    number = b.add(Cast(dtype=DType.FLOAT32), [sums])
    y = b.add(e.Mul(), [number, b.add(e.Mul(), [scale, scales])])
    return b.add(e.Add(), [y, b.const(np.arange(6, dtype=np.float32))])


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=str)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("conv", [False, True])
def test_products_are_folded(conv: bool, columns: bool, dtype: DType) -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (2, 5, 6, 8))
    graph.outputs = [product(b, x, conv=conv, columns=columns, dtype=dtype)]
    data = RNG.normal(0, 1, (2, 5, 6, 8)).astype(np.float32)
    (before,) = run_graph(graph, [data])
    passes = [FoldDynamicPass(), FoldScalesPass(), PrunePass()]
    run_passes(Model([Signature("", graph)]), passes, verify=True)
    (after,) = run_graph(graph, [data])
    assert op_names(graph) == ["Dequantize", "Conv2D" if conv else "FullyConnected"]
    assert np.abs(before - after).max() < 0.02 * np.abs(before).max()


@pytest.mark.parametrize("reader", ["codes", "sums"])
def test_sums_that_are_read_elsewhere_stay(reader: str) -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (5, 8))
    y = product(b, x, conv=False, columns=False, dtype=DType.INT8)
    made = {n.op.name: n for n in graph.nodes}
    inner = {"codes": "DynamicQuantize", "sums": "MatMulInteger"}[reader]
    graph.outputs = [y, made[inner].outputs[0]]
    changed = FoldDynamicPass().run(graph)
    assert changed is (reader == "codes")
