"""Convolutions of columns as channels become convolutions of the columns again."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Layout, Model, Quant, Signature, Value
from nnconv.ops.conv import Conv2D
from nnconv.ops.elementwise import Neg
from nnconv.ops.quantize import Dequantize
from nnconv.ops.shape import Reshape
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.merge_columns import MergeColumnsPass
from nnconv.passes.prune import PrunePass
from nnconv.passes.split_columns import SplitColumnsPass
from nnconv.passes.tidy import TidyPass

DATA = Quant.per_tensor(0.05, 3)
RESULT = Quant.per_tensor(0.1, -20)


def _net(
    kind: str,
    *,
    shape: tuple[int, ...] = (2, 5, 8, 3),
    window: tuple[int, int, int] = (3, 3, 5),
    stride: tuple[int, int] = (1, 1),
    pads: tuple[int, int] = (1, 1),
    depthwise: bool = False,
    point: int = 0,
) -> Builder:
    """One convolution of floats, widened codes, or codes."""
    rng = np.random.default_rng(0)
    b = Builder(Graph("net"))
    rows, columns, filters = window
    filters = shape[3] if depthwise else filters
    op = Conv2D(
        layout=Layout.NHWC,
        stride=stride,
        dilation=(1, 1),
        padding=Padding((pads[0],) * 2, (pads[1],) * 2),
        groups=shape[3] if depthwise else 1,
    )
    whole = (filters, rows, columns, 1 if depthwise else shape[3])
    weights = rng.integers(1, 127, whole).astype(np.int8)
    scales = rng.uniform(0.01, 0.1, filters).astype(np.float32).tolist()
    scales = scales[:1] * filters if point else scales
    each = Quant.per_tensor(scales[0], point) if point else Quant.per_channel(scales, axis=0)
    if kind == "codes":
        x = b.input("x", DType.INT8, shape, quant=DATA)
        product = Quant.per_channel([s * DATA.scale[0] for s in scales], axis=0)
        bias = b.const(rng.integers(-99, 99, filters).astype(np.int32), "b", quant=product)
        y = b.add(op, [x, b.const(weights, "w", quant=each), bias], name="y", quant=RESULT)
    else:
        x = b.input("x", DType.FLOAT32, shape)
        bias = b.const(rng.standard_normal(filters).astype(np.float32), "b")
        if kind == "widened":
            real = b.add(Dequantize(dtype=DType.FLOAT32), [b.const(weights, "w", quant=each)])
        else:
            real = b.const(weights.astype(np.float32), "w")
        y = b.add(op, [x, real, bias], name="y")
    b.graph.outputs = [y]
    return b


def _run(graph: Graph) -> np.ndarray:
    (x,) = graph.inputs
    shape = tuple(d if isinstance(d, int) else 2 for d in x.shape or ())
    rng = np.random.default_rng(1)
    codes = x.dtype is DType.INT8
    array = rng.integers(-128, 128, shape).astype(np.int8) if codes else rng.standard_normal(shape)
    found: np.ndarray = run_graph(graph, [array.astype(x.dtype.numpy)])[0]
    return found


def _split(graph: Graph) -> bool:
    before = _run(graph)
    done = run_passes(Model([Signature("", graph)]), [SplitColumnsPass(), PrunePass()], verify=True)
    np.testing.assert_allclose(_run(graph), before, rtol=1e-5, atol=1e-3)
    return "split_columns" in done


def _convolution(graph: Graph) -> tuple[Conv2D, Value]:
    (node,) = [n for n in graph.nodes if isinstance(n.op, Conv2D)]
    assert isinstance(node.op, Conv2D)
    assert node.inputs[1] is not None
    maker = node.inputs[1].producer
    weights = node.inputs[1] if maker is None else maker.inputs[0]
    assert weights is not None
    return node.op, weights


CASES = {
    "plain": {},
    "step 2": {"stride": (2, 2), "pads": (0, 1)},
    "step 4": {"stride": (1, 4), "window": (1, 4, 5), "pads": (0, 0)},
    "few columns left over": {"stride": (2, 2), "shape": (2, 6, 16, 3), "pads": (0, 0)},
    "one channel": {"shape": (2, 5, 8, 1)},
    "one column": {"window": (3, 1, 5), "pads": (0, 0)},
    "wide window": {"window": (2, 6, 4), "pads": (2, 2)},
    "depthwise": {"shape": (2, 5, 8, 8), "depthwise": True},
    "one zero point": {"point": 5},
    "depthwise, step 2": {"shape": (2, 6, 8, 8), "depthwise": True, "stride": (2, 2)},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["floats", "widened", "codes"])
def test_merged_columns_are_split_again(kind, name):
    graph = _net(kind, **CASES[name]).graph  # type: ignore[arg-type]
    wanted, weights = _convolution(graph)
    merged = run_passes(Model([Signature("", graph)]), [MergeColumnsPass(), TidyPass()])
    if "merge_columns" not in merged:
        pytest.skip("its columns aren't merged")
    assert _split(graph)
    assert [type(n.op) for n in graph.nodes if not isinstance(n.op, Dequantize)] == [Conv2D]
    op, found = _convolution(graph)
    assert op.stride == wanted.stride
    assert op.groups == wanted.groups
    assert op.padding.before == wanted.padding.before
    assert found.quant == weights.quant
    np.testing.assert_array_equal(found.data, weights.data)
    assert [v.name for v in graph.outputs] == ["y"]


def _merged_by_hand(*, times: int = 2, seed: int = 0, shape: tuple[int, ...] = (1, 4, 8, 2)):
    rng = np.random.default_rng(seed)
    b = Builder(Graph("net"))
    x = b.input("x", DType.FLOAT32, shape)
    n, h, w, c = shape
    wide = b.add(Reshape(shape=(n, h, w // times, c * times)), [x])
    weights = rng.standard_normal((4, 1, 2, c * times)).astype(np.float32)
    op = Conv2D(
        layout=Layout.NHWC,
        stride=(1, 1),
        dilation=(1, 1),
        padding=Padding.none(),
        groups=1,
    )
    return b, wide, op, weights


def test_columns_that_are_all_used():
    b, wide, op, weights = _merged_by_hand()
    b.graph.outputs = [b.add(op, [wide, b.const(weights)])]
    assert _split(b.graph)
    found, _ = _convolution(b.graph)
    assert found.stride == (1, 2)
    assert len(b.graph) == 1


def test_filters_that_are_no_one_set_stay_apart():
    b, wide, op, weights = _merged_by_hand()
    y = b.add(op, [wide, b.const(weights)])
    b.graph.outputs = [b.add(Reshape(shape=(1, 4, 6, 2)), [y])]
    assert _split(b.graph)
    assert [type(n.op) for n in b.graph.nodes] == [Conv2D, Reshape]


@pytest.mark.parametrize(
    "reason", ["rows", "batch", "odd step", "groups", "zero points", "run time"]
)
def test_what_is_no_merge_stays(reason):
    b, wide, op, weights = _merged_by_hand()
    (x,) = b.graph.inputs
    if reason == "rows":
        wide = b.add(Reshape(shape=(1, 2, 8, 4)), [x])
    elif reason == "batch":
        wide = b.add(Reshape(shape=(2, 4, 2, 4)), [x])
    elif reason == "odd step":
        wide = b.add(Reshape(shape=(1, 4, 16, 1)), [x])
        weights = weights[..., :1]
        op = op.replace(stride=(1, 3))
    elif reason == "groups":
        op, weights = op.replace(groups=2), weights[..., :2]
    constant = b.const(np.ascontiguousarray(weights))
    if reason == "zero points":
        each = Quant(scale=(0.1,) * 4, zero_point=(0, 1, 2, 3), axis=0)
        codes = b.const((weights * 9).astype(np.int8), quant=each)
        constant = b.add(Dequantize(dtype=DType.FLOAT32), [codes])
    elif reason == "run time":
        constant = b.add(Neg(), [constant])
    b.graph.outputs = [b.add(op, [wide, constant])]
    assert not _split(b.graph)


def test_merged_columns_of_two_in_a_row_are_split_again():
    b = _net("codes", shape=(2, 5, 8, 4), window=(3, 3, 8), stride=(1, 1))
    (y,) = b.graph.outputs
    rng = np.random.default_rng(2)
    weights = b.const(
        rng.integers(1, 127, (8, 3, 3, 1)).astype(np.int8), quant=Quant.per_tensor(0.1, 0)
    )
    op = Conv2D(
        layout=Layout.NHWC,
        stride=(1, 1),
        dilation=(1, 1),
        padding=Padding((1, 1), (1, 1)),
        groups=8,
    )
    b.graph.outputs = [b.add(op, [y, weights, None], name="z", quant=Quant.per_tensor(9.0, 0))]
    wanted = [(n.op, n.operand(1).data) for n in b.graph.nodes]
    model = Model([Signature("", b.graph)])
    assert "merge_columns" in run_passes(
        model, [MergeColumnsPass(), TidyPass(settled=True), PrunePass()]
    )
    assert [type(n.op) for n in b.graph.nodes] == [Reshape, Conv2D, Conv2D, Reshape]
    assert _split(b.graph)
    run_passes(model, [TidyPass(settled=True), PrunePass()])
    found = [(n.op, n.operand(1).data) for n in b.graph.nodes]
    assert [o for o, _ in found] == [o for o, _ in wanted]
    for (_, seen), (_, data) in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(seen, data)
