"""What a file with an NNRt model holds, without importing it."""

from __future__ import annotations

import os
from collections import Counter

from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.check import check
from nnconv.formats.nnrt.graph import GraphImport
from nnconv.formats.summary import EntrySummary, Summary, TensorSummary


def summarize(path: str | os.PathLike[str]) -> Summary:
    """Tell what a file holds; operations that nnconv can't convert don't hinder it.

    Raises:
        InvalidModelError: the file is broken, or its model breaks a rule of NNRt.
    """
    graph = file.read(path)
    check(graph, graph.api, path=os.fspath(path))
    scope = GraphImport(graph, path=os.fspath(path))
    inputs, outputs = (
        [_tensor(scope, index) for index in indices] for indices in (graph.inputs, graph.outputs)
    )
    params = {index for operation in graph.operations for index in operation.params}
    sizes = {
        id(tensor.data): tensor.data.nbytes
        for index, tensor in enumerate(graph.tensors)
        if tensor.data is not None and index not in params
    }
    return Summary(
        format="nnrt",
        description=f"API version {graph.api}",
        entries=[EntrySummary("", inputs, outputs, {}, [])],
        ops=dict(Counter(op.type.name for op in graph.operations).most_common()),
        constants=len(sizes),
        constant_bytes=sum(sizes.values()),
        metadata={},
    )


def _tensor(scope: GraphImport, index: int) -> TensorSummary:
    kind = scope.stated(index)
    return TensorSummary(scope.name_of(index), kind.dtype, kind.shape, kind.quant)
