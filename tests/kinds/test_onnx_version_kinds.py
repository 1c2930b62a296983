"""Kinds of fault in what ONNX's operators meant in older versions, each read as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.onnx_routes import OnnxCase, check_routes, node
from support.onnx_whole import check_against_onnxruntime, info, ints, onnx_model, to_tflite
from support.whole import floats

X = np.random.default_rng(0).integers(-8, 9, (2, 3, 4, 5)).astype(np.float32)
"""All extents differ: the wrong axis gives another shape or other numbers."""


def one(
    id: str, opset: int, op: str, inputs: str, x: np.ndarray = X, *, outputs: str = "y", **more: Any
) -> OnnxCase:
    """A case of one node; ``c_`` begins the names of attributes, others are those of the case."""
    attributes = {k[2:]: more.pop(k) for k in list(more) if k.startswith("c_")}
    more.setdefault("same_nodes", False)
    made = node(op, inputs.split(), outputs.split(), **attributes)
    return OnnxCase(f"{id} {opset}", made, {"x": x}, opset=opset, **more)


def by_axis() -> list[OnnxCase]:
    """Before 13 these flattened all dimensions from the axis on; 1 was the default."""
    return [
        one(f"{op} {axis}", opset, op, "x", X / 4, c_axis=axis)
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for opset in (7, 11, 13)
        for axis in (None, 0, 1, 2, 3, -1, -2)
        if opset > 7 or axis is None or axis >= 0
    ]


@pytest.mark.parametrize("case", by_axis(), ids=str)
def test_softmax_means_what_it_did(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


REDUCTIONS = {"ReduceSum": 13, **dict.fromkeys(("ReduceMean", "ReduceMax", "ReduceL2"), 18)}
"""The operator set in which axes became an operand."""


def by_axes() -> list[OnnxCase]:
    cases = []
    for op, since in REDUCTIONS.items():
        for axes in ([1], [0, 3], [-1, 1], None):
            if axes is None or min(axes) >= 0:
                cases.append(one(f"{op} {axes}", 7, op, "x", c_axes=axes, c_keepdims=0))
            cases.append(one(f"{op} {axes}", since - 1, op, "x", c_axes=axes, c_keepdims=1))
            constants = {} if axes is None else {"a": ints(*axes)}
            operands = "x" if axes is None else "x a"
            cases.append(one(f"{op} {axes}", since, op, operands, constants=constants))
        none = {"a": ints()}
        cases += [
            one(f"{op} noop {x}", since, op, "x a", constants=none, c_noop_with_empty_axes=x)
            for x in (0, 1)
        ]
    thin = X[:, :1, :, :1]
    for opset in (7, 11, 12):
        cases.append(one("Squeeze", opset, "Squeeze", "x", thin, c_axes=[1, 3]))
        cases.append(one("Squeeze all", opset, "Squeeze", "x", thin))
        cases.append(one("Unsqueeze", opset, "Unsqueeze", "x", c_axes=[0, 3]))
    cases.append(one("Squeeze -1", 11, "Squeeze", "x", thin, c_axes=[-1]))
    cases.append(one("Unsqueeze -1", 11, "Unsqueeze", "x", c_axes=[-1, 1]))
    for opset in (13, 21):
        cases.append(one("Squeeze", opset, "Squeeze", "x a", thin, constants={"a": ints(-1, 1)}))
        cases.append(one("Unsqueeze", opset, "Unsqueeze", "x a", constants={"a": ints(-1, 1)}))
    return cases


@pytest.mark.parametrize("case", by_axes(), ids=str)
def test_axes_are_an_attribute_or_an_operand(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


def by_bounds() -> list[OnnxCase]:
    low, high = np.array(-2, np.float32), np.array(3, np.float32)
    inf = float(np.finfo(np.float32).max)
    return [
        *(one("Clip", opset, "Clip", "x", c_min=-2.0, c_max=3.0) for opset in (7, 10)),
        one("Clip low", 7, "Clip", "x", c_min=-2.0),
        one("Clip high", 7, "Clip", "x", c_max=3.0),
        one("Clip neither", 7, "Clip", "x"),
        one("Clip widest", 7, "Clip", "x", c_min=-inf, c_max=inf),
        *(
            one("Clip", opset, "Clip", "x l h", constants={"l": low, "h": high})
            for opset in (11, 12, 13)
        ),
        one("Clip low", 11, "Clip", "x l", constants={"l": low}),
        OnnxCase(
            "Clip high 13",
            helper.make_node("Clip", ["x", "", "h"], ["y"]),
            {"x": X},
            constants={"h": high},
            opset=13,
        ),
        OnnxCase(
            "Clip to what is computed",
            node("Clip", ["x", "l", "h"], ["y"]),
            {"x": X, "l": low, "h": high},
        ),
        OnnxCase("Clip nothing 13", node("Clip", ["x"], ["y"]), {"x": X}, same_nodes=False),
        OnnxCase(
            "Clip the wrong way round",
            node("Clip", ["x", "l", "h"], ["y"]),
            {"x": X},
            constants={"l": high, "h": low},
            note="numpy, and so ONNX, gives the upper bound",
        ),
    ]


@pytest.mark.parametrize("case", by_bounds(), ids=str)
def test_bounds_are_attributes_or_operands(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


def by_extents() -> list[OnnxCase]:
    pads = [0, 0, 1, 2, 0, 1, 0, 3]
    ends = [9, -1, 3, 2**31 - 1]
    most = np.iinfo(np.int64).max
    least = np.iinfo(np.int64).min
    cases = []
    for mode in ("constant", "reflect", "edge"):
        value = 1.5 if mode == "constant" else None
        cases.append(one(f"Pad {mode}", 7, "Pad", "x", c_pads=pads, c_mode=mode, c_value=value))
        constants = {"p": ints(*pads), "v": np.array(1.5, np.float32)}
        operands = "x p v" if value else "x p"
        kept = constants if value else {"p": constants["p"]}
        cases.append(one(f"Pad {mode}", 11, "Pad", operands, constants=kept, c_mode=mode))
        cases.append(one(f"Pad {mode}", 18, "Pad", operands, constants=kept, c_mode=mode))
    some = {"p": ints(1, 2, 0, 3), "v": np.array(-1, np.float32), "a": ints(-1, 2)}
    cases.append(one("Pad axes", 18, "Pad", "x p v a", constants=some))
    cases.append(one("Pad less", 13, "Pad", "x p", constants={"p": ints(0, 0, -1, 1, 0, 1, 0, -2)}))
    cases.append(one("Slice", 7, "Slice", "x", c_starts=[0, -2, 1, 0], c_ends=ends))
    cases.append(one("Slice axes", 9, "Slice", "x", c_starts=[1], c_ends=[-1], c_axes=[2]))
    for opset in (10, 11, 13):
        found = {"s": ints(3, -1), "e": ints(0, least), "a": ints(2, 3), "t": ints(-1, -2)}
        if opset == 10:
            found["e"] = ints(0, -(2**31))
        cases.append(one("Slice back", opset, "Slice", "x s e a t", constants=found))
        far = {"s": ints(1, -9), "e": ints(most, most), "a": ints(1, -1 if opset > 10 else 3)}
        cases.append(one("Slice far", opset, "Slice", "x s e a", constants=far))
    for opset in (7, 11):
        cases.append(one("Split", opset, "Split", "x", outputs="y z", c_axis=3, c_split=[1, 4]))
        cases.append(one("Split even", opset, "Split", "x", outputs="y z", c_axis=2))
    found = {"s": ints(1, 4)}
    cases.append(one("Split", 13, "Split", "x s", outputs="y z", c_axis=-1, constants=found))
    cases.append(one("Split even", 13, "Split", "x", outputs="y z", c_axis=2))
    cases.append(one("Split uneven", 18, "Split", "x", outputs="y z", c_axis=-1, c_num_outputs=2))
    return cases


@pytest.mark.parametrize("case", by_extents(), ids=str)
def test_pads_and_slices_are_attributes_or_operands(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


def resized() -> list[OnnxCase]:
    x = X[:1]
    twice = np.float32([1, 1, 2, 3])
    sizes = ints(1, 3, 6, 9)
    cases = []
    for mode in ("nearest", "linear"):
        old = {"c_mode": mode, "c_scales": [1.0, 1.0, 2.0, 3.0], "results": ["float32"]}
        cases.append(one(f"Upsample {mode}", 7, "Upsample", "x", x, **old))
        found = {"s": twice}
        cases.append(one(f"Upsample {mode}", 9, "Upsample", "x s", x, c_mode=mode, constants=found))
        cases.append(one(f"Resize {mode}", 10, "Resize", "x s", x, c_mode=mode, constants=found))
        less = {"s": np.float32([1, 1, 0.5, 0.6])}
        cases.append(
            one(f"Resize less {mode}", 10, "Resize", "x s", x, c_mode=mode, constants=less)
        )
        ways = {"constants": {"r": np.float32([]), "s": twice}, "c_mode": mode}
        cases += [
            one(
                f"Resize {mode} {way}",
                11,
                "Resize",
                "x r s",
                x,
                c_coordinate_transformation_mode=way,
                **ways,
            )
            for way in ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
        ]
    made = helper.make_node("Resize", ["x", "r", "r", "n"], ["y"], mode="nearest")
    found = {"r": np.float32([]), "n": sizes}
    cases.append(
        OnnxCase("Resize sizes 11", made, {"x": x}, constants=found, opset=11, same_nodes=False)
    )
    made = helper.make_node("Resize", ["x", "", "", "n"], ["y"], mode="linear")
    cases.append(
        OnnxCase(
            "Resize sizes 13", made, {"x": x}, constants={"n": sizes}, opset=13, same_nodes=False
        )
    )
    made = helper.make_node("Resize", ["x", "", "", "n"], ["y"], mode="nearest", axes=[3, 2])
    cases.append(
        OnnxCase(
            "Resize axes 18",
            made,
            {"x": x},
            constants={"n": ints(9, 6)},
            opset=18,
            same_nodes=False,
        )
    )
    return cases


@pytest.mark.parametrize("case", resized(), ids=str)
def test_sizes_change_as_each_version_says(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


matrix = X.reshape(6, 20)
rows = {"b": floats(20, 3), "c": np.float32([1, 2, 3])}
table = {
    "s": np.float32([1, 2, 3]),
    "b": np.float32([0, -1, 1]),
    "m": np.float32([0.5, 0, 1]),
    "v": np.float32([1, 4, 2]),
}
stats = {"constants": table, "tolerance": 1e-5}
ids = ints(2, 0)
OTHERS = [
    one("Gemm", 7, "Gemm", "x b c", matrix, constants=rows, c_alpha=0.5, c_beta=2.0),
    one("Gemm", 9, "Gemm", "x b c", matrix, constants={**rows, "c": np.float32([[1]] * 6)}),
    one("Gemm scalar", 11, "Gemm", "x b c", matrix, constants={**rows, "c": np.float32(7)}),
    one("Gemm bare", 11, "Gemm", "x b", matrix, constants={"b": floats(3, 20)}, c_transB=1),
    *(
        one("BatchNormalization", v, "BatchNormalization", "x s b m v", **stats)
        for v in (7, 9, 14, 15)
    ),
    *(one("Dropout", v, "Dropout", "x", c_ratio=0.7) for v in (7, 10)),
    one("Dropout", 12, "Dropout", "x r", constants={"r": np.array(0.7, np.float32)}),
    one("Dropout mask", 12, "Dropout", "x", outputs="y mask"),
    one("TopK", 7, "TopK", "x", outputs="y i", c_k=2, c_axis=2),
    one("TopK", 10, "TopK", "x k", outputs="y i", constants={"k": ints(2)}, c_axis=2),
    one("TopK least", 11, "TopK", "x k", outputs="y i", constants={"k": ints(3)}, c_largest=0),
    *(one("Cast", v, "Cast", "x", c_to=TensorProto.INT32) for v in (7, 9, 13, 19)),
    one(
        "Scatter",
        9,
        "Scatter",
        "x i u",
        X[0, 0],
        constants={"i": np.int64([[0, 1, 2, 3, 0]]), "u": 50 + floats(1, 5)},
    ),
    one(
        "ScatterElements",
        11,
        "ScatterElements",
        "x i u",
        X[0, 0],
        constants={"i": np.int64([[0, -1, 2, 3, 0]]), "u": 50 + floats(1, 5)},
    ),
    *(one("Flatten", v, "Flatten", "x", c_axis=2) for v in (7, 9)),
    one("Flatten -1", 11, "Flatten", "x", c_axis=-1),
    one("Flatten 0", 9, "Flatten", "x", c_axis=0),
    *(one("ArgMax", v, "ArgMax", "x", c_axis=2, c_keepdims=0) for v in (7, 11, 13)),
    one("ArgMax last", 12, "ArgMax", "x", c_axis=-2, c_select_last_index=1),
    *(one("Concat", v, "Concat", "x x", c_axis=1) for v in (7, 11)),
    one("Gather", 7, "Gather", "x i", constants={"i": ids}, c_axis=1),
    one("Gather", 11, "Gather", "x i", constants={"i": np.int32([-1, 0])}, c_axis=-2),
    one("PRelu", 7, "PRelu", "x s", constants={"s": np.float32([[[0.1]], [[0.2]], [[0.3]]])}),
    one("Pow", 7, "Pow", "x e", np.abs(X), constants={"e": np.array(2, np.float32)}),
    one("Pow", 13, "Pow", "x e", constants={"e": np.array(3, np.int32)}),
    one("Mod", 10, "Mod", "x d", X.astype(np.int32), constants={"d": np.int32([3])}),
    one("Equal", 11, "Equal", "x d", constants={"d": np.float32([3])}),
    *(
        one("DepthToSpace", v, "DepthToSpace", "x", floats(1, 8, 2, 3), c_blocksize=2)
        for v in (7, 11)
    ),
    one(
        "DepthToSpace CRD",
        11,
        "DepthToSpace",
        "x",
        floats(1, 8, 2, 3),
        c_blocksize=2,
        c_mode="CRD",
    ),
    *(one("MaxPool", v, "MaxPool", "x", c_kernel_shape=[2, 2]) for v in (7, 8, 10, 12)),
    *(
        one("AveragePool", v, "AveragePool", "x", c_kernel_shape=[2, 2], c_pads=[1, 0, 1, 1])
        for v in (7, 10, 19)
    ),
    *(one("LeakyRelu", v, "LeakyRelu", "x", c_alpha=0.25) for v in (7, 16)),
    one("Elu", 7, "Elu", "x", c_alpha=0.5),
    one("Reshape", 7, "Reshape", "x s", constants={"s": ints(0, -1, 5)}),
    one("Expand", 8, "Expand", "x s", X[:, :1, :, :1], constants={"s": ints(3, 1, 5)}),
    one("Tile", 7, "Tile", "x s", constants={"s": ints(1, 2, 1, 3)}),
    one(
        "Where",
        9,
        "Where",
        "k x z",
        constants={"k": np.array([[True], [False], [True], [True]]), "z": np.float32([7])},
    ),
    one("IsNaN", 9, "IsNaN", "x", np.float32([1, np.nan, np.inf])),
    one("Sum", 7, "Sum", "x z", constants={"z": X}),
    one("Max", 8, "Max", "x z", constants={"z": np.float32([1])}),
    one("Mean", 8, "Mean", "x z", constants={"z": np.float32([1])}),
    one(
        "ConstantOfShape",
        9,
        "ConstantOfShape",
        "x",
        ints(2, 3),
        c_value=helper.make_tensor("", 1, [1], [2.5]),
        routes=("reference", "onnx"),
    ),
    one(
        "InstanceNormalization",
        7,
        "InstanceNormalization",
        "x s b",
        constants={"s": np.float32([1, 2, 3]), "b": np.float32([0, 1, 2])},
    ),
    one("Erf", 9, "Erf", "x"),
    one("LRN", 7, "LRN", "x", c_size=3),
]


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_each_version_of_an_operator_is_read_as_such(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


CONSTANTS: dict[str, tuple[Any, int]] = {
    "value": (numpy_helper.from_array(np.float32([[1, 2], [3, 4]])), 9),
    "value_float": (2.5, 12),
    "value_floats": ([1.0, 2.0], 12),
    "value_int": (3, 12),
    "value_ints": ([1, -2], 12),
    "sparse_value": (
        helper.make_sparse_tensor(
            helper.make_tensor("v", TensorProto.FLOAT, [2], [5.0, 7.0]),
            helper.make_tensor("i", TensorProto.INT64, [2], [1, 2]),
            [2, 2],
        ),
        11,
    ),
}


@pytest.mark.parametrize("kind", CONSTANTS)
def test_constant_nodes_of_every_kind(kind: str, tmp_path: Path) -> None:
    value, opset = CONSTANTS[kind]
    nodes = [
        node("Constant", [], ["c"], **{kind: value}),
        node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
        node("Add", ["x", "f"], ["y"]),
    ]
    shape = info("x", "float32", [2, 2])
    made = to_tflite(
        onnx_model(nodes, [shape], [info("y", "float32", [2, 2])], opset=opset), tmp_path
    )
    if kind != "sparse_value":  # onnxruntime has no kernel for those
        check_against_onnxruntime(made, [floats(2, 2)])
    else:
        np.testing.assert_array_equal(made.run(floats(2, 2))[0], [[0, 6], [9, 3]])
    assert sum(made.ops.values()) == 1
