"""16-bit codes at opsets without conversions of them: spelled in arithmetic, and read as codes."""

from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import Builder, DType, Graph, Quant
from nnconv.ir.op import Activation
from nnconv.ops import elementwise as e
from nnconv.ops.affine import narrowed
from nnconv.ops.conv import Conv2D
from nnconv.ops.norm import Softmax
from nnconv.ops.quantize import Cast, LooseCast
from nnconv.ops.spatial import Padding
from support.tflite_spine import model_of

SCALE = 0.006


def layers(b: Builder):
    """Two layers, an activation and a softmax, on 16-bit data and 8-bit weights."""
    rng = np.random.default_rng(4)
    x = b.input("x", DType.INT16, (1, 7, 8, 3), quant=Quant.per_tensor(0.001))
    for channels in (3, 4):
        w = b.const(rng.integers(-127, 128, (4, 3, 3, channels)).astype(np.int8), "w",
                    quant=Quant.per_channel(rng.uniform(0.01, 0.02, 4), axis=0))  # fmt: skip
        op = Conv2D(stride=(1, 1), dilation=(1, 1), padding=Padding.none(2),
                    activation=Activation.RELU6)  # fmt: skip
        x = b.add(op, [x, w], quant=Quant.per_tensor(0.002 * channels), dtype=DType.INT16)
    return b.add(Softmax(axis=3), [x], quant=Quant.per_tensor(1 / 32768), dtype=DType.INT16)


@pytest.mark.parametrize("opset", [13, 20, 21])
def test_layers_come_back_as_the_same_operators(opset: int, tmp_path: Path) -> None:
    source, onnx, back = (tmp_path / name for name in ("a.tflite", "a.onnx", "b.tflite"))
    nnconv.save(model_of(layers, format="tflite", source="m"), source)
    nnconv.convert(source, onnx, opset=opset)
    assert nnconv.convert(onnx, back).counts == {"CONV_2D": 2, "SOFTMAX": 1}
    first, last = nnconv.load(source), nnconv.load(back)
    for a, b in zip((*first.inputs, *first.outputs), (*last.inputs, *last.outputs), strict=True):
        assert a.type == b.type
    feed = np.random.default_rng(1).integers(-900, 900, (1, 7, 8, 3)).astype(np.int16)
    wanted, got = (run_graph(model.graph, [feed])[0].astype(int) for model in (first, last))
    assert np.abs(wanted - got).max() <= 1
    assert len(np.unique(wanted)) > 10


def spelled(low=-32768, high=32767, point=0.0, scale=SCALE, wide=True, cast=LooseCast):
    b = Builder(Graph("g"))
    x = b.input("x", DType.FLOAT32, (3,))
    kind = np.float64 if wide else np.float32
    real = b.add(Cast(dtype=DType.FLOAT64), [x]) if wide else x
    steps = b.add(e.Round(), [b.add(e.Div(), [real, b.const(np.asarray(scale, kind))])])
    if point is not None:
        steps = b.add(e.Add(), [steps, b.const(np.asarray(point, kind))])
    codes = b.add(cast(dtype=DType.INT16), [b.add(e.Clip(low=low, high=high), [steps])])
    return x, codes.producer


@pytest.mark.parametrize("point", [None, 0.0, 5.0, -7.0])
@pytest.mark.parametrize("cast", [Cast, LooseCast])
@pytest.mark.parametrize("wide", [True, False])
def test_codes_made_by_arithmetic_are_known(point, cast, wide):
    x, node = spelled(point=point, cast=cast, wide=wide)
    found = narrowed(node)
    assert found is not None
    assert found.x is x
    assert found.quant == Quant.per_tensor(SCALE, int(point or 0))


@pytest.mark.parametrize(
    "other",
    [{"low": -100}, {"high": 32766}, {"point": 0.5}, {"point": 1e6}, {"scale": -1.0},
     {"scale": 0.0}, {"scale": [0.1, 0.2, 0.3]}],
    ids=str,
)  # fmt: skip
def test_other_arithmetic_makes_no_codes(other):
    _, node = spelled(**other)
    assert narrowed(node) is None
