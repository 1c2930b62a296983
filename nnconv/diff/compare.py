"""How far two arrays are apart, and how far they may be: by what their numbers are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nnconv.diff.roundings import HALVES, Mark, Trace, has_wide_codes, traces_of
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Value

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


class Tolerance(NamedTuple):
    """How far results may be apart.

    Attributes:
        kind: ``steps`` (of integers), ``relative`` (to the largest expected value), ``absolute``,
            ``exact``, ``strings``, or ``form``: type and shape alone can be compared.
        bound: that many steps, that share, that difference, or so many strings.
        why: the reason, for people.
        share: of the largest expected value, which an ``absolute`` difference may have besides.
        nudges: to how many half steps of float16 the roundings to halves on the way add up, where
            these call for it; else 0.
    """

    kind: str
    bound: float
    why: str
    share: float = FLOAT_TOLERANCE
    nudges: int = 0


class Distance(NamedTuple):
    """How far two arrays are apart.

    Attributes:
        max_abs: the largest difference; inf where one alone is nan or infinite. Of strings, how
            many differ.
        largest: the largest finite expected value, in size. Of strings, how many there are.
        wrong_form: how dtype or shape differ; empty when they agree.
        rms: the root of the mean square of all differences; inf where ``max_abs`` is.
    """

    max_abs: float = 0.0
    largest: float = 0.0
    wrong_form: str = ""
    rms: float = 0.0

    @property
    def relative(self) -> float:
        """``max_abs`` as a share of ``largest`` (of 1 where that is 0)."""
        return self.max_abs / (self.largest or 1.0)


def distance(actual: np.ndarray, expected: np.ndarray) -> Distance:
    """Measure; nan equals nan, and an infinity the infinity of its sign."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        form = f"{actual.dtype}{list(actual.shape)}"
        return Distance(np.inf, 0.0, f"{form}, expected {expected.dtype}{list(expected.shape)}")
    if not expected.size:
        return Distance()
    if expected.dtype == object:
        return Distance(float(np.sum(actual != expected)), float(expected.size))
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    seen, wanted = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(wanted)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(seen - wanted)
    equal = (seen == wanted) | (np.isnan(seen) & np.isnan(wanted))
    gap = np.where(finite & np.isfinite(seen), gap, np.where(equal, 0.0, np.inf))
    largest = np.abs(wanted[finite]).max(initial=0.0)
    with np.errstate(over="ignore"):
        rms = float(np.sqrt(np.mean(np.square(gap))))
    return Distance(float(gap.max()), float(largest), rms=rms)


def tolerances_of(
    values: Sequence[Value],
    graph: Graph,
    *,
    rounds_apart: bool = False,
    hybrids: bool = False,
    blocks: bool = False,
    curves: bool = False,
) -> list[Tolerance]:
    """The tolerances that outputs' types, and what leads to them, call for.

    Args:
        values: the outputs.
        graph: what computes them.
        rounds_apart: one runtime alone rounds each result of halves to them, as the reference does;
            others compute with them in float32.
        hybrids: weights that are marked as read beside floats are read so by one of the two.
        blocks: so are those whose codes have scales for blocks of them, as onnxruntime does.
        curves: what a Softmax makes of a step before it counts too. Where the source has run on two
            sets of kernels, how far these are apart tells that better.
    """
    known = _EIGHT_BITS
    if not hybrids:
        known = {mark: why for mark, why in known.items() if mark is not Mark.HYBRID}
    if not blocks:
        known = {mark: why for mark, why in known.items() if mark is not Mark.BLOCKS}
    traces = traces_of(graph)
    found = [traces.get(value, Trace()) for value in values]
    if not curves:
        found = [trace._replace(coarse=0.0) for trace in found]
    return [
        _tolerance(value, trace, known, rounds_apart=rounds_apart)
        for value, trace in zip(values, found, strict=True)
    ]


_ANY_NUMBERS = {
    Mark.DRAWS: "it depends on random numbers, which every runtime draws by itself",
    Mark.TIES: "it depends on which of boxes with equal scores, codes, LiteRT happens to take "
    "first",
}
"""What leaves nothing to compare but type and shape."""

_OTHERWISE = "runtimes round halves differently"

_BY_ITSELF = "int8 weights with float activations: LiteRT rounds the activations to 8 bits itself"

_EIGHT_BITS = {
    Mark.ROUNDING_LSTM: "onnxruntime's DynamicQuantizeLSTM rounds its data to 8 bits",
    Mark.DYNAMIC: _BY_ITSELF,
    Mark.HYBRID: _BY_ITSELF,
    Mark.BLOCKS: "weights in blocks: onnxruntime may round the data beside them to 8 bits",
}
"""What makes a runtime round data to 8 bits by itself."""


def _tolerance(
    value: Value, trace: Trace, eight_bits: Mapping[Mark, str], *, rounds_apart: bool
) -> Tolerance:
    for mark, why in _ANY_NUMBERS.items():
        if mark in trace.marks:
            return Tolerance("form", np.inf, why)
    if value.dtype is DType.STRING:
        return Tolerance("strings", 0, "strings must be equal")
    wide, reason = _wide_steps(trace)
    if wide > 1 and has_wide_codes(value):
        return Tolerance("steps", wide, reason)
    steps, in_a_row = _steps_in_a_row(trace)
    if value.type.has_codes:
        return Tolerance("steps", steps, f"quantized: {_OTHERWISE}{in_a_row}")
    by_share = _share(value, trace, eight_bits, rounds_apart=rounds_apart)
    if not value.dtype.is_float and value.dtype not in (DType.COMPLEX64, DType.COMPLEX128):
        if not trace.unit:
            return Tolerance("exact", 0, f"{value.dtype}: no rounding is involved")
        why = f"{value.dtype} that real numbers were rounded to: {_OTHERWISE}{in_a_row}"
        share = FLOAT_TOLERANCE if by_share is None else by_share.bound
        return Tolerance("absolute", trace.unit * max(steps, wide), why, share)
    if by_share is not None:
        return by_share
    step = trace.unit or trace.step
    if step and wide > 1:
        return Tolerance("absolute", step * wide, reason)
    if step:
        count = "one step" if steps == 1 else f"{steps} steps"
        why = f"float behind quantized values: {count} of those"
        return Tolerance("absolute", step * steps, why)
    return Tolerance("relative", FLOAT_TOLERANCE, "float: sums are taken in another order")


def _share(
    value: Value, trace: Trace, eight_bits: Mapping[Mark, str], *, rounds_apart: bool
) -> Tolerance | None:
    """What roundings of floats on the way, to 8 bits or to halves, call for; None without any."""
    for mark, why in eight_bits.items():
        if mark in trace.marks:
            return Tolerance("relative", DYNAMIC_TOLERANCE, why)
    nudges = _root(trace.halves)
    rounded = trace.halves * HALF_STEP if rounds_apart else 0.0
    if rounded > HALF_TOLERANCE:
        why = "one runtime alone rounds every result on the way to 11 bits or fewer"
        return Tolerance("relative", min(rounded, MOST_ROUNDED), why, nudges=nudges)
    if value.dtype not in HALVES and Mark.HALVES not in trace.marks:
        return None
    why = "numbers of 11 bits or fewer on the way"
    if value.dtype in HALVES:
        why = f"{value.dtype}: 11 bits or fewer"
    return Tolerance("relative", HALF_TOLERANCE, why, nudges=nudges)


def _wide_steps(trace: Trace) -> tuple[int, str]:
    """How many steps 16-bit codes are off by, and why; 0 if there are none.

    LiteRT multiplies sums by 15 bits. Where it resizes, the positions of pixels have 10.
    """
    if Mark.RESIZED in trace.marks:
        return RESIZED_STEPS, "16 bits: LiteRT knows to 10 bits where pixels of resized images lie"
    return trace.wide, "16 bits: each result on the way may be a step off in LiteRT"


def _steps_in_a_row(trace: Trace) -> tuple[int, str]:
    """How many steps codes are off by where each result on the way may be rounded the other way.

    The second result says why they are more than one.
    """
    steps = _root(trace.codes)
    if trace.coarse > steps:
        return math.ceil(trace.coarse), ", and a step before the last curve is that many behind it"
    return steps, "" if steps == 1 else ", in a row"


def _root(count: int) -> int:
    """What half steps of either sign, of so many results in a row, add up to: half their root."""
    return max(1, math.ceil(math.sqrt(count) / 2))


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
        bound += found.largest * tolerance.share
    bound = max(bound, spread)
    return not found.wrong_form and found.max_abs <= bound, bound
