"""Keeps LiteRT from overwriting what is still to be read.

LiteRT's own kernels of ADD, SUB, MUL and DIV write their result over an operand that nothing else
reads; RESHAPE and its like give theirs the memory of the operand. Whether anything else reads it is
looked up for the operand and for the tensor that the memory was first given to, not for those in
between. So with y = x * 2 + 1, z = RESHAPE(y) and z / 3, the quotient overwrites a y that is read
later: z has one reader, and so has x * 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from nnconv.formats.tflite import build
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR

_NUMBERS = BUILTIN_OPERATOR
_MOVING = frozenset(_NUMBERS[name] for name in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST"))
_WRITING = {
    **{_NUMBERS[name]: 2 for name in ("ADD", "SUB", "MUL", "DIV")},
    _NUMBERS["DYNAMIC_UPDATE_SLICE"]: 1,
}
"""How many of the operands may be written over."""


def keep_apart(subgraph: build.Subgraph) -> None:
    """Give each operand that would be written over too early a second reader.

    That is a SHAPE of which nobody wants the result: it costs no time.
    """
    if not any(op.code in _WRITING for op in subgraph.operators):
        return
    plan = _Plan(subgraph)
    operators: list[build.Operator] = []
    for place, op in enumerate(subgraph.operators):
        operators.append(op)
        operand = plan.overwritten(place, op)
        if operand is not None:
            operators.append(_reader(subgraph, operand))
    subgraph.operators = operators


class _Plan:
    """Which tensors share memory, as LiteRT decides it node by node."""

    def __init__(self, subgraph: build.Subgraph) -> None:
        self._tensors = subgraph.tensors
        self._edges = frozenset((*subgraph.inputs, *subgraph.outputs))
        self._readers = Counter(self._edges)
        self._last: dict[int, int] = {}
        for place, op in enumerate(subgraph.operators):
            given = [i for i in op.inputs if i >= 0]
            self._readers.update(given)
            self._last.update(dict.fromkeys(given, place))
        self._root: dict[int, int] = {}
        self._latest: dict[int, int] = {}
        """Of each root the last place that reads what its memory holds now."""

    def overwritten(self, place: int, op: build.Operator) -> int | None:
        """The operand that the op at ``place`` would write over though that is read later."""
        if not op.outputs or op.outputs[0] in self._edges:
            return None
        result = op.outputs[0]
        if op.code in _MOVING:
            if self._is_own(op.inputs[0]):
                self._join(result, op.inputs[0])
            return None
        for operand in op.inputs[: _WRITING.get(op.code, 0) if isinstance(op.code, int) else 0]:
            if not self._is_written(operand, result):
                continue
            root = self._root.get(operand, operand)
            if self._readers[root] > 1:
                return None
            if self._latest.get(root, place) > place:
                return operand
            self._root[result] = root
            self._latest[root] = self._last.get(result, place)
            return None
        return None

    def _is_own(self, tensor: int) -> bool:
        """Whether a tensor has memory that others may get: constants and inputs haven't."""
        told = self._tensors[tensor]
        return tensor >= 0 and tensor not in self._edges and told.data is None

    def _is_written(self, operand: int, result: int) -> bool:
        if operand < 0 or not self._is_own(operand) or self._readers[operand] > 1:
            return False
        a, b = self._tensors[operand], self._tensors[result]
        return a.type == b.type and a.shape == b.shape

    def _join(self, result: int, operand: int) -> None:
        root = self._root.get(operand, operand)
        self._root[result] = root
        lasts: Iterable[int] = (self._last.get(i, 0) for i in (result, operand))
        self._latest[root] = max(self._latest.get(root, 0), *lasts)


def _reader(subgraph: build.Subgraph, tensor: int) -> build.Operator:
    """A SHAPE of a tensor."""
    told = subgraph.tensors[tensor]
    made = len(subgraph.tensors)
    shape = build.Tensor("", build.TensorType.INT32, (len(told.shape),))
    subgraph.tensors = [*subgraph.tensors, shape]
    options = ("ShapeOptions", {"out_type": build.TensorType.INT32})
    return build.Operator(_NUMBERS["SHAPE"], [tensor], [made], options)
