"""Reading a .tflite file into the IR: entry points, their graphs, their states."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from nnconv.errors import UnsupportedError, UnsupportedItem
from nnconv.formats.tflite import wire
from nnconv.formats.tflite.importer import SubgraphImport
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
        input_shapes: shapes that take the place of the file's, by input name (the tensor's or the signature's).
        name: what errors call the file; the path if it is empty.

    Raises:
        InvalidModelError: the file is broken.
        UnsupportedError: it has ops that can't be imported; all of them are listed.
    """
    file = wire.read(source, name)
    unsupported: list[UnsupportedItem] = []
    signatures = [
        _import_entry(file, entry, input_shapes or {}, unsupported) for entry in _entries(file)
    ]
    if unsupported:
        raise UnsupportedError(dict.fromkeys(unsupported), path=file.path)
    return Model(
        signatures=signatures,
        format="tflite",
        source=os.fspath(Path(source)) if isinstance(source, str | os.PathLike) else name,
        metadata={key: data.tobytes() for key, data in file.metadata.items()},
        description=file.description,
    )


class _Entry:
    """An entry point: a signature, or the main subgraph of a file that has none."""

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


def _entries(file: wire.File) -> list[_Entry]:
    entries = [_Entry(s.key, s.subgraph, s.inputs, s.outputs) for s in file.signatures]
    if not any(entry.subgraph == 0 for entry in entries):
        entries.insert(0, _Entry("", 0, (), ()))
    return entries


def _import_entry(
    file: wire.File,
    entry: _Entry,
    input_shapes: Mapping[str, Shape],
    unsupported: list[UnsupportedItem],
) -> Signature:
    subgraph = file.subgraphs[entry.subgraph]
    by_index = {index: name for name, index in entry.inputs}
    shapes: dict[str, Shape] = {}
    for index in subgraph.inputs:
        tensor = subgraph.tensors[index]
        for label in (tensor.name, by_index.get(index)):
            if label in input_shapes:
                shapes[tensor.name] = input_shapes[label]
    scope = SubgraphImport(file, entry.subgraph, shapes=shapes)
    graph = scope.run()
    unsupported += scope.unsupported
    out_index = {index: name for name, index in entry.outputs}
    return Signature(
        entry.key,
        graph,
        input_names=tuple(by_index.get(i, subgraph.tensors[i].name) for i in subgraph.inputs),
        output_names=tuple(out_index.get(i, subgraph.tensors[i].name) for i in subgraph.outputs),
        states=tuple(scope.states),
    )
