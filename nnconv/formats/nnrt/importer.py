"""What an importer of one NNRt operation works with: tensors by name, results, refusals.

Whether an operation computes with real numbers follows from its first output: if that has no
quantization parameters, those of the inputs don't count, and codes are taken as integers.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import nnconv.formats.nnrt.imports as op_package
from nnconv.errors import plural
from nnconv.formats.biases import with_quant
from nnconv.formats.calls import StepSource
from nnconv.formats.nnrt.table import Match
from nnconv.formats.nnrt.types import DTYPES, FuseType
from nnconv.formats.nnrt.wire import Operation, Tensor
from nnconv.formats.source import Importers, Integer, NotConvertible, Number
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Value
from nnconv.ir.op import Activation, Op, QuantRule
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType
from nnconv.ops.elementwise import Clip
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.ops.shape import Identity, Reshape

if TYPE_CHECKING:
    from nnconv.formats.nnrt.graph import GraphImport

__all__ = ["Importer", "NotConvertible", "Source", "importers"]

Importer: TypeAlias = "Callable[[Source], None]"

ACTIVATIONS = {
    int(FuseType.NONE): Activation.NONE,
    int(FuseType.RELU): Activation.RELU,
    int(FuseType.RELU6): Activation.RELU6,
}

IDENTITY = Identity()

SINGLES = frozenset({((), (1,)), ((1,), ()), ((None,), ())})
"""Dimensions stated of a single element, and those that it has."""

BOUNDS = {Activation.RELU: (0.0, float("inf")), Activation.RELU6: (0.0, 6.0)}
"""What activations keep their operand between."""


@cache
def importers() -> Importers:
    """Every importer by the operation's name."""
    return Importers(op_package)


class Source(StepSource):
    """One operation being imported: its tensors, and where its results go."""

    __slots__ = ()

    op: Operation
    match: Match
    scope: GraphImport

    # ---------------------------------------------------------------- inputs

    @property
    def is_real(self) -> builtins.bool:
        """Whether the operation computes with real numbers where it is given codes."""
        return len(self.op.outputs) > 0 and self.result_quant(0) is not None

    def has(self, name: str) -> builtins.bool:
        """Whether an input is given."""
        return self.match.position(name) is not None

    def operand(self, name: str) -> Value:
        """A required input, as the operation takes it: codes are integers if it isn't real.

        Raises:
            InvalidModelError: when it is left off.
        """
        value = self.stored(name)
        return value if self.is_real else self.integers(value)

    def stored(self, name: str) -> Value:
        """A required input with the quantization parameters that it has.

        Raises:
            InvalidModelError: when it is left off.
        """
        place = self.match.position(name)
        if place is None:
            raise self.fail(f"input {name} is left off")
        return self.scope.value(self.op.inputs[place], self)

    def operands(self) -> list[Value]:
        """All inputs, as the operation takes them."""
        values = [self.scope.value(index, self) for index in self.op.inputs]
        return values if self.is_real else [self.integers(value) for value in values]

    def integers(self, value: Value) -> Value:
        """A value without its quantization parameters."""
        return with_quant(self.builder, value, None)

    def real(self, value: Value) -> Value:
        """The real numbers that a value stands for; itself if it isn't quantized."""
        if value.quant is None:
            return value
        return self.add(Dequantize(dtype=DType.FLOAT32), [value])

    def scalar(self, number: Number, dtype: DType) -> Value:
        """A number as a constant without dimensions; infinite where a float can't hold it.

        Raises:
            InvalidModelError: when it is beyond an integer type.
        """
        if dtype.is_integer:
            least, most = dtype.int_range
            if not least <= number <= most:
                raise self.fail(f"{number:g} is no {dtype}")
        with np.errstate(over="ignore"):
            return self.const(np.asarray(number, np.float64).astype(dtype.numpy))

    def input_tensor(self, name: str) -> Tensor:
        """An input as the model has it."""
        place = self.match.position(name)
        if place is None:
            raise self.fail(f"input {name} is left off")
        return self.scope.source.tensors[self.op.inputs[place]]

    def number(self, name: str) -> Integer | None:
        """The only element of an integer input; None where it is computed at run time."""
        values = self.ints(name)
        if values is not None and len(values) != 1:
            raise self.fail(f"{name} has {plural(len(values), 'element')}, must have 1")
        return None if values is None else values[0]

    # ---------------------------------------------------------------- parameters

    def param(self, name: str) -> np.ndarray | None:
        """The elements of a parameter, flat; None where it is left out."""
        place = self.match.params.get(name)
        data = None if place is None else self.scope.source.tensors[place].data
        return None if data is None else data.reshape(-1)

    def single(self, name: str) -> Any:
        """The only element of a parameter, or its default."""
        data = self.param(name)
        if data is None:
            spec = self.match.spec.params[name]
            if spec.needed and spec.since <= self.match.api:
                raise self.fail(f"parameter {name} ({spec.type.name}) is missing")
            return spec.default(self.match.api)
        if data.size != 1:
            raise self.fail(f"parameter {name} has {plural(data.size, 'element')}, must have 1")
        return data[0].item()

    def list(self, name: str, count: Integer | None = None) -> tuple[Integer, ...]:
        """A list of integers, empty where it is left out.

        Raises:
            InvalidModelError: when it is needed and left out, or hasn't ``count`` entries.
        """
        data = self.param(name)
        spec = self.match.spec.params[name]
        if data is None:
            if spec.needed and spec.since <= self.match.api:
                raise self.fail(f"parameter {name} ({spec.type.name}) is missing")
            return ()
        if count is not None and data.size != count:
            raise self.fail(
                f"parameter {name} has {plural(data.size, 'element')}, must have {count}"
            )
        return tuple(Integer(i) for i in data)

    def activation(self) -> Activation:
        """The fused activation."""
        return ACTIVATIONS[self.int("activationType")]

    # ---------------------------------------------------------------- results

    def output(self, index: Integer = 0) -> Tensor:
        """An output as the model has it."""
        return self.scope.source.tensors[self.op.outputs[index]]

    def result_dtype(self, index: Integer = 0) -> DType:
        """The element type that the model states of a result."""
        found = DTYPES.get(self.output(index).data_type)
        if found is None:
            raise self.fail(f"output {index} has no type of elements")
        return found

    def result_quant(self, index: Integer = 0) -> Quant | None:
        """The parameters that the model states of a result."""
        return self.scope.stated(self.op.outputs[index]).quant

    def emit(
        self, op: Op, inputs: Sequence[Value | None], *, bodies: Sequence[Graph] = ()
    ) -> tuple[Value, ...]:
        """Add the node whose results are the operation's, in order; further ones stay its own."""
        self._demand(op, inputs)
        inferred = self._infer(op, inputs, bodies)
        if op.quant_rule is QuantRule.REAL:
            for index, kind in enumerate(inferred[: len(self.outputs)]):
                quant = self.result_quant(index)
                if quant != kind.quant:
                    inferred[index] = TensorType(kind.dtype, kind.shape, quant)
        values = self.builder.add_typed(op, inputs, inferred, bodies=bodies)
        for index, value in enumerate(values[: len(self.outputs)]):
            self.bind(index, self._as_stated(op, value, index))
        return values

    def _as_stated(self, op: Op, value: Value, index: Integer) -> Value:
        """A result in the parameters that the model states, where the runtime computes with them.

        Operations that it never takes for quantized leave codes as they are.
        """
        stated = self.result_quant(index)
        if op.quant_rule is not QuantRule.CODES or not self.match.spec.quantized:
            return value
        if stated is None or value.quant is None or value.quant == stated:
            return value
        return self.add(Quantize(dtype=value.dtype), [value], quant=stated)

    def emit_activated(self, op: Op, inputs: Sequence[Value | None]) -> None:
        """Add the node and the activation, for an op that has none."""
        bounds = BOUNDS.get(self.activation())
        if bounds is None:
            self.emit(op, inputs)
            return
        value = self.add(op, inputs, quant=self.result_quant())
        self.emit(Clip(low=bounds[0], high=bounds[1]), [value])

    def emit_real(self, value: Value) -> None:
        """Let real numbers be the result, as codes if the model states that it is quantized."""
        if self.result_quant() is not None:
            self.emit(Quantize(dtype=self.result_dtype()), [value])
        else:
            self.bind(0, value)

    def bind(self, index: Integer, value: Value) -> None:
        """Let ``value`` be result number ``index``; a single element takes the rank stated.

        Codes that were moved or picked stand for what the model states.

        Raises:
            InvalidModelError: when the model states another type, or other extents of an output.
        """
        stated = self.scope.stated(self.outputs[index])
        if (stated.shape, value.shape) in SINGLES:
            shape = () if value.shape else (1,)
            kind = TensorType(value.dtype, shape, value.quant)
            value = self.builder.add_typed(Reshape(shape=shape), [value], [kind])[0]
        if value.quant != stated.quant and value.dtype is stated.dtype:
            value = with_quant(self.builder, value, stated.quant)
        elif self._is_named(value):
            value = self.builder.add_typed(IDENTITY, [value], [value.type])[0]
        super().bind(index, value)

    def _is_named(self, value: Value) -> builtins.bool:
        """Whether a value is an input, a constant, or another operation's result."""
        return value.producer is None or any(known is value for known in self._bound())

    def _bound(self) -> Sequence[Value]:
        return [self.scope.values[i] for i in self.op.inputs if i in self.scope.values]
