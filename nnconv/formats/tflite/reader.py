"""Reading a .tflite file into the IR: entry points, their graphs, their states."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from nnconv.errors import InvalidModelError, UnsupportedError, UnsupportedItem, UsageError
from nnconv.formats.hints import naming
from nnconv.formats.tflite import wire
from nnconv.formats.tflite.subgraph import SubgraphImport
from nnconv.formats.tflite.variables import FileVariables
from nnconv.ir.graph import Model, Signature
from nnconv.ir.types import Shape

LARGEST_EXTENT = (1 << 31) - 1
"""Extents are int32 in the file."""


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
        UsageError: shapes that don't suit the file.
    """
    file = wire.read(source, name)
    shapes = _checked_shapes(file, input_shapes or {})
    try:
        signatures = _import_entries(file, shapes)
    except InvalidModelError as error:
        if not shapes:
            raise
        _import_entries(file, {})  # what is wrong with the file's own shapes is the file's fault
        raise UsageError(
            f"with the shapes given for {', '.join(map(repr, shapes))}: {error.message}"
        ) from error
    return Model(
        signatures=signatures,
        format="tflite",
        source=os.fspath(Path(source)) if isinstance(source, str | os.PathLike) else name,
        metadata={key: data.tobytes() for key, data in file.metadata.items()},
        description=file.description,
    )


def _checked_shapes(file: wire.File, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """``input_shapes``, if it names inputs and gives each what a shape can be."""
    if not isinstance(shapes, Mapping):
        raise UsageError(f"input_shapes is {shapes!r}, must be shapes by input name")
    known: dict[str, None] = {}
    for entry in entry_points(file):
        subgraph = file.subgraphs[entry.subgraph]
        known.update((subgraph.tensors[index].name, None) for index in subgraph.inputs)
        known.update((name, None) for name, _ in entry.inputs)
    if wrong := [name for name in shapes if name not in known]:
        raise UsageError(
            f"input_shapes: there is no input {', '.join(map(repr, wrong))}; "
            f"the model's inputs are {', '.join(map(repr, known)) or 'none'}"
        )
    return {
        name: None if shape is None else _checked_shape(name, shape)
        for name, shape in shapes.items()
    }


def _checked_shape(name: str, shape: Sequence[int | str | None]) -> Shape:
    if isinstance(shape, str) or not hasattr(shape, "__iter__"):
        raise UsageError(f"input_shapes: the shape of {name!r} is {shape!r}, must be a tuple")
    extents: list[int | str | None] = []
    for dim in shape:
        if dim is None or isinstance(dim, str):
            extents.append(dim)
            continue
        extent = operator.index(dim) if hasattr(dim, "__index__") else -1
        if isinstance(dim, bool) or not 0 <= extent <= LARGEST_EXTENT:
            raise UsageError(
                f"input_shapes: {name!r} has an extent of {dim}; "
                f"allowed are 0 to {LARGEST_EXTENT}, and a name or None for one left open"
            )
        extents.append(extent)
    return tuple(extents)


def _import_entries(file: wire.File, input_shapes: Mapping[str, Shape]) -> list[Signature]:
    shared = FileVariables()
    widened = True
    while widened:  # again where a variable turned out to change its shape
        shared.widened = False
        unsupported: list[UnsupportedItem] = []
        signatures = [
            _import_entry(file, entry, input_shapes, unsupported, shared)
            for entry in entry_points(file)
        ]
        widened = shared.widened and not unsupported
    if unsupported:
        raise UnsupportedError(dict.fromkeys(unsupported), path=file.path)
    return signatures


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
    unsupported += naming(scope.unsupported, graph.inputs)
    out_index = {index: name for name, index in entry.outputs}
    return Signature(
        entry.key,
        graph,
        input_names=tuple(by_index.get(i, subgraph.tensors[i].name) for i in subgraph.inputs),
        output_names=tuple(out_index.get(i, subgraph.tensors[i].name) for i in subgraph.outputs),
        states=tuple(scope.variables.states()),
    )
