"""Running a program from arrays into bytes, for executors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nnconv.errors import NnconvError, plural
from nnconv.formats.nnrt.types import NUMPY, V1, ReturnCode
from nnconv.formats.nnrt.wire import Tensor
from nnconv.runtime.core.program import Program
from nnconv.runtime.nnrt.desc import MOST_DIMS
from nnconv.runtime.nnrt.errors import Error, invalid, unavailable


class _Bound(NamedTuple):
    """A quick way to run.

    Attributes:
        key: what it is for.
        run: runs once.
        shapes: of the outputs.
    """

    key: tuple[Any, ...] | None
    run: Callable[[], None]
    shapes: list[tuple[int, ...]]


class Runner:
    """A program with what a model declares of its outputs."""

    def __init__(self, program: Program, outputs: Sequence[Tensor], api: int) -> None:
        self._program = program
        self._outputs = outputs
        self._api = api
        self._bound: _Bound | None = None

    def forget(self) -> None:
        """Look anew for a quick way in the next run."""
        self._bound = None

    def run_again(self, key: tuple[Any, ...]) -> list[tuple[int, ...]] | None:
        """Run once more on the same arrays and rooms; None where they aren't the same.

        Args:
            key: what tells them from others.

        Raises:
            Error: as for ``run``.
        """
        bound = self._bound
        if bound is None or bound.key != key:
            return None
        try:
            bound.run()
        except NnconvError as error:
            raise self._broken(error) from error
        return bound.shapes

    def run(
        self,
        arrays: list[np.ndarray],
        rooms: list[np.ndarray],
        short: ReturnCode,
        key: tuple[Any, ...] | None,
    ) -> list[tuple[int, ...]]:
        """Run once; gives the outputs' shapes.

        Args:
            arrays: the inputs.
            rooms: the bytes that each output goes to.
            short: what a room that is too small gives.
            key: what tells these arrays and rooms from others.

        Raises:
            Error: with ``short``, or UNAVAILABLE_DEVICE (in API v1 UNAVALIDABLE_DEVICE) where the
                run fails.
        """
        try:
            self._bound = self._bind(arrays, rooms, key)
            if self._bound is not None:
                self._bound.run()
                return self._bound.shapes
            results = self._program.run(arrays)
        except NnconvError as error:
            raise self._broken(error) from error
        self._check(results)
        for place, (result, room) in enumerate(zip(results, rooms, strict=True)):
            if result.nbytes > len(room):
                raise Error(
                    short,
                    (
                        f"output {place} takes {plural(result.nbytes, 'byte')}, there is room for "
                        f"{len(room)}"
                    ),
                )
        for tensor, result, room in zip(self._outputs, results, rooms, strict=True):
            flat = np.ascontiguousarray(result, NUMPY[tensor.data_type]).reshape(-1)
            room[: flat.nbytes] = flat.view(np.uint8)
        return [result.shape for result in results]

    def _broken(self, error: NnconvError) -> Error:
        """The error for a device that fails."""
        return unavailable(str(error), self._api)

    def _bind(
        self, arrays: list[np.ndarray], rooms: list[np.ndarray], key: tuple[Any, ...] | None
    ) -> _Bound | None:
        """A quick way to run, where all outputs have known shapes and enough room."""
        declared = self._outputs
        if not all(
            tensor.dimensions and tensor.is_known and tensor.nbytes <= len(room)
            for tensor, room in zip(declared, rooms, strict=True)
        ):
            return None
        shapes = [tensor.dimensions for tensor in declared]
        targets = [
            typed(room, tensor, tensor.dimensions)
            for tensor, room in zip(declared, rooms, strict=True)
        ]
        run = self._program.bind(arrays, targets)
        return None if run is None else _Bound(key, run, shapes)

    def _check(self, results: Sequence[np.ndarray]) -> None:
        declared = self._outputs
        if len(results) != len(declared):
            raise invalid(f"the device gave {plural(len(results), 'output')}, not {len(declared)}")
        for place, (result, tensor) in enumerate(zip(results, declared, strict=True)):
            shape = result.shape
            if len(shape) != tensor.rank or 0 in shape:
                raise invalid(
                    f"output {place} has the dimensions {list(shape)}, "
                    f"declared are {list(tensor.dimensions)}"
                )
            if self._api != V1 and not 1 <= len(shape) <= MOST_DIMS:
                raise invalid(f"output {place} has {plural(len(shape), 'dimension')}")


def typed(data: np.ndarray, tensor: Tensor, shape: tuple[int, ...]) -> np.ndarray:
    """Bytes as elements of a tensor's type; what lies behind the last one is left aside.

    Raises:
        Error: UNAVAILABLE_DEVICE, there are too few.
    """
    kind = NUMPY[tensor.data_type]
    size = math.prod(shape) * kind.itemsize
    if size > len(data):
        text = f"{plural(len(data), 'byte')}, {list(shape)} of {tensor.data_type.name} take {size}"
        raise Error(ReturnCode.UNAVAILABLE_DEVICE, text)
    return data[:size].view(kind).reshape(shape)
