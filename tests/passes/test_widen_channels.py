"""Channels between convolutions are filled up where that makes a depthwise one fast."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.formats.tflite.reader import read
from nnconv.ir import Builder, DType, Layout, Model, Value
from nnconv.ir.verifier import verify_model
from nnconv.ops.conv import Conv2D
from nnconv.ops.spatial import Padding
from nnconv.passes.widen_channels import WidenChannelsPass
from support.onnx_spine import IrCase, check_ir
from support.spine import Case, case_inputs, check, model_bytes
from support.tflite_builder import Quant, Tensor, TfliteBuilder


@dataclass(frozen=True)
class Net:
    """A dense convolution, ``depthwise`` ones, a dense one.

    Attributes:
        channels: in between.
        depthwise: how many.
        dtype: of the data.
        activation: of all but the last.
        tap: whether what the first one gives goes out too.
        second_reader: whether something else reads it.
        last: whether the last one is there.
        scales: whether filters have their own.
    """

    channels: int = 20
    depthwise: int = 1
    dtype: str = "int8"
    activation: str = "NONE"
    tap: bool = False
    second_reader: bool = False
    last: bool = True
    scales: bool = True


def build(b: TfliteBuilder, net: Net) -> None:
    """The model of a net."""
    rng = np.random.default_rng(0)
    quant = {"int8": (0.05, 3), "uint8": (0.05, 131), "float32": None}[net.dtype]

    def conv(x: Tensor, inputs: int, outputs: int, *, depthwise: bool, activation: str) -> Tensor:
        shape = (1, 3, 2, outputs) if depthwise else (outputs, 1, 1, inputs)
        if quant is None:
            w = b.const(rng.standard_normal(shape).astype(np.float32))
            offset = b.const(rng.standard_normal(outputs).astype(np.float32))
        elif net.dtype == "uint8":
            w = b.const(rng.integers(1, 255, shape).astype(np.uint8), quant=(0.01, 121))
            offset = b.const(rng.integers(-99, 99, outputs).astype(np.int32), quant=(0.0005, 0))
        else:
            scales = rng.uniform(0.002, 0.01, outputs if net.scales else 1)
            codes = rng.integers(-127, 127, shape).astype(np.int8)
            w = b.const(codes, quant=Quant(scales, 0, axis=3 if depthwise else 0))
            offset = b.const(
                rng.integers(-99, 99, outputs).astype(np.int32), quant=Quant(scales * 0.05, 0)
            )
        options = {
            "padding": "SAME",
            "stride_h": 1,
            "stride_w": 1,
            "fused_activation_function": activation,
        }
        if depthwise:
            options["depth_multiplier"] = 1
        name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        result = b.op(
            name, [x, w, offset], [(net.dtype, (2, 5, 6, outputs), quant)], options=options
        )
        assert isinstance(result, Tensor)
        return result

    x = b.input("x", net.dtype, (2, 5, 6, 4), quant=quant)
    y = conv(x, 4, net.channels, depthwise=False, activation=net.activation)
    if net.tap:
        b.output(y)
    if net.second_reader:
        b.output(conv(y, net.channels, 3, depthwise=False, activation="NONE"))
    for _ in range(net.depthwise):
        y = conv(y, net.channels, net.channels, depthwise=True, activation=net.activation)
    if net.last:
        y = conv(y, net.channels, 5, depthwise=False, activation="NONE")
    b.output(y)


def widths(model: Model) -> list[int]:
    """How many filters each convolution has."""
    return [
        node.inputs[1].data.shape[0]
        for node in model.graph.nodes
        if isinstance(node.op, Conv2D)
        if node.inputs[1] is not None
        if node.inputs[1].data is not None
    ]


WIDENED = {
    "per-channel": Net(),
    "per-tensor": Net(scales=False),
    "unsigned": Net(dtype="uint8", channels=7),
    "chain": Net(depthwise=3, channels=9),
    "relu": Net(activation="RELU"),
    "relu6": Net(activation="RELU6", dtype="uint8"),
    "floats": Net(dtype="float32", channels=8, activation="RELU6"),
}
LEFT = {
    "floats enough": Net(dtype="float32"),
    "wide enough": Net(channels=32),
    "goes out": Net(tap=True),
    "read elsewhere": Net(second_reader=True),
    "nothing behind": Net(last=False),
}


@pytest.mark.parametrize("net", WIDENED.values(), ids=WIDENED)
def test_results_keep_their_bits(net: Net, tmp_path: Path) -> None:
    case = Case("net", lambda b: build(b, net), steps=3)  # a step a layer
    content = model_bytes(case)
    plain, wide = read(content, name="net"), read(content, name="net")
    inputs = case_inputs(case, plain)
    assert WidenChannelsPass().run(wide.graph)
    verify_model(wide)
    target = -(-net.channels // 16) * 16
    assert widths(wide) == [target] * (net.depthwise + 1) + [5]
    expected, found = (run_graph(m.graph, inputs)[0] for m in (plain, wide))
    if net.dtype == "float32":  # sums may be taken in another order
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-6)
    else:
        assert np.array_equal(found, expected)
    check(case, tmp_path)


@pytest.mark.parametrize("net", LEFT.values(), ids=LEFT)
def test_other_nets_are_left_alone(net: Net) -> None:
    model = read(model_bytes(Case("net", lambda b: build(b, net))), name="net")
    before = widths(model)
    assert not WidenChannelsPass().run(model.graph)
    assert widths(model) == before


@pytest.mark.parametrize("place", [0, 1, 2])
def test_convolutions_of_different_layouts_are_left_alone(place: int, tmp_path: Path) -> None:
    """What channels are to one of them is a height to the next."""
    rng = np.random.default_rng(0)

    def build_mixed(b: Builder) -> Value:
        y = b.input("x", DType.FLOAT32, (1, 4, 4, 4))
        for number, groups in enumerate((1, 4, 1)):
            w = b.const(rng.normal(size=(4, 1, 1, 4 // groups)).astype(np.float32))
            op = Conv2D(
                layout=Layout.NCHW if number == place else Layout.NHWC,
                stride=(1, 1),
                dilation=(1, 1),
                padding=Padding.none(),
                groups=groups,
            )
            y = b.add(op, [y, w, b.const(rng.normal(size=4).astype(np.float32))])
        return y

    case = IrCase("layouts", build_mixed, opsets=(21,), evaluated=False, format="nnapi")
    assert not WidenChannelsPass().run(case.model().graph)
    check_ir(case, tmp_path)
