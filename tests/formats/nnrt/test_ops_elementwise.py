"""Elementwise operations of NNRt against numpy, worked from the documents' formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnconv.formats.nnrt.table import spec_of
from nnconv.formats.nnrt.types import NUMPY, DataType, OperationType
from support.nnrt_ops import check_op, codes, const, quantized, real

rng = np.random.default_rng(7)


def kinds(op, name):
    """The element types that the table gives an input, in numpy."""
    spec = next(i for i in spec_of(OperationType[op]).inputs if i.name == name)
    return [np.dtype(bool) if t is DataType.BOOL else NUMPY[t] for t in spec.types]


def numbers(dtype, shape, *, low=1, high=9):
    """Small numbers of a type, none of them 0; floats with fractions."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    whole = rng.integers(low, high, shape)
    if dtype.kind in "if":
        whole = whole * rng.choice([-1, 1], shape)
    return (whole + 0.25 if dtype.kind == "f" else whole).astype(dtype)


def erf(x):
    return np.vectorize(math.erf)(x)


UNARY = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "COS": np.cos,
    "ERF": erf,
    "FLOOR": np.floor,
    "GELU": lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))),
    "HARD_SIGMOID": lambda x: np.clip((x + 3) / 6, 0, 1),
    "HSWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "LOGICAL_NOT": np.logical_not,
    "NEG": np.negative,
    "RECIPROCAL": lambda x: 1 / x,
    "RELU": lambda x: np.maximum(x, 0),
    "RELU6": lambda x: np.clip(x, 0, 6),
    "ROUND": np.round,
    "SIGMOID": lambda x: 1 / (1 + np.exp(-x)),
    "SIN": np.sin,
    "SQUARE": lambda x: x * x,
    "SWISH": lambda x: x / (1 + np.exp(-x)),
    "TANH": np.tanh,
}

POSITIVE = {"LOG": np.log, "RSQRT": lambda x: 1 / np.sqrt(x), "SQRT": np.sqrt}


def by_types(table, name="input"):
    return [
        pytest.param(op, dtype, id=f"{op}-{dtype}")
        for op in table
        for dtype in kinds(op, name)
        if not (dtype == np.int8 and is_code(op))
    ]


def is_code(op):
    """Whether int8 data of an operation are codes: floats are the only other types."""
    types = set(spec_of(OperationType[op]).inputs[0].types)
    return types <= {DataType.FLOAT16, DataType.FLOAT32, DataType.INT8}


def exact(dtype):
    """What a formula is worked in."""
    return np.float64 if dtype.kind == "f" else dtype


@pytest.mark.parametrize(("op", "dtype"), by_types(UNARY))
def test_unary(op, dtype):
    x = numbers(dtype, (2, 3, 5))
    check_op(op, {"input": x}, {}, UNARY[op](x.astype(exact(dtype))).astype(dtype))


@pytest.mark.parametrize(("op", "dtype"), by_types(POSITIVE))
def test_unary_of_positive_numbers(op, dtype):
    x = np.abs(numbers(dtype, (2, 3, 5)))
    check_op(op, {"input": x}, {}, POSITIVE[op](x.astype(np.float64)).astype(dtype))


def some_codes(shape, scale, point=0):
    return codes(rng.integers(-100, 100, shape), scale, point)


QUANTIZED = ("HARD_SIGMOID", "HSWISH", "RELU", "RELU6", "SIGMOID", "TANH")


@pytest.mark.parametrize("op", QUANTIZED)
def test_unary_of_codes(op):
    x = some_codes((3, 7), 0.07, 3)
    check_op(op, {"input": x}, {}, quantized(UNARY[op](real(x)), 0.03, -5), steps=1)


def test_round_takes_halves_to_even():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4], np.float32)
    check_op("ROUND", {"input": x}, {}, np.array([-2, -2, 0, 0, 2, 2, 2], np.float32))


# ------------------------------------------------------------------------ two operands

ARITHMETIC = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}


@pytest.mark.parametrize(("op", "dtype"), by_types([*ARITHMETIC, "DIV"], "input1"))
@pytest.mark.parametrize("activation", [0, 1, 2])
def test_arithmetic(op, dtype, activation):
    a, b = numbers(dtype, (2, 1, 5)), numbers(dtype, (3, 1))
    if dtype.kind == "u" and op == "SUB" and activation:
        a += 8  # what an activation makes of a difference that wraps isn't told
    if dtype.kind == "b":
        b = np.ones_like(b) if op == "DIV" else b
        wanted = {"ADD": a | b, "SUB": a ^ b, "MUL": a & b, "DIV": a & b}[op]
        if op == "SUB" and activation:
            wanted = a & ~b
    else:
        wide = a.astype(exact(dtype)), b.astype(exact(dtype))
        if op != "DIV":
            wanted = ARITHMETIC[op](*wide)
        elif dtype.kind == "f":
            wanted = wide[0] / wide[1]
        else:
            wanted = np.trunc(wide[0].astype(float) / wide[1].astype(float))
        if activation:
            wanted = np.clip(wanted, 0, np.inf if activation == 1 else 6)
    params = {"activationType": activation} if activation else {}
    check_op(op, {"input1": a, "input2": b}, params, np.asarray(wanted).astype(dtype))


@pytest.mark.parametrize(("op", "dtype"), by_types([*ARITHMETIC, "DIV"], "input1"))
def test_an_activation_cuts_off_what_is_above_6(op, dtype):
    if dtype.kind == "b":
        pytest.skip("there is nothing above 6")
    a, b = np.array([8, 30, 4], dtype), np.array([1, 2, 2], dtype)
    wanted = np.array([6, 6, {"ADD": 6, "SUB": 2, "MUL": 6, "DIV": 2}[op]], dtype)
    check_op(op, {"input1": a, "input2": b}, {"activationType": 2}, wanted)


@pytest.mark.parametrize("op", [*ARITHMETIC, "DIV"])
@pytest.mark.parametrize("activation", [0, 1, 2])
def test_arithmetic_of_codes(op, activation):
    a, b = some_codes((2, 5), 0.05, 2), codes(rng.integers(30, 100, (2, 5)), 0.04, -3)
    function = np.divide if op == "DIV" else ARITHMETIC[op]
    wanted = function(real(a), real(b))
    if activation:
        wanted = np.clip(wanted, 0, np.inf if activation == 1 else 6)
    params = {"activationType": activation}
    check_op(op, {"input1": a, "input2": b}, params, quantized(wanted, 0.09, 1), steps=1)


def test_the_wider_type_of_two_wins():
    a, b = np.array([1, 2], np.int32), np.array([0.5, -4], np.float64)
    check_op("ADD", {"input1": a, "input2": b}, {}, np.array([1.5, -2], np.float64))


PAIRS = {
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "MOD": np.fmod,
    "SQUARED_DIFFERENCE": lambda a, b: (a - b) * (a - b),
}


@pytest.mark.parametrize(("op", "dtype"), by_types(PAIRS, "input1"))
def test_pairs(op, dtype):
    a, b = numbers(dtype, (2, 1, 5)), numbers(dtype, (3, 1))
    if dtype.kind == "b":
        b = np.ones_like(b) if op == "MOD" else b
        wanted = {
            "MAXIMUM": a | b,
            "MINIMUM": a & b,
            "MOD": np.zeros((2, 3, 5), bool),
            "SQUARED_DIFFERENCE": a ^ b,
        }[op]
    else:
        wanted = PAIRS[op](a.astype(exact(dtype)), b.astype(exact(dtype)))
    check_op(op, {"input1": a, "input2": b}, {}, np.asarray(wanted).astype(dtype))


COMPARISONS = {
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "NOT_EQUAL": np.not_equal,
}


@pytest.mark.parametrize(("op", "dtype"), by_types(COMPARISONS, "input1"))
def test_comparisons(op, dtype):
    a, b = numbers(dtype, (2, 1, 5), high=4), numbers(dtype, (3, 1), high=4)
    check_op(op, {"input1": a, "input2": b}, {}, COMPARISONS[op](a, b))


@pytest.mark.parametrize(
    ("op", "function"), [("LOGICAL_AND", np.logical_and), ("LOGICAL_OR", np.logical_or)]
)
def test_logic(op, function):
    a, b = np.array([[True], [False]]), np.array([True, False, True])
    check_op(op, {"input1": a, "input2": b}, {}, function(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("mode", "function"), [(None, np.multiply), (0, np.multiply), (1, np.add), (2, np.maximum)]
)
def test_eltwise(mode, function, dtype):
    a, b = numbers(np.dtype(dtype), (2, 5)), numbers(np.dtype(dtype), (2, 5))
    params = {} if mode is None else {"mode": mode}
    check_op("ELTWISE", {"input1": a, "input2": b}, params, function(a, b))


@pytest.mark.parametrize(("mode", "function"), [(0, np.multiply), (1, np.add), (2, np.maximum)])
def test_eltwise_of_codes(mode, function):
    a, b = some_codes((2, 5), 0.02, 4), some_codes((2, 5), 0.03)
    wanted = quantized(function(real(a), real(b)), 0.05, 7)
    check_op("ELTWISE", {"input1": a, "input2": b}, {"mode": mode}, wanted, steps=1)


# ------------------------------------------------------------------------ with parameters


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    "params",
    [{}, {"base": 2.0}, {"scale": 0.5, "shift": 1.0}, {"base": 10.0, "scale": 0.1, "shift": -1.0}],
)
def test_exp(params, dtype):
    x = np.linspace(-2, 2, 6).astype(dtype).reshape(2, 3)
    base, scale, shift = params.get("base", math.e), params.get("scale", 1), params.get("shift", 0)
    wanted = base ** (np.float64(shift) + scale * x.astype(np.float64))
    check_op("EXP", {"input": x}, params, wanted.astype(dtype), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int32])
@pytest.mark.parametrize("params", [{}, {"scale": 2.0}, {"scale": 2.0, "shift": 1.0}])
def test_pow(params, dtype):
    x, y = np.array([[1, 2], [3, 4]], dtype), np.array([2, 3], dtype)
    base = params.get("scale", 1) * x.astype(np.float64) + params.get("shift", 0)
    check_op("POW", {"input": x, "y": y}, params, (base ** y.astype(np.float64)).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_clip(dtype):
    x = np.array([[-7, -2, 0], [1, 3, 9]], dtype)
    check_op(
        "CLIP",
        {"input": x},
        {"min": -2.5, "max": 3.0},
        np.maximum(np.minimum(x, 3), dtype(-2.5) if dtype is not np.int32 else -2),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gelu_approximated(dtype):
    x = np.linspace(-3, 3, 7).astype(dtype)
    wide = x.astype(np.float64)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    wanted = (0.5 * wide * (1 + np.tanh(inner))).astype(dtype)
    check_op("GELU", {"input": x}, {"approximate": True}, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("slope", [None, 0.0, 0.25])
def test_leaky_relu(slope, dtype):
    x = np.array([[-4, -1, 0], [2, 3, -8]], dtype)
    params = {} if slope is None else {"negativeSlope": slope}
    check_op("LEAKY_RELU", {"input": x}, params, np.where(x >= 0, x, x * dtype(slope or 0)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("slopes", [[0.25], [0.25, -0.5, 2.0]])
def test_prelu(slopes, dtype):
    x, weight = numbers(np.dtype(dtype), (2, 4, 3)), np.array(slopes, dtype)
    check_op("PRELU", {"input": x, "weight": const(weight)}, {}, np.where(x >= 0, x, x * weight))


def test_prelu_of_codes():
    x, weight = some_codes((2, 4, 3), 0.05, 3), codes([20, 60, -40], 0.01, constant=True)
    wanted = np.where(real(x) >= 0, real(x), real(x) * real(weight))
    check_op("PRELU", {"input": x, "weight": weight}, {}, quantized(wanted, 0.06, 1), steps=1)


@pytest.mark.parametrize("dtype", kinds("SELECT", "input1"), ids=str)
@pytest.mark.parametrize("op", ["SELECT", "WHERE"])
def test_select(op, dtype):
    a, b = numbers(dtype, (2, 3)), numbers(dtype, (2, 3))
    condition = np.array([[True, False, True], [False, False, True]])
    given = {"condition": condition, "input1": a, "input2": b}
    check_op(op, given, {}, np.where(condition, a, b))


def test_a_condition_of_rank_1_selects_along_the_first_dimension():
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), -np.ones((2, 3), np.float32)
    condition = np.array([False, True])
    given = {"condition": condition, "input1": a, "input2": b}
    check_op("SELECT", given, {}, np.where(condition[:, None], a, b))


def test_where_broadcasts():
    condition, a = np.array([[True], [False]]), np.arange(3, dtype=np.float32)
    b = np.array([[7], [8]], np.float32)
    given = {"condition": condition, "input1": a, "input2": b}
    check_op("WHERE", given, {}, np.where(condition, a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_bias_add(dtype):
    x, bias = numbers(np.dtype(dtype), (2, 4, 3)), np.array([1, -2, 0.5], dtype)
    check_op("BIAS_ADD", {"input": x, "bias": const(bias)}, {}, x + bias)


def test_bias_add_of_codes():
    x, bias = some_codes((2, 3), 0.05, 3), np.array([10, -20, 40], np.int32)
    wanted = real(x) + bias * np.float32(0.05)
    check_op("BIAS_ADD", {"input": x, "bias": const(bias)}, {}, quantized(wanted, 0.08, 1), steps=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("activation", [0, 1, 2])
@pytest.mark.parametrize(
    ("axis", "shape"), [(3, (5,)), (-1, (5,)), (1, (3,)), (1, (3, 4)), (0, (2, 3, 4, 5))]
)
def test_scale(axis, shape, activation, dtype):
    x = numbers(np.dtype(dtype), (2, 3, 4, 5))
    factor, bias = (np.linspace(-1, 1.5, math.prod(shape)).reshape(shape) for _ in range(2))
    first = axis % 4
    wide = (*shape, *[1] * (4 - first - len(shape)))
    wanted = x.astype(float) * factor.astype(dtype).reshape(wide) + bias.astype(dtype).reshape(wide)
    if activation:
        wanted = np.clip(wanted, 0, np.inf if activation == 1 else 6)
    given = {"input": x, "scale": const(factor, dtype), "bias": const(bias, dtype)}
    params = {"axis": axis, "activationType": activation}
    check_op("SCALE", given, params, wanted.astype(dtype), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("whole", [False, True])
def test_scale_of_codes(whole):
    x, factor = some_codes((2, 3), 0.05, 3), codes([20, 60, -40], 0.02, constant=True)
    bias = (
        const([100, -200, 300], np.int32) if whole else codes([10, 20, 30], 0.1, 2, constant=True)
    )
    added = bias.array * (0.05 * 0.02) if whole else real(bias)
    given = {"input": x, "scale": factor, "bias": bias}
    wanted = quantized(real(x) * real(factor) + added, 0.07, 4)
    check_op("SCALE", given, {"axis": 1}, wanted, steps=1)
