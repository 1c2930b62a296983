"""Ops that compute, with the kinds that LiteRT's CPU kernels take right."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.breadth import Recipe, Slot, ints, of, x, y

SHAPE = (2, 3, 4, 5)
CODES = (2, 8, 16)
"""256 elements: an 8-bit tensor of that shape has each code once."""

QUANTIZED = "int8 uint8 int16"
RAW = "int8r uint8r int16r"
FLOATS = "float32 float16"


def positive(kind: str, rng: np.random.Generator) -> Any:
    """Elements above zero, for roots and logarithms."""
    if kind.startswith("float"):
        return rng.uniform(0.01, 9, CODES)
    low, high = {"int8": (-125, 127), "int16": (1000, 32767)}[kind]
    return rng.integers(low, high, CODES, endpoint=True)


def _divisor(kind: str, rng: np.random.Generator) -> Any:
    signs = rng.choice([-1, 1], SHAPE)
    if kind.startswith("float"):
        return rng.uniform(0.5, 3, SHAPE) * signs
    if kind in ("int8", "uint8"):  # small quotients LiteRT gets wrong
        return rng.integers(60, 110, SHAPE) * signs + 128 * (kind == "uint8")
    return rng.integers(1, 12, SHAPE) * signs


def _dividend(kind: str, rng: np.random.Generator) -> Any:
    if kind.startswith("float"):
        return 7 * rng.standard_normal(SHAPE)
    return rng.integers(0 if kind.startswith("u") else -100, 100, SHAPE)


def _base(_kind: str, rng: np.random.Generator) -> Any:
    return rng.uniform(1, 4, SHAPE)


def _exponent(_kind: str, rng: np.random.Generator) -> Any:
    return rng.integers(0, 4, SHAPE)


def _shift(_kind: str, rng: np.random.Generator) -> Any:
    return rng.integers(0, 16, SHAPE)


def _near_one(kind: str, rng: np.random.Generator) -> Any:
    """Factors whose products stay in range."""
    if kind == "bool":
        return rng.random(SHAPE) < 0.9
    if kind.startswith("float"):
        return rng.uniform(0.9, 1.1, SHAPE)
    if kind.endswith("r") or kind in ("int32", "int64"):
        return np.where(rng.random(SHAPE) < 0.03, 2, 1)
    unit, zero = {"int8": (20, 3), "int16": (1000, 0)}[kind]
    return zero + unit + np.where(rng.random(SHAPE) < 0.1, rng.integers(-2, 2, SHAPE), 0)


# -------------------------------------------------------------------- one operand

UNARY_KINDS = {
    "ABS": f"{FLOATS} int8 int16 int16r int32",
    "NEG": f"{FLOATS} int8 int8r int16 int16r int32 int64",
    "SIGN": "float32 float64 int32",
    "SQUARE": FLOATS,
    "SQRT": f"{FLOATS} int8 int16",
    "RSQRT": f"{FLOATS} int8",
    "EXP": f"{FLOATS} int8",
    "LOG": f"{FLOATS} int8",
    "SIN": FLOATS,
    "COS": FLOATS,
    "FLOOR": FLOATS,
    "CEIL": FLOATS,
    "ROUND": FLOATS,
    "TANH": f"{FLOATS} {QUANTIZED}",
    "LOGISTIC": f"{FLOATS} {QUANTIZED}",
    "HARD_SWISH": f"{FLOATS} int8 uint8",
    "ELU": f"{FLOATS} int8",
    "RELU": f"{FLOATS} {QUANTIZED}",
    "RELU6": f"{FLOATS} {QUANTIZED}",
    "RELU_N1_TO_1": f"{FLOATS} int8 uint8",
    "RELU_0_TO_1": "float32 int8 uint8",
    "LEAKY_RELU": f"{FLOATS} {QUANTIZED}",
    "GELU": f"{FLOATS} {QUANTIZED}",
    "LOGICAL_NOT": "bool",
    "ZEROS_LIKE": "float32 int32 int64",
    "L2_NORMALIZATION": "float32 int8 uint8",
    "SOFTMAX": f"{FLOATS} {QUANTIZED}",
    "LOG_SOFTMAX": "float32 int8 uint8",
    "FAKE_QUANT": "float32",
    "LOCAL_RESPONSE_NORMALIZATION": "float32",
}
RESULTS = {
    "NEG": "x",
    "SQRT": "low",
    "RSQRT": "low",
    "LOG": "low",
    "TANH": "symmetric",
    "LOGISTIC": "unit",
    "L2_NORMALIZATION": "symmetric",
    "SOFTMAX": "unit",
    "LOG_SOFTMAX": "logs",
}
"""Parameters of the result, where not just any will do."""

OPTIONS: dict[str, dict[str, Any]] = {
    "LEAKY_RELU": {"alpha": 0.3},
    "SOFTMAX": {"beta": 1.0},
    "FAKE_QUANT": {"min": -2.0, "max": 3.0, "num_bits": 8},
    "LOCAL_RESPONSE_NORMALIZATION": {"radius": 2, "bias": 1.0, "alpha": 0.3, "beta": 0.6},
}
INEXACT: dict[str, dict[str, dict[str, Any]]] = {
    "TANH": {"int16": {"steps": 3}},
    "SOFTMAX": {"int16": {"steps": 40}},
}
"""Where LiteRT's own tables are further off than a step."""


def unary(op: str, kinds: str = "", *, result: Any = None, **more: Any) -> Recipe:
    """An op of one operand: every code of 8-bit types."""
    shape = SHAPE if op.startswith("LOCAL") else CODES
    source = x(*shape)
    if op in ("SQRT", "RSQRT", "LOG"):
        source = x(*shape, quant="positive", values=positive)
    more.setdefault("options", OPTIONS.get(op, {}))
    more.setdefault("variants", INEXACT.get(op, {}))
    out = y(*shape, quant=result or RESULTS.get(op, "y"))
    return Recipe(op, [source], [out], kinds or UNARY_KINDS[op], **more)


UNARY = [
    *(unary(op) for op in UNARY_KINDS),
    *(unary(op, "int8 uint8", result="y", label="free") for op in ("TANH", "LOGISTIC")),
    *(
        unary(op, QUANTIZED if op != "ABS" else "int8 int16", result="x", label="same")
        for op in ("ABS", "RELU", "RELU6", "LEAKY_RELU")
    ),
    unary("GELU", options={"approximate": True}, label="tanh"),
    unary("SOFTMAX", options={"beta": 0.7}, label="beta"),
    Recipe(
        "SOFTMAX",
        [x(*CODES)],
        [of("int16", *CODES, quant=(1 / 32768, 0))],
        "int8",
        options={"beta": 1.0},
        label="int16",
    ),
    *(
        Recipe(op, [x(*CODES)], [of("float32", *CODES)], "complex64")
        for op in ("COMPLEX_ABS", "REAL", "IMAG")
    ),
    Recipe(
        "BUCKETIZE",
        [x(*SHAPE)],
        [of("int32", *SHAPE)],
        "float32 float64 int32 int64",
        options={"boundaries": [-1.5, 0.0, 2.0]},
    ),
]

# -------------------------------------------------------------------- several operands

FORMS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "": (SHAPE, SHAPE),
    "scalar": (SHAPE, ()),
    "vector": (SHAPE, (5,)),
    "middle": ((2, 1, 4, 5), (3, 1, 5)),
    "empty": ((2, 0, 3), (2, 0, 3)),
}
"""Shapes of two operands; a vector is a constant."""

_ADDABLE = f"{FLOATS} {QUANTIZED} int32 int64"
_ORDERED = f"{FLOATS} {QUANTIZED} int16r int32 int64"
_EXTREMES = f"{_ORDERED} int8r uint8r"
_BITS = f"{QUANTIZED} {RAW} int32 uint32 uint16"
BINARY_KINDS = {
    "ADD": f"{_ADDABLE} int16r",
    "SUB": _ADDABLE,
    "MUL": f"{_ADDABLE} int16r uint32 complex64",
    "SQUARED_DIFFERENCE": f"{FLOATS} int8 int32",
    "MAXIMUM": _EXTREMES,
    "MINIMUM": _EXTREMES,
    "EQUAL": f"{_ORDERED} bool",
    "NOT_EQUAL": f"{_ADDABLE} bool",
    "LESS": _ORDERED,
    "LESS_EQUAL": _ORDERED,
    "GREATER": _ORDERED,
    "GREATER_EQUAL": _ORDERED,
    "LOGICAL_AND": "bool",
    "LOGICAL_OR": "bool",
}
"""Ops that broadcast; int8 and uint8 without parameters end LiteRT's process."""

FINER = {"int8": (0.0397, -9), "uint8": (0.0397, 119)}
"""No two codes of these and of the other operand's parameters stand for nearly the same number."""

COMPARISONS = frozenset({"EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"})
EQUAL_SETS = COMPARISONS | {"MAXIMUM", "MINIMUM"}
ACTIVATIONS = ("RELU", "RELU6", "RELU_N1_TO_1")


def _broadcast(op: str, label: str) -> Recipe:
    a, b = FORMS[label]
    shape = np.broadcast_shapes(a, b)
    second = "x" if op in EQUAL_SETS else "second"
    result = y(*shape, quant={"MUL": "wide", "SQUARED_DIFFERENCE": "wide"}.get(op, "y"))
    if op in COMPARISONS:
        result = of("bool", *shape)
    elif op in EQUAL_SETS:
        result = x(*shape)
    kinds = BINARY_KINDS[op]
    if label == "empty" and op in ("SUB", "SQUARED_DIFFERENCE"):
        kinds = kinds.replace(
            " float16", ""
        )  # the delegate, which takes float16, takes no empty ones
    operands = [x(*a), x(*b, quant=second, const=label == "vector")]
    return Recipe(op, operands, [result], kinds, label=label)


def _pair(op: str, kinds: str, first: Any, second: Any, *, quant: str = "second") -> Recipe:
    operands = [x(*SHAPE, values=first), x(*SHAPE, quant=quant, values=second)]
    return Recipe(op, operands, [y(*SHAPE, quant="x" if quant == "x" else "y")], kinds)


def _slopes(label: str, kinds: str, shape: tuple[int, ...], *slope: int, const: bool) -> Recipe:
    operands = [x(*shape), x(*slope, quant="second", const=const)]
    return Recipe("PRELU", operands, [y(*shape)], kinds, label=label)


_SELECTED = f"{FLOATS} {QUANTIZED} {RAW} float64 int32 int64 uint32 uint16 bool complex64"
BINARY = [
    *(_broadcast(op, label) for op in BINARY_KINDS for label in FORMS),
    *(
        Recipe(
            op,
            [x(*SHAPE), x(*SHAPE, quant="second")],
            [y(*SHAPE, quant="wide")],
            BINARY_KINDS[op].replace(" uint32 complex64", ""),
            options={"fused_activation_function": activation},
            label=activation,
        )
        for op in ("ADD", "SUB", "MUL")
        for activation in ACTIVATIONS
    ),
    *(
        Recipe(
            op,
            [x(*SHAPE), x(*SHAPE, quant=FINER)],
            [of("bool", *SHAPE)],
            "int8 uint8",
            label="unequal",
        )
        # LiteRT rescales with few digits and takes 0.4 and 0.397 for equal.
        for op in sorted(COMPARISONS - {"EQUAL", "NOT_EQUAL"})
    ),
    _pair("DIV", f"{FLOATS} {QUANTIZED} int32", _dividend, _divisor),
    _pair("POW", "float32 int32", _base, _exponent),
    _pair("FLOOR_DIV", "float32 int8 int8r int16 int16r int32", _dividend, _divisor),
    _pair(
        "FLOOR_MOD",
        "float32 int8 int8r int16 int16r int32 int64",
        _dividend,
        _divisor,
        quant="x",
    ),
    _pair("BITWISE_XOR", _BITS, None, None),
    _pair("RIGHT_SHIFT", _BITS, None, _shift),
    _pair("ATAN2", f"{FLOATS} float64", None, None),
    Recipe("ADD_N", [x(*SHAPE), x(*SHAPE), x(*SHAPE)], [x(*SHAPE)], "float32 int32"),
    _slopes("", f"{FLOATS} int8 uint8", SHAPE, 1, 1, 5, const=True),
    _slopes("whole", f"{FLOATS} int8 uint8", SHAPE, 3, 4, 5, const=True),
    _slopes("fed", "float32 int8 uint8", SHAPE, 1, 1, 5, const=False),
    _slopes("matrix", f"{FLOATS} int8 uint8", (3, 5), 5, const=True),
    Recipe("SELECT", [of("bool", *SHAPE), x(*SHAPE), x(*SHAPE)], [x(*SHAPE)], _SELECTED),
    *(
        Recipe("SELECT", [c, x(*SHAPE), x(*SHAPE)], [x(*SHAPE)], _SELECTED, label=label)
        for label, c in (("rows", of("bool", 2)), ("scalar", of("bool")))
    ),
    Recipe("SELECT_V2", [of("bool", *SHAPE), x(*SHAPE), x(*SHAPE)], [x(*SHAPE)], _SELECTED),
    Recipe(
        "SELECT_V2",
        [of("bool", 3, 1, 5), x(2, 1, 4, 1), x()],
        [x(*SHAPE)],
        _SELECTED,
        label="broadcast",
    ),
]

# -------------------------------------------------------------------- along dimensions

_WHOLE = f"{RAW} int32 int64 bool"
REDUCED_KINDS = {
    "MEAN": f"{FLOATS} {QUANTIZED} int32 int64",
    "SUM": f"{FLOATS} {QUANTIZED} int32 int64 bool",
    "REDUCE_MAX": f"{FLOATS} {QUANTIZED} {_WHOLE}",
    "REDUCE_MIN": f"{FLOATS} {QUANTIZED} {_WHOLE}",
    "REDUCE_PROD": f"float32 int8 {_WHOLE}",
    "REDUCE_ANY": "bool",
    "REDUCE_ALL": "bool",
}
SPANS: dict[str, tuple[list[int], bool, tuple[int, ...]]] = {
    "plane": ([1, 2], False, (2, 5)),
    "middle": ([2], True, (2, 3, 1, 5)),
    "last": ([-1], True, (2, 3, 4, 1)),
    "all": ([0, 1, 2, 3], False, ()),
}


def _reduction(op: str, span: str, *, quant: str = "x", fed: bool = False) -> Recipe:
    axes, keep, shape = SPANS[span]
    kinds = REDUCED_KINDS[op]
    if fed:
        kinds = kinds.replace(" float16", "")  # the delegate wants constant axes
    values = _near_one if op == "REDUCE_PROD" else None
    return Recipe(
        op,
        [x(*SHAPE, values=values), ints(axes, const=not fed)],
        [Slot(shape, quant=quant)],
        kinds if quant == "x" else QUANTIZED,
        options={"keep_dims": keep},
        label="-".join([span, quant, *(["fed"] if fed else [])]),
    )


def _extreme(op: str, dtype: str, axis: int) -> Recipe:
    shape = tuple(extent for i, extent in enumerate(SHAPE) if i != axis % 4)
    return Recipe(
        op,
        [x(*SHAPE), ints(axis)],
        [of(dtype, *shape)],
        "float32 int8 int8r uint8 uint8r int32 bool",
        options={"output_type": dtype},
        label=f"{dtype}{axis}",
    )


REDUCTIONS = [
    *(_reduction(op, span) for op in REDUCED_KINDS for span in SPANS),
    *(_reduction(op, span, quant="y") for op in ("MEAN", "SUM") for span in SPANS),
    *(_reduction(op, "plane", fed=True) for op in REDUCED_KINDS),
    *(
        _extreme(op, dtype, axis)
        for op in ("ARG_MAX", "ARG_MIN")
        for dtype, axis in (("int32", 3), ("int64", 1), ("int32", -2))
    ),
    *(
        Recipe(
            "CUMSUM",
            [x(*SHAPE), ints(axis)],
            [x(*SHAPE)],
            "float32 int32 int64",
            options={"exclusive": flag, "reverse": flag},
            label=f"{axis}",
        )
        for axis, flag in ((1, False), (-1, True))
    ),
]

# -------------------------------------------------------------------- images and matrices

_ROUNDED = {kind: {"rounded": True} for kind in RAW.split()}
POOL_KINDS = {
    "AVERAGE_POOL_2D": f"{FLOATS} {QUANTIZED} {RAW}",
    "MAX_POOL_2D": f"float32 {QUANTIZED} {RAW}",
    "L2_POOL_2D": "float32",
}
WINDOW = {"stride_h": 1, "stride_w": 2, "filter_height": 2, "filter_width": 3}
COORDINATES: tuple[dict[str, bool], ...] = (
    {},
    {"align_corners": True},
    {"half_pixel_centers": True},
)
RESIZE_KINDS = {
    "RESIZE_BILINEAR": f"float32 {QUANTIZED} {RAW}",
    "RESIZE_NEAREST_NEIGHBOR": f"{FLOATS} {QUANTIZED} {RAW} int32 uint32 uint16 bool",
}
RESIZE_VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "RESIZE_BILINEAR": {**_ROUNDED, "int16": {"steps": 127}}
}
"""LiteRT interpolates 16-bit codes with too few digits."""

PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, bool]]] = {
    "plain": ((2, 3, 4, 5), (2, 3, 5, 7), (2, 3, 4, 7), {}),
    "adj-x": ((2, 3, 5, 4), (2, 3, 5, 7), (2, 3, 4, 7), {"adj_x": True}),
    "adj-y": ((2, 3, 4, 5), (2, 3, 7, 5), (2, 3, 4, 7), {"adj_y": True}),
    "broadcast": ((2, 3, 4, 5), (5, 7), (2, 3, 4, 7), {}),
    "rank2": ((4, 5), (5, 7), (4, 7), {}),
    "rank5": ((2, 3, 1, 4, 5), (2, 1, 2, 5, 7), (2, 3, 2, 4, 7), {}),
    "rank6": ((2, 1, 3, 1, 4, 5), (1, 2, 1, 2, 5, 7), (2, 2, 3, 2, 4, 7), {}),
}
PRODUCT_QUANT = {"int8": (0.9, -5), "int16": (0.01, 0)}
SPATIAL = [
    *(
        Recipe(
            op,
            [x(2, 5, 7, 3)],
            [x(2, height, width, 3)],
            kinds,
            options={**WINDOW, "padding": padding},
            label=padding,
            variants=_ROUNDED if op == "AVERAGE_POOL_2D" else {},
        )
        for op, kinds in POOL_KINDS.items()
        for padding, height, width in (("VALID", 4, 3), ("SAME", 5, 4))
    ),
    *(
        Recipe(
            op,
            [x(2, 4, 5, 3), ints([7, 9], const=const)],
            [x(2, 7, 9, 3)],
            kinds,
            options=flags,
            label="-".join([*flags, *([] if const else ["fed"])]),
            variants=RESIZE_VARIANTS.get(op, {}),
        )
        for op, kinds in RESIZE_KINDS.items()
        for flags, const in (*((flags, True) for flags in COORDINATES), ({}, False))
    ),
    *(
        Recipe(
            "BATCH_MATMUL",
            [x(*a), x(*b, quant="second", const=const)],
            [y(*c, quant=PRODUCT_QUANT)],
            FLOATS if label == "rank6" else f"{FLOATS} int8 int16",
            options=options,
            label=f"{label}{'-const' if const else ''}",
        )
        for label, (a, b, c, options) in PRODUCTS.items()
        for const in (False, True)
    ),
    Recipe(
        "BATCH_MATMUL",
        [x(3, 4, 5), x(3, 5, 7)],
        [of("int32", 3, 4, 7, quant=(0.0025, 0))],
        "int8 int8r",
        label="int32",
    ),
    Recipe(
        "CONV_3D",
        [x(1, 4, 5, 6, 2), x(2, 2, 3, 2, 3, const=True), x(3, const=True)],
        [x(1, 3, 4, 4, 3)],
        "float32",
        options={"stride_d": 1, "stride_h": 1, "stride_w": 1, "padding": "VALID"},
    ),
]

COMPUTING = [*UNARY, *BINARY, *REDUCTIONS, *SPATIAL]
