"""Kinds of fault where extents of ONNX models are open: one file, run at several of them."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from support.onnx_routes import OnnxCase, check_routes, node
from support.onnx_whole import ints
from support.whole import normal

SIZES = [(8, 8), (5, 7), (9, 4), (6, 11), (4, 5)]


def images(id: str, nodes: Any, constants: Any = None, *, depth: int = 4, **more: Any) -> OnnxCase:
    """Nodes that read x, images of open height, width and number."""
    runs = [
        {"x": normal(count, depth, *size, seed=count)}
        for count, size in zip((1, 2, 1, 3, 1), SIZES, strict=True)
    ]
    kept = constants or {}
    return OnnxCase(
        id, nodes, runs[0], more=runs[1:], constants=kept, open={"x": (0, 2, 3)},
        same_nodes=False, tolerance=1e-4, **more,
    )  # fmt: skip


def windows() -> list[OnnxCase]:
    cases = []
    kernels = [
        ((3, 3), (1, 1)),
        ((3, 3), (2, 2)),
        ((2, 2), (2, 2)),
        ((1, 2), (3, 2)),
        ((2, 3), (4, 3)),
    ]
    for pad, (kernel, stride) in product(("SAME_UPPER", "SAME_LOWER", "VALID"), kernels):
        name = f"{pad} {kernel} {stride}"
        made = node("Conv", ["x", "w"], ["y"], auto_pad=pad, strides=stride)
        cases.append(images(f"Conv {name}", made, {"w": normal(3, 4, *kernel)}))
        if pad != "VALID" and stride[0] > kernel[0]:
            continue  # onnxruntime's pools pad by less than nothing there
        for op in ("MaxPool", "AveragePool"):
            made = node(op, ["x"], ["y"], auto_pad=pad, strides=stride, kernel_shape=kernel)
            cases.append(images(f"{op} {name}", made))
    for pads in ([1, 1, 1, 1], [0, 0, 1, 1], [2, 1, 0, 1]):
        made = node("Conv", ["x", "w"], ["y"], pads=pads, strides=[2, 2])
        cases.append(images(f"Conv {pads}", made, {"w": normal(3, 4, 3, 3)}))
        made = node("MaxPool", ["x"], ["y"], pads=pads, kernel_shape=[3, 3])
        cases.append(images(f"MaxPool {pads}", made))
        made = node(
            "AveragePool", ["x"], ["y"], pads=pads, kernel_shape=[3, 3], count_include_pad=1
        )
        cases.append(images(f"AveragePool {pads}", made))
        made = node("AveragePool", ["x"], ["y"], pads=pads, kernel_shape=[3, 3])
        cases.append(images(f"AveragePool without {pads}", made))
        made = node("ConvTranspose", ["x", "w"], ["y"], pads=pads, strides=[2, 2])
        cases.append(images(f"ConvTranspose {pads}", made, {"w": normal(4, 3, 3, 3)}))
    for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 1, 0]):
        shape = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": pads}
        cases.append(images(f"ceiling {pads}", node("MaxPool", ["x"], ["y"], ceil_mode=1, **shape)))
    made = node("Conv", ["x", "w"], ["y"], dilations=[2, 2], pads=[2, 2, 2, 2], group=2)
    cases.append(images("Conv dilated in groups", made, {"w": normal(6, 2, 2, 2)}))
    made = node("Conv", ["x", "w"], ["y"], group=4, pads=[1, 1, 1, 1])
    cases.append(images("depthwise", made, {"w": normal(8, 1, 3, 3)}))
    made = node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], output_padding=[1, 1])
    cases.append(images("ConvTranspose output padding", made, {"w": normal(4, 3, 2, 2)}))
    return cases


@pytest.mark.parametrize("case", windows(), ids=str)
def test_windows_of_open_extents(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


shuffle = {"blocksize": 2}
twice = {"s": np.float32([1, 1, 2, 2])}
OTHERS = [
    images("DepthToSpace", node("DepthToSpace", ["x"], ["y"], **shuffle)),
    images("DepthToSpace CRD", node("DepthToSpace", ["x"], ["y"], mode="CRD", **shuffle)),
    *(
        images(f"{op} {axis} {opset}", node(op, ["x"], ["y"], axis=axis), opset=opset)
        for op in ("Softmax", "LogSoftmax")
        for axis, opset in ((1, 11), (2, 11), (1, 13), (-1, 13))
    ),
    *(
        images(
            f"Resize {mode} {way}",
            node("Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=way),
            twice,
        )
        for mode in ("nearest", "linear")
        for way in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    ),
    images(
        "Resize to",
        node("Resize", ["x", "", "", "n"], ["y"], mode="linear", axes=[2, 3]),
        {"n": ints(6, 5)},
    ),
    images("GlobalAveragePool", node("GlobalAveragePool", ["x"], ["y"])),
    images("GlobalMaxPool", node("GlobalMaxPool", ["x"], ["y"])),
    images("ReduceMean", node("ReduceMean", ["x", "a"], ["y"], keepdims=0), {"a": ints(2, 3)}),
    images("Flatten 1", node("Flatten", ["x"], ["y"])),
    images("Flatten 3", node("Flatten", ["x"], ["y"], axis=3)),
    images("Transpose", node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1])),
    images(
        "BatchNormalization",
        node("BatchNormalization", ["x", *"sbmv"], ["y"]),
        {n: 1 + np.abs(normal(4, seed=ord(n))) for n in "sbmv"},
    ),
    images(
        "InstanceNormalization",
        node("InstanceNormalization", ["x", "s", "b"], ["y"]),
        {n: normal(4, seed=ord(n)) for n in "sb"},
    ),
    images(
        "LayerNormalization",
        [
            node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
            node("LayerNormalization", ["t", "s", "b"], ["y"]),
        ],
        {n: normal(4, seed=ord(n)) for n in "sb"},
    ),
    images("Pad", node("Pad", ["x", "p"], ["y"]), {"p": ints(0, 0, 1, 2, 0, 0, 3, 0)}),
    images(
        "Pad reflect",
        node("Pad", ["x", "p"], ["y"], mode="reflect"),
        {"p": ints(0, 0, 1, 2, 0, 0, 2, 1)},
    ),
    images(
        "Slice",
        node("Slice", ["x", "b", "e", "a", "t"], ["y"]),
        {"b": ints(-1, 1), "e": ints(-99, 99), "a": ints(2, 3), "t": ints(-1, 2)},
    ),
    images("Split", node("Split", ["x", "s"], ["y", "z"], axis=1), {"s": ints(1, 3)}),
    images("Concat", node("Concat", ["x", "x"], ["y"], axis=2)),
    images("Tile", node("Tile", ["x", "r"], ["y"]), {"r": ints(1, 2, 1, 3)}),
    images(
        "Expand to itself",
        [node("Shape", ["x"], ["s"]), node("Expand", ["c", "s"], ["y"])],
        {"c": normal(4, 1, 1)},
    ),
    images("ArgMax", node("ArgMax", ["x"], ["y"], axis=-1)),
    images(
        "Where",
        [node("Greater", ["x", "c"], ["k"]), node("Where", ["k", "x", "c"], ["y"])],
        {"c": normal(4, 1, 1)},
    ),
    images("PRelu", node("PRelu", ["x", "s"], ["y"]), {"s": normal(4, 1, 1)}),
    images(
        "MatMul",
        [node("Transpose", ["x"], ["t"], perm=[0, 1, 3, 2]), node("MatMul", ["x", "t"], ["y"])],
    ),
    images("CumSum", node("CumSum", ["x", "a"], ["y"]), {"a": np.array(3)}),
    images("TopK", node("TopK", ["x", "k"], ["y", "i"], axis=3), {"k": ints(3)}),
    images(
        "Einsum",
        node("Einsum", ["x", "x"], ["y"], equation="nchw,ndhw->ncd"),
        results=["float32"],
    ),
    images("LRN", node("LRN", ["x"], ["y"], size=3)),
    images(
        "Einsum of three",
        node("Einsum", ["x", "w"], ["y"], equation="nchw,cde->nhwde"),
        {"w": normal(4, 3, 2)},
        results=["float32"],
    ),
]
attention = [
    node("Shape", ["x"], ["d"]),
    node("Slice", ["d", "zero", "two"], ["nc"]),
    node("Concat", ["nc", "rest"], ["flat"], axis=0),
    node("Reshape", ["x", "flat"], ["f"]),  # pixels as a sequence
    node("Transpose", ["f"], ["t"], perm=[0, 2, 1]),
    node("MatMul", ["t", "w"], ["q"]),
    node("MatMul", ["q", "f"], ["scores"]),
    node("Softmax", ["scores"], ["shares"], axis=-1),
    node("MatMul", ["shares", "t"], ["o"]),
    node("Transpose", ["o"], ["b"], perm=[0, 2, 1]),
    node("Reshape", ["b", "d"], ["back"]),
    node("Add", ["back", "x"], ["y"]),
]
constants = {"zero": ints(0), "two": ints(2), "rest": ints(-1), "w": normal(4, 4)}
OTHERS.append(images("attention over pixels", attention, constants))
norm = [
    node("Reshape", ["x", "s"], ["g"]),
    node("InstanceNormalization", ["g", "one", "none"], ["n"]),
    node("Shape", ["x"], ["d"]),
    node("Reshape", ["n", "d"], ["m"]),
    node("Mul", ["m", "k"], ["y"]),
]
constants = {
    "s": ints(0, 2, -1),
    "one": np.ones(2, np.float32),
    "none": np.zeros(2, np.float32),
}
constants["k"] = normal(4, 1, 1)
OTHERS.append(images("norm of groups", norm, constants))


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_ops_of_open_extents(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


FOUND = {
    "taken apart": [
        node("Split", ["picked"], ["left", "right"], axis=1, num_outputs=2),
        node("Squeeze", ["left", "one"], ["l"]),
        node("Squeeze", ["right", "one"], ["r"]),
        node("Sub", ["l", "r"], ["y"]),
    ],
    "picked again, from behind": [
        node("ReduceMin", ["picked", "one"], ["least"], keepdims=0),
        node("Cast", ["least"], ["again"], to=TensorProto.INT64),
        node("Gather", ["picked", "again"], ["y"]),
    ],
    "put where they were": [
        node("Unsqueeze", ["places", "one"], ["column"]),
        node("Concat", ["column", "column"], ["there"], axis=1),
        node("ScatterElements", ["x", "there", "picked"], ["y"], axis=0),
    ],
}


@pytest.mark.parametrize("what", FOUND)
def test_what_is_found_may_be_nothing(what: str, tmp_path: Path) -> None:
    found = [
        node("NonZero", ["m"], ["at"]),
        node("Squeeze", ["at", "zero"], ["places"]),
        node("Gather", ["t", "places"], ["picked"]),
    ]
    runs = [
        {"m": np.float32(m), "t": -np.ones((5, 2), np.float32) + np.float32([[0, 1]]),
         "x": normal(5, 2)}
        for m in ([0, 1, 0, 2, 3], [0] * 5, [1] * 5)
    ]  # fmt: skip
    read = {name for made in FOUND[what] for name in made.input}
    runs = [{k: v for k, v in run.items() if k != "x" or "x" in read} for run in runs]
    constants = {"zero": ints(0), "one": ints(1)}
    nodes = [*found, *FOUND[what]]
    case = OnnxCase(
        what, nodes, runs[0], more=runs[1:], constants=constants, opset=18, same_nodes=False
    )
    check_routes(case, tmp_path)
