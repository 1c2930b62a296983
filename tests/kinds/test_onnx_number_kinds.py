"""Kinds of fault in arithmetic of ONNX models: infinities, casts, wide integers, products."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from support.litert import RESOLVERS
from support.onnx_routes import OnnxCase, check_routes, node, run_onnxruntime
from support.onnx_routes import feeding as case
from support.onnx_whole import check_against_onnxruntime, info, ints, onnx_model, to_tflite
from support.whole import floats, normal

FLOAT = "float32"

# ---------------------------------------------------------------- numbers that aren't

ODD = np.float32([-np.inf, -3.4e38, -1, -0.0, 0, 1e-30, 2, 3.4e38, np.inf, np.nan])


finite = ODD[1:8]
masks = np.float32([[0, -np.inf, 1], [-3.4e38, 2, -np.inf], [-np.inf, -np.inf, 0]])
AT_LIMITS = [
    *(
        case(op, node(op, ["x"], ["y"]), ODD)
        for op in ("Relu", "Neg", "Abs", "IsNaN", "IsInf", "Sign", "Identity", "Floor", "Ceil")
    ),
    case("Exp", node("Exp", ["x"], ["y"]), ODD[:7]),
    case("Sigmoid", node("Sigmoid", ["x"], ["y"]), ODD[:9]),
    case("Tanh", node("Tanh", ["x"], ["y"]), ODD[:9]),
    case("IsInf above", node("IsInf", ["x"], ["y"], detect_negative=0), ODD),
    case(
        "Clip",
        node("Clip", ["x", "l", "h"], ["y"]),
        ODD[:9],
        constants={"l": np.float32(-np.inf), "h": np.float32(np.inf)},
    ),
    case("Softmax", node("Softmax", ["x"], ["y"]), masks),
    case(
        "masked",
        [node("Add", ["x", "m"], ["w"]), node("Softmax", ["w"], ["y"])],
        floats(3, 3),
        constants={"m": masks},
    ),
    case(
        "Where",
        node("Where", ["k", "x", "m"], ["y"]),
        ODD,
        constants={"k": np.arange(10) % 2 == 0, "m": np.float32(-np.inf)},
    ),
    case("Max", node("Max", ["x", "m"], ["y"]), ODD[:9], constants={"m": np.float32(-np.inf)}),
    case("Add", node("Add", ["x", "m"], ["y"]), finite, constants={"m": np.float32(1)}),
    case("Concat", node("Concat", ["x", "x"], ["y"], axis=0), ODD),
    case(
        "Pad",
        node("Pad", ["x", "p", "v"], ["y"]),
        ODD,
        constants={"p": ints(1, 1), "v": np.float32(-np.inf)},
    ),
    case("to truths", node("Cast", ["x"], ["y"], to=TensorProto.BOOL), ODD),
    case(
        "to whole numbers",
        node("Cast", ["x"], ["y"], to=TensorProto.INT32),
        np.float32([-1.9, -0.5, 0.5, 1.9, 2e9]),
    ),
    case(
        "to bytes",
        node("Cast", ["x"], ["y"], to=TensorProto.UINT8),
        np.float32([0.5, 127.9, 128, 255.9]),
    ),
    case(
        "whole numbers to fewer bits",
        node("Cast", ["x"], ["y"], to=TensorProto.INT8),
        np.int32([1, 127, -128, 200, -300, 2**31 - 1]),
    ),
    case(
        "wide to fewer bits",
        node("Cast", ["x"], ["y"], to=TensorProto.INT32),
        np.int64([1, -1, 2**40 + 3, -(2**33) - 5]),
    ),
    case(
        "division",
        node("Div", ["x", "z"], ["y"]),
        np.int32([7, -7, 7, -7]),
        np.int32([2, 2, -2, -2]),
    ),
    case(
        "remainder",
        node("Mod", ["x", "z"], ["y"]),
        np.int32([7, -7, 7, -7]),
        np.int32([3, 3, -3, -3]),
    ),
    case(
        "C's remainder",
        node("Mod", ["x", "z"], ["y"], fmod=1),
        np.float32([7, -7, 7, -7.5]),
        np.float32([3, 3, -3, -3]),
    ),
    case("root of -1", node("Sqrt", ["x"], ["y"]), np.float32([-1, 0, 4])),
    case(
        "power",
        node("Pow", ["x", "z"], ["y"]),
        np.float32([-2, -2, 0, 2]),
        np.float32([3, 2, 0, -1]),
    ),
    case(
        "halves to even",
        node("Round", ["x"], ["y"]),
        np.float32([0.5, 1.5, 2.5, -0.5, -1.5, -2.5]),
    ),
]


@pytest.mark.parametrize("case", AT_LIMITS, ids=str)
def test_onnx_numbers_at_their_limits(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


_SIGNS = np.float32([[1, -1], [2, 0.5]])
_ENDS = np.float32([[np.inf, 1], [1, -np.inf]])
_IMAGE, _FILTERS = np.ones((1, 1, 2, 2), np.float32), np.ones((2, 1, 2, 2), np.float32)
_BIAS = np.float32([np.inf, -np.inf])

WITH_INFINITIES = [
    *(
        case(f"{op} with a constant", node(op, ["x", "c"], ["y"]), _SIGNS, constants={"c": _ENDS})
        for op in ("Add", "Sub", "Mul", "MatMul")
    ),
    *(case(op, node(op, ["x", "z"], ["y"]), _ENDS, _SIGNS) for op in ("Add", "Sub", "Mul", "Div")),
    case("Div by 0", node("Div", ["x", "c"], ["y"]), _SIGNS, constants={"c": np.float32(0)}),
    case("ReduceMax", node("ReduceMax", ["x"], ["y"]), np.full((2, 2), -np.inf, np.float32)),
    case("ReduceMin", node("ReduceMin", ["x"], ["y"]), np.full((2, 2), np.inf, np.float32)),
    case("LogSoftmax", node("LogSoftmax", ["x"], ["y"]), np.float32([[-np.inf, 1, 2]])),
    case("clamped", [node("Add", ["x", "z"], ["a"]), node("Relu", ["a"], ["y"])], _ENDS, _SIGNS),
    case(
        "filters",
        node("Conv", ["x", "w", "b"], ["y"]),
        _IMAGE,
        constants={"w": _FILTERS, "b": _BIAS},
    ),
]


@pytest.mark.parametrize("case", WITH_INFINITIES, ids=str)
def test_infinities_come_out_of_sums_and_products(
    case: OnnxCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default: LiteRT's kernels without XNNPACK stop at the greatest float."""
    monkeypatch.setattr("support.onnx_routes.RESOLVERS", ("xnn",))
    check_routes(case, tmp_path)


def test_wide_integers_of_onnx_stay_exact(tmp_path: Path) -> None:
    """Through sums, products and comparisons: 64 bits don't become 32, nor floats."""
    nodes = [
        node("Add", ["x", "c"], ["a"]),
        node("Mul", ["a", "t"], ["b"]),
        node("Sub", ["b", "x"], ["y"]),
        node("Greater", ["y", "c"], ["k"]),
        node("Where", ["k", "y", "x"], ["z"]),
    ]
    constants = {"c": np.int64(2**40 + 1), "t": np.int64(3)}
    outputs = [info("y", "int64", [3]), info("k", "bool", [3]), info("z", "int64", [3])]
    model = onnx_model(nodes, [info("x", "int64", [3])], outputs, constants)
    check_against_onnxruntime(to_tflite(model, tmp_path), [ints(2**53 + 1, -(2**50) - 3, 7)])


UNSIGNED = np.array(
    [0, 1, 3, 2**31, 2**32 + 5, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 3, 2**64 - 1],
    "uint64",
)
_ONE, _OTHER = np.repeat(UNSIGNED, 11), np.tile(UNSIGNED, 11)
_DIVISORS = np.where(_OTHER == 0, np.uint64(7), _OTHER)
_FLOATS = [2.0**63 - 2.0**42, 2.0**63, 1.5 * 2.0**63, 0.0, 3.7, 2.0**40 + 0.5]

ABOVE_SIGNED = [
    *(
        case(op, node(op, ["x", "z"], ["y"]), _ONE, _OTHER)
        for op in (
            *("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Max", "Min"),
            *("Add", "Sub", "Mul", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
        )
    ),
    case("Div", node("Div", ["x", "z"], ["y"]), _ONE, _DIVISORS),
    case("Mod", node("Mod", ["x", "z"], ["y"]), _ONE, _DIVISORS),
    case("C's Mod", node("Mod", ["x", "z"], ["y"], fmod=1), _ONE, _DIVISORS),
    case(
        "Clip",
        node("Clip", ["x", "l", "h"], ["y"]),
        UNSIGNED,
        constants={"l": np.uint64(3), "h": np.uint64(2**63 + 1)},
    ),
    *(
        case(f"to {name}", node("Cast", ["x"], ["y"], to=kind), UNSIGNED)
        for name, kind in (
            ("float32", TensorProto.FLOAT),
            ("float64", TensorProto.DOUBLE),
            ("truths", TensorProto.BOOL),
            ("int64", TensorProto.INT64),
        )
    ),
    *(
        case(
            f"from {kind}",
            node("Cast", ["x"], ["y"], to=TensorProto.UINT64),
            np.array(_FLOATS, kind),
        )
        for kind in ("float32", "float64")
    ),
    case(
        "greatest",
        node("ReduceMax", ["x"], ["y"], keepdims=0),
        UNSIGNED,
        expected=[UNSIGNED.max()],
        note="onnxruntime has none of uint64",
    ),
    case("least", node("ReduceMin", ["x"], ["y"]), UNSIGNED[1:], expected=[UNSIGNED[1:2]]),
    case(
        "place of the greatest", node("ArgMax", ["x"], ["y"]), UNSIGNED, expected=[np.int64([10])]
    ),
    case("Relu", node("Relu", ["x"], ["y"]), UNSIGNED, expected=[UNSIGNED]),
]  # fmt: skip


@pytest.mark.parametrize("case", ABOVE_SIGNED, ids=str)
def test_numbers_of_64_bits_above_those_with_a_sign(case: OnnxCase, tmp_path: Path) -> None:
    """TFLite's kernels know int64 alone: numbers from 2**63 on aren't taken for negative ones."""
    if case.expected is not None:  # what onnxruntime lacks
        case = replace(case, routes=("reference", "tflite"))
    check_routes(case, tmp_path)


UNARY = ["Abs", "Neg", "Sign", "Relu", "Identity", "Sqrt", "Exp", "Sigmoid", "Round", "Erf"]
BINARY = ["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "MatMul", "Greater", "Equal", "Mod"]
WIDTHS = ["float16", "float64", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("op", [*UNARY, *BINARY, "ReduceSum", "ReduceMax", "ArgMax", "Concat"])
def test_each_type_that_onnxruntime_computes_with(op: str, dtype: str, tmp_path: Path) -> None:
    """Done in another type where LiteRT lacks a kernel, and given in the model's own."""
    arrays = [(1 + 3 * np.abs(normal(4, 4, seed=i))).astype(dtype) for i in range(2)]
    names = ["x", "z"] if op in BINARY or op == "Concat" else ["x"]
    attributes = {"Concat": {"axis": 1}, "Mod": {"fmod": int(dtype.startswith("float"))}}
    result = {"Greater": "bool", "Equal": "bool", "ArgMax": "int64"}.get(op, dtype)
    model = onnx_model(
        [node(op, names, ["y"], **attributes.get(op, {}))],
        [info(name, dtype, [4, 4]) for name in names],
        [info("y", result, None)],
    )
    feeds = dict(zip(names, arrays, strict=False))
    try:
        run_onnxruntime(model.SerializeToString(), feeds)
    except Exception as error:  # noqa: BLE001 - it has no kernel either, or ONNX no such type
        assert "NOT_IMPLEMENTED" in str(error) or "INVALID_GRAPH" in str(error)  # noqa: PT017
        return
    tolerance = 4e-3 if dtype == "float16" else 1e-5
    check_against_onnxruntime(to_tflite(model, tmp_path), list(feeds.values()), tolerance=tolerance)


# ---------------------------------------------------------------- sums of products

EQUATIONS: dict[str, list[tuple[int, ...]]] = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bhid,bhjd->bhij": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "bhij,bhjd->bhid": [(2, 3, 4, 5), (2, 3, 5, 6)],
    "bid,bjd->bij": [(2, 3, 4), (2, 5, 4)],
    "i,j->ij": [(3,), (4,)],
    "i,i->": [(5,), (5,)],
    "ij->ji": [(2, 3)],
    "ij->": [(2, 3)],
    "ij->i": [(2, 3)],
    "ii->i": [(3, 3)],
    "...ij,...jk->...ik": [(1, 3, 4), (5, 4, 2)],
    "ij,jk": [(2, 3), (3, 4)],
    "bchw,bkhw->bck": [(2, 3, 4, 5), (2, 6, 4, 5)],
    "bnqd,bnkd->bnqk": [(1, 2, 3, 4), (1, 2, 5, 4)],
    "ij,ij->ij": [(2, 3), (2, 3)],
    "abc,cd,de->abe": [(2, 3, 4), (4, 5), (5, 2)],
    "b i j, b j -> b i": [(2, 3, 4), (2, 4)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_onnx_sums_of_products(equation: str, tmp_path: Path) -> None:
    arrays = [normal(*shape, seed=i) for i, shape in enumerate(EQUATIONS[equation])]
    names = ["x", "z", "u"][: len(arrays)]
    made = node("Einsum", names, ["y"], equation=equation)
    check_routes(case("sum", made, *arrays, results=[FLOAT]), tmp_path)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)),
        ((2, 2, 3), (3,)), ((2, 3, 4, 5, 6), (6, 2)), ((1, 3), (2, 3, 3)),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("constant", [False, True])
def test_onnx_products_of_any_ranks(
    a: tuple[int, ...], b: tuple[int, ...], constant: bool, tmp_path: Path
) -> None:
    arrays, constants = [normal(*a), normal(*b)], {}
    if constant:
        constants = {"z": arrays.pop()}
    check_routes(
        case("product", node("MatMul", ["x", "z"], ["y"]), *arrays, constants=constants), tmp_path
    )


def test_casts_of_what_no_byte_holds_are_litert_s(tmp_path: Path) -> None:
    """ONNX leaves open what becomes of it; onnxruntime wraps, LiteRT's kernels saturate."""
    nodes = [node("Cast", ["x"], ["y"], to=TensorProto.UINT8)]
    model = onnx_model(nodes, [info("x", FLOAT, [4])], [info("y", "uint8", [4])])
    made = to_tflite(model, tmp_path)
    for resolver in RESOLVERS:
        (got,) = made.run(np.float32([-1.5, 300, np.inf, 7]), resolver=resolver)
        assert got.tolist() == [0, 255, 255, 7]
