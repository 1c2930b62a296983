"""16-bit codes alone become floats, rounded and clamped as they were where that does something."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Layout, Model, Quant, Signature
from nnconv.ir.op import Activation
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.norm import Softmax
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.ops.slices import Pad
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.to_floats import ToFloatsPass, computes_wide_codes

I16, SHAPE = DType.INT16, (1, 4, 4, 2)
X = Quant.per_tensor(0.001)
POOL = {"layout": Layout.NHWC, "window": (2, 2), "stride": (2, 2), "padding": Padding.none(2)}


BETWEEN = {
    "a sum may leave the range": (e.Add(), 2, X, (-32768, 32767)),
    "a sum in a wider range": (e.Add(), 2, Quant.per_tensor(0.003), (-32768, 32767)),
    "a clamp has bounds": (e.Clip(low=-1.0, high=2.0), 1, X, None),
    "one bound": (e.Add(activation=Activation.RELU), 2, X, (-np.inf, 32767)),
    "a mean stays": (AveragePool2D(**POOL), 1, X, None),
    "a mean in a narrower range": (AveragePool2D(**POOL), 1, Quant.per_tensor(0.0001), "both"),
    "a share": (Softmax(axis=3), 1, Quant.per_tensor(1 / 16384), None),
    "a share that may be all": (Softmax(axis=3), 1, Quant.per_tensor(1 / 32768), (-np.inf, 32767)),
    "a tangent": (e.Tanh(), 1, Quant.per_tensor(1 / 16384), None),
    "parts": (s.Concat(axis=0), 2, Quant.per_tensor(0.002), None),
}


def turned(graph: Graph, *, off: float = 1e-5) -> list:
    """Turn a graph's codes, which must give the same but for ``off``; its ops."""
    rng = np.random.default_rng(3)
    feeds = [
        rng.integers(*v.dtype.int_range, v.shape, endpoint=True).astype(v.dtype.numpy)
        if v.dtype.is_integer
        else rng.normal(0, 30, v.shape).astype(np.float32)
        for v in graph.inputs
    ]
    before = run_graph(graph, feeds)
    model = Model([Signature("", graph)])
    run_passes(model, [ToFloatsPass(wide=True), PrunePass()], verify=True)
    for old, new in zip(before, run_graph(graph, feeds), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=off)
    return [node.op for node in graph.nodes]


def one_op(op, count, quant) -> Graph:
    b = Builder(Graph("g"))
    inputs = [b.input(f"x{i}", I16, SHAPE, quant=X) for i in range(count)]
    y = b.add(op, inputs, quant=quant, dtype=I16)
    b.graph.outputs = [b.add(Dequantize(dtype=DType.FLOAT32), [y])]
    return b.graph


@pytest.mark.parametrize("case", BETWEEN)
def test_what_can_leave_the_range_is_clamped(case):
    op, count, quant, bounds = BETWEEN[case]
    is_mean = isinstance(op, AveragePool2D)  # whose halves may be a little less in floats
    ops = turned(one_op(op, count, quant), off=quant.scale[0] if is_mean else 1e-5)
    assert [type(o) for o in ops].count(e.Div) == 1
    half = e.Clip(low=-0.5, high=0.5)
    clips = [(o.low, o.high) for o in ops if isinstance(o, e.Clip) and o not in (op, half)]
    assert clips == ([] if bounds is None else [(-32768, 32767) if bounds == "both" else bounds])


@pytest.mark.parametrize(
    "op", [s.Reshape(shape=(4, 8)), MaxPool2D(**POOL), Pad(before=(0, 1, 0, 0), after=(0,) * 4)],
    ids=lambda op: op.name,
)  # fmt: skip
def test_moves_are_not_rounded_again(op):
    b = Builder(Graph("g"))
    x = b.input("x", I16, SHAPE, quant=X)
    y = b.add(op, [x], quant=X)
    b.graph.outputs = [b.add(e.Abs(), [b.add(Dequantize(dtype=DType.FLOAT32), [y])])]
    assert [type(o) for o in turned(b.graph)] == [Dequantize, type(op), e.Abs]


def test_codes_of_bytes_stay():
    b = Builder(Graph("g"))
    x = b.input("x", DType.INT8, SHAPE, quant=Quant.per_tensor(0.05, 3))
    narrow = b.add(e.Add(), [x, x], quant=Quant.per_tensor(0.1, -4))
    wide = b.add(e.Mul(), [narrow, narrow], quant=Quant.per_tensor(0.01), dtype=I16)
    back = b.add(e.Neg(), [wide], quant=Quant.per_tensor(2.0, 1), dtype=DType.INT8)
    y = b.add(e.Abs(), [back], quant=Quant.per_tensor(2.0, -128))
    b.graph.outputs = [b.add(Dequantize(dtype=DType.FLOAT32), [y])]
    turned(b.graph)
    kinds = {type(node.op): node.outputs[0].dtype for node in b.graph.nodes}
    assert kinds[e.Neg] is DType.FLOAT32
    assert next(n.outputs[0].dtype for n in b.graph.nodes if isinstance(n.op, e.Add)) is DType.INT8
    assert kinds[e.Abs] is DType.INT8
    assert kinds[Quantize] is DType.INT8


@pytest.mark.parametrize(("read", "wanted"), [(True, True), (False, False)])
def test_computing_is_told_from_moving(read, wanted):
    b = Builder(Graph("g"))
    x = b.input("x", I16, SHAPE, quant=X)
    y = b.add(Dequantize(dtype=DType.FLOAT32), [b.add(s.Reshape(shape=(32,)), [x], quant=X)])
    b.graph.outputs = [b.add(e.Abs(), [y]) if read else y]
    assert computes_wide_codes(b.graph) is wanted
