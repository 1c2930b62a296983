"""Importing an NNRt model: what stands for its tensors, and its operations in running order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnconv.errors import plural
from nnconv.formats.calls import StepImport
from nnconv.formats.findings import BrokenModelError, Finding
from nnconv.formats.nnrt.importer import Source, importers
from nnconv.formats.nnrt.table import match
from nnconv.formats.nnrt.types import DTYPES, OperationType
from nnconv.formats.nnrt.wire import Graph as WireGraph
from nnconv.formats.nnrt.wire import Operation
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType


class GraphImport(StepImport):
    """A model being imported.

    Attributes:
        source: the model as it is.
    """

    format = "nnrt"

    def __init__(
        self,
        source: WireGraph,
        *,
        path: str = "",
        first: int = 0,
        shapes: Mapping[int, Shape] | None = None,
    ) -> None:
        """Prepare the import; ``shapes`` take the place of inputs' dimensions."""
        super().__init__(source.name, path=path, label="", first=first)
        self.source = source
        self._shapes = shapes or {}
        self._axes = _channel_axes(source)
        ends = [(index, f"input{n}") for n, index in enumerate(source.inputs)]
        ends += [(index, f"output{n}") for n, index in enumerate(source.outputs)]
        self._names = {index: source.tensors[index].name or name for index, name in ends}
        self._binding = frozenset(source.outputs)

    def run(self) -> Graph:
        """Import every operation; what keeps some from that is collected.

        Raises:
            InvalidModelError: when a tensor breaks a rule of NNRt.
        """
        for index in self.source.inputs:
            kind = self.stated(index)
            self.add_input(index, kind.with_shape(self._shapes.get(index, kind.shape)))
        return self.run_steps(self.source.operations, self.source.outputs, importers())

    def source_of(self, operation: Operation, index: int) -> Source:
        """The context of importing an operation."""
        return Source(operation, index, match(operation, self.source), self)

    def name_of(self, index: int) -> str:
        """What the value of a tensor is called."""
        known = self._names.get(index)
        return known or self.source.tensors[index].name or f"tensor{index}"

    def type_of(self, index: int) -> TensorType:
        """What the model says of a tensor.

        Raises:
            InvalidModelError: its parameters don't fit.
        """
        tensor = self.source.tensors[index]
        dtype = DTYPES.get(tensor.data_type)
        if dtype is None:
            raise self._broken(index, "it has no type of elements")
        shape = tuple(None if extent < 0 else extent for extent in tensor.dimensions)
        return TensorType(dtype, shape, self._quant(index, dtype, shape))

    def _quant(self, index: int, dtype: DType, shape: tuple[int | None, ...]) -> Quant | None:
        given = self.source.tensors[index].quant
        if given is None or not dtype.is_integer:
            return None
        with np.errstate(over="ignore"):
            scales = np.asarray(given.scales, np.float64).astype(np.float32)
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise self._broken(index, "it has a scale that isn't above 0")
        if len(given.scales) == 1:
            return Quant.per_tensor(given.scales[0], given.zero_points[0])
        axis = self._axes.get(index, 0)
        extent = shape[axis] if axis < len(shape) else 1
        if extent not in (None, len(given.scales)):
            count = len(given.scales)
            raise self._broken(
                index,
                (
                    f"it has {plural(count, 'scale')} for {plural(extent, 'index', 'indices')} of "
                    f"dimension {axis}"
                ),
            )
        return Quant.per_channel(given.scales, given.zero_points, axis=axis)

    def _broken(self, index: int, message: str) -> BrokenModelError:
        return BrokenModelError([Finding(f"tensor {index}", message)], path=self.path)

    def is_binding(self, index: int) -> bool:
        """Whether the extents that the model states of a result must be right."""
        return index in self._binding

    def data_of(self, index: int) -> np.ndarray | None:
        """The elements of a constant; None for any other tensor."""
        return self.source.tensors[index].data


def _channel_axes(source: WireGraph) -> dict[int, int]:
    """The dimension of tensors' channels, where a QUANT_DTYPE_CAST tells it."""
    axes = {}
    for operation in source.operations:
        if operation.type is OperationType.QUANT_DTYPE_CAST:
            place = match(operation, source).params.get("axis")
            data = None if place is None else source.tensors[place].data
            axis = 0 if data is None or not data.size else int(data.reshape(-1)[0])
            for index in (*operation.inputs, *operation.outputs):
                rank = source.tensors[index].rank
                if -rank <= axis < rank:
                    axes[index] = axis % rank
    return axes
