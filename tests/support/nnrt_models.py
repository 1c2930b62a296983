"""Small NNRt models for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.formats.nnrt.table import spec_of
from nnconv.formats.nnrt.types import NUMPY, DataType, OperationType
from nnconv.formats.nnrt.wire import Graph, Operation, QuantParams, Tensor


class GraphBuilder:
    """Builds a graph step by step.

    Attributes:
        graph: what is being built.
    """

    def __init__(self, api: int = 2) -> None:
        self.graph = Graph(api=api)

    def data(
        self,
        dimensions: Sequence[int],
        kind: str = "FLOAT32",
        *,
        value: Any = None,
        quant: QuantParams | None = None,
        name: str = "",
    ) -> int:
        """A tensor of data, with a value if it is a constant."""
        dtype = DataType[kind]
        array = None if value is None else np.asarray(value, NUMPY[dtype]).reshape(dimensions)
        return self._add(Tensor(dtype, dimensions, quant=quant, data=array, name=name))

    def input(self, dimensions: Sequence[int], kind: str = "FLOAT32", **more: Any) -> int:
        """A tensor of data that is an input of the model."""
        index = self.data(dimensions, kind, **more)
        self.graph.inputs += (index,)
        return index

    def output(self, dimensions: Sequence[int], kind: str = "FLOAT32", **more: Any) -> int:
        """A tensor of data that is an output of the model."""
        index = self.data(dimensions, kind, **more)
        self.graph.outputs += (index,)
        return index

    def param(self, op: str, name: str, value: Any, shape: Sequence[int] | None = None) -> int:
        """A parameter of an operation."""
        spec = spec_of(OperationType[op]).params[name]
        dtype = spec.dtype(self.graph.api)
        array = np.asarray(value, NUMPY[dtype])
        array = array if shape is None else array.reshape(shape)
        return self._add(Tensor(dtype, array.shape, type=spec.type, data=array))

    def op(
        self, op: str, inputs: Sequence[int], outputs: Sequence[int], params: Sequence[int] = ()
    ) -> None:
        """An operation."""
        operation = Operation(OperationType[op], params, inputs, outputs)
        self.graph.operations.append(operation)

    def _add(self, tensor: Tensor) -> int:
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1


def add_model(activation: int = 1) -> Graph:
    """The sum of an input and a constant."""
    b = GraphBuilder()
    x, y = b.input((2, 3), name="x"), b.data((3,), value=[1.0, -2.5, 0.1])
    b.op(
        "ADD", [x, y], [b.output((2, 3), name="y")], [b.param("ADD", "activationType", activation)]
    )
    return b.graph


def conv_model(*, quantized: bool = False, size: int = 5) -> Graph:
    """A convolution, then a pool."""
    b, rng = GraphBuilder(), np.random.default_rng(3)
    kind = "INT8" if quantized else "FLOAT32"
    data = QuantParams([0.05], [3]) if quantized else None
    weights = QuantParams([0.01, 0.02, 0.03, 0.04], [0] * 4) if quantized else None
    image = b.input((1, size, size, 2), kind, quant=data, name="image")
    w = b.data((4, 3, 3, 2), kind, value=rng.integers(-9, 9, (4, 3, 3, 2)), quant=weights)
    bias = b.data((4,), "INT32" if quantized else "FLOAT32", value=[1, 2, 3, 4])
    middle = b.data((1, size, size, 4), kind, quant=data)
    names = {"stride": (1, 1), "dilation": (1, 1), "padMode": 0, "activationType": 2}
    b.op("CONV2D", [image, w, bias], [middle], [b.param("CONV2D", *p) for p in names.items()])
    half = -(-size // 2)
    pooled = b.output((1, half, half, 4), kind, quant=data, name="pooled")
    names = {"kernelSize": (2, 2), "strides": (2, 2), "padMode": 0}
    b.op("MAX_POOL", [middle], [pooled], [b.param("MAX_POOL", *p) for p in names.items()])
    return b.graph
