"""How far two arrays are apart, and how far they may be: by what their numbers are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import HYBRID_MARK, Graph, Node, Value
from nnconv.ir.op import QuantRule
from nnconv.ops.detection import NonMaxSuppression
from nnconv.ops.quantize import Dequantize
from nnconv.ops.resize import ResizeBilinear

FLOAT_TOLERANCE = 1e-4
"""Sums in another order differ by some 1e-6 of the largest value a layer; deep nets add that up."""

HALF_TOLERANCE = 5e-3
"""float16 has 11 bits: each result is rounded at 5e-4, and a few of them meet in each output."""

RESIZED_STEPS = 1 << 8
"""What images of 16 bits that LiteRT resized are off by: up to 200 steps, at 4 times the height."""

HALF_STEP = 2.0**-11
"""What rounding to float16 is off by, at most, as a share of the number."""

MOST_ROUNDED = 0.1
"""So much may roundings to halves in a row make up: beyond it wrong results would pass too."""

DYNAMIC_TOLERANCE = 3e-2
"""Activations rounded to 8 bits, as LiteRT does for int8 weights, are off by up to 1/254 of
the largest.

The error of a layer's sums is half the step times the sum of the weights' sizes at worst; on
measured nets it is at most 3 % of the largest output.
"""

_ROUNDING = "DynamicQuantizeLSTM"
"""An operator that alone rounds data in the middle; what others of the kind do stands in nodes."""

_HALVES = frozenset({DType.FLOAT16, DType.BFLOAT16})


class Tolerance(NamedTuple):
    """How far results may be apart.

    Attributes:
        kind: ``steps`` (of integers), ``relative`` (to the largest expected value), ``absolute``,
            ``exact``, or ``form``: type and shape alone can be compared.
        bound: that many steps, that share, or that difference.
        why: the reason, for people.
    """

    kind: str
    bound: float
    why: str


class Distance(NamedTuple):
    """How far two arrays are apart.

    Attributes:
        max_abs: the largest difference; inf where one alone is nan or infinite.
        largest: the largest finite expected value, in size.
        wrong_form: how dtype or shape differ; empty when they agree.
    """

    max_abs: float = 0.0
    largest: float = 0.0
    wrong_form: str = ""

    @property
    def relative(self) -> float:
        """``max_abs`` as a share of ``largest`` (of 1 where that is 0)."""
        return self.max_abs / (self.largest or 1.0)


def distance(actual: np.ndarray, expected: np.ndarray) -> Distance:
    """Measure; nan equals nan, and an infinity the infinity of its sign."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        form = f"{actual.dtype}{list(actual.shape)}"
        return Distance(np.inf, 0.0, f"{form}, expected {expected.dtype}{list(expected.shape)}")
    if expected.dtype.kind not in "biufc":
        same = bool((actual == expected).all())
        return Distance(0.0 if same else np.inf)
    if not expected.size:
        return Distance()
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    seen, wanted = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(wanted)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(seen - wanted)
    equal = (seen == wanted) | (np.isnan(seen) & np.isnan(wanted))
    gap = np.where(finite & np.isfinite(seen), gap, np.where(equal, 0.0, np.inf))
    largest = np.abs(wanted[finite]).max(initial=0.0)
    return Distance(float(gap.max()), float(largest))


def tolerance_of(
    value: Value,
    graph: Graph,
    *,
    rounds_apart: bool = False,
    hybrids: bool = False,
    blocks: bool = False,
) -> Tolerance:
    """The tolerance that an output's type, and what leads to it, call for.

    With ``rounds_apart`` one runtime alone rounds each result of halves to them, as the reference
    does; others compute with them in float32. With ``hybrids`` weights that are marked as read
    beside floats are read so by one of the two; with ``blocks`` those whose codes have scales for
    blocks of them, as onnxruntime does.
    """
    nodes = _nodes_behind(value, graph)
    if any(_draws(node) for node in nodes):
        why = "it depends on random numbers, which every runtime draws by itself"
        return Tolerance("form", np.inf, why)
    if any(_chooses_among_ties(node) for node in nodes):
        why = "it depends on which of boxes with equal scores, codes, LiteRT happens to take first"
        return Tolerance("form", np.inf, why)
    wide, reason = _wide_steps(nodes)
    if wide > 1 and _has_wide_codes(value):
        return Tolerance("steps", wide, reason)
    steps = _steps_in_a_row(nodes)
    if value.type.has_codes:
        why = "quantized: runtimes round halves differently"
        return Tolerance("steps", steps, why if steps == 1 else f"{why}, in a row")
    if not value.dtype.is_float and value.dtype not in (DType.COMPLEX64, DType.COMPLEX128):
        return Tolerance("exact", 0, f"{value.dtype}: no rounding is involved")
    if any(node.origin.op == _ROUNDING for node in nodes):
        why = f"onnxruntime's {_ROUNDING} rounds its data to 8 bits"
        return Tolerance("relative", DYNAMIC_TOLERANCE, why)
    if any(_is_dynamic(node) or (hybrids and _is_marked(node)) for node in nodes):
        why = "int8 weights with float activations: LiteRT rounds the activations to 8 bits itself"
        return Tolerance("relative", DYNAMIC_TOLERANCE, why)
    if blocks and any(_reads_blocks(node) for node in nodes):
        why = "weights in blocks: onnxruntime may round the data beside them to 8 bits"
        return Tolerance("relative", DYNAMIC_TOLERANCE, why)
    rounded = _in_a_row(nodes, _gives_halves) * HALF_STEP if rounds_apart else 0.0
    if rounded > HALF_TOLERANCE:
        why = "one runtime alone rounds every result on the way to 11 bits or fewer"
        return Tolerance("relative", min(rounded, MOST_ROUNDED), why)
    if value.dtype in _HALVES:
        return Tolerance("relative", HALF_TOLERANCE, f"{value.dtype}: 11 bits or fewer")
    if any(v.dtype in _HALVES for node in nodes for v in node.outputs):
        return Tolerance("relative", HALF_TOLERANCE, "numbers of 11 bits or fewer on the way")
    step = _last_step(value, nodes)
    if step and wide > 1:
        return Tolerance("absolute", step * wide, reason)
    if step:
        count = "one step" if steps == 1 else f"{steps} steps"
        why = f"float behind quantized values: {count} of those"
        return Tolerance("absolute", step * steps, why)
    return Tolerance("relative", FLOAT_TOLERANCE, "float: sums are taken in another order")


def _nodes_behind(value: Value, graph: Graph) -> list[Node]:
    """The nodes that an output depends on, the last first."""
    wanted = {value}
    found = []
    for node in graph.nodes_reversed:
        if any(v in wanted for v in node.outputs):
            found.append(node)
            wanted.update(v for v in node.inputs if v is not None)
    return found


def _in_a_row(nodes: Sequence[Node], counts: Callable[[Value], bool]) -> int:
    """How many results that count are computed from one another, of nodes that stand last first."""
    found: dict[Value, int] = {}
    for node in reversed(nodes):
        before = max((found.get(v, 0) for v in node.inputs if v is not None), default=0)
        computes = node.op.quant_rule is QuantRule.REAL
        for value in node.outputs:
            found[value] = before + (computes and counts(value))
    return max(found.values(), default=0)


def _gives_halves(value: Value) -> bool:
    return value.dtype in _HALVES


def _has_wide_codes(value: Value) -> bool:
    return value.type.has_codes and value.dtype is DType.INT16


def _wide_steps(nodes: Sequence[Node]) -> tuple[int, str]:
    """How many steps 16-bit codes are off by, and why; 0 if there are none.

    LiteRT multiplies sums by 15 bits. Where it resizes, the positions of pixels have 10.
    """
    resizes = (node for node in nodes if isinstance(node.op, ResizeBilinear))
    if any(_has_wide_codes(node.outputs[0]) for node in resizes):
        return RESIZED_STEPS, "16 bits: LiteRT knows to 10 bits where pixels of resized images lie"
    steps = _in_a_row(nodes, _has_wide_codes)
    return steps, "16 bits: each result on the way may be a step off in LiteRT"


def _steps_in_a_row(nodes: Sequence[Node]) -> int:
    """How many steps codes are off by where each result on the way may be rounded the other way.

    Half steps of either sign, of so many results in a row, add up as the root of their number.
    """
    count = _in_a_row(nodes, lambda value: value.type.has_codes)
    return max(1, math.ceil(math.sqrt(count) / 2))


def _draws(node: Node) -> bool:
    """Whether a node, or one in its bodies, draws random numbers."""
    return node.op.draws or any(_draws(inner) for body in node.bodies for inner in body.nodes)


def _chooses_among_ties(node: Node) -> bool:
    """Whether a node chooses boxes by scores that were codes, of which many are equal."""
    if not isinstance(node.op, NonMaxSuppression):
        return False
    scores = node.operand(1)
    while scores.producer is not None and scores.producer.op.quant_rule is QuantRule.CODES:
        scores = scores.producer.operand(0)
    return scores.producer is not None and isinstance(scores.producer.op, Dequantize)


def _is_dynamic(node: Node) -> bool:
    """Whether an op has float data and quantized constant weights."""
    if node.op.quant_rule is not QuantRule.REAL or len(node.inputs) < 2 or not node.outputs:
        return False
    x = node.inputs[0]
    weights = (v for v in node.inputs[1:] if v is not None and v.is_const)
    return (
        x is not None
        and x.dtype.is_float
        and node.outputs[0].dtype.is_float
        and any(v.type.has_codes for v in weights)
    )


def _is_marked(node: Node) -> bool:
    """Whether a node reads weights that are noted as what TFLite's kernels read beside floats."""
    constants = (v for v in node.inputs if v is not None and v.is_const)
    return any(v.origin.op == HYBRID_MARK for v in constants)


def _reads_blocks(node: Node) -> bool:
    """Whether a node makes floats of constant codes that have scales for blocks of them."""
    codes = node.inputs[0] if isinstance(node.op, Dequantize) else None
    return (
        codes is not None and codes.is_const and codes.quant is not None and codes.quant.block > 0
    )


def _last_step(value: Value, nodes: list[Node]) -> float:
    """The largest step of the quantized activations that become the floats of an output.

    Those nearest to it: of what is quantized once more on the way the later steps tell.
    """
    wanted, steps = {value}, [0.0]
    for node in nodes:
        if not any(v in wanted for v in node.outputs):
            continue
        for v in node.inputs:
            if v is None or v.is_const:
                continue
            if v.dtype.is_integer and v.quant is not None:
                steps.append(max(v.quant.scale))
            else:
                wanted.add(v)
    return max(steps)


def judge(found: Distance, tolerance: Tolerance, spread: float) -> tuple[bool, float]:
    """Whether a distance is within its tolerance, and the bound in the array's own unit.

    A step is of floats, which are rounded too: steps of 16 bits are hardly more than that.

    Args:
        found: the distance.
        tolerance: what the types allow.
        spread: how far the source's own runtimes are apart; they set the bound where it is larger.
    """
    bound = tolerance.bound
    if tolerance.kind == "relative":
        bound *= found.largest or 1.0
    if tolerance.kind == "absolute":
        bound += found.largest * FLOAT_TOLERANCE
    bound = max(bound, spread)
    return not found.wrong_form and found.max_abs <= bound, bound
