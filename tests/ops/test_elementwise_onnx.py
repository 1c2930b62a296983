"""Elementwise ops of ONNX models: they keep their nodes, whatever spelling is quicker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import nnconv
from nnconv.ir import Builder, DType, Graph, Model, Op, Signature, Value
from nnconv.ops import elementwise as e
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import TfliteCase, check_tflite
from support.types import WHOLE

Build = Callable[[Builder], Value]


def binary(op: Op, a: DType, b: DType | None = None, constant: float | None = None) -> Build:
    """An op on ``a`` [3, 4, 1] and ``b`` [4, 5], or a constant."""
    other = b or a

    def build(builder: Builder) -> Value:
        x = builder.input("a", a, (3, 4, 1))
        if constant is None:
            return builder.add(op, [x, builder.input("b", other, (4, 5))])
        return builder.add(op, [x, builder.const(np.asarray(constant, other.numpy))])

    return build


def _powers(dtype: DType) -> np.ndarray:
    return (np.arange(1, 13).reshape(3, 4, 1) / (2 if dtype.is_float else 1)).astype(dtype.numpy)


def _exponents(dtype: DType) -> np.ndarray:
    return np.tile(np.asarray([0, 1, 2, 3, 4]), (4, 1)).astype(dtype.numpy)


POWER_TYPES = (DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64)

CASES = [
    IrCase(
        f"pow {base} {exponent}",
        binary(e.Pow(), base, exponent),
        [_powers(base), _exponents(exponent)],
        expected=lambda a, b: a.astype(np.float64) ** b,
        nodes={"Pow": 1},
        evaluated=False,
        note="onnx's evaluator gives other types",
    )
    for base in POWER_TYPES
    for exponent in (*POWER_TYPES, DType.FLOAT16)
]

CASES += [
    IrCase(
        "roots of integers are truncated",
        binary(e.Pow(), DType.INT32, DType.FLOAT32, 0.5),
        [_powers(DType.INT32)],
        expected=lambda a: np.trunc(np.sqrt(a)),
        nodes={"Pow": 1},
        evaluated=False,
    ),
    IrCase("squared", binary(e.Pow(), DType.FLOAT32, constant=2.0), nodes={"Mul": 1}),
    IrCase("cubed", binary(e.Pow(), DType.FLOAT32, constant=3.0), nodes={"Pow": 1}),
]


def _whole(dtype: DType, seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of the whole range, none of them 0 or -1."""
    low, high = dtype.int_range
    drawn = np.random.default_rng(seed).integers(low, high, shape, dtype.numpy, endpoint=True)
    return np.where((drawn == 0) | (drawn == dtype.numpy.type(-1 if low else 0)), 3, drawn)


def _exactly(function: Callable[[int, int], int]) -> Callable[..., np.ndarray]:
    """Elementwise in Python's numbers, wrapped to the operands' type."""

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        bits = a.dtype.itemsize * 8
        numbers = [function(int(x), int(y)) % (1 << bits) for x, y in np.broadcast(a, b)]
        shape = np.broadcast_shapes(a.shape, b.shape)
        return np.asarray(numbers, f"uint{bits}").view(a.dtype).reshape(shape)

    return compute


def _toward_zero(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


INTEGER_OPS = {
    "Add": (e.Add(), lambda a, b: a + b),
    "Sub": (e.Sub(), lambda a, b: a - b),
    "Mul": (e.Mul(), lambda a, b: a * b),
    "Div": (e.Div(), _toward_zero),
    "Mod": (e.FloorMod(), lambda a, b: a % b),
}

UNSIGNED_QUOTIENTS = {("Div", DType.UINT64), ("Mod", DType.UINT64)}

CASES += [
    IrCase(
        f"{name} {dtype}",
        binary(op, dtype),
        [_whole(dtype, 1, (3, 4, 1)), _whole(dtype, 2, (4, 5))],
        expected=_exactly(function),
        nodes={name: 1},
        evaluated=name != "Div",
        not_on_litert="LiteRT has int64 alone" if (name, dtype) in UNSIGNED_QUOTIENTS else "",
        note="onnx's evaluator divides by way of floats",
    )
    for dtype in WHOLE
    for name, (op, function) in INTEGER_OPS.items()
]

CASES += [
    IrCase(
        f"{name} short runs",
        lambda b, op=op: b.add(
            op,
            [b.input("a", DType.FLOAT32, (1, 50, 32, 2)), b.input("b", DType.FLOAT32, (50, 1, 2))],
        ),
        nodes={name: 1},
    )
    for name, (op, _) in INTEGER_OPS.items()
    if name not in ("Mod", "Div")
]


def _prelu(shape: tuple[int, ...], slopes: np.ndarray | None) -> Build:
    def build(b: Builder) -> Value:
        x = b.input("x", DType.FLOAT32, (2, 3, 4, 5))
        slope = b.input("slope", DType.FLOAT32, shape) if slopes is None else b.const(slopes)
        return b.add(e.PRelu(), [x, slope])

    return build


CASES += [
    IrCase(
        f"prelu {name}",
        _prelu(shape, slopes),
        nodes={"PRelu": 1},
    )
    for name, shape, slopes in (
        ("of channels", (3, 1, 1), np.float32([0.5, -2, 3]).reshape(3, 1, 1)),
        ("of one slope", (1,), np.float32([0.25])),
        ("at run time", (4, 1), None),
    )
]

CASES += [
    IrCase(
        f"{name} {dtype}",
        lambda b, op=op, dtype=dtype: b.add(op, [b.input("x", dtype, (3, 4, 5))]),
        nodes={name: 1},
        nodes_at=27,
        opsets=(13, 21, 27) if dtype is DType.FLOAT32 else (14, 21, 27),
        runs=() if name == "Relu" and dtype in (DType.INT16, DType.INT64) else None,
        evaluated=name != "Gelu",
        note="onnxruntime has no kernels of Relu for these types",
    )
    for name, op, dtypes in (
        ("Relu", e.Clip(low=0.0, high=float("inf")), (DType.FLOAT32, DType.INT8, DType.INT32)),
        ("Clip", e.Clip(low=-1.0, high=2.0), (DType.FLOAT32, DType.INT8, DType.INT64)),
        ("Round", e.Round(), (DType.FLOAT32,)),
        ("HardSwish", e.HardSwish(), (DType.FLOAT32,)),
        ("LeakyRelu", e.LeakyRelu(alpha=0.25), (DType.FLOAT32,)),
        ("Elu", e.Elu(alpha=0.5), (DType.FLOAT32,)),
        ("Gelu", e.Gelu(), (DType.FLOAT32,)),
        ("Gelu", e.Gelu(approximate=True), (DType.FLOAT32,)),
    )
    for dtype in dtypes
]


def _where(dtype: DType) -> Build:
    def build(b: Builder) -> Value:
        condition = b.input("condition", DType.BOOL, (3, 1, 5))
        return b.add(
            e.Select(), [condition, b.input("a", dtype, (4, 5)), b.input("b", dtype, (3, 4, 1))]
        )

    return build


CASES += [
    IrCase(f"where {dtype}", _where(dtype), expected=np.where, nodes={"Where": 1}, tolerance=0)
    for dtype in (DType.FLOAT32, DType.FLOAT64, DType.UINT8, DType.INT32, DType.INT64)
]

CASES += [
    IrCase(
        f"sum of {count} {dtype}",
        lambda b, count=count, dtype=dtype: b.add(
            e.AddN(), [b.input(f"x{i}", dtype, (3, 4)[i:]) for i in range(count)]
        ),
        nodes={"Sum": 1},
        evaluated=count == 1,
        note="onnx's evaluator adds in place",
    )
    for count in (1, 3)
    for dtype in (DType.FLOAT32, DType.FLOAT64)
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_elementwise(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


POWERS = [
    TfliteCase(
        f"power {exponent} {shape}",
        lambda b, exponent=exponent, shape=shape: b.add(
            e.Pow(),
            [b.input("x", DType.FLOAT32, (3, 4)), b.const(np.full(shape, exponent, np.float32))],
        ),
        [np.linspace(0.25, 3, 12, dtype=np.float32).reshape(3, 4)],
        expected=lambda x, exponent=exponent: x.astype(np.float64) ** exponent,
        ops=ops,
    )
    for exponent, ops in (
        (2.0, {"SQUARE": 1}),
        (3.0, {"SQUARE": 1, "MUL": 1}),
        (4.0, {"SQUARE": 2}),
        (0.5, {"SQRT": 1}),
        (-0.5, {"RSQRT": 1}),
        (-1.0, {"DIV": 1}),
        (1.5, {"POW": 1}),
        (0.0, {"POW": 1}),
    )
    for shape in ((), (4,))
    if exponent != -0.5 or not shape
]


@pytest.mark.parametrize("case", POWERS, ids=str)
def test_known_powers_on_litert(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(CASES), ids=str)
def test_elementwise_on_litert(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_relu_of_integers_comes_back_in_a_form_that_onnxruntime_has(
    dtype: str, tmp_path: Path
) -> None:
    """Its Relu takes two of their types; of others opset 18 alone spells it out."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [onnx.helper.make_tensor_value_info(name, kind, [5]) for name in "xy"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:]
    )
    opset = onnx.helper.make_opsetid("", 18)
    source, target = tmp_path / "source.onnx", tmp_path / "result.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), source)
    nnconv.convert(source, target)
    x = np.array([-3, -1, 0, 1, 100], dtype)
    (y,) = nnconv.compile(target, "onnxruntime:cpu").run({"x": x}).values()
    np.testing.assert_array_equal(y, np.maximum(x, 0))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_powers_of_integers_run(kind: str) -> None:
    graph = Graph()
    b = Builder(graph)
    x, n = (b.input(name, DType(kind), (4,)) for name in ("x", "n"))
    graph.outputs = [b.add(e.Pow(), [x, n], name="y")]
    model = Model([Signature("", graph)])
    feeds = {"x": np.array([0, 1, 3, 2], kind), "n": np.array([2, 5, 3, 6], kind)}
    found = nnconv.compile(model, "onnxruntime:cpu").run(feeds)["y"]
    assert (found.dtype, found.tolist()) == (np.dtype(kind), [0, 1, 27, 64])


def test_a_file_of_int8_powers_is_sound(tmp_path: Path) -> None:
    graph = Graph()
    b = Builder(graph)
    x = b.input("x", DType.INT8, (4,))
    graph.outputs = [b.add(e.Pow(), [x, b.const(np.int8([2]))], name="y")]
    nnconv.save(Model([Signature("", graph)]), tmp_path / "y.onnx")
    onnx.checker.check_model(str(tmp_path / "y.onnx"), full_check=True)
