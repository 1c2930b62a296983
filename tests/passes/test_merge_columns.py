"""The first convolution takes columns as channels where that is free."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.formats.tflite.reader import read
from nnconv.ir import Model
from nnconv.ir.types import Shape
from nnconv.ir.verifier import verify_model
from nnconv.ops.conv import Conv2D
from nnconv.passes.merge_columns import MergeColumnsPass
from support.spine import Case, case_inputs, check, model_bytes, onnx_ops
from support.tflite_builder import Quant, TfliteBuilder


@dataclass(frozen=True)
class Net:
    """One convolution, behind an Abs or a pool if wanted.

    Attributes:
        dtype: of the data; ``mixed``: floats with float16 weights.
        shape: height, width, channels of the input.
        window: height, width, filters.
        stride: of the window.
        padding: SAME or VALID.
        before: the op in front.
        dilation: along columns.
        batch: of the input; 0 for one that isn't known.
        depthwise: whether each channel has a filter of its own.
        scales: whether filters have their own.
    """

    dtype: str = "int8"
    shape: tuple[int, int, int] = (5, 8, 3)
    window: tuple[int, int, int] = (3, 3, 5)
    stride: tuple[int, int] = (1, 1)
    padding: str = "SAME"
    before: str = ""
    dilation: int = 1
    batch: int = 2
    depthwise: bool = False
    scales: bool = True
    activation: str = "RELU"


QUANTS = {"int8": (0.05, 3), "uint8": (0.05, 131), "float32": None, "mixed": None}
RESULTS = {"int8": (0.1, -20), "uint8": (0.1, 99), "float32": None, "mixed": None}


def build(b: TfliteBuilder, net: Net) -> None:
    """The model of a net."""
    rng = np.random.default_rng(0)
    height, width, channels = net.shape
    rows, columns, filters = net.window
    filters = channels if net.depthwise else filters
    dtype = "float32" if net.dtype == "mixed" else net.dtype
    quant, shape = QUANTS[net.dtype], (filters, rows, columns, channels)
    shape = (1, rows, columns, channels) if net.depthwise else shape
    batch = net.batch or 1
    kind = (dtype, (batch, height, width, channels), quant)
    signature = None if net.batch else (-1, height, width, channels)
    x = b.input("x", *kind[:2], quant=quant, signature=signature)
    if net.before == "MAX_POOL_2D":
        window = {"filter_height": 1, "filter_width": 1, "stride_h": 1, "stride_w": 1}
        x = b.op(net.before, [x], [kind], options={"padding": "VALID", **window})
    elif net.before:
        x = b.op(net.before, [x], [kind])
    if net.dtype == "mixed":
        half = b.const(rng.standard_normal(shape).astype(np.float16))
        weights = b.op("DEQUANTIZE", [half], [("float32", shape)])
    elif quant is None:
        weights = b.const(rng.standard_normal(shape).astype(np.float32))
    elif net.dtype == "uint8":
        weights = b.const(rng.integers(1, 255, shape).astype(np.uint8), quant=(0.01, 121))
    else:
        scales = rng.uniform(0.002, 0.01, filters if net.scales else 1)
        weights = b.const(
            rng.integers(-127, 127, shape).astype(np.int8),
            quant=Quant(scales, 0, axis=3 if net.depthwise else 0),
        )
    if quant is None:
        offset = b.const(rng.standard_normal(filters).astype(np.float32))
    else:
        step = 0.01 * 0.05 if net.dtype == "uint8" else scales * 0.05
        offset = b.const(
            rng.integers(-999, 999, filters).astype(np.int32), quant=Quant(np.atleast_1d(step), 0)
        )
    if net.padding == "SAME":
        steps = zip(net.shape[:2], net.stride, strict=True)
        extents = [-(-extent // step) for extent, step in steps]
    else:
        reach = (rows, (columns - 1) * net.dilation + 1)
        extents = [
            (extent - size) // step + 1
            for extent, size, step in zip(net.shape[:2], reach, net.stride, strict=True)
        ]
    options = {
        "padding": net.padding,
        "stride_h": net.stride[0],
        "stride_w": net.stride[1],
        "dilation_w_factor": net.dilation,
        "dilation_h_factor": 1,
        "fused_activation_function": net.activation,
    }
    inputs = [x, weights, offset]
    result = (dtype, (batch, *extents, filters), RESULTS[net.dtype])
    if net.depthwise:
        options["depth_multiplier"] = 1
    name = "DEPTHWISE_CONV_2D" if net.depthwise else "CONV_2D"
    b.output(b.op(name, inputs, [result], options=options))


def convolution(model: Model) -> tuple[Shape, Shape]:
    """The shapes of the one convolution's input and weights."""
    (node,) = (n for n in model.graph.nodes if isinstance(n.op, Conv2D))
    x, weights = node.inputs[:2]
    assert x is not None
    assert weights is not None
    return x.shape, weights.shape


MERGED: dict[str, tuple[Net, Shape, Shape]] = {
    "three channels": (Net(), (2, 5, 2, 12), (20, 3, 3, 12)),
    "strided": (Net(stride=(2, 2)), (2, 5, 2, 12), (10, 3, 2, 12)),
    "one channel": (
        Net(shape=(6, 16, 1), window=(4, 8, 2), stride=(2, 2)),
        (2, 6, 2, 8),
        (8, 4, 3, 8),
    ),
    "two channels": (Net(shape=(4, 6, 2)), (2, 4, 3, 4), (10, 3, 3, 4)),
    "wide window": (Net(window=(1, 7, 5)), (2, 5, 2, 12), (20, 1, 3, 12)),
    "stride beyond the window": (
        Net(shape=(5, 12, 3), window=(1, 2, 5), stride=(1, 4)),
        (2, 5, 3, 12),
        (5, 1, 1, 12),
    ),
    "per tensor": (Net(scales=False), (2, 5, 2, 12), (20, 3, 3, 12)),
    "unsigned": (Net(dtype="uint8"), (2, 5, 2, 12), (20, 3, 3, 12)),
    "unknown batch": (Net(batch=0), ("x:0", 5, 2, 12), (20, 3, 3, 12)),
    "float, unknown batch": (Net(dtype="float32", batch=0), ("x:0", 5, 24, 1), (5, 3, 9, 1)),
    "relu6": (Net(activation="RELU6"), (2, 5, 2, 12), (20, 3, 3, 12)),
    "depthwise": (Net(shape=(5, 6, 8), depthwise=True), (2, 5, 3, 16), (16, 3, 3, 16)),
    "depthwise, unsigned": (
        Net(shape=(5, 6, 8), depthwise=True, dtype="uint8", stride=(2, 2)),
        (2, 5, 3, 16),
        (8, 3, 2, 16),
    ),
    "depthwise behind a spatial op": (
        Net(shape=(5, 6, 8), depthwise=True, before="MAX_POOL_2D"),
        (2, 5, 3, 16),
        (16, 3, 3, 16),
    ),
    "float": (Net(dtype="float32"), (2, 5, 24, 1), (5, 3, 9, 1)),
    "float, odd": (
        Net(dtype="float32", shape=(5, 7, 3), stride=(2, 2), padding="VALID"),
        (2, 5, 21, 1),
        (5, 3, 9, 1),
    ),
    "float behind an op": (Net(dtype="float32", before="ABS"), (2, 5, 24, 1), (5, 3, 9, 1)),
    "float16 weights": (Net(dtype="mixed"), (2, 5, 24, 1), (5, 3, 9, 1)),
}
LEFT = {
    "columns left over": Net(shape=(5, 7, 3)),
    "columns cut off": Net(padding="VALID"),
    "depthwise of floats": Net(dtype="float32", shape=(5, 6, 8), depthwise=True),
    "depthwise of more": Net(shape=(5, 6, 16), depthwise=True),
    "channels enough": Net(shape=(5, 8, 5)),
    "a channel of floats": Net(dtype="float32", shape=(5, 8, 1)),
    "behind a spatial op": Net(before="MAX_POOL_2D"),
    "dilated": Net(dtype="float32", dilation=2),
    "many more products": Net(shape=(5, 64, 1), window=(1, 1, 2), stride=(1, 64)),
}


@pytest.mark.parametrize(("net", "data", "weights"), MERGED.values(), ids=MERGED)
def test_results_stay(net: Net, data: Shape, weights: Shape, tmp_path: Path) -> None:
    case = Case("net", lambda b: build(b, net))
    content = model_bytes(case)
    plain, merged = read(content, name="net"), read(content, name="net")
    inputs = case_inputs(case, plain)
    assert MergeColumnsPass().run(merged.graph)
    verify_model(merged)
    assert convolution(merged) == (data, weights)
    expected, found = (run_graph(m.graph, inputs)[0] for m in (plain, merged))
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-5)
    check(case, tmp_path)
    assert "Pad" not in onnx_ops(tmp_path / "model.onnx")


@pytest.mark.parametrize("net", LEFT.values(), ids=LEFT)
def test_others_are_left_alone(net: Net) -> None:
    model = read(model_bytes(Case("net", lambda b: build(b, net))), name="net")
    before = convolution(model)
    assert not MergeColumnsPass().run(model.graph)
    assert convolution(model) == before


def test_a_float_input_needs_no_transpose(tmp_path: Path) -> None:
    check(Case("net", lambda b: build(b, Net(dtype="float32"))), tmp_path)
    assert onnx_ops(tmp_path / "model.onnx")["Transpose"] == 1  # of the result
