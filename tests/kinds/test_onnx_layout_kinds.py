"""Kinds of fault where channels go from first to last: axes, constants, reshapes, equal extents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from support.onnx_routes import OnnxCase, check_routes, node
from support.onnx_whole import check_against_onnxruntime, info, ints, onnx_model, to_tflite
from support.onnx_windows import whole_numbers
from support.whole import floats

SHAPE = (2, 3, 4, 5)
"""All extents differ: the wrong axis gives another shape or other numbers."""


def identity(depth: int) -> np.ndarray:
    return np.eye(depth, dtype=np.float32).reshape(depth, depth, 1, 1)


def behind(
    id: str,
    nodes: NodeProto | Sequence[NodeProto],
    shape: Sequence[int] = SHAPE,
    constants: dict[str, np.ndarray] | None = None,
    **more: Any,
) -> OnnxCase:
    """Nodes that read ``x`` behind a convolution of ``x0`` that changes nothing but the layout."""
    rest = [nodes] if isinstance(nodes, NodeProto) else list(nodes)
    made = [node("Conv", ["x0", "eye"], ["x"]), *rest]
    kept = {"eye": identity(shape[1]), **(constants or {})}
    x = np.random.default_rng(1).permutation(int(np.prod(shape))).astype(np.float32)
    feeds = {"x0": x.reshape(shape) / 8}
    return OnnxCase(id, made, feeds, constants=kept, same_nodes=False, **more)


# ---------------------------------------------------------------- axes

AXES = range(-4, 4)


def of_one_axis() -> list[OnnxCase]:
    cases = []
    for axis in AXES:
        extent = SHAPE[axis]
        for op in ("Softmax", "LogSoftmax", "Hardmax"):
            made = node(op, ["x"], ["y"], axis=axis)
            cases.append(behind(f"{op} {axis}", made))
        for op in ("ArgMax", "ArgMin"):
            for keep in (0, 1):
                made = node(op, ["x"], ["y"], axis=axis, keepdims=keep)
                cases.append(behind(f"{op} {axis} {keep}", made))
        cases.append(behind(f"Concat {axis}", node("Concat", ["x", "x"], ["y"], axis=axis)))
        made = node("Split", ["x", "s"], ["y", "z"], axis=axis)
        cases.append(behind(f"Split {axis}", made, constants={"s": ints(1, extent - 1)}))
        made = node("Gather", ["x", "i"], ["y"], axis=axis)
        cases.append(behind(f"Gather {axis}", made, constants={"i": ints(-1, 0, 1)}))
        cases.append(behind(f"Gather one {axis}", made, constants={"i": np.array(1)}))
        places = ints(*range(120)).reshape(SHAPE) % extent
        made = node("GatherElements", ["x", "i"], ["y"], axis=axis)
        cases.append(behind(f"GatherElements {axis}", made, constants={"i": places}))
        made = node("CumSum", ["x", "a"], ["y"], reverse=1)
        cases.append(behind(f"CumSum {axis}", made, constants={"a": np.array(axis)}))
        made = node("LayerNormalization", ["x", "s", "b"], ["y"], axis=axis)
        scale = 1 + floats(*SHAPE[axis:])
        constants = {"s": scale, "b": -scale}
        cases.append(
            behind(f"LayerNormalization {axis}", made, constants=constants, tolerance=1e-4)
        )
        cases.append(behind(f"Flatten {axis}", node("Flatten", ["x"], ["y"], axis=axis)))
        made = node("Unsqueeze", ["x", "a"], ["y"])
        cases.append(behind(f"Unsqueeze {axis}", made, constants={"a": ints(axis)}))
        shape = [1 if i == axis % 4 else d for i, d in enumerate(SHAPE)]
        made = node("Squeeze", ["x", "a"], ["y"])
        cases.append(behind(f"Squeeze {axis}", made, shape, {"a": ints(axis)}))
        made = node("Slice", ["x", "b", "e", "a", "s"], ["y"])
        constants = {"b": ints(-1), "e": ints(-99), "a": ints(axis), "s": ints(-1)}
        cases.append(behind(f"Slice {axis}", made, constants=constants))
        made = node("TopK", ["x", "k"], ["y", "i"], axis=axis)
        cases.append(behind(f"TopK {axis}", made, constants={"k": ints(2)}))
        made = node("LpNormalization", ["x"], ["y"], axis=axis)
        cases.append(behind(f"LpNormalization {axis}", made))
    return cases


@pytest.mark.parametrize("case", of_one_axis(), ids=str)
def test_each_axis_behind_an_onnx_convolution(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceLogSumExp")


def reductions() -> Iterator[OnnxCase]:
    sets = [(1,), (-1,), (2, 3), (1, -1), (0, 2), (-3, -2, -1), (0, 1, 2, 3), ()]
    for index, axes in enumerate(sets):
        for keep in (0, 1):
            # each reduction with each form of axes would be the same code again
            for op in REDUCTIONS[:: 1 + index % 2]:
                made = node(op, ["x", "a"], ["y"], keepdims=keep)
                yield behind(f"{op} {axes} {keep}", made, constants={"a": ints(*axes)})


@pytest.mark.parametrize("case", list(reductions()), ids=str)
def test_reductions_behind_an_onnx_convolution(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


# ---------------------------------------------------------------- constants


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Pow"])
@pytest.mark.parametrize(
    "shape",
    [
        (),
        (1,),
        (5,),
        (4, 1),
        (4, 5),
        (3, 1, 1),
        (3, 4, 5),
        (1, 3, 1, 1),
        (2, 1, 1, 5),
        (1, 2, 3, 4, 5),
    ],
    ids=str,
)
def test_constants_of_lower_rank_broadcast_as_in_onnx(
    op: str, shape: tuple[int, ...], swapped: bool, tmp_path: Path
) -> None:
    c = 1 + floats(*shape)
    if op == "Pow":
        c = c % 3
    operands = ["c", "p"] if swapped else ["p", "c"]
    nodes = [node("Abs", ["x"], ["b"]), node("Add", ["b", "one"], ["p"]), node(op, operands, ["y"])]
    constants = {"c": np.float32(c), "one": np.float32(1)}
    check_routes(behind(op, nodes, constants=constants), tmp_path)


@pytest.mark.parametrize("size", [(4, 4, 4), (4, 4, 6), (4, 6, 4), (6, 4, 4)], ids=str)
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_equal_extents_are_not_mixed_up(
    size: tuple[int, int, int], batch: int, place: int, tmp_path: Path
) -> None:
    shape = (batch, *size)
    constant = 100 * floats(*(extent if i == place else 1 for i, extent in enumerate(shape)))
    nodes = [node("Add", ["x", "c"], ["z"]), node("Conv", ["z", "eye"], ["y"])]
    check_routes(behind("equal", nodes, shape, {"c": constant}), tmp_path)


SLOPES = [(1,), (3, 1, 1), (5,), (4, 1), (1, 3, 1, 1), (3, 4, 5), ()]


@pytest.mark.parametrize("shape", SLOPES, ids=str)
def test_onnx_slopes_broadcast_by_place(shape: tuple[int, ...], tmp_path: Path) -> None:
    nodes = [node("Sub", ["x", "m"], ["z"]), node("PRelu", ["z", "s"], ["y"])]
    constants = {"m": np.float32(7), "s": (1 + floats(*shape)) / 8}
    check_routes(behind("slope", nodes, constants=constants), tmp_path)


# ---------------------------------------------------------------- shapes


def reshapes() -> Iterator[OnnxCase]:
    forms: list[tuple[Any, ...]] = [
        (2, 60), (0, -1), (-1,), (6, 20), (2, 3, 20), (0, 0, -1), (2, 12, 5), (0, 3, 2, 2, 5),
        (2, 1, 3, 4, 5), (4, 5, 2, 3), (2, 3, 5, 4), (10, 12), (0, 0, 2, 10), (1, 2, 3, 4, 5, 1),
    ]  # fmt: skip
    for form in forms:
        yield behind(f"to {form}", node("Reshape", ["x", "s"], ["y"]), constants={"s": ints(*form)})
    for order in ((0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (0, 1, 3, 2), (1, 0, 2, 3)):
        yield behind(f"order {order}", node("Transpose", ["x"], ["y"], perm=order))
    yield behind("backwards", node("Transpose", ["x"], ["y"]))
    shuffle = [
        node("Reshape", ["x", "s"], ["p"]),
        node("Transpose", ["p"], ["q"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["q", "r"], ["z"]),
        node("Conv", ["z", "w"], ["y"]),
    ]
    constants = {
        "s": ints(2, 2, 3, 4, 5), "r": ints(2, 6, 4, 5), "w": whole_numbers(2, 6, 1, 1),
    }  # fmt: skip
    yield behind("shuffle", shuffle, (2, 6, 4, 5), constants)
    heads = [
        node("Reshape", ["x", "s"], ["p"]),
        node("Transpose", ["p"], ["q"], perm=[0, 2, 1]),
        node("MatMul", ["q", "w"], ["y"]),
    ]
    constants = {"s": ints(2, 3, 20), "w": whole_numbers(3, 4)}
    yield behind("pixels as a sequence", heads, constants=constants)
    yield behind("Tile", node("Tile", ["x", "r"], ["y"]), constants={"r": ints(1, 2, 1, 3)})
    yield behind(
        "Expand", node("Expand", ["x", "s"], ["y"]), (2, 3, 1, 5), {"s": ints(7, 1, 1, 4, 1)}
    )
    yield behind(
        "Pad", node("Pad", ["x", "p"], ["y"]), constants={"p": ints(0, 1, 2, 0, 1, 0, 0, 3)}
    )
    reflect = node("Pad", ["x", "p"], ["y"], mode="reflect")
    yield behind("reflect", reflect, constants={"p": ints(0, 0, 2, 1, 0, 0, 1, 3)})
    yield behind(
        "Where",
        [node("Greater", ["x", "c"], ["k"]), node("Where", ["k", "x", "c"], ["y"])],
        constants={"c": floats(4, 1)},
    )
    yield behind(
        "Einsum",
        node("Einsum", ["x", "w"], ["y"], equation="nchw,cd->ndhw"),
        constants={"w": whole_numbers(3, 2)},
    )
    yield behind("MatMul", node("MatMul", ["x", "w"], ["y"]), constants={"w": whole_numbers(5, 2)})
    yield behind(
        "MatMul of rows", node("MatMul", ["w", "x"], ["y"]), constants={"w": whole_numbers(3, 2, 4)}
    )


@pytest.mark.parametrize("case", list(reshapes()), ids=str)
def test_moves_behind_an_onnx_convolution(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


@pytest.mark.parametrize("way", ["Flatten", "Reshape"])
def test_flattening_behind_an_onnx_convolution_keeps_the_order(way: str, tmp_path: Path) -> None:
    """NHWC's order would give 4231. The weights are turned, so that no transpose is left."""
    flat = node(way, ["x"] if way == "Flatten" else ["x", "s"], ["f"])
    nodes = [node("Conv", ["x0", "eye"], ["x"]), flat, node("MatMul", ["f", "w"], ["y"])]
    constants = {"eye": identity(2), "w": np.float32([[1], [10], [100], [1000]])}
    if way == "Reshape":
        constants["s"] = ints(1, -1)
    case = OnnxCase(
        "flat",
        nodes,
        {"x0": 1 + floats(1, 2, 1, 2)},
        constants=constants,
        expected=[np.float32([[4321]])],
        same_nodes=False,
    )
    check_routes(case, tmp_path)
    made = to_tflite(tmp_path / "case.onnx", tmp_path)
    assert made.ops.get("TRANSPOSE", 0) <= 1


# ---------------------------------------------------------------- no stray transposes


def network() -> tuple[list[NodeProto], dict[str, np.ndarray]]:
    """Branches, a residue, a gate of channels, a norm and a resize, as PyTorch exports them."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Add", ["r1", "k"], ["a1"]),
        node("Conv", ["a1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c2", "s", "o", "m", "v"], ["n2"]),
        node("Clip", ["n2", "zero", "six"], ["r2"]),
        node("MaxPool", ["a1"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Concat", ["r2", "p", "a1"], ["cat"], axis=1),
        node("GlobalAveragePool", ["cat"], ["g"]),
        node("Conv", ["g", "w3"], ["g1"]),
        node("Sigmoid", ["g1"], ["gate"]),
        node("Mul", ["cat", "gate"], ["gated"]),
        node("Resize", ["gated", "", "sc"], ["up"], mode="nearest"),
        node("Conv", ["up", "w4"], ["c4"], group=12, pads=[1, 1, 1, 1]),
        node("LeakyRelu", ["c4"], ["l4"], alpha=0.125),
        node("ReduceMean", ["l4", "hw"], ["y"], keepdims=0),
    ]
    constants = {
        "w1": whole_numbers(4, 3, 3, 3), "b1": whole_numbers(4), "k": whole_numbers(4, 1, 1),
        "w2": whole_numbers(4, 4, 3, 3), "s": np.float32([1, 2, 1, 0.5]), "o": whole_numbers(4),
        "m": whole_numbers(4), "v": np.float32([1, 4, 2, 3]), "zero": np.float32(0),
        "six": np.float32(6), "w3": whole_numbers(12, 12, 1, 1) / 64,
        "w4": whole_numbers(12, 1, 3, 3), "sc": np.float32([1, 1, 2, 2]), "hw": ints(2, 3),
    }  # fmt: skip
    return nodes, constants


def test_no_transpose_but_at_an_onnx_edge(tmp_path: Path) -> None:
    nodes, constants = network()
    model = onnx_model(
        nodes, [info("x", "float32", [2, 3, 8, 6])], [info("y", "float32", [2, 12])], constants
    )
    made = to_tflite(model, tmp_path)
    assert made.ops["TRANSPOSE"] == 1
    assert "PAD" not in made.ops
    assert "RESHAPE" not in made.ops
    check_against_onnxruntime(made, [whole_numbers(2, 3, 8, 6)], tolerance=1e-4)
    assert "TRANSPOSE" not in to_tflite(model, tmp_path, io_layout="nhwc").ops
