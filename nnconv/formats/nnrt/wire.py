"""NNRt models as plain objects: what the API's calls build, in its own terms.

The classes know nothing of the IR and check nothing when made: :mod:`nnconv.formats.nnrt.check`
tells whether a model keeps the rules of NNRt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.nnrt.types import NEWEST, NUMPY, DataType, OperationType, TensorType

BITS = 8
"""The only width of quantized numbers."""


class QuantParams:
    """How numbers stand for real ones: one set for all elements, or one per channel.

    Which dimension the channels are isn't said; of a convolution's weights it is the first.

    Attributes:
        scales: float64 numbers.
        zero_points: as many.
        bits: as many widths of the numbers, all 8 in a model that keeps the rules.
    """

    __slots__ = ("bits", "scales", "zero_points")

    def __init__(
        self,
        scales: Sequence[float],
        zero_points: Sequence[int],
        bits: Sequence[int] | None = None,
    ) -> None:
        self.scales = tuple(scales)
        self.zero_points = tuple(zero_points)
        self.bits = (BITS,) * len(self.scales) if bits is None else tuple(bits)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantParams):
            return NotImplemented
        return (self.scales, self.zero_points, self.bits) == (
            other.scales,
            other.zero_points,
            other.bits,
        )

    def __hash__(self) -> int:
        return hash((self.scales, self.zero_points, self.bits))

    def __repr__(self) -> str:
        return f"QuantParams({self.scales}, {self.zero_points})"


class Tensor:
    """A tensor of a graph: data, or a parameter of an operation.

    Attributes:
        data_type: the type of its elements.
        dimensions: the extents, -1 where one isn't known; ``()`` for a single element.
        type: ``TENSOR`` for data, else which parameter it is.
        quant: how its numbers stand for real ones; None if they are themselves.
        data: the elements of a constant (the type's numpy type, ``dimensions`` as shape), never to
            be changed in place. Else None.
        name: what a file calls it; may be empty.
    """

    __slots__ = ("data", "data_type", "dimensions", "name", "quant", "type")

    def __init__(
        self,
        data_type: DataType,
        dimensions: Sequence[int] = (),
        *,
        type: TensorType = TensorType.TENSOR,
        quant: QuantParams | None = None,
        data: np.ndarray | None = None,
        name: str = "",
    ) -> None:
        self.data_type = data_type
        self.dimensions = tuple(dimensions)
        self.type = type
        self.quant = quant
        self.data = data
        self.name = name

    @property
    def rank(self) -> int:
        """How many dimensions."""
        return len(self.dimensions)

    @property
    def is_param(self) -> bool:
        """Whether it is a parameter rather than data."""
        return self.type is not TensorType.TENSOR

    @property
    def is_known(self) -> bool:
        """Whether every extent is known."""
        return all(extent >= 0 for extent in self.dimensions)

    @property
    def count(self) -> int:
        """How many elements; 0 where an extent isn't known."""
        if not self.is_known:
            return 0
        count = 1
        for extent in self.dimensions:
            count *= extent
        return count

    @property
    def nbytes(self) -> int:
        """How many bytes the elements take; 0 where an extent or the type isn't known."""
        found = NUMPY.get(self.data_type)
        return 0 if found is None else self.count * found.itemsize

    def __repr__(self) -> str:
        kind = self.type.name if self.is_param else ""
        return f"<Tensor {kind} {self.data_type.name} {list(self.dimensions)} {self.name}>"


class Operation:
    """An operation of a graph.

    Attributes:
        type: what it does.
        params: indices of its parameters' tensors, in any order.
        inputs, outputs: indices of tensors, by position.
    """

    __slots__ = ("inputs", "outputs", "params", "type")

    def __init__(
        self,
        type: OperationType,
        params: Sequence[int],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> None:
        self.type = type
        self.params = tuple(params)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    def __repr__(self) -> str:
        return f"<Operation {self.type.name} {self.params} {self.inputs} -> {self.outputs}>"


class Graph:
    """Tensors and operations: a model.

    Attributes:
        tensors: all tensors; what refers to one gives its index.
        operations: in any order; ``findings.run_order`` gives one to run them in.
        inputs, outputs: indices of tensors.
        api: the version of the API, 1 or 2, that says what parameters left out mean.
        name: for people.
    """

    __slots__ = ("api", "inputs", "name", "operations", "outputs", "tensors")

    def __init__(
        self,
        tensors: Sequence[Tensor] = (),
        operations: Sequence[Operation] = (),
        inputs: Sequence[int] = (),
        outputs: Sequence[int] = (),
        *,
        api: int = NEWEST,
        name: str = "",
    ) -> None:
        self.tensors = list(tensors)
        self.operations = list(operations)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.api = api
        self.name = name

    def __repr__(self) -> str:
        return f"<Graph {self.name} {len(self.operations)} operations>"
