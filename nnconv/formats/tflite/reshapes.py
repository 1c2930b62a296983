"""Makes one RESHAPE of several in a row, which ops done by simpler ones leave between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nnconv.formats.tflite import build
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR

_RESHAPE = BUILTIN_OPERATOR["RESHAPE"]
_MOVING = frozenset((_RESHAPE, BUILTIN_OPERATOR["SQUEEZE"], BUILTIN_OPERATOR["EXPAND_DIMS"]))


def join_reshapes(subgraph: build.Subgraph) -> None:
    """Let each RESHAPE read what the moves before it read; what then reads nothing goes."""
    source: dict[int, int] = {}
    same: dict[int, int] = {}
    for op in subgraph.operators:
        if any(i in same for i in op.inputs):
            op.inputs = [same.get(i, i) for i in op.inputs]
        if op.code not in _MOVING or subgraph.tensors[op.inputs[0]].is_variable:
            continue  # a variable's content may be another one when it is read later
        start = source.get(op.inputs[0], op.inputs[0])
        if op.code == _RESHAPE and start != op.inputs[0]:
            op.inputs = [start, *op.inputs[1:]]
        result = op.outputs[0]
        source[result] = start
        if result not in subgraph.outputs and _is_same(subgraph, result, start):
            same[result] = start
    if source:
        _drop_unread(subgraph)


def _is_same(subgraph: build.Subgraph, result: int, start: int) -> bool:
    a, b = subgraph.tensors[result], subgraph.tensors[start]
    still = not any(t.shape_signature or t.quant or t.is_variable for t in (a, b))
    return still and a.has_rank and a.shape == b.shape and a.type == b.type


def _drop_unread(subgraph: build.Subgraph) -> None:
    """Take out moves that nothing reads, and then the tensors of nothing."""
    readers = Counter(subgraph.outputs)
    for op in subgraph.operators:
        readers.update(op.inputs)
    kept: list[build.Operator] = []
    for op in reversed(subgraph.operators):
        if op.code in _MOVING and not readers[op.outputs[0]]:
            readers.subtract(op.inputs)
        else:
            kept.append(op)
    if len(kept) == len(subgraph.operators):
        return
    subgraph.operators = kept[::-1]
    _drop_tensors(subgraph)


def _drop_tensors(subgraph: build.Subgraph) -> None:
    if any(tensor.quant and tensor.quant.blockwise for tensor in subgraph.tensors):
        return  # they tell tensors by their numbers as well
    used = {*subgraph.inputs, *subgraph.outputs}
    for op in subgraph.operators:
        used.update((*op.inputs, *op.outputs, *op.intermediates))
    places = {-1: -1}
    for index in range(len(subgraph.tensors)):
        if index in used:
            places[index] = len(places) - 1

    def moved(indices: Sequence[int]) -> list[int]:
        return [places[i] for i in indices]

    subgraph.tensors = [t for i, t in enumerate(subgraph.tensors) if i in used]
    subgraph.inputs, subgraph.outputs = moved(subgraph.inputs), moved(subgraph.outputs)
    for op in subgraph.operators:
        op.inputs, op.outputs = moved(op.inputs), moved(op.outputs)
        op.intermediates = moved(op.intermediates)
