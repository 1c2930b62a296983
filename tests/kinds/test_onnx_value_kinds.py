"""Kinds of fault in values of ONNX models: indices, shapes, scalars, nothing at all, infinities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import nnconv
from nnconv.errors import InvalidModelError
from support.onnx_routes import OnnxCase, check_routes, node
from support.onnx_routes import feeding as case
from support.onnx_whole import info, ints, onnx_model, to_tflite
from support.whole import floats

FLOAT = "float32"
MOST = np.iinfo(np.int64).max


# ---------------------------------------------------------------- indices


x = floats(3, 4)
gather = node("Gather", ["x", "i"], ["y"], axis=1)
pick = node("GatherND", ["x", "i"], ["y"])
each = node("GatherElements", ["x", "i"], ["y"], axis=0)
ahead = node("Gather", ["x", "z"], ["y"], axis=1)
pairs = [[-1, 0], [1, -2]]
INDEXED = [
    case("constant", gather, x, constants={"i": ints(-1, 0)}),
    case("scalar", gather, x, constants={"i": np.array(-2)}),
    case("matrix", gather, x, constants={"i": np.int32([[-1, 0], [1, -4]])}),
    *(
        case(f"run time {kind}", ahead, x, np.array([-1, 0, 3, -4], kind))
        for kind in ("int32", "int64")
    ),
    case("run time scalar", ahead, x, np.array(-1)),
    case("pairs", pick, x, constants={"i": np.int64(pairs)}),
    case("run time pairs", node("GatherND", ["x", "z"], ["y"]), x, np.int64(pairs)),
    case("rows", pick, x, constants={"i": np.int64([[-1], [1]])}),
    case(
        "batches",
        node("GatherND", ["x", "i"], ["y"], batch_dims=1),
        x,
        constants={"i": np.int64([[-1], [0], [2]])},
    ),
    case("each", each, x, constants={"i": np.int64([[-1, 0, 2, -3]])}),
    case(
        "run time each",
        node("GatherElements", ["x", "z"], ["y"]),
        x,
        np.int64([[-1, 0, 2, -3]]),
    ),
    case(
        "run time axis 1",
        node("GatherElements", ["x", "z"], ["y"], axis=-1),
        x,
        np.int64([[-1], [0], [3]]),
    ),
    case(
        "OneHot",
        node("OneHot", ["x", "d", "v"], ["y"]),
        np.int64([0, -1, 2, 7]),
        constants={"d": np.array(4), "v": np.float32([-1, 5])},
    ),
    case(
        "OneHot axis",
        node("OneHot", ["x", "d", "v"], ["y"], axis=0),
        np.int64([[0, -1], [2, -4]]),
        constants={"d": ints(4), "v": np.float32([0, 1])},
    ),
    case(
        "bytes",
        gather,
        np.arange(12, dtype=np.uint8).reshape(3, 4),
        constants={"i": ints(3, 1)},
    ),
    case("truths", gather, x > 5, constants={"i": ints(3, 1)}),
    case("wide", gather, x.astype(np.int64) << 40, constants={"i": ints(3, 1)}),
]
for name in ("none", "add", "mul", "max", "min"):
    reduction = None if name == "none" else name
    made = node("ScatterElements", ["x", "i", "z"], ["y"], axis=1, reduction=reduction)
    places = {"i": np.int64([[-1, 0], [1, 2], [-2, -4]])}
    INDEXED.append(case(f"scatter {name}", made, x, -floats(3, 2) - 1, constants=places, opset=18))
    made = node("ScatterND", ["x", "i", "z"], ["y"], reduction=reduction)
    INDEXED.append(
        case(
            f"scatter pairs {name}",
            made,
            x,
            -floats(2) - 1,
            constants={"i": np.int64(pairs)},
            opset=18,
        )
    )
made = node("ScatterElements", ["x", "z", "u"], ["y"], axis=0)
INDEXED.append(case("scatter at run time", made, x, np.int64([[-1, 0, 1, 2]]), 50 + floats(1, 4)))
made = node("ScatterND", ["x", "z", "u"], ["y"])
INDEXED.append(case("scatter pairs at run time", made, x, np.int64(pairs), 50 + floats(2)))


@pytest.mark.parametrize("case", INDEXED, ids=str)
def test_negative_onnx_indices_count_from_the_end(case: OnnxCase, tmp_path: Path) -> None:
    """LiteRT's kernels stop at them."""
    check_routes(case, tmp_path)


@pytest.mark.parametrize("index", [4, -5, 2**31, -(2**31), 2**32 + 1, MOST])
def test_a_constant_onnx_index_out_of_range_is_refused(index: int, tmp_path: Path) -> None:
    """It doesn't wrap to one that is in range."""
    nodes = [node("Gather", ["x", "i"], ["y"], axis=1)]
    inputs, outputs = [info("x", FLOAT, [3, 4])], [info("y", FLOAT, [3, 1])]
    model = onnx_model(nodes, inputs, outputs, {"i": ints(index)})
    with pytest.raises(InvalidModelError, match="Gather at node #0"):
        to_tflite(model, tmp_path)
    assert not (tmp_path / "model.tflite").exists()


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin", "TopK", "NonZero", "Shape", "Size"])
def test_places_stay_of_64_bits(op: str, tmp_path: Path) -> None:
    operands = ["x", "k"] if op == "TopK" else ["x"]
    results = ["v", "y"] if op == "TopK" else ["y"]
    x = np.float32([[3, 3, 1], [0, 5, 5]])
    made = case(
        op, node(op, operands, results), x, constants={"k": ints(2)} if op == "TopK" else {}
    )
    check_routes(made, tmp_path)


# ---------------------------------------------------------------- slices


def slices() -> list[OnnxCase]:
    x = floats(4, 5)
    forms: dict[str, tuple[Any, Any, Any, Any]] = {
        "to the greatest": ([1], [MOST], [0], [1]),
        "from beyond": ([9], [MOST], [1], [1]),
        "backwards": ([-1], [-MOST - 1], [1], [-1]),
        "backwards by twos": ([4, 3], [0, -99], [1, 0], [-2, -2]),
        "backwards from beyond": ([99], [0], [1], [-3]),
        "nothing": ([3], [1], [0], [1]),
        "nothing backwards": ([1], [3], [0], [-1]),
        "negative": ([-3], [-1], [-1], [1]),
        "by threes": ([0], [5], [1], [3]),
        "axes out of order": ([1, 0], [4, 2], [1, 0], [2, 1]),
    }
    made = node("Slice", ["x", "s", "e", "a", "t"], ["y"])
    cases = []
    for name, numbers in forms.items():
        found = {key: np.int64(value) for key, value in zip("seat", numbers, strict=True)}
        cases.append(case(name, made, x, constants=found))
        if name in ("from beyond", "nothing", "nothing backwards"):
            continue
        ahead = node("Slice", ["x", "z", "u", "a", "t"], ["y"])
        fixed = {"a": found["a"], "t": found["t"]}
        cases.append(case(f"{name} at run time", ahead, x, found["s"], found["e"], constants=fixed))
    return cases


@pytest.mark.parametrize("case", slices(), ids=str)
def test_onnx_slices_are_numpys(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


# ---------------------------------------------------------------- shapes


def shaped() -> list[OnnxCase]:
    x = floats(2, 3, 4)
    forms = [(0, -1), (-1, 0, 2), (4, 0, 2), (24,), (-1,), (2, 0, 0), (1, 2, 3, 4, 1), (0, 0, -1)]
    reshape, ahead = node("Reshape", ["x", "s"], ["y"]), node("Reshape", ["x", "z"], ["y"])
    cases = [case(f"{form}", reshape, x, constants={"s": ints(*form)}) for form in forms]
    cases += [case(f"{form} at run time", ahead, x, ints(*form)) for form in forms]
    zero = node("Reshape", ["x", "s"], ["y"], allowzero=1)
    cases += [
        case("allowed 0", zero, np.zeros((0, 3), FLOAT), constants={"s": ints(3, 0)}, opset=14),
        case("to a scalar", reshape, np.float32([[7]]), constants={"s": ints()}),
        case("from a scalar", reshape, np.float32(7), constants={"s": ints(1, 1)}),
        case(
            "expand",
            node("Expand", ["x", "s"], ["y"]),
            floats(3, 1),
            constants={"s": ints(2, 1, 4)},
        ),
        case(
            "expand to less",
            node("Expand", ["x", "s"], ["y"]),
            floats(3, 4),
            constants={"s": ints(1)},
        ),
        case("expand at run time", node("Expand", ["x", "z"], ["y"]), floats(3, 1), ints(2, 3, 4)),
        case(
            "expand a scalar",
            node("Expand", ["x", "s"], ["y"]),
            np.float32(5),
            constants={"s": ints(2, 3)},
        ),
        case("tile", node("Tile", ["x", "s"], ["y"]), floats(2, 3), constants={"s": ints(2, 3)}),
        case("tile at run time", node("Tile", ["x", "z"], ["y"]), floats(2, 3), ints(3, 2)),
        case(
            "tile to nothing",
            node("Tile", ["x", "s"], ["y"]),
            floats(2, 3),
            constants={"s": ints(0, 2)},
        ),
        case(
            "fill at run time",
            node("ConstantOfShape", ["x"], ["y"], value=helper.make_tensor("", 1, [1], [2.5])),
            ints(2, 3),
        ),
        case(
            "range", node("Range", ["x", "z", "u"], ["y"]), np.int64(2), np.int64(11), np.int64(3)
        ),
        case(
            "range of floats",
            node("Range", ["x", "z", "u"], ["y"]),
            np.float32(2),
            np.float32(0),
            np.float32(-0.5),
        ),
        case("pad at run time", node("Pad", ["x", "z"], ["y"]), floats(2, 3), ints(1, 0, 0, 2)),
        case("squeeze all", node("Squeeze", ["x"], ["y"]), floats(1, 3, 1)),
        case(
            "unsqueeze a scalar",
            node("Unsqueeze", ["x", "a"], ["y"]),
            np.float32(3),
            constants={"a": ints(0, 1)},
        ),
        case("part of a shape", node("Shape", ["x"], ["y"], start=1, end=-1), floats(2, 3, 4, 5)),
        case("eye", node("EyeLike", ["x"], ["y"], k=1), floats(3, 4)),
        case(
            "trilu",
            node("Trilu", ["x", "k"], ["y"], upper=0),
            floats(2, 3, 4),
            constants={"k": np.array(-1)},
        ),
    ]
    return cases


@pytest.mark.parametrize("case", shaped(), ids=str)
def test_onnx_shapes_known_and_not(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


PAIRS = [
    ((), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((1, 3), (4, 1, 1)), ((5, 1, 3), (4, 1)),
    ((1,), ()), ((2, 1, 4, 1, 3), (3, 1, 5, 1)), ((1, 2, 1, 2, 1, 2), (2, 1, 2, 1, 2, 1)),
    ((0, 3), (1, 3)),
]  # fmt: skip


@pytest.mark.parametrize("op", ["Add", "Mul", "Max", "Less", "And", "Where", "Pow", "PRelu", "Sum"])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_onnx_operands_broadcast(
    op: str, pair: tuple[tuple[int, ...], tuple[int, ...]], tmp_path: Path
) -> None:
    a, b = (1 + floats(*shape) % 5 for shape in pair)
    arrays: list[np.ndarray] = [a, b]
    if op == "And":
        arrays = [a > 2, b > 2]
    elif op == "Where":
        arrays = [a > 2, b, np.float32([9])]
    elif op == "PRelu":
        if np.broadcast_shapes(*pair) != pair[0]:
            arrays = [b, a]
        if np.broadcast_shapes(*pair) not in pair:
            return  # a slope doesn't spread the data
    names = ["x", "z", "u"][: len(arrays)]
    check_routes(case(op, node(op, names, ["y"]), *arrays), tmp_path)


# ---------------------------------------------------------------- scalars and nothing


none = np.zeros((0, 3), FLOAT)
one = {"c": np.float32(2)}
scalar = np.float32(-3)
reduce = node("ReduceSum", ["x"], ["y"], keepdims=0)
cut = {"s": ints(2), "e": ints(2), "a": ints(0)}
LITTLE = [
    *(
        case(f"scalar {op}", node(op, ["x"], ["y"]), scalar, tolerance=1e-4)
        for op in (
            "Abs",
            "Relu",
            "Sigmoid",
            "Exp",
            "Identity",
            "Floor",
            "Sign",
            "Erf",
            "Softplus",
            "Elu",
            "Gelu",
            "Round",
        )
    ),
    *(
        case(f"scalar {op}", node(op, ["x", "c"], ["y"]), scalar, constants=one)
        for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Greater", "PRelu")
    ),
    case("scalar Cast", node("Cast", ["x"], ["y"], to=TensorProto.INT64), scalar),
    case("scalar Clip", node("Clip", ["x", "c"], ["y"]), scalar, constants=one),
    case(
        "scalar Where",
        node("Where", ["k", "x", "c"], ["y"]),
        scalar,
        constants={**one, "k": np.array(True)},
    ),
    case(
        "scalar Concat",
        [node("Unsqueeze", ["x", "a"], ["w"]), node("Concat", ["w", "w"], ["y"], axis=0)],
        scalar,
        constants={"a": ints(0)},
    ),
    case("scalar sum", reduce, floats(2, 3)),
    case("sum of a scalar", reduce, scalar),
    case("scalar ArgMax", node("ArgMax", ["x"], ["y"], keepdims=0), floats(3)),
    case("scalar product", node("MatMul", ["x", "z"], ["y"]), floats(3), floats(3)),
    case("scalar index", node("Gather", ["x", "z"], ["y"]), floats(3), np.array(2)),
    *(
        case(f"nothing {op}", node(op, ["x"], ["y"]), none)
        for op in (
            "Relu",
            "Sigmoid",
            "Softmax",
            "Transpose",
            "Neg",
            "Flatten",
            "Exp",
            "Identity",
        )
    ),
    case("nothing Add", node("Add", ["x", "c"], ["y"]), none, constants=one),
    case("nothing Concat", node("Concat", ["x", "z"], ["y"], axis=0), none, floats(2, 3)),
    case("nothing Slice", node("Slice", ["x", "s", "e", "a"], ["y"]), floats(2, 3), constants=cut),
    case("nothing MatMul", node("MatMul", ["x", "z"], ["y"]), none, floats(3, 4)),
    case(
        "nothing between",
        node("MatMul", ["x", "z"], ["y"]),
        np.zeros((2, 0), FLOAT),
        np.zeros((0, 3), FLOAT),
    ),
    case(
        "nothing Gather",
        node("Gather", ["x", "i"], ["y"]),
        floats(2, 3),
        constants={"i": ints()},
    ),
    case("nothing sum", node("ReduceSum", ["x", "a"], ["y"]), none, constants={"a": ints(0)}),
    case("nothing found", node("NonZero", ["x"], ["y"]), np.zeros((2, 3), FLOAT)),
    case(
        "nothing counted",
        node("Range", ["x", "z", "u"], ["y"]),
        np.int64(5),
        np.int64(2),
        np.int64(1),
    ),
    case(
        "nothing counted down",
        node("Range", ["x", "z", "u"], ["y"]),
        np.float32(2),
        np.float32(5),
        constants={"u": np.float32(-1)},
    ),
    case(
        "nothing counted up",
        node("Range", ["x", "z", "u"], ["y"]),
        np.int64(5),
        np.int64(2),
        constants={"u": np.int64(1)},
    ),
    case(
        "nothing compressed",
        node("Compress", ["x", "k"], ["y"], axis=0),
        floats(2, 3),
        constants={"k": np.array([False, False])},
    ),
    case(
        "nothing joined",
        [node("Slice", ["x", "s", "e", "a"], ["w"]), node("Concat", ["w", "x"], ["y"], axis=0)],
        floats(2, 3),
        constants=cut,
    ),
    case(
        "nothing split off",
        node("Split", ["x", "s"], ["y", "w"], axis=0),
        floats(2, 3),
        constants={"s": ints(0, 2)},
    ),
    case(
        "nothing Conv",
        node("Conv", ["x", "c"], ["y"]),
        np.zeros((0, 2, 4, 4), FLOAT),
        constants={"c": floats(3, 2, 1, 1)},
    ),
    case(
        "nothing Resize",
        node("Resize", ["x", "", "c"], ["y"]),
        np.zeros((0, 2, 4, 4), FLOAT),
        constants={"c": np.float32([1, 1, 2, 2])},
    ),
]


@pytest.mark.parametrize("case", LITTLE, ids=str)
def test_onnx_scalars_and_empty_tensors(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


# ---------------------------------------------------------------- statements


def test_a_stated_shape_that_can_not_be_says_nothing(tmp_path: Path) -> None:
    expand = helper.make_node("Expand", ["x", "shape"], ["y"])
    inputs = [info("x", FLOAT, [4, 3]), info("shape", "int64", [3])]
    model = onnx_model([expand], inputs, [info("y", FLOAT, [7, 3, 4])])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    (result,) = nnconv.load(path).outputs
    assert result.shape == (None, 4, 3)
