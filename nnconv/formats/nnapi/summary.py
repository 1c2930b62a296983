"""What a file with an NNAPI model holds, without importing it."""

from __future__ import annotations

import os
from collections import Counter

from nnconv.formats.nnapi.check import least_level
from nnconv.formats.nnapi.graph import GraphImport
from nnconv.formats.nnapi.reader import read_wire
from nnconv.formats.nnapi.wire import Model
from nnconv.formats.summary import EntrySummary, Summary, TensorSummary


def summarize(path: str | os.PathLike[str]) -> Summary:
    """Tell what a file holds; operations that nnconv can't convert don't hinder it.

    Raises:
        InvalidModelError: the file is broken, or its model breaks a rule of NNAPI.
    """
    model = read_wire(path)
    description = _description(model, os.fspath(path))  # a model that breaks rules is refused here
    scope = GraphImport(model, model.main)
    inputs, outputs = (
        [_tensor(scope, index) for index in indices]
        for indices in (model.main.inputs, model.main.outputs)
    )
    ops = Counter(op.code.name for _, graph in model.graphs() for op in graph.operations)
    sizes = {
        id(operand.data): operand.data.nbytes
        for _, graph in model.graphs()
        for operand in graph.operands
        if operand.data is not None
    }
    return Summary(
        format="nnapi",
        description=description,
        entries=[EntrySummary("", inputs, outputs, {}, [])],
        ops=dict(ops.most_common()),
        constants=len(sizes),
        constant_bytes=sum(sizes.values()),
        metadata={},
    )


def _description(model: Model, path: str) -> str:
    relaxed = ", float32 may be computed as float16" if model.relaxed else ""
    return f"feature level {least_level(model, path=path)}{relaxed}"


def _tensor(scope: GraphImport, index: int) -> TensorSummary:
    kind = scope.stated(index)
    return TensorSummary(scope.name_of(index), kind.dtype, kind.shape, kind.quant)
