"""Running a program on what an execution was given."""

from __future__ import annotations

import time
from collections.abc import Callable

from nnconv.backends import Limits
from nnconv.formats.nnapi.types import ResultCode
from nnconv.runtime.core.program import Program
from nnconv.runtime.nnapi.arguments import Arguments
from nnconv.runtime.nnapi.errors import Error


class Runner:
    """A program with the arguments of an execution, and what the last run gave.

    Attributes:
        shapes: of the outputs; empty where the run failed before there were any.
        short: the outputs for which there was too little room.
        on_hardware: the nanoseconds that computing took.
        in_driver: the nanoseconds that all of it took.
    """

    def __init__(self, program: Program, arguments: Arguments) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.short: set[int] = set()
        self.on_hardware = self.in_driver = 0
        self._program = program
        self._arguments = arguments
        self._bound: Callable[[], None] | None = None
        self._bound_shapes: list[tuple[int, ...]] = []

    def run(self, limits: Limits | None) -> None:
        """Compute, and write the outputs.

        Raises:
            Error: BAD_DATA, OP_FAILED, OUTPUT_INSUFFICIENT_SIZE or UNMAPPABLE.
            NnconvError: the device fails.
        """
        start = time.monotonic_ns()
        self.shapes, self.short = [], set()
        if self._bound is None or limits is not None:
            self._arguments.check_set()
            self._arguments.check_content()
        bound = self._quick_way() if limits is None else None
        if bound is None:
            self._run_slowly(limits)
        else:
            begun = time.monotonic_ns()
            bound()
            self.on_hardware = time.monotonic_ns() - begun
            self.shapes = self._bound_shapes
        self.in_driver = time.monotonic_ns() - start

    def _quick_way(self) -> Callable[[], None] | None:
        """What runs on buffers bound once, if all can be; from then on nothing given changes."""
        if self._bound is None and (plain := self._arguments.plain()) is not None:
            self._bound = self._program.bind(*plain)
            self._bound_shapes = [target.shape for target in plain[1]]
        return self._bound

    def _run_slowly(self, limits: Limits | None) -> None:
        outputs = self._arguments.outputs()
        arrays = [argument.read() for argument in self._arguments.inputs()]
        begun = time.monotonic_ns()
        results = self._program.run(arrays, limits)
        self.on_hardware = time.monotonic_ns() - begun
        self.shapes = [result.shape for result in results]
        for index, (argument, result) in enumerate(zip(outputs, results, strict=True)):
            if not argument.write(result):
                self.short.add(index)
        if self.short:
            listed = ", ".join(f"{i} needs {list(self.shapes[i])}" for i in sorted(self.short))
            raise Error(
                ResultCode.OUTPUT_INSUFFICIENT_SIZE, f"there is too little room: output {listed}"
            )
