"""Weights beside the model: what ONNX calls external data.

A protobuf message holds 2 GiB at most. In a model that would be larger, every initializer above a
small size moves to one file next to the model's; the model says name, offset and length.

Source: ExternalDataInfo in https://github.com/onnx/onnx/blob/main/docs/ExternalData.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from nnconv.formats.onnx.payload import tensor_chunks, tensor_nbytes
from nnconv.formats.onnx.wire import Attribute, Graph, Model, Tensor

ALIGNMENT = 4096
"""Each tensor starts at a multiple of it, a page, so that readers can map it into memory."""

MIN_BYTES = 1024
"""Tensors up to this size stay in the model: runtimes look at shapes, axes and scales early."""


def external_tensors(model: Model, min_bytes: int = MIN_BYTES) -> list[tuple[Tensor, int]]:
    """Return the initializers over ``min_bytes`` bytes, subgraphs' too, with their offsets.

    The tensors of attributes stay where they are: not all runtimes follow those elsewhere.
    """
    placed: list[tuple[Tensor, int]] = []
    seen: set[int] = set()
    offset = 0
    for graph in _graphs(model.graph):
        for tensor in graph.initializers:
            nbytes = tensor_nbytes(tensor)
            if nbytes > min_bytes and id(tensor) not in seen:
                seen.add(id(tensor))
                placed.append((tensor, offset))
                offset += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return placed


def write_external(placed: list[tuple[Tensor, int]], file: BinaryIO) -> None:
    """Write the tensors at their offsets, zeros between them."""
    position = 0
    for tensor, offset in placed:
        file.write(bytes(offset - position))
        position = offset
        for chunk in tensor_chunks(tensor):
            position += file.write(chunk)


def _graphs(graph: Graph) -> Iterator[Graph]:
    """Yield ``graph`` and those in its nodes' attributes, at any depth."""
    yield graph
    for node in graph.nodes:
        for value in node.attributes.values():
            item = value.value if isinstance(value, Attribute) else value
            for inner in item if isinstance(item, (list, tuple)) else (item,):
                if isinstance(inner, Graph):
                    yield from _graphs(inner)
