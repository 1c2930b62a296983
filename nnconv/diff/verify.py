"""Checks a conversion: source and result run on their own runtimes, on the same random inputs.

Each runtime works in a process of its own (``nnconv.diff.worker``). The source runs twice, with two
sets of kernels (``KERNEL_SETS``): how far these are apart bounds what can be asked of the result.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from nnconv.diff.compare import tolerances_of
from nnconv.diff.extents import known_shapes
from nnconv.diff.inputs import random_array
from nnconv.diff.layouts import relaid
from nnconv.diff.meanings import meanings
from nnconv.diff.outcome import OutputCheck, Verification, check_form, check_output, worse
from nnconv.diff.sway import Sways, nudges_for, sways_of
from nnconv.diff.worker import Job, Outcome
from nnconv.errors import BackendError
from nnconv.formats.hints import open_names, shapes_hint
from nnconv.ir.dtype import DType, given_as
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

_LAYOUTS = {"tflite": "nhwc", "onnx": "nchw", "nnapi": "nhwc", "nnrt": "nhwc"}
"""What images are moved to in a format, where that is asked for."""

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
    """What the source gave.

    Attributes:
        device: what ran it.
        options: those under which it ran.
        outcomes: the results of each kernel set that ran.
        notes: what a user should know.
    """

    device: str
    options: dict[str, Any]
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
            found = _compare(report, model, source, result, seed)
            if nudges := nudges_for(found.outputs):
                run = partial(jobs.run, report.source, source.device, **source.options)
                sways = sways_of(rounds, source.outcomes[0].results, run, nudges=nudges, seed=seed)
                found = _compare(report, model, source, result, seed, sways)
        finally:
            jobs.end()
    return found


def rounds_of(
    model: Model, seed: int, given: Mapping[str, np.ndarray] | None = None
) -> list[list[list[np.ndarray]]]:
    """Inputs of each round's steps: others have another batch, or other extents that are open.

    Arrays that are ``given`` take the place of drawn ones, in a single round: they have but one
    shape.
    """
    known = meanings(model.graph)
    own = {
        value.name: given_as(value.name, given[value.name], value.dtype)
        for value in model.inputs
        if given and value.name in given
    }
    extents = [(1, 1)]
    stated = [value.shape for value in model.inputs if value.shape]
    if any(not isinstance(shape[0], int) for shape in stated):
        extents.append((2, 1))
    if any(static_shape(shape[1:]) is None for shape in stated):
        extents.append((1, LONGER))
    if own:
        del extents[1:]
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
            [
                own[one.name]
                if one.name in own
                else random_array(one, rng, meaning=known.get(one.name))
                for one in filled
            ]
            for _ in range(steps)
        ]
        rounds.append(drawn)
    return rounds


def _moved(
    steps: list[list[np.ndarray]], inputs: Sequence[Value], report: Converted
) -> list[list[np.ndarray]]:
    """The same inputs in the layout and the type that the result has them in."""
    layout = _LAYOUTS[report.target_format]
    return [
        [
            _retyped(relaid(array, layout) if value.name in report.moved_io else array, end)
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

    def run(
        self,
        model: str,
        device: str,
        rounds: Sequence[Sequence[Sequence[np.ndarray]]],
        **options: Any,
    ) -> Outcome:
        """Start one and wait for it."""
        return self.wait(self.start(model, device, rounds, **options))

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
    sets: list[dict[str, Any]] = [{**k, **own} for k in KERNEL_SETS[report.source_format]]
    started = [jobs.start(report.source, device, rounds, **options) for options in sets]
    outcomes = [jobs.wait(job) for job in started]
    ran = [outcome for outcome in outcomes if outcome.ran]
    if ran:
        failed = [outcome.error for outcome in outcomes if not outcome.ran]
        notes = [f"one kernel set failed: {text}" for text in failed]
        return _Source(device, sets[outcomes.index(ran[0])], ran, notes)
    for outcome in outcomes:
        if outcome.crashed:
            raise _unverified(report, model, outcome.error)
    if device == SUBSTITUTE:
        raise _unverified(report, model, outcomes[0].error)
    substitute = jobs.wait(jobs.start(report.source, SUBSTITUTE, rounds, **options))
    if not substitute.ran:
        raise _unverified(report, model, f"{outcomes[0].error}; {substitute.error}")
    note = f"{device} can't run the source, nnconv's reference did: {outcomes[0].error}"
    return _Source(SUBSTITUTE, options, [substitute], [note])


def _unverified(report: Converted, model: Model, why: str) -> BackendError:
    """What to raise for a source that doesn't run, maybe as open extents didn't fit together."""
    hint = f"The conversion itself is complete: {report.target} is written."
    if asked := shapes_hint(open_names(model.inputs)):
        hint += f" Extents must fit together. {asked}"
    return BackendError(f"{report.source} can't be verified: {why}", hint=hint)


def one_thread(device: str) -> dict[str, Any]:
    """The option that keeps a device's runtime to one thread, if it would start more.

    Several devices that share a model have no such option.
    """
    return {} if device == SUBSTITUTE or "," in device else {"threads": 1}


def _compare(
    report: Converted,
    model: Model,
    source: _Source,
    result: Outcome,
    seed: int,
    sways: Sways | None = None,
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
                    wanted = [relaid(w, _LAYOUTS[kind]) for w in wanted]
                if any(_is_nothing(w) for w in wanted):
                    note = f"the source gives nothing but nan in {name}: not compared"
                    notes += [] if note in notes else [note]
                    continue
                if tolerances[i].kind == "form":
                    shape = None if value.name in report.moved_io else value.shape
                    seen = check_form(name, array, wanted[0], shape, tolerances[i].why)
                else:
                    sway = sways[number][step][i] if sways else None
                    seen = check_output(name, array, wanted, tolerances[i], sway=sway)
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
    return bool(array.size and DType.of(array).is_float and np.isnan(array).all())
