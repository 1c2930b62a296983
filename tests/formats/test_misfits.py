"""Operands that don't fit an op are told in words of the format, not in those of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from nnconv.errors import InvalidModelError
from nnconv.formats.nnapi.reader import import_model as import_nnapi
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.formats.nnrt.reader import import_model as import_nnrt
from nnconv.formats.onnx.reader import read as read_onnx
from nnconv.formats.tflite.reader import read as read_tflite
from support.nnapi_models import NnapiBuilder
from support.nnrt_models import GraphBuilder
from support.onnx_routes import node
from support.onnx_whole import info, onnx_model
from support.tflite_builder import TfliteBuilder

F = "float32"

PYTHON = ("Error:", "unpack", "tuple index", "zip()", "broadcast together", "cannot reshape")
"""What Python and numpy say of numbers that don't fit together."""


def floats(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def onnx_node(
    op_type: str,
    feeds: dict[str, tuple[str, list[int]]],
    constants: dict[str, np.ndarray] | None = None,
    *,
    domain: str = "com.microsoft",
    inputs: str = "",
    opset: int = 17,
    **attributes: Any,
) -> Callable[[], object]:
    """One node, whose result has no stated type."""
    constants = constants or {}
    names = [n.strip("-") for n in inputs.split()] or [*feeds, *constants]
    made = node(op_type, names, ["y"], domain=domain, **attributes)
    model = onnx_model(
        [made],
        [info(name, kind, shape) for name, (kind, shape) in feeds.items()],
        [helper.make_empty_tensor_value_info("y")],
        constants=constants,
        domains={domain: 1} if domain else {},
        opset=opset,
    )
    return lambda: read_onnx(model.SerializeToString())


def attention(sizes: list[int] | None = None, columns: int = 12) -> Callable[[], object]:
    more = {"qkv_hidden_sizes": sizes} if sizes else {}
    constants = {"w": floats(4, columns), "b": floats(columns)}
    return onnx_node("Attention", {"x": (F, [1, 5, 4])}, constants, num_heads=2, **more)


def rotary(shape: list[int]) -> Callable[[], object]:
    places = {"x": (F, shape), "places": ("int64", [1])}
    return onnx_node("RotaryEmbedding", places, {"cos": floats(8, 2), "sin": floats(8, 2)})


def scatter(x: list[int], updates: list[int]) -> Callable[[], object]:
    feeds = {"x": (F, x), "u": (F, updates)}
    starts = {"starts": np.int64([0])}
    return onnx_node("TensorScatter", feeds, starts, domain="", opset=24)


def resize() -> Callable[[], object]:
    sizes = {"sizes": np.int64([1, 1, 6])}
    x = {"x": (F, [1, 1, 3, 3])}
    return onnx_node("Resize", x, sizes, domain="", inputs="x - - sizes", mode="nearest")


def loop() -> Callable[[], object]:
    inside = [node("Identity", ["go"], ["on"]), node("Neg", ["v"], ["w"])]
    body = helper.make_graph(
        inside,
        "b",
        [info("i", "int64", []), info("go", "bool", []), info("v", F, [2])],
        [info("on", "bool", []), info("w", F, [2])],
    )
    counts = {"n": np.int64([2, 2])}
    return onnx_node("Loop", {"x": (F, [2])}, counts, domain="", inputs="n - x", body=body)


def quantized_lstm() -> Callable[[], object]:
    constants = {
        "w": np.ones((2, 2, 8), np.int8),
        "r": np.ones((2, 2, 8), np.int8),
        "ws": floats(1, 8),
        "wp": np.zeros((1, 8), np.int8),
        "rs": floats(1, 8),
        "rp": np.zeros((1, 8), np.int8),
    }
    return onnx_node(
        "DynamicQuantizeLSTM",
        {"x": (F, [3, 1, 2])},
        constants,
        inputs="x w r - - - - - ws wp rs rp",
        hidden_size=2,
        direction="bidirectional",
    )


def rnn() -> Callable[[], object]:
    b = TfliteBuilder()
    x = b.input("x", F, ())
    operands = [x, b.const(floats(1, 2)), b.const(floats(1, 1)), b.const(floats(1))]
    options = {"fused_activation_function": "NONE"}
    hidden = b.variable(F, (1, 1), name="h")
    b.output(b.op("RNN", [*operands, hidden], [(F, (1, 1))], options=options))
    return lambda: read_tflite(b.build())


def one_hot() -> Callable[[], object]:
    b = GraphBuilder()
    operands = [b.input((2,), "INT32"), b.data((1,), "INT32", value=[3])]
    operands += [b.data((2,), value=[1, 1]), b.data((1,), value=[0])]
    b.op("ONE_HOT", operands, [b.output((2, 3))])
    return lambda: import_nnrt(b.graph)


def gather_nd() -> Callable[[], object]:
    b = GraphBuilder()
    indices = b.data((2, 3), "INT32", value=np.zeros(6))
    b.op("GATHER_ND", [b.input((4, 4)), indices], [b.output((2,))])
    return lambda: import_nnrt(b.graph)


def lstm_of_16_bits() -> Callable[[], object]:
    codes, half = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT16_SYMM
    state = {"scale": 1 / 128, "zero_point": 128}
    weights = {"scale": 0.25, "zero_point": 100}
    b = NnapiBuilder()
    inputs = [b.input(codes, (1, 2), **state)]
    rows = (4, 4, 4, 3)
    inputs += [b.const(codes, np.ones((r, 2), np.uint8), **weights) for r in rows]
    inputs += [b.const(codes, np.ones((4, 4), np.uint8), **weights) for _ in rows]
    bias = {"scale": 0.25 / 128}
    inputs += [b.const(OperandCode.TENSOR_INT32, np.ones(4, np.int32), **bias) for _ in rows]
    inputs += [b.input(half, (1, 4), scale=1 / 2048), b.input(codes, (1, 4), **state)]
    outputs = [b.output(half, (1, 4), scale=1 / 2048), b.output(codes, (1, 4), **state)]
    b.run(OperationCode.QUANTIZED_16BIT_LSTM, inputs, outputs)
    return lambda: import_nnapi(b.model())


SIZES = "those of query, key and value must be as many"
CASES = {
    "attention, two sizes": (attention([6, 6]), SIZES),
    "attention, other sizes": (attention([4, 4, 8]), SIZES),
    "attention, no thirds": (attention(columns=11), SIZES),
    "rotary, rank 1": (rotary([8]), "its input has rank 1, must have 3 or 4"),
    "rotary, rank 2": (rotary([2, 8]), "its input has rank 2, must have 3 or 4"),
    "cache, another rank": (scatter([1, 4, 2], [1, 2]), "have rank 2, must have 3"),
    "resize, three sizes": (resize(), "sizes or scales [1, 1, 6] for axes [0, 1, 2, 3]"),
    "loop, two counts": (loop(), "`n` has 2 elements, must have 1"),
    "codes for one direction": (quantized_lstm(), "with scales [1, 8]"),
    "rnn, rank 0": (rnn(), "input has rank 0, must have 2 or 3"),
    "one hot, two values": (one_hot(), "has the shape [2], not []"),
    "gather, three places": (gather_nd(), "indices"),
    "lstm, rows": (lstm_of_16_bits(), "must be matrices of as many rows"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_is_told_in_the_formats_words(name: str) -> None:
    read, words = CASES[name]
    with pytest.raises(InvalidModelError) as caught:
        read()
    assert words in caught.value.message
    assert not any(word in caught.value.message for word in PYTHON)
