"""Absurd numbers in spatial ops of ONNX files: refused, or turned into something small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import nnconv
from nnconv.errors import NnconvError
from support.onnx_routes import node

HUGE = (1 << 31) - 1
WIDEST = (1 << 63) - 1


def model(
    op: str,
    attributes: dict[str, Any],
    shape: Sequence[int],
    constants: dict[str, np.ndarray],
    opset: int = 21,
    kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """One node on x and constants; an empty array leaves an operand out."""
    names = [name if array.size else "" for name, array in constants.items()]
    graph = helper.make_graph(
        [node(op, ["x", *names], ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", kind, list(shape))],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(a, name) for name, a in constants.items() if a.size],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def floats(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def ints(*numbers: int) -> np.ndarray:
    return np.asarray(numbers, np.int64)


NONE = np.zeros(0)


def scales(*numbers: float) -> dict[str, np.ndarray]:
    return {"r": NONE, "s": np.asarray(numbers, np.float32)}


def sizes(*numbers: int) -> dict[str, np.ndarray]:
    return {"r": NONE, "s": NONE, "z": ints(*numbers)}


TWICE = {"p": ints(1, 1, 1, 1), "v": NONE, "a": ints(2, -2)}
PAIR = {"s": floats(3), "b": floats(3)}
IMAGE = (1, 4, 6, 5)
FILTER = {"w": floats(4, 4, 3, 3)}
WINDOW = {"kernel_shape": [3, 3]}

REFUSED: dict[str, tuple[Any, ...]] = {
    "stride 0": ("Conv", {"strides": [0, 1]}, IMAGE, FILTER),
    "dilation below 0": ("Conv", {"dilations": [1, -1]}, IMAGE, FILTER),
    "group 0": ("Conv", {"group": 0}, IMAGE, FILTER),
    "groups that don't divide": ("Conv", {"group": 3}, IMAGE, FILTER),
    "widest pads": ("Conv", {"pads": [WIDEST] * 4}, IMAGE, FILTER),
    "pads of another rank": ("Conv", {"pads": [1, 1]}, IMAGE, FILTER),
    "kernel_shape of another filter": ("Conv", {"kernel_shape": [2, 3]}, IMAGE, FILTER),
    "auto_pad unknown": ("Conv", {"auto_pad": "SAME"}, IMAGE, FILTER),
    "filter of another rank": ("Conv", {}, IMAGE, {"w": floats(4, 4, 3)}),
    "no spatial dimension": ("Conv", {}, (1, 4), {"w": floats(4, 4)}),
    "four spatial dimensions": ("Conv", {}, (1, 1, 2, 2, 2, 2), {"w": floats(1, 1, 1, 1, 1, 1)}),
    "output_shape 0": ("ConvTranspose", {"output_shape": [0, 3]}, IMAGE, FILTER),
    "widest output_padding": ("ConvTranspose", {"output_padding": [WIDEST, 0]}, IMAGE, FILTER),
    "window 0": ("MaxPool", {"kernel_shape": [0, 3]}, IMAGE, {}),
    "no window": ("MaxPool", {}, IMAGE, {}),
    "window beyond the image": ("MaxPool", {"kernel_shape": [HUGE, 3]}, IMAGE, {}),
    "norm 0": ("LpPool", WINDOW | {"p": 0}, IMAGE, {}),
    "size 0": ("LRN", {"size": 0}, IMAGE, {}),
    "parameters of other channels": ("InstanceNormalization", {}, IMAGE, PAIR),
    "groups 0": ("GroupNormalization", {"num_groups": 0}, IMAGE, {"s": floats(4), "b": floats(4)}),
    "axis beyond the rank": ("LayerNormalization", {"axis": 4}, IMAGE, {"s": floats(5)}),
    "scale beyond all bounds": ("Resize", {}, IMAGE, scales(1, 1, 1e30, 1)),
    "scale below 0": ("Resize", {}, IMAGE, scales(1, 1, -1, 1)),
    "scales of another rank": ("Resize", {}, IMAGE, scales(1, 2)),
    "size below 0": ("Resize", {}, IMAGE, sizes(1, 4, -1, 5)),
    "an axis twice": ("Resize", {"axes": [2, 2]}, IMAGE, sizes(4, 5)),
    "neither scales nor sizes": ("Resize", {}, IMAGE, {"r": NONE, "s": NONE}),
    "mode unknown": ("Resize", {"mode": "x"}, IMAGE, scales(1, 1, 1, 1)),
    "blocksize 0": ("DepthToSpace", {"blocksize": 0}, IMAGE, {}),
    "blocks that don't divide": ("SpaceToDepth", {"blocksize": 4}, IMAGE, {}),
    "widest counts": ("Pad", {}, IMAGE, {"p": ints(*[WIDEST] * 8)}),
    "odd counts": ("Pad", {}, IMAGE, {"p": ints(1, 1, 1)}),
    "more cut off than there is": ("Pad", {}, IMAGE, {"p": ints(0, 0, -4, 0, 0, 0, -4, 0)}),
    "an axis padded twice": ("Pad", {}, IMAGE, TWICE),
    "grid of another rank": ("GridSample", {}, IMAGE, {"g": floats(1, 2, 3)}),
    "places of three numbers": ("GridSample", {}, IMAGE, {"g": floats(1, 2, 3, 3)}),
    "regions of rank 1": ("MaxRoiPool", {"pooled_shape": [2, 2]}, IMAGE, {"r": floats(5)}),
    "pooled_shape 0": ("MaxRoiPool", {"pooled_shape": [0, 2]}, IMAGE, {"r": floats(1, 5)}),
    "blocks of no extent": ("Col2Im", {}, (1, 4, 6), {"i": ints(4, 4), "b": ints(0, 2)}),
}  # fmt: skip

BOUNDED: dict[str, tuple[Any, ...]] = {
    "huge counts": ("Pad", {}, IMAGE, {"p": ints(0, 0, HUGE, 0, 0, 0, 0, 0)}),
    "huge wrapping": ("Pad", {"mode": "wrap"}, IMAGE, {"p": ints(0, 0, HUGE, 0, 0, 0, 0, 0)}),
    "huge sizes": ("Resize", {}, IMAGE, sizes(1, 4, HUGE, 5)),
    "huge sizes, cubic": ("Resize", {"mode": "cubic"}, IMAGE, sizes(1, 4, HUGE, 5)),
    "hardly any size": (
        "Resize",
        {"mode": "linear", "antialias": 1},
        IMAGE,
        scales(1, 1, 1e-7, 1),
    ),
    "empty image": ("Resize", {"mode": "linear"}, (1, 4, 0, 5), sizes(1, 4, 3, 5)),
    "huge neighbourhood": ("LRN", {"size": HUGE}, IMAGE, {}),
    "huge pads of a mean": ("AveragePool", WINDOW | {"pads": [HUGE] * 4}, IMAGE, {}),
    "huge pads of a norm": ("LpPool", WINDOW | {"pads": [HUGE] * 4}, IMAGE, {}),
    "huge window": (
        "MaxPool",
        {"kernel_shape": [10**5, 10**5], "dilations": [2, 2]},
        (1, 1, 10**6, 10**6),
        {},
    ),
    "many points": (
        "RoiAlign",
        {"sampling_ratio": HUGE},
        IMAGE,
        {"r": floats(1, 4), "b": ints(0)},
    ),
    "huge regions": ("MaxRoiPool", {"pooled_shape": [HUGE, 2]}, IMAGE, {"r": floats(1, 5)}),
    "no channels": ("AveragePool", WINDOW | {"dilations": [2, 2]}, (1, 0, 9, 9), {}),
}  # fmt: skip


@pytest.mark.parametrize("target", ["onnx", "tflite"])
@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str, target: str, tmp_path: Path) -> None:
    source, result = tmp_path / "x.onnx", tmp_path / f"y.{target}"
    source.write_bytes(model(*REFUSED[what]).SerializeToString())
    with pytest.raises(NnconvError):
        nnconv.convert(source, result)
    assert not result.exists()


@pytest.mark.parametrize("target", ["onnx", "tflite"])
@pytest.mark.parametrize("what", BOUNDED)
def test_bounded(what: str, target: str, tmp_path: Path) -> None:
    source, result = tmp_path / "x.onnx", tmp_path / f"y.{target}"
    source.write_bytes(model(*BOUNDED[what]).SerializeToString())
    try:
        nnconv.convert(source, result)
    except NnconvError:
        assert not result.exists()
    else:
        assert result.stat().st_size < 1 << 20


def test_zero_points_of_another_number(tmp_path: Path) -> None:
    source = tmp_path / "x.onnx"
    bytes_ = {"w": np.ones((4, 4, 3, 3), np.uint8), "p": np.ones(2, np.uint8)}
    made = model("ConvInteger", {}, IMAGE, bytes_, kind=TensorProto.UINT8)
    source.write_bytes(made.SerializeToString())
    with pytest.raises(NnconvError, match="zero points"):
        nnconv.convert(source, tmp_path / "y.tflite")
