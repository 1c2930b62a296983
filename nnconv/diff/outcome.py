"""What comparing two models' results gave, output by output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nnconv.diff.compare import MOST_ROUNDED, Distance, Tolerance, distance, judge
from nnconv.errors import plural
from nnconv.ir.types import Shape

HEADER = ("output", "largest difference", "allowed", "why", "")


@dataclass
class OutputCheck:
    """How an output of the result compares with the source's.

    Attributes:
        name: the output.
        passed: whether it agrees.
        max_abs: the largest difference over all runs (steps, for quantized outputs; how many
            differ, for strings).
        max_rel_to_largest: that as a share of the largest expected value.
        steps: ``max_abs`` for integers, else None.
        tolerance: the largest difference allowed, where it came closest to failing.
        tolerance_kind: ``steps``, ``relative``, ``absolute``, ``exact``, ``strings``, or ``form``
            where type and shape alone are compared.
        why: the reason for the tolerance.
        spread: how far the source's own kernel sets are apart; 0 where only one ran.
        wrong_form: how dtype or shape differ; empty when they agree.
        nudges: by how many half steps of float16 to change inputs to learn how far its roundings
            move results; 0 where they don't count.
    """

    name: str
    passed: bool
    max_abs: float
    max_rel_to_largest: float
    steps: int | None
    tolerance: float
    tolerance_kind: str
    why: str
    spread: float
    wrong_form: str = ""
    nudges: int = 0

    def row(self) -> tuple[str, ...]:
        """The cells that show it in a table."""
        verdict = "agrees" if self.passed else "DIFFERS"
        if self.wrong_form:
            return self.name, self.wrong_form, "", "", verdict
        if self.tolerance_kind == "form":
            return self.name, "type and shape agree", "any numbers", self.why, verdict
        count = f"{self.max_abs:g}"
        counted = {"steps": plural(count, "step"), "exact": count, "strings": f"{count} differ"}
        if self.tolerance_kind not in counted:
            seen = f"{self.max_abs:.2g} ({self.max_rel_to_largest:.1g} of the largest)"
            return self.name, seen, f"{self.tolerance:.2g}", self.why, verdict
        return self.name, counted[self.tolerance_kind], f"{self.tolerance:g}", self.why, verdict


@dataclass
class Verification:
    """What comparing source and result gave.

    Attributes:
        passed: whether all outputs agree.
        outputs: one entry an output.
        source_device: what ran the source.
        result_device: what ran the result.
        seeds: the seed of each round of inputs.
        runs: how many runs were compared.
        notes: what a user should know besides.
        called: what the title calls result and source.
    """

    passed: bool
    outputs: list[OutputCheck]
    source_device: str
    result_device: str
    seeds: list[int]
    runs: int
    notes: list[str] = field(default_factory=list)
    called: tuple[str, str] = ("the result", "the source")

    @property
    def title(self) -> str:
        """The outcome in one line."""
        verdict = "verified" if self.passed else "DIFFERS"
        count = plural(self.runs, "run")
        seeds = ("seed " if len(self.seeds) == 1 else "seeds ") + ", ".join(map(str, self.seeds))
        result, source = self.called
        return (
            f"{verdict}: {self.result_device} on {result} against {self.source_device} on "
            f"{source}, {count}, {seeds}"
        )

    def rows(self) -> list[tuple[str, ...]]:
        """The table's rows, under ``HEADER``."""
        return [check.row() for check in self.outputs]

    def as_dict(self) -> dict[str, Any]:
        """The outcome as plain data."""
        return asdict(self)


class Sway(NamedTuple):
    """How far nudged inputs move a result: the largest element's way, and commonly the rms of all.

    The largest moves by chance, while a conversion that is wrong moves more elements than nudges.
    """

    largest: float = 0.0
    rms: float = 0.0


COMMON = 2.0
"""So many times the common rms roundings may make up: on a net that hands them on enlarged they
make up 0.2 to 1.2 times, weights of a layer that are off by 5 % from 1.7 to 5.6 times."""


def check_output(
    name: str,
    array: np.ndarray,
    wanted: Sequence[np.ndarray],
    tolerance: Tolerance,
    *,
    sway: Sway | None = None,
) -> OutputCheck:
    """Compare an array with what each kernel set of the source gave: it may agree with any.

    ``sway`` is how far nudged inputs move the source's own result, if that is known.
    """
    spread = max((distance(w, wanted[0]).max_abs for w in wanted[1:]), default=0.0)
    spread = spread if np.isfinite(spread) else 0.0
    found = min((distance(array, w) for w in wanted), key=lambda d: d.max_abs)
    passed, bound = judge(found, tolerance, spread)
    why = tolerance.why
    if spread > judge(found, tolerance, 0.0)[1]:
        why = "the source's own kernel sets are that far apart"
    most = 0.0 if sway is None else min(sway.largest, MOST_ROUNDED * found.largest)
    if sway is not None and not passed and not found.wrong_form and most > bound:
        passed, bound = found.max_abs <= most and found.rms <= COMMON * sway.rms, most
        count = "half a step" if tolerance.nudges == 1 else f"{tolerance.nudges} half steps"
        moves = f"{count} at the inputs may move the source itself by {sway.largest:.2g}"
        if found.max_abs <= most and not passed:
            moves += ", but fewer of its numbers"
        why = f"{tolerance.why}; {moves}"
    return OutputCheck(
        name=name,
        passed=passed,
        max_abs=found.max_abs,
        max_rel_to_largest=found.relative,
        steps=_steps(found, array),
        tolerance=bound,
        tolerance_kind=tolerance.kind,
        why=why,
        spread=spread,
        wrong_form=found.wrong_form,
        nudges=tolerance.nudges,
    )


def check_form(
    name: str, array: np.ndarray, wanted: np.ndarray, shape: Shape, why: str
) -> OutputCheck:
    """Compare type and shape; extents that aren't known beforehand may depend on the numbers."""
    extents = shape if shape is not None and len(shape) == wanted.ndim else wanted.shape
    likened = wanted
    if array.ndim == wanted.ndim:
        pairs = zip(array.shape, wanted.shape, extents, strict=True)
        likened = np.empty([w if isinstance(d, int) else a for a, w, d in pairs], wanted.dtype)
    form = distance(array, likened).wrong_form
    return OutputCheck(name, not form, 0.0, 0.0, None, 0.0, "form", why, 0.0, form)


def _steps(found: Distance, array: np.ndarray) -> int | None:
    whole = array.dtype.kind in "iub" and np.isfinite(found.max_abs)
    return int(found.max_abs) if whole else None


def worse(a: OutputCheck | None, b: OutputCheck) -> OutputCheck:
    """The one of two that is nearer to failing."""
    if a is None or (a.passed and not b.passed):
        return b
    if b.passed and not a.passed:
        return a
    return b if b.max_abs * (a.tolerance or 1.0) > a.max_abs * (b.tolerance or 1.0) else a
