"""Reading a .tflite file into the IR: entry points, their graphs, their states."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from nnconv.errors import UnsupportedError, UnsupportedItem
from nnconv.formats.tflite import wire
from nnconv.formats.tflite.subgraph import SubgraphImport
from nnconv.formats.tflite.variables import FileVariables
from nnconv.ir.graph import Model, Signature
from nnconv.ir.types import Shape


def read(
    source: str | os.PathLike[str] | bytes,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
    name: str = "",
) -> Model:
    """Read a model; its weights stay in the file's memory map.

    Args:
        source: a path, or the bytes of a file.
        input_shapes: shapes that take the place of the file's, by input name (the tensor's or the
            signature's).
        name: what errors call the file; the path if it is empty.

    Raises:
        InvalidModelError: the file is broken.
        UnsupportedError: it has ops that can't be imported; all of them are listed.
    """
    file = wire.read(source, name)
    shared = FileVariables()
    widened = True
    while widened:  # again where a variable turned out to change its shape
        shared.widened = False
        unsupported: list[UnsupportedItem] = []
        signatures = [
            _import_entry(file, entry, input_shapes or {}, unsupported, shared)
            for entry in entry_points(file)
        ]
        widened = shared.widened and not unsupported
    if unsupported:
        raise UnsupportedError(dict.fromkeys(unsupported), path=file.path)
    return Model(
        signatures=signatures,
        format="tflite",
        source=os.fspath(Path(source)) if isinstance(source, str | os.PathLike) else name,
        metadata={key: data.tobytes() for key, data in file.metadata.items()},
        description=file.description,
    )


class EntryPoint:
    """An entry point: a signature, or the main subgraph of a file that has none.

    Attributes:
        key: the signature's name; empty for the main subgraph.
        subgraph: index of the subgraph that it runs.
        inputs: (name, tensor index) of what the signature calls its inputs.
        outputs: (name, tensor index) of what the signature calls its outputs.
    """

    def __init__(
        self,
        key: str,
        subgraph: int,
        inputs: tuple[tuple[str, int], ...],
        outputs: tuple[tuple[str, int], ...],
    ) -> None:
        self.key = key
        self.subgraph = subgraph
        self.inputs = inputs
        self.outputs = outputs


def entry_points(file: wire.File) -> list[EntryPoint]:
    """The entry points of a file, in the order in which ``read`` gives them."""
    entries = [EntryPoint(s.key, s.subgraph, s.inputs, s.outputs) for s in file.signatures]
    if not any(entry.subgraph == 0 for entry in entries):
        entries.insert(0, EntryPoint("", 0, (), ()))
    return entries


def _import_entry(
    file: wire.File,
    entry: EntryPoint,
    input_shapes: Mapping[str, Shape],
    unsupported: list[UnsupportedItem],
    shared: FileVariables,
) -> Signature:
    subgraph = file.subgraphs[entry.subgraph]
    by_index = {index: name for name, index in entry.inputs}
    shapes: dict[str, Shape] = {}
    for index in subgraph.inputs:
        tensor = subgraph.tensors[index]
        for label in (tensor.name, by_index.get(index, tensor.name)):
            if label in input_shapes:
                shapes[tensor.name] = input_shapes[label]
    scope = SubgraphImport(file, entry.subgraph, shapes=shapes, shared=shared)
    graph = scope.run()
    scope.variables.close(graph)
    unsupported += scope.unsupported
    out_index = {index: name for name, index in entry.outputs}
    return Signature(
        entry.key,
        graph,
        input_names=tuple(by_index.get(i, subgraph.tensors[i].name) for i in subgraph.inputs),
        output_names=tuple(out_index.get(i, subgraph.tensors[i].name) for i in subgraph.outputs),
        states=tuple(scope.variables.states()),
    )
