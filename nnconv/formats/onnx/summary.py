"""What an ONNX file holds, told from the file alone: it needs no op to be known."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from math import prod

from nnconv.errors import plural
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.content import STORED
from nnconv.formats.onnx.decode import read
from nnconv.formats.onnx.types import DTYPES
from nnconv.formats.summary import EntrySummary, Summary, TensorSummary


def summarize(path: str | os.PathLike[str]) -> Summary:
    """Look a file over; files beside it that hold its weights aren't opened.

    Raises:
        InvalidModelError: the file can't be read, or breaks the format.
    """
    model = read(path)
    counts: dict[str, int] = {}
    tensors = list(model.graph.initializers)
    for node in _nodes(model):
        name = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
        counts[name] = counts.get(name, 0) + 1
        for attribute in node.attributes.values():
            tensors += [item for item in _items(attribute) if isinstance(item, wire.Tensor)]
            for item in _items(attribute):
                tensors += item.initializers if isinstance(item, wire.Graph) else ()
    return Summary(
        format="onnx",
        description=_description(model),
        entries=[_entry(model.graph)],
        ops=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        constants=len(tensors),
        constant_bytes=sum(map(_nbytes, tensors)),
        metadata={name: len(text.encode()) for name, text in sorted(model.metadata.items())},
    )


def _nodes(model: wire.Model) -> Iterator[wire.Node]:
    """The nodes of the graph, of the functions, and of the graphs in those."""
    todo: list[Sequence[wire.Node]] = [model.graph.nodes]
    todo += [function.nodes for function in model.functions]
    while todo:
        for node in todo.pop():
            yield node
            for attribute in node.attributes.values():
                todo += [i.nodes for i in _items(attribute) if isinstance(i, wire.Graph)]


def _items(attribute: wire.AttributeValue) -> Sequence[object]:
    """The tensors or graphs of an attribute, if it has any."""
    value = attribute.value if isinstance(attribute, wire.Attribute) else attribute
    if isinstance(value, tuple):
        return value
    return (value,) if isinstance(value, wire.Tensor | wire.Graph) else ()


def _nbytes(tensor: wire.Tensor) -> int:
    if tensor.dtype is wire.DataType.STRING:
        return sum(len(text.encode(errors="surrogateescape")) for text in tensor.array().flat)
    return (prod(tensor.dims) * STORED[tensor.dtype][1] + 7) // 8


def _description(model: wire.Model) -> str:
    sets = {"ai.onnx": model.opset, **model.extra_opsets}
    opsets = ", ".join(f"{domain} {version}" for domain, version in sets.items() if version)
    producer = f"{model.producer_name} {model.producer_version}".strip()
    facts = [producer, f"IR version {model.ir_version}", f"operator sets {opsets or 'none'}"]
    if model.functions:
        facts.append(plural(len(model.functions), "function"))
    return ", ".join(filter(None, facts))


def _entry(graph: wire.Graph) -> EntrySummary:
    constants = {tensor.name for tensor in graph.initializers}
    return EntrySummary(
        key="",
        # Files of the first IR versions list the weights among the inputs.
        inputs=[_describe(value) for value in graph.inputs if value.name not in constants],
        outputs=[_describe(value) for value in graph.outputs],
        called={},
        variables=[],
    )


def _describe(value: wire.ValueInfo) -> TensorSummary:
    dtype = None if value.dtype is None else DTYPES.get(value.dtype, value.dtype.name.lower())
    shape = None if value.dims is None else tuple(value.dims)
    return TensorSummary(value.name, dtype or value.other or "?", shape, None)
