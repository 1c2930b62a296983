"""Models of open batch, length or size, spelled as exporters of frameworks spell them.

Shapes are computed from the extents of the data: Shape, Gather, Concat, Reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    """Small numbers."""
    return (RNG.normal(size=shape) / 3).astype(np.float32)


def ints(*numbers: int) -> np.ndarray:
    """A vector."""
    return np.asarray(numbers, np.int64)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str]],
    outputs: dict[str, Sequence[int | str]],
    constants: dict[str, np.ndarray],
    *,
    integers: Sequence[str] = (),
) -> onnx.ModelProto:
    def ends(named: dict[str, Any]) -> list[onnx.ValueInfoProto]:
        kinds = dict.fromkeys(integers, TensorProto.INT64)
        return [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
            for name, shape in named.items()
        ]

    weights = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "open", ends(inputs), ends(outputs), weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def classifier() -> onnx.ModelProto:
    """Convolutions, and a flattening to what the batch is."""
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4, strides=[2, 2]),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "w2"], ["c2"], group=8, pads=[1] * 4),
        node("Add", ["c2", "r"], ["a"]),
        node("GlobalAveragePool", ["a"], ["p"]),
        node("Shape", ["p"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Concat", ["n1", "rest"], ["flat"], axis=0),
        node("Reshape", ["p", "flat"], ["f"]),
        node("Gemm", ["f", "fw", "fb"], ["y"], transB=1),
    ]
    constants = {
        "w": floats(8, 3, 3, 3), "b": floats(8), "w2": floats(8, 1, 3, 3), "zero": np.int64(0),
        "axis": ints(0), "rest": ints(-1), "fw": floats(5, 8), "fb": floats(5),
    }  # fmt: skip
    return _model(nodes, {"x": ["N", 3, 16, 16]}, {"y": ["N", 5]}, constants)


def attention(*, length: int | str = "S", masked: bool = False) -> onnx.ModelProto:
    """A layer of a transformer with two heads."""
    width, heads = 8, 2
    constants = {
        "0": np.int64(0), "1": np.int64(1), "axis": ints(0), "H": ints(heads),
        "D": ints(width), "d": ints(width // heads), "scale": np.float32(0.5),
        "w1": floats(width, 16), "b1": floats(16), "w2": floats(16, width), "b2": floats(width),
        "g": floats(width), "h": floats(width),
    }  # fmt: skip
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "0"], ["n"]),
        node("Gather", ["s", "1"], ["t"]),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Unsqueeze", ["t", "axis"], ["t1"]),
        node("Concat", ["n1", "t1", "H", "d"], ["apart"], axis=0),
        node("Concat", ["n1", "t1", "D"], ["whole"], axis=0),
    ]
    for name in "qkv":
        constants[f"w{name}"], constants[f"b{name}"] = floats(width, width), floats(width)
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"{name}0"]),
            node("Add", [f"{name}0", f"b{name}"], [f"{name}1"]),
            node("Reshape", [f"{name}1", "apart"], [f"{name}2"]),
            node(
                "Transpose", [f"{name}2"], [f"{name}3"],
                perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3],
            ),
        ]  # fmt: skip
    nodes += [node("MatMul", ["q3", "k3"], ["a0"]), node("Mul", ["a0", "scale"], ["a1"])]
    inputs: dict[str, Sequence[int | str]] = {"x": ["N", length, width]}
    if masked:
        inputs["mask"] = ["N", length]
        constants |= {"axes": ints(1, 2), "one": np.float32(1), "low": np.float32(-1e4)}
        nodes += [
            node("Unsqueeze", ["mask", "axes"], ["m0"]),
            node("Cast", ["m0"], ["m1"], to=TensorProto.FLOAT),
            node("Sub", ["one", "m1"], ["m2"]),
            node("Mul", ["m2", "low"], ["m3"]),
            node("Add", ["a1", "m3"], ["a2"]),
        ]
    nodes += [
        node("Softmax", ["a2" if masked else "a1"], ["a3"], axis=-1),
        node("MatMul", ["a3", "v3"], ["o0"]),
        node("Transpose", ["o0"], ["o1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["o1", "whole"], ["o2"]),
        node("Add", ["o2", "x"], ["o3"]),
        node("LayerNormalization", ["o3", "g", "h"], ["o4"], axis=-1),
        node("MatMul", ["o4", "w1"], ["f0"]),
        node("Add", ["f0", "b1"], ["f1"]),
        node("Relu", ["f1"], ["f2"]),
        node("MatMul", ["f2", "w2"], ["f3"]),
        node("Add", ["f3", "b2"], ["f4"]),
        node("Add", ["f4", "o4"], ["y"]),
    ]
    return _model(nodes, inputs, {"y": ["N", length, width]}, constants, integers=["mask"])


def recurrence(kind: str) -> onnx.ModelProto:
    """A layer of both directions whose first states are zeros for as many as there are."""
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * 4
    states = ["h0", "h0"] if kind == "LSTM" else ["h0"]
    nodes = [
        node("Transpose", ["x"], ["xt"], perm=[1, 0, 2]),
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "0"], ["n"]),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Concat", ["two", "n1", "cells"], ["first"], axis=0),
        node("ConstantOfShape", ["first"], ["h0"]),
        node(
            kind, ["xt", "w", "r", "b", "", *states], ["y0", "last"],
            hidden_size=4, direction="bidirectional",
        ),
        node("Transpose", ["y0"], ["y1"], perm=[2, 0, 1, 3]),
        node("Reshape", ["y1", "joined"], ["y2"]),
        node("MatMul", ["y2", "fw"], ["y"]),
    ]  # fmt: skip
    constants = {
        "0": np.int64(0), "axis": ints(0), "two": ints(2), "cells": ints(4),
        "joined": ints(0, 0, -1), "w": floats(2, rows, 3), "r": floats(2, rows, 4),
        "b": floats(2, 2 * rows), "fw": floats(8, 5),
    }  # fmt: skip
    outputs: dict[str, Sequence[int | str]] = {"y": ["N", "S", 5], "last": [2, "N", 4]}
    return _model(nodes, {"x": ["N", "S", 3]}, outputs, constants)


def embedding() -> onnx.ModelProto:
    """Words and their places, which are counted."""
    nodes = [
        node("Gather", ["table", "ids"], ["e"]),
        node("Shape", ["ids"], ["s"]),
        node("Gather", ["s", "1"], ["t"]),
        node("Range", ["0", "t", "1"], ["place"]),
        node("Gather", ["places", "place"], ["p"]),
        node("Add", ["e", "p"], ["x"]),
        node("ReduceMean", ["x"], ["m"], axes=[1], keepdims=0),
        node("Gemm", ["m", "fw"], ["y"]),
    ]
    constants = {
        "table": floats(10, 8), "places": floats(20, 8), "0": np.int64(0), "1": np.int64(1),
        "fw": floats(8, 3),
    }  # fmt: skip
    return _model(nodes, {"ids": ["N", "S"]}, {"y": ["N", 3]}, constants, integers=["ids"])


def pyramid(mode: str) -> onnx.ModelProto:
    """An image made smaller, and grown to the size of another value."""
    nodes = [
        node("Conv", ["x", "w"], ["c1"], pads=[1] * 4),
        node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "w2"], ["c2"], pads=[1] * 4),
        node("Relu", ["c2"], ["r2"]),
        node("Shape", ["r1"], ["s"]),
        node("Slice", ["s", "two", "four", "axis"], ["size"]),
        node("Shape", ["r2"], ["s2"]),
        node("Slice", ["s2", "axis", "two", "axis"], ["lead"]),
        node("Concat", ["lead", "size"], ["sizes"], axis=0),
        node(
            "Resize", ["r2", "", "", "sizes"], ["u"],
            mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        ),
        node("Concat", ["u", "r1"], ["j"], axis=1),
        node("Conv", ["j", "w3"], ["y"], pads=[1] * 4),
    ]  # fmt: skip
    constants = {
        "w": floats(4, 3, 3, 3), "w2": floats(6, 4, 3, 3), "w3": floats(2, 10, 3, 3),
        "two": ints(2), "four": ints(4), "axis": ints(0),
    }  # fmt: skip
    return _model(nodes, {"x": ["N", 3, "H", "W"]}, {"y": ["N", 2, "H", "W"]}, constants)


Shapes = dict[str, tuple[int, ...]]

_IMAGES: list[Shapes] = [{"x": (1, 3, 8, 12)}, {"x": (2, 3, 6, 4)}]
_SEQUENCES: list[Shapes] = [{"x": (1, 5, 3)}, {"x": (2, 7, 3)}]

MODELS: dict[str, tuple[onnx.ModelProto, list[Shapes]]] = {
    "classifier": (classifier(), [{"x": (1, 3, 16, 16)}, {"x": (3, 3, 16, 16)}]),
    "attention": (attention(), [{"x": (1, 5, 8)}, {"x": (2, 3, 8)}]),
    "attention of known length": (attention(length=6), [{"x": (1, 6, 8)}, {"x": (2, 6, 8)}]),
    "masked attention": (
        attention(masked=True),
        [{"x": (1, 5, 8), "mask": (1, 5)}, {"x": (2, 3, 8), "mask": (2, 3)}],
    ),
    "LSTM": (recurrence("LSTM"), _SEQUENCES),
    "GRU": (recurrence("GRU"), _SEQUENCES),
    "RNN": (recurrence("RNN"), _SEQUENCES),
    "embedding": (embedding(), [{"ids": (1, 5)}, {"ids": (2, 7)}]),
    "nearest pixels": (pyramid("nearest"), _IMAGES),
    "pixels between": (pyramid("linear"), _IMAGES),
}
"""Models by name, each with shapes to try."""


def feeds_of(model: onnx.ModelProto, shapes: Shapes, seed: int) -> dict[str, np.ndarray]:
    """Random inputs of these shapes."""
    rng = np.random.default_rng(seed)
    kinds = {end.name: end.type.tensor_type.elem_type for end in model.graph.input}
    return {
        name: rng.normal(size=shape).astype(np.float32)
        if kinds[name] == TensorProto.FLOAT
        else rng.integers(0, 2, shape)
        for name, shape in shapes.items()
    }
