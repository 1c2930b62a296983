"""Building graphs: each new node's result types come from its op's ``infer``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nnconv.errors import GraphError, plural
from nnconv.ir.dtype import DType
from nnconv.ir.graph import NOWHERE, Graph, Node, Origin, Value
from nnconv.ir.op import Op, Types
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType


class Means(NamedTuple):
    """What there is to build with.

    Attributes:
        bodies: ops with bodies, While and If.
        bitcasts: ops that take the bits of integers for floats, and the reverse.
        int64: integers of 64 bits; where there are none, int32 does for them.
        sums: sums, products and quotients of int32.
        extremes: the greater of two tensors; else there is what is above 0.
        recurrences: ``Lstm`` and ``Rnn`` that run any number of steps from a given state.
        steps: ``Lstm`` and ``Rnn`` of a single step.
        layers: ``LstmLayer`` of any number of steps.
        last_first: ``TopK`` has the last of equals first.
        sizes: images can be resized to sizes that a run tells.
    """

    bodies: bool = True
    bitcasts: bool = True
    int64: bool = True
    sums: bool = True
    extremes: bool = True
    recurrences: bool = False
    steps: bool = False
    layers: bool = False
    last_first: bool = False
    sizes: bool = True


class Builder:
    """Adds values and nodes to one graph, at its end or before a given node.

    Attributes:
        graph: what is being built.
        before: where new nodes go; None for the end.
        origin: what new nodes and values say they came from.
        means: what there is to build with.
    """

    means = Means()

    def __init__(
        self,
        graph: Graph,
        *,
        before: Node | None = None,
        origin: Origin = NOWHERE,
    ) -> None:
        """Start building ``graph``."""
        self.graph = graph
        self.before = before
        self.origin = origin

    def input(self, name: str, dtype: DType, shape: Shape, *, quant: Quant | None = None) -> Value:
        """Add a graph input."""
        value = Value(name, TensorType(dtype, shape, quant), origin=self.origin)
        self.graph.inputs.append(value)
        return value

    def const(
        self,
        data: np.ndarray,
        name: str = "",
        *,
        quant: Quant | None = None,
        dtype: DType | None = None,
    ) -> Value:
        """Make a constant; ``dtype`` is needed only for types that numpy lacks (int4)."""
        array = np.asarray(data)
        kind = TensorType(dtype or DType.of(array), tuple(array.shape), quant)
        return Value(name, kind, data=array, origin=self.origin)

    def add(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        *,
        name: str = "",
        quant: Quant | None = None,
        dtype: DType | None = None,
    ) -> Value:
        """Add a node of one result; ``quant`` and ``dtype`` override what ``infer`` says."""
        types = self.infer(op, inputs)
        if len(types) != 1:
            raise GraphError(f"{op!r} has {plural(len(types), 'result')}; use add_many")
        result = replace(types[0], quant=quant) if quant is not None else types[0]
        if dtype is not None:
            result = replace(result, dtype=dtype)
        return self.add_typed(op, inputs, [result], names=[name])[0]

    def add_many(self, op: Op, inputs: Sequence[Value | None]) -> tuple[Value, ...]:
        """Add a node of any number of results, typed by ``infer``."""
        return self.add_typed(op, inputs, self.infer(op, inputs))

    def add_typed(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        types: Sequence[TensorType],
        *,
        names: Sequence[str] = (),
        bodies: Sequence[Graph] = (),
    ) -> tuple[Value, ...]:
        """Add a node whose result types the caller gives."""
        labels = tuple(names) or ("",) * len(types)
        outputs = [
            Value(label, kind, origin=self.origin)
            for label, kind in zip(labels, types, strict=True)
        ]
        node = Node(op, inputs, outputs, bodies=bodies, origin=self.origin)
        if self.before is None:
            self.graph.append(node)
        else:
            self.graph.insert_before(self.before, node)
        return node.outputs

    def infer(self, op: Op, inputs: Sequence[Value | None]) -> tuple[TensorType, ...]:
        """Result types of an op on values.

        Raises:
            GraphError: when the op refuses the operands.
        """
        try:
            return infer(op, [None if v is None else v.type for v in inputs])
        except ValueError as error:
            raise GraphError(f"{op.name} ({self.origin}): {error}") from error


def infer(op: Op, types: Types, bodies: Sequence[Graph] = ()) -> tuple[TensorType, ...]:
    """Result types of an op in a new node.

    Raises:
        ValueError: when the op refuses the operands, or a result can't have such a shape.
    """
    results = op.infer_node(types, bodies)
    for kind in results:
        for extent in kind.shape or ():
            if isinstance(extent, int) and extent < 0:
                raise ValueError(f"a result of the shape {list(kind.shape or ())}")
    return results
