"""Models made ready to run: whole on the first device that takes them so, else in pieces.

A ``Program`` belongs to a compilation. What it runs depends on the shapes of a run's inputs and on
which of them are left out: each combination is read, converted and compiled once (a ``Plan``), and
the latest are kept. A model whose inputs all have known shapes has its plan made beforehand.

What no device but the reference takes whole is cut (``nnconv.backends.pieces``).
"""

from __future__ import annotations

import contextlib
import platform
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from nnconv import backends
from nnconv.backends import Compile, DeadlineError, Executable, Limits, NoDeviceError, limited
from nnconv.errors import (
    BackendError,
    InvalidModelError,
    NnconvError,
    UnsupportedError,
    on_one_line,
)
from nnconv.ir.collector import no_collection
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Model
from nnconv.runtime.core.cache import CacheSlot
from nnconv.runtime.core.devices import REFERENCE, SERIAL, UNINTERRUPTIBLE, available
from nnconv.runtime.core.forms import Forms

Shapes: TypeAlias = "tuple[tuple[int, ...] | None, ...]"
"""The shape of each input of a run; None for one that is left out."""

Run: TypeAlias = "Callable[[Sequence[np.ndarray | None]], list[np.ndarray]]"
"""Gives the outputs for inputs, None for those that are left out."""

MOST_PLANS = 8
"""How many combinations of shapes are kept ready."""

LEVELS_OF_FREEZING = 2

WHOLE = "whole"
"""The name of the form of a whole model."""


class Source(Protocol):
    """A model of a programming model, as a program needs it."""

    @property
    def has_loops(self) -> bool:
        """Whether a run may take for ever."""

    def known_shapes(self) -> Shapes | None:
        """The shapes of all inputs, as far as the model says them; None if it doesn't."""

    def read(self) -> Model:
        """The model as it is.

        Raises:
            NnconvError: it can't be read, or not without its inputs.
        """

    def specialize(self, shapes: Shapes) -> Model:
        """The model for inputs of these shapes.

        Raises:
            NnconvError: there is none.
        """

    def freeze(self, arrays: Sequence[np.ndarray | None], level: int) -> Model:
        """The model for these inputs, some of which become constants.

        They are no inputs any more; the higher the level, from 1, the more they are.

        Raises:
            NnconvError: there is none.
        """

    def frozen(self, level: int) -> frozenset[int]:
        """Which inputs ``freeze`` makes constants."""

    def ends(self) -> tuple[Sequence[int], Sequence[int]]:
        """The places of its inputs and outputs among all that it computes with."""

    def steps(self) -> Sequence[Step]:
        """Its operations, as they can run one after the other."""

    def control(self) -> Control | None:
        """How bodies make up a model of one operation; None where there are none."""

    def fingerprint(self) -> bytes:
        """What tells the model from others."""


class Step(NamedTuple):
    """An operation of a model.

    Attributes:
        number: which of the model's it is.
        source: the model of it alone.
        inputs: the places of that one's inputs among all that the model computes with.
        outputs: those of its outputs.
    """

    number: int
    source: Source
    inputs: Sequence[int]
    outputs: Sequence[int]


class Control(NamedTuple):
    """An operation that runs bodies.

    Attributes:
        bodies: the models that they are.
        run: gives the outputs for inputs, and for what runs each of the bodies.
    """

    bodies: Sequence[Source]
    run: Callable[[Sequence[np.ndarray | None], Sequence[Run]], list[np.ndarray]]


def readable(source: Source) -> bool:
    """Whether the reference runs a model of one operation, once it knows its inputs."""
    try:
        source.read()
    except UnsupportedError:
        control = source.control()
        if control is not None:
            bodies = dict.fromkeys(control.bodies)  # one may be there twice
            return all(readable(step.source) for body in bodies for step in body.steps())
        return source.known_shapes() is None or bool(source.frozen(1))
    except NnconvError:
        pass  # no device gives it a meaning; that is for the run to tell
    return True


class Plan:
    """What runs a model for inputs of certain shapes; it is closed once nothing refers to it.

    Attributes:
        device: where.
        executable: the compiled model.
        bools: which of its inputs are truth values.
        lock: held during a run, where the device needs that; else None.
        stand_in: what runs the model where the device fails, once it did.
    """

    __slots__ = ("bools", "device", "executable", "lock", "stand_in")

    def __init__(self, executable: Executable, device: str) -> None:
        self.device = device
        self.executable = executable
        self.bools = tuple(info.dtype is DType.BOOL for info in executable.inputs)
        self.lock = threading.Lock() if device in SERIAL else None
        self.stand_in: Plan | None = None

    def __del__(self) -> None:
        self.executable.close()

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run once on an array for each input that isn't left out; any byte but 0 is true.

        Raises:
            BackendError: the run failed.
        """
        feeds = {
            info.name: array != 0 if is_bool else array
            for info, array, is_bool in zip(self.executable.inputs, arrays, self.bools, strict=True)
        }
        if self.lock is None:
            return list(self.executable.run(feeds).values())
        with self.lock:
            return list(self.executable.run(feeds).values())

    def bind(
        self, arrays: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Callable[[], None] | None:
        """What runs from these arrays into those; None where there is no such way."""
        if any(self.bools) or self.lock is not None:
            return None
        outputs = [
            target.view(np.bool_) if info.dtype is DType.BOOL else target
            for info, target in zip(self.executable.outputs, targets, strict=True)
        ]
        return self.executable.bind(arrays, outputs)


class Program:
    """A model compiled for a list of devices.

    Attributes:
        devices: the devices, in the order in which they are tried.
        has_loops: whether a run may take for ever.
    """

    def __init__(
        self, source: Source, devices: Sequence[str], *, cache: CacheSlot | None = None
    ) -> None:
        self.devices = tuple(devices)
        self.has_loops = source.has_loops
        self._source = source
        self._cache = cache
        self._plans: OrderedDict[Shapes, Plan | NnconvError] = OrderedDict()
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Compile beforehand what can be.

        Raises:
            NoDeviceError: no device takes the model, whatever its inputs hold.
        """
        shapes = self._source.known_shapes()
        if shapes is None:
            return  # its plans are made once the shapes are known
        found = self._plan_for(shapes)
        if isinstance(found, UnsupportedError) and not self._may_freeze():
            raise NoDeviceError(on_one_line(found.message))
        if isinstance(found, NoDeviceError):
            raise found

    def fault(self) -> InvalidModelError | None:
        """What is wrong with a model whose inputs all have known shapes, if anything is."""
        shapes = self._source.known_shapes()
        found = None if shapes is None else self._plan_for(shapes)
        return found if isinstance(found, InvalidModelError) else None

    def device_for(self, shapes: Shapes) -> str:
        """The device that runs the model for inputs of these shapes; empty if none does."""
        found = self._plan_for(shapes)
        return "" if isinstance(found, NnconvError) else found.device

    def bind(
        self, arrays: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Callable[[], None] | None:
        """A quick way to run again and again from these arrays and into those, if there is one."""
        plan = self._plan_for(_shapes_of(arrays))
        if not isinstance(plan, Plan):
            return None
        bound = plan.bind(arrays, targets)
        if bound is None or not self._can_stand_in(plan):
            return bound

        def run() -> None:
            try:
                bound()
            except DeadlineError:
                raise
            except BackendError:
                results = self._standing_in(plan, arrays).run(arrays)
                for target, result in zip(targets, results, strict=True):
                    if result.shape != target.shape:  # as it is on the device, which says why
                        raise
                    np.copyto(target, result, casting="unsafe")

        return run

    def run(
        self, arrays: Sequence[np.ndarray | None], limits: Limits | None = None
    ) -> list[np.ndarray]:
        """Run once.

        Args:
            arrays: what each input is, None for those that are left out.
            limits: how long it may take.

        Raises:
            DeadlineError: it takes longer.
            NnconvError: it can't be run.
        """
        plan = self._plan_for(_shapes_of(arrays))
        given = [array for array in arrays if array is not None]
        if limits is None:
            return self._run(plan, arrays, given)
        with limited(limits):
            limits.check()
            results = self._run(plan, arrays, given)
            limits.check()
        return results

    def _run(
        self,
        plan: Plan | NnconvError,
        arrays: Sequence[np.ndarray | None],
        given: Sequence[np.ndarray],
    ) -> list[np.ndarray]:
        if not isinstance(plan, Plan):
            reason = plan.with_traceback(None)  # it is kept, and so would be what all runs held
            if REFERENCE not in self.devices or isinstance(reason, InvalidModelError):
                raise reason
            control = self._source.control()
            if control is not None:  # freezing makes constants of nothing that bodies read
                return self._run_bodies(control, arrays, reason)
            return self._run_frozen(arrays, reason)
        try:
            return plan.run(given)
        except DeadlineError:
            raise
        except BackendError:
            if not self._can_stand_in(plan):
                raise
            return self._standing_in(plan, arrays).run(given)

    def _can_stand_in(self, plan: Plan) -> bool:
        """Whether the reference may run what a device fails at."""
        return REFERENCE in self.devices and plan.device != REFERENCE

    def _standing_in(self, plan: Plan, arrays: Sequence[np.ndarray | None]) -> Plan:
        """The plan for the reference, where a device failed on inputs that it said it takes."""
        if plan.stand_in is None:
            model = self._source.specialize(_shapes_of(arrays))
            plan.stand_in = Plan(backends.compile(model, REFERENCE), REFERENCE)
        return plan.stand_in

    def _may_freeze(self) -> bool:
        """Whether a run may tell what a model lacks that can't be read without its inputs."""
        steps = self._source.steps() if REFERENCE in self.devices else ()
        return bool(steps) and all(readable(step.source) for step in steps)

    def _run_frozen(
        self, arrays: Sequence[np.ndarray | None], reason: NnconvError
    ) -> list[np.ndarray]:
        """Run a model that can only be read once the values of its inputs are known."""
        for level in range(1, LEVELS_OF_FREEZING + 1):
            try:
                model = self._source.freeze(arrays, level)
            except UnsupportedError as error:
                reason = error
                continue
            frozen = self._source.frozen(level)
            given = [a for i, a in enumerate(arrays) if a is not None and i not in frozen]
            return Plan(backends.compile(model, REFERENCE), REFERENCE).run(given)
        steps = self._source.steps()
        if len(steps) == 1:
            raise reason
        try:
            return self._run_steps(steps, arrays)
        except UnsupportedError as error:
            raise reason from error

    def _run_bodies(
        self, control: Control, arrays: Sequence[np.ndarray | None], reason: NnconvError
    ) -> list[np.ndarray]:
        """Run a model of which only a run tells what the operations in its bodies need."""
        runs = [Program(body, (REFERENCE,)).run for body in control.bodies]
        try:
            return control.run(arrays, runs)
        except UnsupportedError as error:
            raise reason from error

    def _run_steps(
        self, steps: Sequence[Step], arrays: Sequence[np.ndarray | None]
    ) -> list[np.ndarray]:
        """Run a model that computes what its operations need beforehand: one after the other."""
        inputs, outputs = self._source.ends()
        values = dict(zip(inputs, arrays, strict=True))
        last = {place: n for n, step in enumerate(steps) for place in step.inputs}
        last |= dict.fromkeys(outputs, len(steps))
        for n, step in enumerate(steps):
            given = [values[place] for place in step.inputs]
            results = Program(step.source, (REFERENCE,)).run(given)
            values.update(zip(step.outputs, results, strict=True))
            for place in (*step.inputs, *step.outputs):
                if last.get(place, n) == n:  # nothing reads it any more
                    values.pop(place, None)
        return [array for place in outputs if (array := values[place]) is not None]

    # ---------------------------------------------------------------- plans

    def _plan_for(self, shapes: Shapes) -> Plan | NnconvError:
        with self._lock:
            found = self._plans.get(shapes)
            if found is None:
                found = self._plans[shapes] = self._try(shapes)
                if len(self._plans) > MOST_PLANS:
                    self._plans.popitem(last=False)
            else:
                self._plans.move_to_end(shapes)
            return found

    def _try(self, shapes: Shapes) -> Plan | NnconvError:
        try:
            with no_collection():
                return self._plan(shapes)
        except NnconvError as error:
            return error

    def _plan(self, shapes: Shapes) -> Plan:
        """The plan for inputs of these shapes.

        Raises:
            NoDeviceError: no device takes the model.
            NnconvError: the model can't be read for such inputs.
        """
        slot = self._cache
        if slot is None or shapes != self._source.known_shapes():
            return self._made(shapes, _compile)
        versions = {device: _version(device) for device in self.devices}
        entry = slot.find(versions)
        if entry is not None:
            with contextlib.suppress(NnconvError):  # such as a file that is gone by now
                return self._found(shapes, *entry)
        draft = slot.begin()
        if draft is None:
            return self._made(shapes, _compile)
        try:
            forms = Forms(draft)
            plan = self._made(shapes, forms.make)
            files = forms.files(plan.executable.parts)
            if files and forms.is_complete:
                known = {"device": plan.device, "cuts": plan.executable.cuts}
                slot.keep(draft, files, known, versions)
        finally:
            slot.discard(draft)
        return plan

    def _made(self, shapes: Shapes, compile_model: Compile) -> Plan:
        """The plan, made by trying the devices one after the other."""
        model: Model | None = None
        reasons: list[str] = []
        for device in self.devices:
            if device == REFERENCE and reasons:
                break
            if self._source.has_loops and device in UNINTERRUPTIBLE:
                reasons.append(f"{device} can't stop a loop")
                continue
            try:
                if model is None:
                    model = self._source.specialize(shapes)
                return Plan(compile_model(model, device, WHOLE), device)
            except UnsupportedError as error:
                if model is None:
                    raise
                reasons.append(f"{device}: {on_one_line(str(error))}")
            except BackendError as error:
                reasons.append(str(error))
        try:
            executable = backends.compile_pieces(
                model or self._source.specialize(shapes), self.devices, compile_model=compile_model
            )
        except NoDeviceError as error:
            raise NoDeviceError("; ".join(reasons)) from error
        return Plan(executable, executable.device)

    def _found(self, shapes: Shapes, folder: Path, known: Mapping[str, Any]) -> Plan:
        """The plan, made of what a cache has kept.

        Raises:
            NnconvError: a device doesn't take it.
        """
        forms = Forms(folder)
        if known["cuts"] is None:
            return Plan(forms.load(None, known["device"], WHOLE), known["device"])
        model = self._source.specialize(shapes)
        executable = backends.compile_pieces(
            model, self.devices, compile_model=forms.load, cuts=known["cuts"]
        )
        return Plan(executable, executable.device)


def _shapes_of(arrays: Sequence[np.ndarray | None]) -> Shapes:
    return tuple(None if array is None else array.shape for array in arrays)


def _compile(model: Model, device: str, name: str) -> Executable:
    del name  # it is for what keeps it
    return backends.compile(model, device)


@cache
def _version(device: str) -> str:
    """A device's version, and what else its form of a model depends on: the kind of CPU."""
    version = next(found.version for found in available() if found.name == device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        lines = [platform.processor()]
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), lines[0])
    return f"{version} {platform.machine()} {zlib.crc32(flags.encode()):08x}"
