"""NNRt models into the IR."""

from __future__ import annotations

import os
from collections.abc import Mapping

from nnconv.formats.calls import imported, shapes_by_index
from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.check import check
from nnconv.formats.nnrt.graph import GraphImport
from nnconv.formats.nnrt.wire import Graph
from nnconv.ir.graph import Model
from nnconv.ir.types import Shape


def read(
    source: str | os.PathLike[str] | bytes,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
    name: str = "",
) -> Model:
    """Read a .nnrt file or its .json twin.

    Args:
        source: a path, or the bytes of a file.
        input_shapes: shapes that take the place of the file's, by input name.
        name: what errors call the file; the path if it is empty.

    Raises:
        InvalidModelError: the file is broken, or its model breaks a rule of NNRt.
        UnsupportedError: it has operations that can't be imported; all of them are listed.
        UsageError: shapes of inputs that aren't there.
    """
    path = name or ("" if isinstance(source, bytes) else os.fspath(source))
    return import_model(file.read(source, name=name), input_shapes=input_shapes, path=path)


def import_model(
    graph: Graph,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
    path: str = "",
    first: int = 0,
) -> Model:
    """The IR of a model.

    Args:
        graph: the model.
        input_shapes: shapes that take the place of the model's, by input name.
        path: what errors call the model.
        first: the number that they give its first operation.

    Raises:
        InvalidModelError: the model breaks a rule of NNRt.
        UnsupportedError: it has operations that can't be imported; all of them are listed.
        UsageError: shapes of inputs that aren't there.
    """
    check(graph, graph.api, path=path)
    scope = GraphImport(graph, path=path)
    names = {scope.name_of(index): index for index in graph.inputs}
    shapes = shapes_by_index(names, input_shapes)
    scope = GraphImport(graph, path=path, first=first, shapes=shapes)
    scope.run()
    return imported(scope, graph.outputs)
