"""ANeuralNetworksCompilation and ANeuralNetworksBurst."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

from nnconv.backends import NoDeviceError
from nnconv.errors import NnconvError, plural
from nnconv.formats.nnapi.types import (
    BYTE_SIZE_OF_CACHE_TOKEN,
    PreferenceCode,
    PriorityCode,
    ResultCode,
)
from nnconv.runtime.core.cache import CacheSlot
from nnconv.runtime.core.checks import shown
from nnconv.runtime.core.program import Program
from nnconv.runtime.nnapi.device import Device, all_devices
from nnconv.runtime.nnapi.errors import (
    Error,
    bad_data,
    bad_state,
    call,
    expect,
    index_of,
    integer,
    listed,
    null,
)
from nnconv.runtime.nnapi.model import Model
from nnconv.runtime.nnapi.source import ModelSource
from nnconv.runtime.nnapi.types import Buffer, bytes_of

ALIGNMENT = 64
"""What starts of buffers should be multiples of, and their lengths too."""

MOST_NANOSECONDS = (1 << 64) - 1


class Compilation:
    """A model being made ready for devices.

    Attributes:
        model: the model.
        devices: those chosen; empty where the runtime chooses.
    """

    def __init__(self, model: Model) -> None:
        """Prepare the compilation of a finished model, for devices that the runtime chooses.

        Raises:
            Error: UNEXPECTED_NULL or BAD_STATE.
        """
        expect(model, Model, "model")
        if not model.finished:
            raise bad_state("the model isn't finished")
        self.model = model
        self.devices: tuple[Device, ...] = ()
        self.preference = PreferenceCode.FAST_SINGLE_ANSWER
        self.priority = PriorityCode.DEFAULT
        self._timeout = 0
        self._caching: tuple[str, bytes] | None = None
        self._finished = False
        self._program: Program | None = None

    @classmethod
    @call
    def create(cls, model: Model) -> Compilation:
        """The same as the constructor.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or OUT_OF_MEMORY.
        """
        return cls(model)

    @classmethod
    def create_for_devices(cls, model: Model, devices: Sequence[Device]) -> Compilation:
        """Prepare the compilation of a finished model for these devices and no others.

        Raises:
            Error: UNEXPECTED_NULL, BAD_DATA, BAD_STATE or OUT_OF_MEMORY.
        """
        expect(model, Model, "model")
        chosen = listed(devices, "devices")
        if not chosen:
            raise bad_data("there are no devices")
        if any(device is None for device in chosen):
            raise null("a device")
        if len({id(device) for device in chosen}) != len(chosen):
            raise bad_data("a device is listed twice")
        for device in chosen:
            if all(device is not known for known in all_devices()):
                raise bad_data(f"{shown(device)} is none of the devices")
        made = cls.create(model)
        made.devices = chosen
        return made

    def free(self: Compilation | None) -> None:
        """Do nothing: a compilation goes when nothing refers to it any more."""

    # ---------------------------------------------------------------- settings

    def _demand_open(self) -> None:
        if self._finished:
            raise bad_state("the compilation is finished")

    @call
    def set_preference(self, preference: int) -> None:
        """Say what to favour.

        Raises:
            Error: BAD_STATE or BAD_DATA.
        """
        self._demand_open()
        code = integer(preference, "the preference")
        if code not in PreferenceCode.__members__.values():
            raise bad_data(f"there is no preference {code}")
        self.preference = PreferenceCode(code)

    @call
    def set_priority(self, priority: int) -> None:
        """Say how important it is beside others of the program.

        Raises:
            Error: BAD_STATE or BAD_DATA.
        """
        self._demand_open()
        code = integer(priority, "the priority")
        if code not in PriorityCode.__members__.values():
            raise bad_data(f"there is no priority {code}")
        self.priority = PriorityCode(code)

    @call
    def set_timeout(self, duration: int) -> None:
        """Say how many nanoseconds ``finish`` may take; 0: as long as it likes.

        Raises:
            Error: BAD_STATE or BAD_DATA.
        """
        self._demand_open()
        if len(self.devices) != 1:
            raise bad_data("a timeout needs a compilation for exactly one chosen device")
        self._timeout = integer(duration, "the duration", low=0, high=MOST_NANOSECONDS)

    @call
    def set_caching(self, cache_dir: str | os.PathLike[str], token: Buffer) -> None:
        """Say where compiled models are kept, and what to call this one.

        Args:
            cache_dir: a folder.
            token: 32 bytes, different for every model (and everything else that matters).

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE, or BAD_DATA for a token of another length.
        """
        expect(cache_dir, object, "cache_dir")
        expect(token, object, "token")
        self._demand_open()
        data = bytes_of(token, "the token").tobytes()
        if len(data) != BYTE_SIZE_OF_CACHE_TOKEN:
            raise bad_data(
                f"the token has {plural(len(data), 'byte')}, must have {BYTE_SIZE_OF_CACHE_TOKEN}"
            )
        try:
            self._caching = (os.fsdecode(cache_dir), data)
        except TypeError as error:
            raise bad_data(f"the folder is {shown(cache_dir)}, must be a path") from error

    # ---------------------------------------------------------------- finishing

    @call
    def finish(self) -> None:
        """Compile the model; from then on threads may share the compilation.

        Raises:
            Error: BAD_STATE; BAD_DATA, no device runs it; MISSED_DEADLINE_PERSISTENT.
        """
        self._demand_open()
        start = time.monotonic_ns()
        self._finished = True
        source = ModelSource(self.model.wire)
        slot = None
        if self._caching is not None:
            folder, token = self._caching
            slot = CacheSlot(folder, token + bytes([self.preference]), self.model.fingerprint())
        names = [device.get_name() for device in self.devices or all_devices()]
        program = Program(source, names, cache=slot)
        self._demand_time(start)
        try:
            program.prepare()
        except NoDeviceError as error:
            raise bad_data(f"no device runs the model: {error}") from error
        except NnconvError as error:
            raise Error(ResultCode.OP_FAILED, str(error)) from error
        self._demand_time(start)
        self._program = program

    def _demand_time(self, start: int) -> None:
        if self._timeout and time.monotonic_ns() - start >= self._timeout:
            raise Error(
                ResultCode.MISSED_DEADLINE_PERSISTENT,
                f"the compilation took longer than {self._timeout} ns",
            )

    # ---------------------------------------------------------------- what a finished one tells

    @property
    def is_usable(self) -> bool:
        """Whether it was finished without an error."""
        return self._program is not None

    @property
    def program(self) -> Program:
        """The compiled model.

        Raises:
            Error: BAD_STATE.
        """
        if self._program is None:
            raise bad_state("the compilation isn't finished")
        return self._program

    @call
    def get_preferred_memory_alignment_for_input(self, index: int) -> int:
        """What the address of an input's buffer should be a multiple of, in bytes.

        Raises:
            Error: BAD_STATE or BAD_DATA.
        """
        return self._preferred(index, self.model.graph.inputs, "input")

    @call
    def get_preferred_memory_alignment_for_output(self, index: int) -> int:
        """What the address of an output's buffer should be a multiple of, in bytes.

        Raises:
            Error: BAD_STATE or BAD_DATA.
        """
        return self._preferred(index, self.model.graph.outputs, "output")

    @call
    def get_preferred_memory_padding_for_input(self, index: int) -> int:
        """What the length of an input's buffer should be a multiple of, in bytes.

        Raises:
            Error: BAD_STATE or BAD_DATA.
        """
        return self._preferred(index, self.model.graph.inputs, "input")

    @call
    def get_preferred_memory_padding_for_output(self, index: int) -> int:
        """What the length of an output's buffer should be a multiple of, in bytes.

        Raises:
            Error: BAD_STATE or BAD_DATA.
        """
        return self._preferred(index, self.model.graph.outputs, "output")

    def _preferred(self, index: int, ends: Sequence[int], what: str) -> int:
        if not self.is_usable:
            raise bad_state("the compilation isn't finished")
        index_of(index, len(ends), what)
        return ALIGNMENT


class Burst:
    """A row of executions of one compilation, one after the other.

    Attributes:
        compilation: the compilation.
        lock: held by the execution that runs.
    """

    def __init__(self, compilation: Compilation) -> None:
        """Make a burst.

        Raises:
            Error: UNEXPECTED_NULL or BAD_STATE.
        """
        expect(compilation, Compilation, "compilation")
        if not compilation.is_usable:
            raise bad_state("the compilation isn't finished")
        self.compilation = compilation
        self.lock = threading.Lock()

    @classmethod
    @call
    def create(cls, compilation: Compilation) -> Burst:
        """The same as the constructor.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or OUT_OF_MEMORY.
        """
        return cls(compilation)

    def free(self: Burst | None) -> None:
        """Do nothing: a burst goes when nothing refers to it any more."""
