"""Checks a conversion: source and result run on their own runtimes, on the same random inputs.

Each runtime works in a process of its own (``nnconv.diff.worker``). The source runs twice, with two
sets of kernels (``KERNEL_SETS``): how far these are apart bounds what can be asked of the result.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from nnconv.diff.compare import Distance, Tolerance, distance, judge, tolerances_of
from nnconv.diff.extents import known_shapes
from nnconv.diff.inputs import random_array
from nnconv.diff.meanings import meanings
from nnconv.diff.worker import Job, Outcome
from nnconv.errors import BackendError
from nnconv.formats.hints import open_names, shapes_hint
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Model, Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, static_shape
from nnconv.ops.detection import DetectionPostProcess

STATE_STEPS = 3
"""How many consecutive runs a model with states makes."""

LONGER = 32
"""What open extents are in a further round, the batch aside: 1 is too little for many a window."""

TIMEOUT_SECONDS = 600.0

SUBSTITUTE = "reference"

DEVICES = {
    "tflite": "litert:cpu",
    "onnx": "onnxruntime:cpu",
    "nnapi": SUBSTITUTE,
    "nnrt": SUBSTITUTE,
}
"""What runs the files of a format."""

KERNEL_SETS: dict[str, tuple[dict[str, Any], ...]] = {
    "tflite": ({"resolver": "xnn"}, {"resolver": "opt"}),
    "onnx": ({"optimize": True}, {"optimize": False}),
    "nnapi": ({},),
    "nnrt": ({},),
}
"""The options under which a source runs: other kernels, which round otherwise."""

HEADER = ("output", "largest difference", "allowed", "why", "")


@dataclass
class OutputCheck:
    """How an output of the result compares with the source's.

    Attributes:
        name: the output.
        passed: whether it agrees.
        max_abs: the largest difference over all runs (steps, for quantized outputs).
        max_rel_to_largest: that as a share of the largest expected value.
        steps: ``max_abs`` for integers, else None.
        tolerance: the largest difference allowed, where it came closest to failing.
        tolerance_kind: ``steps``, ``relative``, ``absolute``, ``exact``, or ``form`` where type and
            shape alone are compared.
        why: the reason for the tolerance.
        spread: how far the source's own kernel sets are apart; 0 where only one ran.
        wrong_form: how dtype or shape differ; empty when they agree.
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

    def row(self) -> tuple[str, ...]:
        """The cells that show it in a table."""
        verdict = "agrees" if self.passed else "DIFFERS"
        if self.wrong_form:
            return self.name, self.wrong_form, "", "", verdict
        if self.tolerance_kind == "form":
            return self.name, "type and shape agree", "any numbers", self.why, verdict
        unit = {"steps": " steps", "exact": ""}.get(self.tolerance_kind)
        if unit is None:
            seen = f"{self.max_abs:.2g} ({self.max_rel_to_largest:.1g} of the largest)"
            return self.name, seen, f"{self.tolerance:.2g}", self.why, verdict
        return self.name, f"{self.max_abs:g}{unit}", f"{self.tolerance:g}", self.why, verdict


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
        count = "1 run" if self.runs == 1 else f"{self.runs} runs"
        seeds = ", ".join(str(seed) for seed in self.seeds)
        result, source = self.called
        return (
            f"{verdict}: {self.result_device} on {result} against {self.source_device} on "
            f"{source}, {count}, seed {seeds}"
        )

    def rows(self) -> list[tuple[str, ...]]:
        """The table's rows, under ``HEADER``."""
        return [check.row() for check in self.outputs]

    def as_dict(self) -> dict[str, Any]:
        """The outcome as plain data."""
        return asdict(self)


End: TypeAlias = tuple[str, str, list[int | str | None] | None]
"""Name, type and shape of an input or output as written."""


class Converted(Protocol):
    """What a conversion says of itself, as far as checking it goes: ``nnconv.ConversionReport``."""

    source: str
    target: str
    source_format: str
    target_format: str
    signature: str
    moved_io: list[str]
    states: list[tuple[str, str]]
    inputs: list[End]
    outputs: list[End]


class _Input(NamedTuple):
    """An input with all extents chosen."""

    name: str
    dtype: DType
    shape: Shape
    quant: Quant | None


class _Source(NamedTuple):
    """What the source gave: the results of each kernel set that ran."""

    device: str
    outcomes: list[Outcome]
    notes: list[str]


def verify_conversion(
    report: Converted, model: Model, *, seed: int = 0, timeout: float = TIMEOUT_SECONDS
) -> Verification:
    """Run a conversion's two files and compare what they give.

    Args:
        report: names the files.
        model: the source as it was read, with the converted entry point alone.
        seed: of the first round of inputs; the others follow it.
        timeout: seconds that all of it may take.

    Raises:
        BackendError: a runtime crashed, hung, or can't run its file.
    """
    rounds = rounds_of(model, seed)
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryDirectory(prefix="nnconv-") as name:
        jobs = Jobs(Path(name), deadline)
        try:
            moved = [_moved(steps, model.inputs, report) for steps in rounds]
            device = DEVICES[report.target_format]
            noted = report.target_format == "onnx" or not report.states
            states = [] if noted else _first_states(model, report)
            result_job = jobs.start(
                report.target, device, moved, states=states, **one_thread(device)
            )
            source = _run_source(jobs, report, model, rounds)
            result = jobs.wait(result_job)
        finally:
            jobs.end()
    return _compare(report, model, source, result, seed)


def rounds_of(model: Model, seed: int) -> list[list[list[np.ndarray]]]:
    """Inputs of each round's steps: others have another batch, or other extents that are open."""
    known = meanings(model.graph)
    extents = [(1, 1)]
    stated = [value.shape for value in model.inputs if value.shape]
    if any(not isinstance(shape[0], int) for shape in stated):
        extents.append((2, 1))
    if any(static_shape(shape[1:]) is None for shape in stated):
        extents.append((1, LONGER))
    steps = STATE_STEPS if model.states else 1
    rounds = []
    for number, (batch, longer) in enumerate(extents):
        rng = np.random.default_rng(seed + number)
        shapes = known_shapes([v.shape or () for v in model.inputs], batch=batch, others=longer)
        filled = [
            _Input(value.name, value.dtype, shape, value.quant)
            for value, shape in zip(model.inputs, shapes, strict=True)
        ]
        drawn = [
            [random_array(one, rng, meaning=known.get(one.name)) for one in filled]
            for _ in range(steps)
        ]
        rounds.append(drawn)
    return rounds


def _moved(
    steps: list[list[np.ndarray]], inputs: Sequence[Value], report: Converted
) -> list[list[np.ndarray]]:
    """The same inputs in the layout and the type that the result has them in."""
    return [
        [
            _retyped(_relaid(array, report) if value.name in report.moved_io else array, end)
            for value, array, end in zip(inputs, arrays, report.inputs, strict=False)
        ]
        for arrays in steps
    ]


def _retyped(array: np.ndarray, end: End) -> np.ndarray:
    """An array in the integer type, and with the dimension, that the report says the result has."""
    _, kind, shape = end
    return fitted(array, DType(kind), shape)


def fitted(array: np.ndarray, dtype: DType, shape: Sequence[object] | None) -> np.ndarray:
    """An array as another model has it, whose format lacks its numbers, or scalars.

    That has int32 or float32, and a dimension of 1, in their place. Integers that don't fit stay as
    they are.
    """
    kinds = {DType.of(array), dtype}
    if kinds == {DType.FLOAT64, DType.FLOAT32}:
        array = array.astype(dtype.numpy)
    if len(kinds) > 1 and DType.INT32 in kinds and kinds <= _AS_INT32:
        low, high = dtype.int_range
        if ((array >= low) & (array <= high)).all():
            array = array.astype(dtype.numpy)
    extents = None if shape is None else tuple(shape)
    if (array.shape, extents) == ((), (1,)):
        return array.reshape(1)
    return array.reshape(()) if (array.shape, extents) == ((1,), ()) else array


_AS_INT32 = frozenset({DType.INT64, DType.INT32, DType.INT16, DType.UINT16, DType.INT8})
"""Integers that are int32 in models of formats that lack them; the report tells of it."""


def _first_states(model: Model, report: Converted) -> list[np.ndarray]:
    """What the states start with, as the result has them."""
    ends = report.inputs[len(model.inputs) :]
    return [_retyped(state.initial, end) for state, end in zip(model.states, ends, strict=True)]


def _relaid(array: np.ndarray, report: Converted) -> np.ndarray:
    """An image-like array in the layout of the result's format."""
    first = report.target_format == "onnx"
    return np.moveaxis(array, -1, 1) if first else np.moveaxis(array, 1, -1)


class Jobs:
    """The processes of one verification, which all end with it."""

    def __init__(self, folder: Path, deadline: float) -> None:
        self._folder = folder
        self._deadline = deadline
        self._started: list[Job] = []

    def start(
        self,
        model: str,
        device: str,
        rounds: Sequence[Sequence[Sequence[np.ndarray]]],
        **options: Any,
    ) -> Job:
        """Start one; ``Job`` says what the arguments are."""
        folder = self._folder / str(len(self._started))
        folder.mkdir()
        job = Job(folder, model, device, rounds, **options)
        self._started.append(job)
        return job

    def wait(self, job: Job) -> Outcome:
        """Wait for one, until the deadline."""
        return job.wait(self._deadline - time.monotonic())

    def end(self) -> None:
        """End all that still run."""
        for job in self._started:
            job.end()


def _run_source(
    jobs: Jobs,
    report: Converted,
    model: Model,
    rounds: Sequence[Sequence[Sequence[np.ndarray]]],
) -> _Source:
    """Run the source on its runtime, or, where that refuses it, on the reference backend."""
    shapes = {v.name: v.shape for v in model.inputs if v.name and v.shape is not None}
    options: dict[str, Any] = {"signature": report.signature, "input_shapes": shapes}
    own = {} if report.source_format == "onnx" else options
    device = DEVICES[report.source_format]
    own = {**own, **one_thread(device)}
    started = [
        jobs.start(report.source, device, rounds, **kernels, **own)
        for kernels in KERNEL_SETS[report.source_format]
    ]
    outcomes = [jobs.wait(job) for job in started]
    ran = [outcome for outcome in outcomes if outcome.ran]
    if ran:
        failed = [outcome.error for outcome in outcomes if not outcome.ran]
        return _Source(device, ran, [f"one kernel set failed: {text}" for text in failed])
    for outcome in outcomes:
        if outcome.crashed:
            raise _unverified(report, model, outcome.error)
    if device == SUBSTITUTE:
        raise _unverified(report, model, outcomes[0].error)
    substitute = jobs.wait(jobs.start(report.source, SUBSTITUTE, rounds, **options))
    if not substitute.ran:
        raise _unverified(report, model, f"{outcomes[0].error}; {substitute.error}")
    note = f"{device} can't run the source, nnconv's reference did: {outcomes[0].error}"
    return _Source(SUBSTITUTE, [substitute], [note])


def _unverified(report: Converted, model: Model, why: str) -> BackendError:
    """What to raise for a source that doesn't run, maybe as open extents didn't fit together."""
    hint = f"The conversion itself is complete: {report.target} is written."
    if asked := shapes_hint(open_names(model.inputs)):
        hint += f" Extents must fit together. {asked}"
    return BackendError(f"{report.source} can't be verified: {why}", hint=hint)


def one_thread(device: str) -> dict[str, Any]:
    """The option that keeps a device's runtime to one thread, where it would start more."""
    return {} if device == SUBSTITUTE else {"threads": 1}


def _compare(
    report: Converted, model: Model, source: _Source, result: Outcome, seed: int
) -> Verification:
    notes = list(source.notes)
    device = DEVICES[report.target_format]
    apart = SUBSTITUTE in (source.device, device) and source.device != device
    kind = report.target_format
    flags = {"hybrids": kind == "tflite", "blocks": kind == "onnx"}
    flags["curves"] = len(source.outcomes) == 1
    tolerances = tolerances_of(model.outputs, model.graph, rounds_apart=apart, **flags)
    checks: list[OutputCheck | None] = [None] * len(model.outputs)
    seeds, runs = [], 0
    for number, got in enumerate(result.results):
        expected = [o.results[number] for o in source.outcomes if o.results[number] is not None]
        if not expected:
            error = source.outcomes[0].error
            notes.append(f"with other extents the source itself fails: {error}")
            continue
        if got is None:
            complete = f"The conversion itself is complete: {report.target} is written."
            raise BackendError(
                f"{report.target} can't be verified: {result.error}",
                hint=f"{result.hint}. {complete}" if result.hint else complete,
            )
        seeds.append(seed + number)
        for step, arrays in enumerate(got):
            runs += 1
            references = [_settled(model, found[step]) for found in expected if found is not None]
            for i, value in enumerate(model.outputs):
                name = value.name or report.outputs[i][0]
                array = arrays[i] if i < len(arrays) else np.empty(0)
                wanted = [r[i] for r in references]
                wanted = [_retyped(w, report.outputs[i]) for w in wanted]
                if value.name in report.moved_io:
                    wanted = [_relaid(w, report) for w in wanted]
                if any(_is_nothing(w) for w in wanted):
                    note = f"the source gives nothing but nan in {name}: not compared"
                    notes += [] if note in notes else [note]
                    continue
                if tolerances[i].kind == "form":
                    shape = None if value.name in report.moved_io else value.shape
                    seen = _check_form(name, array, wanted[0], shape, tolerances[i].why)
                else:
                    seen = check_output(name, array, wanted, tolerances[i])
                checks[i] = worse(checks[i], seen)
    found_checks = [check for check in checks if check is not None]
    passed = all(check.passed for check in found_checks)
    return Verification(passed, found_checks, source.device, device, seeds, runs, notes)


def _settled(model: Model, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a source gave, without what LiteRT leaves lying behind a detector's last detection."""
    settled, outputs = list(arrays), list(model.outputs)
    for node in model.graph.nodes:
        op = node.op
        if not isinstance(op, DetectionPostProcess) or node.outputs[3] not in outputs:
            continue
        count = int(settled[outputs.index(node.outputs[3])].reshape(-1)[0])
        for value in node.outputs[:3]:
            if value in outputs:
                place = outputs.index(value)
                settled[place] = settled[place].copy()
                settled[place][:, op.places >= count] = 0
    return settled


def _is_nothing(array: np.ndarray) -> bool:
    """Whether an array has elements, and all of them are nan."""
    return bool(array.size and array.dtype.kind == "f" and np.isnan(array).all())


def check_output(
    name: str, array: np.ndarray, wanted: Sequence[np.ndarray], tolerance: Tolerance
) -> OutputCheck:
    """Compare an array with what each kernel set of the source gave: it may agree with any."""
    spread = max((distance(w, wanted[0]).max_abs for w in wanted[1:]), default=0.0)
    spread = spread if np.isfinite(spread) else 0.0
    found = min((distance(array, w) for w in wanted), key=lambda d: d.max_abs)
    passed, bound = judge(found, tolerance, spread)
    why = tolerance.why
    if spread > judge(found, tolerance, 0.0)[1]:
        why = "the source's own kernel sets are that far apart"
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
    )


def _check_form(
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
