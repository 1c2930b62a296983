"""NNAPI models into the IR."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from nnconv.errors import InvalidModelError
from nnconv.formats.calls import imported, shapes_by_index
from nnconv.formats.findings import BrokenModelError
from nnconv.formats.marks import RELAXED
from nnconv.formats.nnapi import file, pytorch, pytorch_archive
from nnconv.formats.nnapi.branching import check_branching
from nnconv.formats.nnapi.check import check
from nnconv.formats.nnapi.detect import ARCHIVE, STREAM, kind_of
from nnconv.formats.nnapi.graph import GraphImport
from nnconv.formats.nnapi.table import NO_VALUE, match
from nnconv.formats.nnapi.types import NEWEST_LEVEL
from nnconv.formats.nnapi.wire import Model as WireModel
from nnconv.ir.graph import Model
from nnconv.ir.types import Shape


def read(
    source: str | os.PathLike[str] | bytes,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
    name: str = "",
) -> Model:
    """Read a .nnapi file, its .json twin, or one of PyTorch's files with an NNAPI model.

    Args:
        source: a path, or the bytes of a .nnapi file or twin.
        input_shapes: shapes that take the place of the file's, by input name.
        name: what errors call the file; the path if it is empty.

    Raises:
        InvalidModelError: the file is broken, or its model breaks a rule of NNAPI.
        UnsupportedError: it has operations that can't be imported; all of them are listed.
        UsageError: shapes of inputs that aren't there.
    """
    if isinstance(source, bytes):
        return import_model(file.read(source, name=name), input_shapes=input_shapes, path=name)
    path = name or os.fspath(source)
    return import_model(read_wire(source), input_shapes=input_shapes, path=path)


def read_wire(path: str | os.PathLike[str]) -> WireModel:
    """Read a file of any kind that holds an NNAPI model, as the model that it is.

    A PyTorch module is taken with NNAPI's interface, in which images may have their channels last.

    Raises:
        InvalidModelError: the file is broken.
        UsageError: an archive has several NNAPI modules.
    """
    try:
        with Path(path).open("rb") as opened:
            head, size = opened.read(_HEAD_BYTES), os.fstat(opened.fileno()).st_size
    except OSError as error:
        raise InvalidModelError(error.strerror or str(error), path=os.fspath(path)) from error
    kind = kind_of(head, size)
    if kind == STREAM:
        return pytorch.read(path)
    return pytorch_archive.read(path).model if kind == ARCHIVE else file.read(path)


_HEAD_BYTES = 4096


def import_model(
    model: WireModel,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
    omitted: Collection[int] | None = None,
    empty: Mapping[int, Shape] | None = None,
    path: str = "",
    first: int = 0,
    checked: bool = False,
) -> Model:
    """The IR of a model.

    Args:
        model: the model.
        input_shapes: shapes that take the place of the model's, by input name.
        omitted: operands, inputs of the main graph, that runs give nothing for. When None these are
            optional inputs without an extent, if the model means something without them alone.
        empty: shapes of inputs without elements, by operand: in a model 0 is what isn't known.
        path: what errors call the model.
        first: the number that they give its first operation.
        checked: whether the model is known to keep the rules.

    Raises:
        InvalidModelError: the model breaks a rule of NNAPI.
        UnsupportedError: it has operations that can't be imported; all of them are listed.
        UsageError: shapes of inputs that aren't there.
    """
    if not checked:
        check(model, NEWEST_LEVEL, path=path)
    check_branching(model, path=path)
    try:
        return _import(model, input_shapes, omitted or (), empty, path, first)
    except BrokenModelError:
        if omitted is None and (optional := _open_inputs(model)):
            with suppress(BrokenModelError):
                return _import(model, input_shapes, optional, empty, path, first)
        raise


def _import(
    model: WireModel,
    input_shapes: Mapping[str, Shape] | None,
    omitted: Collection[int],
    empty: Mapping[int, Shape] | None,
    path: str,
    first: int,
) -> Model:
    scope = GraphImport(model, model.main, path=path, omitted=omitted)
    names = {scope.name_of(index): index for index in model.main.inputs}
    shapes = {**(empty or {}), **shapes_by_index(names, input_shapes)}
    scope = GraphImport(model, model.main, path=path, first=first, omitted=omitted, shapes=shapes)
    scope.run()
    found = imported(scope, model.main.outputs)
    if model.relaxed:
        found.metadata[RELAXED] = b"true"
    return found


def _open_inputs(model: WireModel) -> set[int]:
    """Inputs of a model that a run may leave out, and of which no extent is known."""
    main = model.main
    optional: set[int] = set()
    needed = set(main.outputs)
    for operation in main.operations:
        for formal, index in zip(match(operation, main).inputs, operation.inputs, strict=True):
            (optional if formal.omit == NO_VALUE else needed).add(index)
    found = (optional - needed) & set(main.inputs)
    return {index for index in found if not any(main.operands[index].dimensions)}
