"""Small NNAPI models for tests, built operand by operand."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.formats.nnapi.types import NUMPY, OperandCode, OperationCode
from nnconv.formats.nnapi.wire import ChannelQuant, Graph, Lifetime, Model, Operand, Operation

FLOAT = OperandCode.TENSOR_FLOAT32
INT = OperandCode.INT32


class NnapiBuilder:
    """Builds one graph; each method gives the index of the operand that it made."""

    def __init__(self) -> None:
        self.graph = Graph()

    def operand(self, kind: OperandCode, dims: Sequence[int] = (), **options: Any) -> int:
        """Add an operand."""
        self.graph.operands.append(Operand(kind, dims, **options))
        return len(self.graph.operands) - 1

    def input(self, kind: OperandCode, dims: Sequence[int] = (), **options: Any) -> int:
        """Add an input."""
        index = self.operand(kind, dims, lifetime=Lifetime.INPUT, **options)
        self.graph.inputs = (*self.graph.inputs, index)
        return index

    def output(self, kind: OperandCode, dims: Sequence[int] = (), **options: Any) -> int:
        """Add an output."""
        index = self.operand(kind, dims, lifetime=Lifetime.OUTPUT, **options)
        self.graph.outputs = (*self.graph.outputs, index)
        return index

    def const(self, kind: OperandCode, data: Any, **options: Any) -> int:
        """Add a constant."""
        value = np.asarray(data, NUMPY[kind])
        return self.operand(kind, value.shape, lifetime=Lifetime.CONSTANT, value=value, **options)

    def none(self, kind: OperandCode, dims: Sequence[int] = ()) -> int:
        """Add an operand that is left out."""
        return self.operand(kind, dims, lifetime=Lifetime.NO_VALUE)

    def run(self, code: OperationCode, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Add an operation."""
        self.graph.operations.append(Operation(code, inputs, outputs))

    def model(self, *referenced: Graph, relaxed: bool = False) -> Model:
        """The model with this as its main graph."""
        return Model(self.graph, referenced, relaxed=relaxed)


def add_model(**options: Any) -> Model:
    """ADD of an input [2, 3] and a constant [3]; ``options`` go to the operands of both ends."""
    b = NnapiBuilder()
    kind = options.pop("kind", FLOAT)
    x = b.input(kind, (2, 3), name="x", **options)
    y = b.const(kind, [1, 2, 3], **options)
    b.run(OperationCode.ADD, [x, y, b.const(INT, 0)], [b.output(kind, (2, 3), name="z", **options)])
    return b.model()


def conv_model(*, per_channel: bool = False, nchw: bool | None = None) -> Model:
    """CONV_2D of uint8 data and 2 filters of 3 by 3, with VALID padding."""
    b = NnapiBuilder()
    quant8 = OperandCode.TENSOR_QUANT8_ASYMM
    x = b.input(
        quant8, (1, 1, 5, 5) if nchw else (1, 5, 5, 1), scale=0.5, zero_point=3, name="image"
    )
    weights = np.arange(18).reshape(2, 3, 3, 1)
    if per_channel:
        kind = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
        w = b.const(kind, weights, channel_quant=ChannelQuant(0, (0.25, 0.5)))
        bias = b.const(OperandCode.TENSOR_INT32, [1, -2])
    else:
        w = b.const(quant8, weights, scale=0.25, zero_point=8)
        bias = b.const(OperandCode.TENSOR_INT32, [1, -2], scale=0.125)
    one = b.const(INT, 1)
    inputs = [x, w, bias, b.const(INT, 2), one, one, b.const(INT, 1)]
    if nchw is not None:
        inputs.append(b.const(OperandCode.BOOL, nchw))
    shape = (1, 2, 3, 3) if nchw else (1, 3, 3, 2)
    b.run(OperationCode.CONV_2D, inputs, [b.output(quant8, shape, scale=2.0, name="result")])
    return b.model()


def if_model() -> Model:
    """IF whose branches give the first or the second of two vectors."""
    b = NnapiBuilder()
    branches = []
    for pick in (0, 1):
        inner = NnapiBuilder()
        ends = [inner.input(FLOAT, (2,)), inner.input(FLOAT, (2,))]
        zero = inner.const(FLOAT, [0, 0])
        inner.run(
            OperationCode.ADD, [ends[pick], zero, inner.const(INT, 0)], [inner.output(FLOAT, (2,))]
        )
        branches.append(inner.graph)
    condition = b.input(OperandCode.TENSOR_BOOL8, (1,), name="condition")
    models = [b.operand(OperandCode.MODEL, lifetime=Lifetime.MODEL, value=i) for i in (0, 1)]
    data = [b.input(FLOAT, (2,), name=name) for name in ("a", "b")]
    b.run(OperationCode.IF, [condition, *models, *data], [b.output(FLOAT, (2,), name="chosen")])
    return b.model(*branches)


def assert_same(a: Model, b: Model) -> None:
    """See that two models are equal in all that a file holds."""
    assert a.relaxed is b.relaxed
    for (_, first), (_, second) in zip(a.graphs(), b.graphs(), strict=True):
        assert (first.inputs, first.outputs) == (second.inputs, second.outputs)
        assert [(o.code, o.inputs, o.outputs) for o in first.operations] == [
            (o.code, o.inputs, o.outputs) for o in second.operations
        ]
        for left, right in zip(first.operands, second.operands, strict=True):
            for name in ("type", "dimensions", "scale", "zero_point", "lifetime", "name"):
                assert getattr(left, name) == getattr(right, name), name
            assert left.channel_quant == right.channel_quant
            if left.data is None or right.data is None:
                assert left.value == right.value
            else:
                assert left.data.dtype == right.data.dtype
                assert left.data.shape == right.data.shape
                assert left.data.tobytes() == right.data.tobytes()
