"""Reading an .onnx file into the IR."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence

from nnconv.errors import InvalidModelError, UnsupportedError, UsageError, plural
from nnconv.formats.hints import naming
from nnconv.formats.onnx import decode, wire
from nnconv.formats.onnx.codes import restore_codes
from nnconv.formats.onnx.graph import FileImport, GraphImport
from nnconv.formats.onnx.narrow import narrow_moves
from nnconv.formats.onnx.notes import noted_quants, restore
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.ir.quant import Quant
from nnconv.ir.types import Dim, Shape
from nnconv.ops.quantize import Bitcast

NEWEST_OPSET = 28
"""The newest version of the standard operator set that can be read."""


def read(
    source: str | os.PathLike[str] | bytes,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
    name: str = "",
) -> Model:
    """Read a model; its weights stay in the file's memory map.

    Args:
        source: a path, or the bytes of a file.
        input_shapes: shapes that take the place of the file's, by input name.
        name: what errors call the file; the path if it is empty.

    Raises:
        InvalidModelError: the file is broken.
        UnsupportedError: it has nodes that can't be imported; all of them are listed.
        UsageError: shapes that don't suit the file.
    """
    model = decode.read(source, name)
    path = name or ("" if isinstance(source, bytes) else os.fspath(source))
    _check_opset(model, path)
    shapes = _checked_shapes(model, input_shapes or {})
    scope = GraphImport(FileImport(model, path))
    try:
        graph = scope.run(model.graph, shapes=shapes)
    except InvalidModelError as error:
        if not shapes:
            raise
        GraphImport(FileImport(model, path)).run(model.graph)  # the file's own fault, if it is
        raise UsageError(
            f"with the shapes given for {', '.join(map(repr, shapes))}: {error.message}"
        ) from error
    if scope.unsupported:
        items = naming(scope.unsupported, graph.inputs)
        raise UnsupportedError(dict.fromkeys(items), path=path)
    narrow_moves(graph)
    restore_codes(graph, noted_quants(model.metadata))
    _adopt_parameters(graph)
    return Model(
        signatures=[_signature(graph, model.metadata)],
        format="onnx",
        source=path,
        metadata={key: text.encode() for key, text in model.metadata.items()},
        description=model.doc_string,
    )


def _check_opset(model: wire.Model, path: str) -> None:
    if not 0 <= model.opset <= NEWEST_OPSET:
        raise InvalidModelError(
            f"it uses operator set {model.opset}; those up to {NEWEST_OPSET} can be read",
            path=path,
            hint="onnx.version_converter turns a model into another operator set.",
        )


def _checked_shapes(model: wire.Model, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """``input_shapes``, if it names inputs and gives each what a shape can be."""
    if not isinstance(shapes, Mapping):
        raise UsageError(f"input_shapes is {shapes!r}, must be shapes by input name")
    defaults = {t.name for t in model.graph.initializers}
    known = {v.name: v for v in model.graph.inputs if v.name not in defaults}
    if wrong := [name for name in shapes if name not in known]:
        raise UsageError(
            f"input_shapes: there is no input {', '.join(map(repr, wrong))}; "
            f"the model's inputs are {', '.join(map(repr, known)) or 'none'}"
        )
    return {
        name: _checked_shape(name, shape, known[name])
        for name, shape in shapes.items()
        if shape is not None
    }


def _checked_shape(name: str, shape: Sequence[Dim], info: wire.ValueInfo) -> Shape:
    if isinstance(shape, str) or not hasattr(shape, "__iter__"):
        raise UsageError(f"input_shapes: the shape of {name!r} is {shape!r}, must be a tuple")
    extents: list[Dim] = []
    for dim in shape:
        if dim is None or isinstance(dim, str):
            extents.append(dim)
            continue
        extent = operator.index(dim) if hasattr(dim, "__index__") else -1
        if extent < 0:
            raise UsageError(f"input_shapes: {dim!r} is no extent of {name!r}")
        extents.append(extent)
    if info.dims is not None:
        if len(info.dims) != len(extents):
            raise UsageError(
                f"input_shapes: {name!r} has {plural(len(info.dims), 'dimension')}, given are "
                f"{len(extents)}"
            )
        for given, stated in zip(extents, info.dims, strict=True):
            fixed = isinstance(stated, int) and stated > 0 and isinstance(given, int)
            if fixed and given != stated:
                raise UsageError(
                    f"input_shapes: {name!r} has shape {list(info.dims)} in the file, "
                    f"given is {extents}; only open extents can be chosen"
                )
    return tuple(extents)


def _adopt_parameters(graph: Graph) -> None:
    """Let an input that is only read as codes of one kind have their parameters itself."""
    for value in graph.inputs:
        users = [use.node for use in value.uses]
        if not users or value in graph.outputs or value.quant is not None:
            continue
        if not all(isinstance(u.op, Bitcast) and u.op.dtype is value.dtype for u in users):
            continue
        quants: set[Quant | None] = {u.outputs[0].quant for u in users}
        if len(quants) != 1:
            continue
        value.type = users[0].outputs[0].type.with_shape(value.shape)
        for user in users:
            user.outputs[0].replace_all_uses_with(value)
            graph.replace_output(user.outputs[0], value)
            graph.remove(user)


def _signature(graph: Graph, metadata: Mapping[str, str]) -> Signature:
    """The entry point, with what nnconv noted of it where it wrote the file itself."""
    plain = Signature(
        "",
        graph,
        tuple(v.name for v in graph.inputs),
        tuple(v.name for v in graph.outputs),
    )
    return restore(plain, metadata)
