"""ANeuralNetworksExecution."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

from nnconv.backends import Limits
from nnconv.errors import NnconvError
from nnconv.formats.nnapi.types import DurationCode, ResultCode
from nnconv.runtime.nnapi.arguments import Arguments
from nnconv.runtime.nnapi.compilation import MOST_NANOSECONDS, Burst, Compilation
from nnconv.runtime.nnapi.device import DEFAULT_LOOP_TIMEOUT, MAXIMUM_LOOP_TIMEOUT
from nnconv.runtime.nnapi.errors import (
    Error,
    bad_data,
    bad_state,
    call,
    expect,
    failure_of,
    flag,
    index_of,
    integer,
    interrupted,
    listed,
    null,
)
from nnconv.runtime.nnapi.event import Event
from nnconv.runtime.nnapi.memory import INPUT, OUTPUT, Memory, Role
from nnconv.runtime.nnapi.runner import Runner
from nnconv.runtime.nnapi.types import Buffer, OperandType


class State(Enum):
    """How far an execution is."""

    PREPARING = "preparing"
    RUNNING = "running"
    COMPLETED = "completed"


class Execution:
    """A run of a compilation, with what it reads and writes.

    Buffers are kept, read when the computation starts and written in place.
    """

    def __init__(self, compilation: Compilation) -> None:
        """Make an execution of a finished compilation.

        Raises:
            Error: UNEXPECTED_NULL or BAD_STATE.
        """
        expect(compilation, Compilation, "compilation")
        self._compilation = compilation
        graph = compilation.model.graph
        self._arguments = Arguments(graph)
        self._runner = Runner(compilation.program, self._arguments)
        self._state = State.PREPARING
        self._lock = threading.Lock()
        self._failure: Error | None = None
        self._reusable = False
        self._measuring = False
        self._timeout = 0
        self._begun = 0
        self._loop_timeout = DEFAULT_LOOP_TIMEOUT

    @classmethod
    @call
    def create(cls, compilation: Compilation) -> Execution:
        """The same as the constructor.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or OUT_OF_MEMORY.
        """
        return cls(compilation)

    def free(self: Execution | None) -> None:
        """Do nothing: an execution goes when nothing refers to it any more."""

    # ---------------------------------------------------------------- settings

    def _demand_preparing(self) -> None:
        if self._state is not State.PREPARING:
            raise bad_state(f"the execution is {self._state.value}")

    def _demand_one_device(self, what: str) -> None:
        if len(self._compilation.devices) != 1:
            raise bad_data(f"{what} needs a compilation for exactly one chosen device")

    @call
    def set_reusable(self, reusable: bool) -> None:  # noqa: FBT001 - as in C
        """Say whether it can be computed more than once.

        Raises:
            Error: BAD_STATE.
        """
        self._demand_preparing()
        self._reusable = flag(reusable, "reusable")

    @call
    def set_measure_timing(self, measure: bool) -> None:  # noqa: FBT001 - as in C
        """Say whether its time is taken.

        Raises:
            Error: BAD_DATA or BAD_STATE.
        """
        self._demand_one_device("timing")
        self._demand_preparing()
        self._measuring = flag(measure, "measure")

    @call
    def set_timeout(self, duration: int) -> None:
        """Say how many nanoseconds a computation may take from the call on; 0: any.

        Raises:
            Error: BAD_DATA or BAD_STATE.
        """
        self._demand_one_device("a timeout")
        self._demand_preparing()
        self._timeout = integer(duration, "the duration", low=0, high=MOST_NANOSECONDS)

    @call
    def set_loop_timeout(self, duration: int) -> None:
        """Say how many nanoseconds a WHILE may turn; more than the maximum is the maximum.

        Raises:
            Error: BAD_STATE.
        """
        self._demand_preparing()
        wanted = integer(duration, "the duration", low=0, high=MOST_NANOSECONDS)
        self._loop_timeout = min(wanted, MAXIMUM_LOOP_TIMEOUT)

    @call
    def enable_input_and_output_padding(self, enable: bool) -> None:  # noqa: FBT001 - as in C
        """Say whether buffers may be longer than what they hold.

        Raises:
            Error: BAD_STATE.
        """
        self._demand_preparing()
        if self._arguments.any_set:
            raise bad_state("an input or output is set already")
        self._arguments.padded = flag(enable, "enable")

    # ---------------------------------------------------------------- inputs and outputs

    @call
    def set_input(
        self,
        index: int,
        buffer: Buffer | None,
        type: OperandType | None = None,
        *,
        length: int | None = None,
    ) -> None:
        """Give an input, or None for an optional one that is left out.

        Args:
            index: which one.
            buffer: its elements.
            type: its dimensions, where the model leaves them open.
            length: of the part of the buffer to use, in bytes; all of it unless it is given.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        self._give_buffer(INPUT, index, buffer, type, length)

    @call
    def set_output(
        self,
        index: int,
        buffer: Buffer | None,
        type: OperandType | None = None,
        *,
        length: int | None = None,
    ) -> None:
        """Say where an output goes, None for nowhere.

        Args:
            index: which one.
            buffer: room for its elements, which can be written.
            type: its dimensions, where the model leaves them open.
            length: of the part of the buffer to use, in bytes; all of it unless it is given.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        self._give_buffer(OUTPUT, index, buffer, type, length)

    def _give_buffer(
        self,
        kind: str,
        index: int,
        buffer: Buffer | None,
        type: OperandType | None,
        length: int | None,
    ) -> None:
        if buffer is None and length:
            raise null("buffer")
        self._demand_preparing()
        self._arguments.set_buffer(kind, index, buffer, type, length)

    @call
    def set_input_from_memory(
        self,
        index: int,
        memory: Memory,
        offset: int,
        length: int,
        type: OperandType | None = None,
    ) -> None:
        """Give an input as a part of a memory; 0 and 0 for one made from a descriptor.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        self._give_memory(INPUT, index, memory, (offset, length), type)

    @call
    def set_output_from_memory(
        self,
        index: int,
        memory: Memory,
        offset: int,
        length: int,
        type: OperandType | None = None,
    ) -> None:
        """Have an output written to a part of a memory; 0 and 0 for one made from a descriptor.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        self._give_memory(OUTPUT, index, memory, (offset, length), type)

    def _give_memory(
        self,
        kind: str,
        index: int,
        memory: Memory,
        span: tuple[int, int],
        type: OperandType | None,
    ) -> None:
        expect(memory, Memory, "memory")
        self._demand_preparing()
        self._arguments.set_memory(Role(self._compilation, kind, index), memory, *span, type)

    # ---------------------------------------------------------------- computing

    @call
    def compute(self) -> None:
        """Compute, and come back when the outputs are written.

        Raises:
            Error: BAD_STATE, BAD_DATA, OP_FAILED, OUTPUT_INSUFFICIENT_SIZE (some output needs more
                room: ``get_output_operand_dimensions`` tells how much), UNMAPPABLE or
                MISSED_DEADLINE_TRANSIENT.
        """
        self._begin()
        if (failure := self._finish(self._compute)) is not None:
            raise failure

    @call
    def burst_compute(self, burst: Burst) -> None:
        """Compute as one of a row of executions.

        Raises:
            Error: UNEXPECTED_NULL, or as ``compute``.
        """
        expect(burst, Burst, "burst")
        if burst.compilation is not self._compilation:
            raise bad_data("the burst is one of another compilation")
        if not burst.lock.acquire(blocking=False):
            raise bad_state("the burst is in use")
        try:
            self.compute()
        finally:
            burst.lock.release()

    @call
    def start_compute(self) -> Event:
        """Compute in the background; how that ended shows when the event is waited for.

        Raises:
            Error: BAD_STATE, BAD_DATA or OP_FAILED.
        """
        self._begin()
        return self._start(0)

    @call
    def start_compute_with_dependencies(
        self, dependencies: Sequence[Event], duration: int = 0
    ) -> Event:
        """Compute in the background once events have come.

        Args:
            dependencies: the events.
            duration: how many nanoseconds the computation may take from then on; 0: any.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE, BAD_DATA, or OP_FAILED where an event's computation
                failed.
        """
        events = [Event.checked(event) for event in listed(dependencies, "dependencies")]
        self._begin()
        with self._completing():
            self._arguments.check_set()
            limit = integer(duration, "the duration", low=0, high=MOST_NANOSECONDS)
            if limit:
                self._demand_one_device("a duration")
            if not all(argument.is_known for argument in self._arguments.outputs()):
                raise bad_data("the dimensions of an output aren't all known")
            for event in events:
                event.demand_success()
        return self._start(limit)

    def _begin(self) -> None:
        with self._lock:
            if self._state is State.RUNNING:
                raise bad_state("the execution is running")
            if self._state is State.COMPLETED and not self._reusable:
                raise bad_state("the execution is completed, and isn't reusable")
            self._state = State.RUNNING
            self._begun = time.monotonic_ns()

    def _start(self, limit: int) -> Event:
        with self._completing():
            self._arguments.check_set()
            self._arguments.check_content()
            return Event.of(lambda: self._finish(lambda: self._compute(limit)))

    @contextmanager
    def _completing(self) -> Iterator[None]:
        """Complete the execution where what is done inside fails."""
        failure: Error | None = interrupted()
        try:
            yield
            failure = None
        except Error as error:
            failure = error
            raise
        finally:
            if failure is not None:
                self._complete(failure)

    def _finish(self, work: Callable[[], None]) -> Error | None:
        """Do the work and complete the execution; gives what went wrong."""
        failure: Error | None = interrupted()
        try:
            work()
            failure = None
        except (NnconvError, MemoryError) as error:
            failure = failure_of(error)
        finally:
            self._complete(failure)
        return failure

    def _complete(self, failure: Error | None) -> None:
        if failure is not None:
            self._arguments.lose_outputs()
        with self._lock:
            self._failure = failure
            self._state = State.COMPLETED

    def _compute(self, limit: int = 0) -> None:
        self._runner.run(self._limits(time.monotonic_ns(), limit))

    def _limits(self, start: int, limit: int) -> Limits | None:
        """How long a run may take; None without a limit.

        Args:
            start: when what it waited for had come, in nanoseconds.
            limit: how long it may take from then on, beside the timeout since it was called.
        """
        spans = ((self._begun, self._timeout), (start, limit))
        ends = [begin + nanoseconds for begin, nanoseconds in spans if nanoseconds]
        loop = self._loop_timeout / 1e9 if self._compilation.program.has_loops else None
        if not ends and loop is None:
            return None
        return Limits(min(ends) / 1e9 if ends else None, loop)

    # ---------------------------------------------------------------- what came out

    @call
    def get_duration(self, duration_code: int) -> int:
        """How long the last computation took, in nanoseconds.

        Raises:
            Error: BAD_DATA or BAD_STATE.
        """
        code = integer(duration_code, "the duration")
        if code not in DurationCode.__members__.values():
            raise bad_data(f"there is no duration {code}")
        if self._state is not State.COMPLETED:
            raise bad_state(f"the execution is {self._state.value}")
        if self._failure is not None or not self._measuring:
            raise bad_state("no time was taken")
        is_hardware = "ON_HARDWARE" in DurationCode(code).name
        return self._runner.on_hardware if is_hardware else self._runner.in_driver

    @call
    def get_output_operand_rank(self, index: int) -> int:
        """The rank of an output after the computation.

        Raises:
            Error: BAD_STATE or BAD_DATA; OUTPUT_INSUFFICIENT_SIZE where its buffer was too small:
                then the error has the rank.
        """
        place, shape = self._shape_of(index)
        if place in self._runner.short:
            raise Error(
                ResultCode.OUTPUT_INSUFFICIENT_SIZE,
                f"the buffer of output {place} was too small for {list(shape)}",
                rank=len(shape),
            )
        return len(shape)

    @call
    def get_output_operand_dimensions(self, index: int) -> tuple[int, ...]:
        """The dimensions of an output after the computation.

        Raises:
            Error: BAD_STATE or BAD_DATA; OUTPUT_INSUFFICIENT_SIZE where its buffer was too small:
                then the error has the dimensions.
        """
        place, shape = self._shape_of(index)
        if not shape:
            raise bad_data(f"output {place} is a scalar, it has no dimensions")
        if place in self._runner.short:
            raise Error(
                ResultCode.OUTPUT_INSUFFICIENT_SIZE,
                f"the buffer of output {place} was too small for {list(shape)}",
                dimensions=shape,
            )
        return shape

    def _shape_of(self, index: int) -> tuple[int, tuple[int, ...]]:
        if self._state is not State.COMPLETED:
            raise bad_state(f"the execution is {self._state.value}")
        failure = self._failure
        if failure is not None and failure.code is not ResultCode.OUTPUT_INSUFFICIENT_SIZE:
            raise bad_state(f"the execution has failed: {failure}")
        place = index_of(index, len(self._runner.shapes), "output")
        return place, self._runner.shapes[place]
