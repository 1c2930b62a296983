"""What all devices share: how a compiled model is fed and run, and how a device is described.

A backend subclasses ``Executable``: it names its inputs, outputs and states, and implements
``_execute`` (and, where it holds something, ``_reset`` and ``_close``). The checks, the states and
the clock are here.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from nnconv.checks import by_own_names, check_arguments
from nnconv.errors import BackendError, UsageError
from nnconv.ir.dtype import DType, given_as
from nnconv.ir.graph import Model, Signature, Value, unique_names
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape

NNAPI_LEVEL = 8
"""The newest feature level of NNAPI, of which every device runs models once they are converted."""

REFERENCE = "reference"
"""The device that does everything."""

UNINTERRUPTIBLE = frozenset({"litert:cpu"})
"""The devices that can't be stopped while they run: they get no model with loops."""

SERIAL = frozenset({"litert:cpu"})
"""The devices whose compiled models do one run at a time."""


Compile: TypeAlias = "Callable[[Model, str, str], Executable]"
"""Makes a model ready for a device; the name is for what keeps it."""

Cuts: TypeAlias = "dict[str, Any]"
"""How a graph was cut: ``homes``, for each node that counts the number of its device, and
``bodies``, by a node's number the cuts of its bodies."""


class NoDeviceError(BackendError):
    """None of the devices can run a model, or a part of it; the text has the reasons."""


MOST_THREADS = 1024
"""Runtimes start all that they are asked for, and thousands take minutes or end the process."""


class Device(NamedTuple):
    """Something that models run on.

    Attributes:
        name: as ``compile`` takes it, such as ``onnxruntime:cpu``.
        type: ``cpu`` or ``gpu``.
        available: whether it can be used here.
        version: of the runtime behind it; empty where that isn't installed.
        why_not: what is missing; empty when it is available.
        feature_level: the newest NNAPI feature level that it serves; None where it serves none.
    """

    name: str
    type: str
    available: bool
    version: str = ""
    why_not: str = ""
    feature_level: int | None = None

    @property
    def note(self) -> str:
        """What to say of it in a list: what is missing, or the runtime's version."""
        return self.why_not or self.version

    def as_dict(self) -> dict[str, Any]:
        """The device as plain data."""
        return {**self._asdict(), "note": self.note}


class TensorInfo(NamedTuple):
    """What is known of an input or output.

    Attributes:
        name: its name, unique among the inputs or outputs.
        dtype: element type.
        shape: extents; None or a symbol for those that each run may choose.
        quant: quantization parameters, if any.
    """

    name: str
    dtype: DType
    shape: Shape
    quant: Quant | None = None


class StateInfo(NamedTuple):
    """A state that a backend keeps as a pair of an input and an output.

    Attributes:
        input: the input that takes its value.
        output: the name of the output that gives its next value.
        initial: what the first run gets.
    """

    input: TensorInfo
    output: str
    initial: np.ndarray


class Executable(abc.ABC):
    """A model made ready for a device.

    States live on from run to run, as in LiteRT's interpreter, until ``reset``. A state that a
    backend carries as an input may be fed instead: then its next value comes back among that run's
    results, and what is kept isn't touched.

    Attributes:
        device: the device's name.
        inputs: what a run takes, states left out.
        outputs: what a run gives, states left out.
        states: states carried as pairs of an input and an output.
        last_seconds: how long the runtime worked in the last run; 0 before it.
        cuts: how the model was cut; None where it is whole.
        aliases: what else inputs may be called, with their names.
    """

    OPTIONS: ClassVar[frozenset[str]] = frozenset()
    """The options that ``compile`` takes for this backend."""

    device: str
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    states: tuple[StateInfo, ...] = ()
    last_seconds: float = 0.0
    cuts: Cuts | None = None
    aliases: Mapping[str, str]
    _closed = False

    def __init__(self, device: str) -> None:
        """Start with nothing kept."""
        self.device = device
        self.aliases = {}
        self._kept: dict[str, np.ndarray] = {}

    @property
    def parts(self) -> tuple[Executable, ...]:
        """What the devices have: the executable itself, or that of each piece."""
        return (self,)

    # ---------------------------------------------------------------- what a backend implements

    @abc.abstractmethod
    def _execute(self, feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Run once on arrays (contiguous, checked) for every input and state.

        Gives every output and next state by name.

        Raises:
            BackendError: with the runtime's message.
        """

    def _reset(self) -> None:  # noqa: B027 - not every runtime keeps states
        """Set states that the runtime itself keeps back to their initial values."""

    def _close(self) -> None:  # noqa: B027 - not every runtime holds something
        """Let go of what the runtime holds."""

    # ---------------------------------------------------------------- what callers use

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once.

        Args:
            feeds: an array for each input, by name, of its dtype and shape. What a signature calls
                an input will do as well.

        Returns:
            The outputs by name, in order.

        Raises:
            UsageError: a name, dtype or shape is wrong.
            BackendError: the runtime failed; the text is its own.
        """
        if self._closed:
            raise UsageError(f"the model on {self.device} was closed; compile it again")
        check_arguments("arrays", feeds=feeds)
        given = by_own_names(feeds, self.aliases)
        ready = self._checked(given)
        for state in self.states:
            if state.input.name not in given:
                ready[state.input.name] = self._kept.get(state.input.name, state.initial)
        start = time.perf_counter()
        results = self._execute(ready)
        self.last_seconds = time.perf_counter() - start
        wanted = [info.name for info in self.outputs]
        for state in self.states:
            if state.input.name in given:
                wanted.append(state.output)
            else:
                self._kept[state.input.name] = results[state.output]
        return {name: results[name] for name in wanted}

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Callable[[], None] | None:
        """A quicker way to run again and again from these arrays and into those.

        Args:
            inputs: an array for each of ``inputs``, in order.
            outputs: an array for each of ``outputs``, in order.

        Returns:
            What runs once, as ``run`` does; None where there is no quicker way for such arrays.
        """
        return None

    def reset(self) -> None:
        """Set all states back to their initial values."""
        self._kept.clear()
        self._reset()

    def close(self) -> None:
        """Let go of what the runtime holds; no run can follow."""
        if not self._closed:
            self._closed = True
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---------------------------------------------------------------- checks

    def _take_shapes(self, shapes: Mapping[str, Shape], *, fixed: bool) -> None:
        """Let runs have inputs of these shapes, by name, alone.

        With ``fixed`` the file's own extents must stay, and only open ones are given.

        Raises:
            UsageError: there is no such input, or it can't have the shape.
        """
        given = by_own_names(shapes, self.aliases)
        known = {info.name: info for info in self.inputs}
        if wrong := sorted(given.keys() - known.keys()):
            have = ", ".join(map(repr, known)) or "none"
            raise UsageError(
                f"input_shapes: there is no input {', '.join(map(repr, wrong))}; "
                f"the model's inputs are {have}"
            )
        for name, shape in given.items():
            if shape is None:
                continue
            if fixed and not _fits(known[name].shape, shape):
                want = _open_as_marks(known[name].shape)
                raise UsageError(
                    f"input_shapes: {name!r} has shape [{want}] in the file, "
                    f"which {list(shape)} doesn't fit; only open extents can be chosen"
                )
            known[name] = known[name]._replace(shape=tuple(shape))
        self.inputs = tuple(known.values())

    def _checked(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        known = {info.name: info for info in self.inputs}
        missing = [name for name in known if name not in feeds]
        known.update((state.input.name, state.input) for state in self.states)
        unknown = [name for name in feeds if name not in known]
        if missing or unknown:
            parts = [f"no data for input {name!r}" for name in missing]
            parts += [f"there is no input {name!r}" for name in unknown]
            have = ", ".join(repr(info.name) for info in self.inputs) or "none"
            raise UsageError(f"{'; '.join(parts)}; the model's inputs are {have}")
        return {name: _fitting(known[name], array) for name, array in feeds.items()}


def _fitting(info: TensorInfo, data: np.ndarray) -> np.ndarray:
    """An input's array, contiguous, if it has the input's dtype and shape."""
    array = given_as(info.name, data, info.dtype)
    if not _fits(info.shape, array.shape):
        want = _open_as_marks(info.shape)
        raise UsageError(f"input {info.name!r} has shape {list(array.shape)}, must be [{want}]")
    return np.ascontiguousarray(array).reshape(array.shape)


def _fits(want: Shape, have: Sequence[int | str | None]) -> bool:
    return want is None or (
        len(want) == len(have)
        and all(not isinstance(w, int) or w == h for w, h in zip(want, have, strict=True))
    )


def _open_as_marks(shape: Shape) -> str:
    return ", ".join(str(d) if isinstance(d, int) else "?" for d in shape or ())


def interface_names(names: Iterable[str], kind: str) -> list[str]:
    """Names of inputs or outputs (``kind``) as the ONNX writer would make them unique."""
    return unique_names(name or f"{kind}_{index}" for index, name in enumerate(names))


def infos_of(values: Sequence[Value], kind: str) -> tuple[TensorInfo, ...]:
    """Descriptions of a graph's inputs or outputs (``kind``), with names made unique."""
    names = interface_names((value.name for value in values), kind)
    return tuple(
        TensorInfo(name, value.dtype, value.shape, value.quant)
        for name, value in zip(names, values, strict=True)
    )


def aliases(pairs: Sequence[tuple[str, str]], infos: Sequence[TensorInfo]) -> dict[str, str]:
    """What else inputs may be called, from (other name, name) pairs; no real name is hidden."""
    real = {info.name for info in infos}
    return {other: name for other, name in pairs if other not in real}


class GraphExecutable(Executable):
    """One that computes the values of an entry point's graph, under names of theirs."""

    def _describe(self, entry: Signature) -> None:
        """Say what the graph takes and gives; its states stand behind the rest."""
        inputs = infos_of(entry.graph.inputs, "input")
        outputs = infos_of(entry.graph.outputs, "output")
        self._fed = [info.name for info in inputs]
        self._results = [info.name for info in outputs]
        plain_in, plain_out = len(entry.inputs), len(entry.outputs)
        self.inputs, self.outputs = inputs[:plain_in], outputs[:plain_out]
        self.states = tuple(
            StateInfo(inputs[plain_in + i], outputs[plain_out + i].name, state.initial)
            for i, state in enumerate(entry.states)
        )
        names = (info.name for info in self.inputs)
        self.aliases = aliases(list(zip(entry.input_names, names, strict=False)), self.inputs)


def one_line(error: BaseException) -> str:
    """A runtime's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def refusal(device: str, what: str, error: BaseException) -> BackendError:
    """The error for a runtime that failed at ``what``."""
    return BackendError(f"{device} {what}: {one_line(error)}")


def check_options(options: Mapping[str, object], allowed: frozenset[str], device: str) -> None:
    """Refuse options that a device hasn't.

    Raises:
        UsageError: naming the wrong ones and those allowed.
    """
    if wrong := sorted(options.keys() - allowed):
        have = ", ".join(sorted(allowed))
        raise UsageError(f"{device} has no option {', '.join(wrong)}; its options are {have}")


def check_threads(threads: object) -> int:
    """A count of threads, 0 for the runtime's own choice.

    Raises:
        UsageError: it is anything else.
    """
    if type(threads) is not int or not 0 <= threads <= MOST_THREADS:
        raise UsageError(f"threads is {threads!r}, must be 0 to {MOST_THREADS}")
    return threads


def refuse_shapes(input_shapes: Mapping[str, Shape] | None) -> None:
    """Refuse shapes for the inputs of a model in memory: it has been read with its shapes.

    Raises:
        UsageError: when any are given.
    """
    if input_shapes:
        raise UsageError("input_shapes goes with a file; give it to nnconv.load for a model")
