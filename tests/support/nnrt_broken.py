"""NNRt models that differ from sound ones in one place, most of which break a rule thereby."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nnconv.formats.nnrt.types import NUMPY, DataType
from nnconv.formats.nnrt.wire import Graph, Operation, QuantParams, Tensor

NUMBERS = (0, -1, -99, 3, 99)
"""What parameters and whole constants are filled with."""


def variations(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Models of one operation that differ in a tensor or in the list of tensors."""
    (operation,) = graph.operations
    for index, tensor in enumerate(graph.tensors):
        place = f"tensor {index} ({tensor.type.name})"
        for dimensions in _shapes(tensor):
            yield f"{place} {list(dimensions)}", changed(graph, index, dimensions=dimensions)
        other = DataType.FLOAT16 if tensor.data_type is DataType.INT8 else DataType.INT8
        yield f"{place} of {other.name}", changed(graph, index, data_type=other)
        quant = QuantParams([0.5], [3]) if tensor.quant is None else None
        yield f"{place} with {quant}", changed(graph, index, quant=quant)
        if tensor.data is None:
            continue
        yield f"{place} without data", changed(graph, index, data=None)
        if tensor.is_param or tensor.data.dtype.kind in "iu":
            for number in NUMBERS:
                data = np.full(tensor.data.shape, number).astype(tensor.data.dtype)
                if (data != tensor.data).any():
                    yield f"{place} of {number}", changed(graph, index, data=data)
    for side in ("params", "inputs", "outputs"):
        listed = getattr(operation, side)
        if listed:
            yield f"{side} but the last", relisted(graph, **{side: listed[:-1]})
            yield f"{side} and the last again", relisted(graph, **{side: (*listed, listed[-1])})


def _shapes(tensor: Tensor) -> Iterator[tuple[int, ...]]:
    shape = tensor.dimensions
    for axis, extent in enumerate(shape):
        yield (*shape[:axis], extent + 1, *shape[axis + 1 :])
    yield (*shape, 1)
    if shape:
        yield shape[1:]
        if tensor.data is None:
            yield (-1, *shape[1:])


def changed(graph: Graph, index: int, **changes: Any) -> Graph:
    """The model with a tensor that differs; a constant is fitted to its dimensions and type."""
    tensors = list(graph.tensors)
    old = tensors[index]
    kept = {name: getattr(old, name) for name in ("quant", "data", "type", "name")}
    kind = changes.pop("data_type", old.data_type)
    shape = changes.pop("dimensions", old.dimensions)
    new = tensors[index] = Tensor(kind, shape, **(kept | changes))
    if new.data is not None and min(shape, default=1) >= 0:
        new.data = np.resize(new.data, shape).astype(NUMPY[kind])
    return _with(graph, tensors, graph.operations[0])


def relisted(graph: Graph, **sides: tuple[int, ...]) -> Graph:
    """The model whose operation lists other tensors."""
    (old,) = graph.operations
    lists = {side: getattr(old, side) for side in ("params", "inputs", "outputs")} | sides
    return _with(graph, list(graph.tensors), Operation(old.type, **lists))


def _with(graph: Graph, tensors: list[Tensor], operation: Operation) -> Graph:
    read = {*operation.inputs, *operation.params}
    inputs = [index for index in graph.inputs if index in read]
    return Graph(tensors, [operation], inputs, operation.outputs, name=graph.name, api=graph.api)
