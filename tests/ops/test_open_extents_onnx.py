"""Elementwise ops, reductions and products of ONNX models with open extents, on every route."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from nnconv.backends.reference.executor import run_graph
from onnx import TensorProto, helper

import nnconv
from support.onnx_routes import OnnxCase, check_routes, node, run_onnxruntime

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    """Numbers between -1 and 1."""
    return RNG.uniform(-0.9, 0.9, shape).astype(np.float32)


def whole(*shape: int) -> np.ndarray:
    return RNG.integers(-20, 20, shape).astype(np.int32)


def unary(op: str, make: Any = floats, **options: Any) -> OnnxCase:
    """An op of one operand, of two open extents, with several shapes."""
    settings = {k: options.pop(k) for k in ("opset", "same_nodes", "tolerance") if k in options}
    return OnnxCase(
        f"{op} {sorted(options.items())}",
        node(op, ["x"], ["y"], **options),
        {"x": make(2, 3, 4)},
        more=[{"x": make(1, 3, 4)}, {"x": make(5, 3, 7)}],
        open={"x": (0, 2)},
        **settings,
    )


CASES = [
    *(
        unary(op)
        for op in (
            *("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh", "Erf", "Sign"),
            *("Softplus", "Softsign", "Mish", "Selu", "Celu", "HardSigmoid", "HardSwish"),
            *("ThresholdedRelu", "Shrink", "Gelu", "Round", "Ceil", "Elu", "Reciprocal", "Relu"),
        )
    ),
    unary("Acosh", lambda *shape: 1.5 + floats(*shape)),
    unary("IsInf"),
    unary("IsNaN"),
    unary("BitwiseNot", whole),
    unary("Abs", whole),
    *(unary(op, axis=axis) for op in ("Softmax", "LogSoftmax", "Hardmax") for axis in (1, -1)),
    *(
        unary(op, axis=1, keepdims=keep, select_last_index=last)
        for op in ("ArgMax", "ArgMin")
        for keep, last in ((0, 0), (1, 1))
    ),
    unary("ArgMax", axis=2, select_last_index=1),
]

REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"),
    *("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
)


def reduction(op: str, axes: Sequence[int], keep: int, *, constant: bool) -> OnnxCase:
    """A reduction of open extents along known axes, or ones computed at run time."""
    known = np.asarray(axes, np.int64)
    shapes = ((2, 3, 4), (1, 3, 6))
    feeds = [{"x": 1 + floats(*shape), **({} if constant else {"axes": known})} for shape in shapes]
    return OnnxCase(
        f"{op} {list(axes)} {keep} {'constant' if constant else 'at run time'}",
        node(op, ["x", "axes"], ["y"], keepdims=keep),
        feeds[0],
        more=feeds[1:],
        constants={"axes": known} if constant else {},
        open={"x": (0, 2)},
    )


CASES += [
    reduction(op, axes, keep, constant=constant)
    for op in REDUCTIONS
    for axes, keep, constant in (([1], 0, True), ([0, 2], 1, True), ([-1], 1, False))
]


def binary(op: str, x: np.ndarray, y: np.ndarray, *, opset: int = 21, **options: Any) -> OnnxCase:
    """An op of two operands whose first extent is open."""
    return OnnxCase(
        f"{op} {x.dtype} {x.shape} {y.shape} {sorted(options.items())}",
        node(op, ["x", "y"], ["z"], **options),
        {"x": x, "y": y},
        more=[{"x": np.concatenate([x, x]), "y": np.concatenate([y, y])}],
        open={"x": (0,), "y": (0,)},
        opset=opset,
    )


POSITIVE = np.abs(whole(2, 3)) % 5 + 1

CASES += [
    *(binary(op, whole(2, 3), whole(2, 3)) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    *(
        binary("BitShift", POSITIVE.astype(np.uint32), POSITIVE.astype(np.uint32), direction=way)
        for way in ("LEFT", "RIGHT")
    ),
    binary("Mod", floats(2, 3), floats(2, 3), fmod=1),
    binary("Mod", whole(2, 3), POSITIVE),
    binary("Mod", whole(2, 3), POSITIVE, fmod=1),
    binary("Div", whole(2, 3).astype(np.int64) * 10**15, POSITIVE.astype(np.int64)),
    binary("Div", whole(2, 3), POSITIVE),
    binary("Pow", POSITIVE.astype(np.int64), POSITIVE.astype(np.int64)),
    binary("Pow", np.abs(floats(2, 3)), floats(2, 3)),
    binary("PRelu", floats(2, 3), floats(2, 3)),
    binary("MatMul", floats(2, 3, 4), floats(2, 4, 5)),
    binary("MatMul", whole(2, 3, 4), whole(2, 4, 5)),
]

CASES += [
    OnnxCase(
        f"{op} of 3",
        node(op, ["a", "b", "c"], ["y"]),
        {"a": floats(2, 3), "b": floats(2, 1), "c": floats(3)},
        more=[{"a": floats(4, 3), "b": floats(4, 1), "c": floats(3)}],
        open={"a": (0,), "b": (0,)},
    )
    for op in ("Max", "Min", "Sum", "Mean")
]

CASES += [
    OnnxCase(
        f"Clip {low} {high}",
        node("Clip", ["x", "l" if low else "", *(["h"] if high else [])], ["y"]),
        {
            "x": floats(2, 3),
            **({"l": np.array(-0.25, np.float32)} if low else {}),
            **({"h": np.array(0.5, np.float32)} if high else {}),
        },
        open={"x": (0,)},
    )
    for low, high in ((True, True), (True, False), (False, True))
]

CASES += [
    OnnxCase(
        f"{op} {exclusive} {reverse} {'constant' if constant else 'at run time'}",
        node(op, ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse),
        {"x": floats(2, 3), **({} if constant else {"axis": np.array(1)})},
        more=[{"x": floats(4, 3), **({} if constant else {"axis": np.array(-1)})}],
        constants={"axis": np.array(1)} if constant else {},
        open={"x": (0,)},
    )
    for op in ("CumSum",)
    for exclusive, reverse in ((0, 0), (1, 1))
    for constant in (True, False)
]


def gemm(name: str, x: tuple[int, int], *, place: int = 0, **options: Any) -> OnnxCase:
    """A Gemm with a constant matrix."""
    deeper = list(x)
    deeper[place] += 3
    rows = 5 if options.get("transB") else 4
    return OnnxCase(
        f"Gemm {name}",
        node("Gemm", ["x", "w", "b"], ["y"], **options),
        {"x": floats(*x)},
        more=[{"x": floats(*deeper)}],
        constants={"w": floats(rows, 9 - rows), "b": floats(5)},
        open={"x": (place,)},
    )


CASES += [
    gemm("layer", (2, 4)),
    gemm("layer turned", (2, 4), transB=1),
    gemm("scaled", (2, 4), alpha=0.5, beta=2.0),
    gemm("data turned", (4, 2), place=1, transA=1),
    OnnxCase(
        "Gemm of two inputs",
        node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5, transB=1),
        {"x": floats(2, 4), "w": floats(5, 4), "b": floats(2, 1)},
        more=[{"x": floats(3, 4), "w": floats(5, 4), "b": floats(3, 1)}],
        open={"x": (0,), "b": (0,)},
    ),
    OnnxCase(
        "MatMulInteger",
        node("MatMulInteger", ["x", "w", "p", "q"], ["y"]),
        {"x": RNG.integers(0, 256, (2, 300), np.uint8)},
        more=[{"x": RNG.integers(0, 256, (3, 300), np.uint8)}],
        constants={
            "w": RNG.integers(-128, 128, (300, 5)).astype(np.int8),
            "p": np.uint8(100),
            "q": RNG.integers(-5, 5, 5).astype(np.int8),
        },
        open={"x": (0,)},
    ),
    OnnxCase(
        "Gemm of a vector's offset",
        node("Gemm", ["x", "w", "b"], ["y"]),
        {"x": floats(2, 4)},
        constants={"w": floats(4, 5), "b": floats(1, 5)},
        open={"x": (0,)},
    ),
]


def einsum(equation: str, *shapes: tuple[int, ...], open: Sequence[int] = ()) -> OnnxCase:
    """An Einsum, of which extents of the first operand may be open."""
    names = [f"x{i}" for i in range(len(shapes))]
    return OnnxCase(
        f"Einsum {equation} {'open' if open else ''}",
        node("Einsum", names, ["y"], equation=equation),
        {name: floats(*shape) for name, shape in zip(names, shapes, strict=True)},
        open={"x0": open},
    )


def diagonal(equation: str, *shapes: tuple[int, ...], open: Sequence[int] = ()) -> OnnxCase:
    """An Einsum that takes a diagonal, beside which there are no numbers."""
    x = np.full(shapes[0], np.nan, np.float32)
    x[..., ::2] = np.inf
    for i in range(shapes[0][-1]):
        x[..., i, i] = 3 + i
    feeds = [{"x": x}, *({"x": floats(*shape)} for shape in shapes[1:])]
    made = node("Einsum", ["x"], ["y"], equation=equation)
    name = f"Einsum {equation} beside no numbers {'open' if open else ''}"
    return OnnxCase(name, made, feeds[0], more=feeds[1:], open={"x": open})


CASES += [
    diagonal("bii->bi", (2, 3, 3)),
    diagonal("bii->bi", (2, 3, 3), (2, 5, 5), (1, 1, 1), open=(0, 1, 2)),
    diagonal("bii->b", (2, 3, 3), (4, 2, 2), open=(0, 1, 2)),
]

CASES += [
    einsum("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    einsum("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    einsum("...ij,jk", (2, 3, 4), (4, 5)),
    einsum("ij,kl->ijkl", (2, 3), (4, 5)),
    einsum("ij,ij->", (2, 3), (2, 3)),
    einsum("ii->", (3, 3)),
    einsum("ijj->ij", (2, 3, 3)),
    einsum("i,j,k->kij", (2,), (3,), (4,)),
    einsum("ab,bc,cd->ad", (2, 3), (3, 4), (4, 5)),
    einsum("bi,oi->bo", (2, 3), (4, 3), open=(0,)),
    einsum("bid,jd->bij", (2, 3, 4), (5, 4), open=(0,)),
    einsum("bid,hde->bhie", (2, 3, 4), (5, 4, 6), open=(0,)),
]

CASES += [
    OnnxCase(
        f"Trilu {k} {upper}",
        node("Trilu", ["x", "k"], ["y"], upper=upper),
        {"x": floats(2, 3, 4)},
        more=[{"x": floats(2, 5, 4)}],
        constants={"k": np.int64(k)},
        open={"x": (1,)},
    )
    for k in (0, -1)
    for upper in (0, 1)
]

CASES += [
    OnnxCase(
        "EyeLike",
        node("EyeLike", ["x"], ["y"], k=1),
        {"x": floats(3, 4)},
        more=[{"x": floats(5, 4)}],
        open={"x": (0,)},
    ),
    OnnxCase(
        "Det",
        node("Det", ["x"], ["y"]),
        {"x": floats(2, 4, 4)},
        more=[{"x": floats(3, 4, 4)}],
        open={"x": (0,)},
        tolerance=1e-4,
    ),
]


def pool(op: str, **options: Any) -> OnnxCase:
    """A pool over three open extents, with several shapes."""
    shapes = (2, 2, 6, 7, 8), (2, 2, 7, 6, 9), (2, 2, 9, 9, 6)
    first, *more = ({"x": floats(*shape)} for shape in shapes)
    made = node(op, ["x"], ["y"], kernel_shape=[3, 2, 3], strides=[2, 2, 2], **options)
    name = f"{op} {sorted(options.items())}"
    return OnnxCase(name, made, first, more=more, open={"x": (2, 3, 4)}, same_nodes=False)


CASES += [
    pool("MaxPool"),
    pool("MaxPool", pads=[1, 0, 1, 0, 1, 0]),
    pool("MaxPool", ceil_mode=1),
    pool("MaxPool", auto_pad="SAME_UPPER"),
    pool("MaxPool", auto_pad="SAME_LOWER"),
    pool("MaxPool", dilations=[2, 1, 1]),
    pool("AveragePool"),
    pool("AveragePool", pads=[1, 0, 1, 0, 1, 0]),
    pool("AveragePool", pads=[1, 0, 1, 0, 1, 0], count_include_pad=1),
    pool("AveragePool", ceil_mode=1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_open_extents(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


@pytest.mark.parametrize("axes", [(-1,), (0, -1), ()])
@pytest.mark.parametrize("keep", [0, 1])
def test_axes_of_an_unknown_rank_count_from_behind(
    axes: tuple[int, ...], keep: int, tmp_path: Path
) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    mean = node("ReduceMean", ["x"], ["y"], axes=axes or None, keepdims=keep)
    graph = helper.make_graph([mean], "mean", [x], [y])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
        tmp_path / "a.onnx",
    )
    model = nnconv.load(tmp_path / "a.onnx")
    nnconv.save(model, tmp_path / "b.onnx")
    feed = floats(2, 3, 4)
    expected = feed.mean(axes or None, keepdims=bool(keep))
    for results in (
        run_graph(model.graph, [feed]),
        run_onnxruntime(str(tmp_path / "b.onnx"), {"x": feed}),
    ):
        np.testing.assert_allclose(results[0], expected, rtol=1e-5)
