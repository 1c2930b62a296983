"""What a .tflite file holds, told from the file alone: it needs no op to be known."""

from __future__ import annotations

import os

from nnconv.formats.summary import EntrySummary, Summary, TensorSummary
from nnconv.formats.tflite import wire
from nnconv.formats.tflite.reader import EntryPoint, entry_points
from nnconv.formats.tflite.types import dtype_of, quant_of


def summarize(path: str | os.PathLike[str]) -> Summary:
    """Look a file over.

    Raises:
        InvalidModelError: the file can't be read, or breaks the format.
    """
    file = wire.read(path)
    counts: dict[str, int] = {}
    buffers: set[int] = set()
    for subgraph in file.subgraphs:
        for op in subgraph.operators:
            name = op.custom_code or op.name
            counts[name] = counts.get(name, 0) + 1
        buffers.update(tensor.buffer for tensor in subgraph.tensors)
    contents = [content for content in map(file.buffer, buffers) if content is not None]
    return Summary(
        format="tflite",
        description=file.description,
        entries=[_entry(file, entry) for entry in entry_points(file)],
        ops=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        constants=len(contents),
        constant_bytes=sum(len(content) for content in contents),
        metadata={name: len(content) for name, content in sorted(file.metadata.items())},
    )


def _entry(file: wire.File, entry: EntryPoint) -> EntrySummary:
    subgraph = file.subgraphs[entry.subgraph]
    tensors = subgraph.tensors

    def describe(tensor: wire.Tensor) -> TensorSummary:
        extents = tensor.signature or tensor.shape
        shape = tuple(None if extent < 0 else extent for extent in extents)
        quant = quant_of(file, subgraph, tensor)
        return TensorSummary(tensor.name, dtype_of(tensor), shape, quant)

    pairs = [(tensors[index].name, name) for name, index in (*entry.inputs, *entry.outputs)]
    return EntrySummary(
        key=entry.key,
        inputs=[describe(tensors[index]) for index in subgraph.inputs],
        outputs=[describe(tensors[index]) for index in subgraph.outputs],
        called={tensor: name for tensor, name in pairs if tensor != name},
        variables=[describe(tensor) for tensor in tensors if tensor.is_variable],
    )
