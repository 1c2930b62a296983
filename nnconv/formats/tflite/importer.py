"""From the wire to the IR: the context that the op importers work in.

An importer (``nnconv.formats.tflite.imports.<family>``) gets one ``Source``, decodes the operator
once and binds IR nodes to its outputs:

    def import_softmax(s: Source) -> None:
        x = s.operand(0)
        s.emit(Softmax(axis=s.rank(x) - 1, beta=s.options.float("beta")), [x])

    IMPORTERS = {"SOFTMAX": import_softmax}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

import nnconv.formats.tflite.imports as op_package
from nnconv.errors import InvalidModelError, Reason, plural
from nnconv.formats.source import Importers, ListedOperands, NotConvertible
from nnconv.formats.tflite import wire
from nnconv.formats.tflite._gen.schema import ActivationFunctionType
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Origin, Value
from nnconv.ir.op import Activation, Op, QuantRule, Role
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType, merge_shapes
from nnconv.ops.quantize import Bitcast

if TYPE_CHECKING:
    from nnconv.formats.tflite.subgraph import SubgraphImport

__all__ = ["Importer", "NotConvertible", "Source", "importers"]

Importer: TypeAlias = "Callable[[Source], None]"

ACTIVATIONS = {
    ActivationFunctionType.NONE: Activation.NONE,
    ActivationFunctionType.RELU: Activation.RELU,
    ActivationFunctionType.RELU6: Activation.RELU6,
    ActivationFunctionType.RELU_N1_TO_1: Activation.RELU_N1_TO_1,
}
BLOCKWISE_OPERANDS = frozenset({("FULLY_CONNECTED", 1)})
"""Ops and numbers of the operands whose parameters may belong to blocks of a row."""

_ACTIVATION_CODES = frozenset(int(code) for code in ActivationFunctionType)


@cache
def importers() -> Importers:
    """Every importer by builtin name, or ``CUSTOM:<code>``."""
    return Importers(op_package)


class Source(ListedOperands):
    """One operator being imported: its operands, options, and where its results go.

    Attributes:
        op: the wire operator.
        scope: the subgraph being imported.
    """

    __slots__ = ("op", "scope")

    def __init__(self, op: wire.Operator, scope: SubgraphImport) -> None:
        self.op = op
        self.scope = scope
        name = op.custom_code or op.name
        origin = Origin("tflite", name, op.index, scope.label)
        super().__init__(name, op.where, Builder(scope.graph, origin=origin))

    def fail(self, message: str) -> InvalidModelError:
        """The exception to raise for an operator that breaks a rule of the format."""
        return self.op.fail(message)

    def first_name(self) -> str:
        """What the operator's first result is called; empty if there is none."""
        return self._result_name(0)

    @property
    def options(self) -> wire.Options:
        """The operator's options."""
        return self.op.options

    # ---------------------------------------------------------------- operands

    @property
    def operand_count(self) -> int:
        """How many operands the operator lists, absent ones included."""
        return len(self.op.inputs)

    @property
    def known(self) -> dict[Value, np.ndarray | None]:
        """What was found out of the elements of small integer tensors."""
        return self.scope.known

    def optional(self, index: int) -> Value | None:
        """An operand, or None where it is left out.

        Raises:
            NotConvertible: when it is quantized in blocks, and no kernel takes it so.
        """
        if index >= len(self.op.inputs) or self.op.inputs[index] < 0:
            return None
        value = self.scope.value(self.op.inputs[index], self.op)
        if value.quant is not None and value.quant.block:
            self._check_blocks(value, index)
        return value

    def _check_blocks(self, value: Value, index: int) -> None:
        if (self.op.name, index) not in BLOCKWISE_OPERANDS or value.type.rank != 2:
            raise self.unsupported(
                f"`{value.name}` is quantized in blocks",
                reason=Reason.OUT_OF_SCOPE,
                hint="LiteRT takes blocks in the weights of FULLY_CONNECTED only.",
            )

    def real_operand(self, index: int) -> Value:
        """A required operand that stands for real values.

        LiteRT runs some ops on integers that have no quantization parameters, to no use.

        Raises:
            NotConvertible: when it is of such integers.
        """
        value = self.operand(index)
        if value.dtype.is_integer and value.quant is None:
            raise self.unsupported(f"{value.type} has no quantization parameters")
        return value

    def tensor(self, index: int) -> wire.Tensor | None:
        """The wire tensor of an operand; None where it is left out."""
        if index >= len(self.op.inputs) or self.op.inputs[index] < 0:
            return None
        return self.scope.tensors[self.op.inputs[index]]

    def output_tensor(self, index: int = 0) -> wire.Tensor:
        """The wire tensor of a result.

        Raises:
            InvalidModelError: when the operator lists fewer.
        """
        if index >= len(self.op.outputs):
            raise self.fail(f"result {index} is missing")
        return self.scope.tensors[self.op.outputs[index]]

    def output_type(self, index: int = 0) -> TensorType:
        """What the file says of a result: dtype, shape, quantization.

        Raises:
            NotConvertible: when it would be quantized in blocks.
        """
        tensor = self.output_tensor(index)
        stated = self.scope.file_type(tensor)
        if stated.quant is not None and stated.quant.block:
            raise self.unsupported(f"result `{tensor.name}` is quantized in blocks")
        return stated

    def activation(self, field: str = "fused_activation_function") -> Activation:
        """The fused activation.

        Raises:
            NotConvertible: for TANH and SIGN_BIT, which LiteRT ignores or refuses.
        """
        number = self.options.int(field)
        if number not in _ACTIVATION_CODES:
            raise self.fail(f"fused activation {number} is unknown")
        activation = ACTIVATIONS.get(ActivationFunctionType(number))
        if activation is None:
            name = ActivationFunctionType(number).name
            raise self.unsupported(f"fused activation {name}, which LiteRT doesn't apply")
        return activation

    # ---------------------------------------------------------------- results

    def emit(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        *,
        bodies: Sequence[Graph] = (),
        shape: Shape = None,
    ) -> tuple[Value, ...]:
        """Add the node whose results are the operator's results, in order.

        Dtype and quantization are the file's, the shape is the inferred one (the file's may be
        stale); ``shape`` is what else is known of the first result's.

        Raises:
            InvalidModelError: when the op refuses its operands, or the file's dtype isn't its own.
        """
        self._demand(op, inputs)
        if plain := self._counts_plainly(op, inputs):
            inputs = [v if v is None else self.scope.reread(v, None, v.name) for v in inputs]
        inferred = self._infer(op, inputs)
        for kind in inferred:
            if any(isinstance(dim, int) and dim < 0 for dim in kind.shape or ()):
                raise self.fail(f"its result would have the shape {list(kind.shape or ())}")
        if len(inferred) < len(self.op.outputs):
            raise self.fail(
                f"{plural(len(self.op.outputs), 'result')}, allowed are {len(inferred)}"
            )
        types = [
            self._result_type(op, kind, index) if index < len(self.op.outputs) else kind
            for index, kind in enumerate(inferred)
        ]
        if plain:
            types = [replace(kind, quant=None) for kind in types]
        if op.quant_rule is QuantRule.REAL and any(v is not None and v.quant for v in inputs):
            for index, kind in enumerate(types):
                if kind.dtype.is_integer and kind.quant is None:
                    name = self._result_name(index)
                    raise self.fail(f"result `{name}` has no quantization parameters")
        if shape is not None:
            types[0] = types[0].with_shape(merge_shapes(types[0].shape, shape))
        names = [self._result_name(index) for index in range(len(inferred))]
        values = self.builder.add_typed(op, inputs, types, names=names, bodies=bodies)
        for index, value in enumerate(values[: len(self.op.outputs)]):
            self.bind(index, value)
        return values

    def emit_rounded(self, op: Op, inputs: Sequence[Value]) -> None:
        """``emit`` for an op on real values that LiteRT also runs on integers without parameters.

        These stand for themselves and the result is rounded: their scale is 1.
        """
        x = inputs[0]
        if x.quant is not None or not x.dtype.is_integer:
            self.emit(op, inputs)
            return
        whole = Quant(scale=(1.0,), zero_point=(0,))
        counts = self.add(Bitcast(dtype=x.dtype), [x], quant=whole)
        result = self.add(op, [counts, *inputs[1:]], quant=whole)
        self.bind(0, self.add(Bitcast(dtype=x.dtype), [result]))

    def bind(self, index: int, value: Value) -> None:
        """Let ``value`` be result number ``index``: its dtype and parameters become the file's.

        A value whose codes are right but whose parameters differ is reread with the file's.
        """
        tensor, stated = self.output_tensor(index), self.output_type(index)
        if value.dtype is not stated.dtype:
            raise self.fail(f"result `{tensor.name}` is {stated.dtype}, must be {value.dtype}")
        if stated.quant is not None:
            value = self.scope.reread(value, stated.quant, tensor.name)
        self.scope.values[tensor.index] = value

    def _counts_plainly(self, op: Op, inputs: Sequence[Value | None]) -> bool:
        """Whether it computes with wide integers alone, whose parameters LiteRT ignores.

        Between integers of 32 bits and more its kernels do plain arithmetic; only QUANTIZE asks
        what they stand for.
        """
        given = [v for v in inputs if v is not None]
        return (
            op.quant_rule is QuantRule.REAL
            and self.op.name not in ("QUANTIZE", "DEQUANTIZE")
            and bool(given)
            and all(v.dtype.is_integer and v.dtype.bits >= 32 for v in given)
        )

    def _result_type(self, op: Op, inferred: TensorType, index: int) -> TensorType:
        stated = self.output_type(index)
        if op.quant_rule is QuantRule.CODES:
            return inferred  # bind() rereads it where the file has other parameters
        if stated.quant is not None and op.quant_rule is QuantRule.REAL:
            return TensorType(stated.dtype, inferred.shape, stated.quant)
        return TensorType(inferred.dtype, inferred.shape, stated.quant)

    def _result_name(self, index: int) -> str:
        if index >= len(self.op.outputs):
            return ""
        return self.output_tensor(index).name

    def _demand(self, op: Op, inputs: Sequence[Value | None]) -> None:
        """See that an op has all the operands that it can't do without, of types that it takes.

        Raises:
            InvalidModelError: when one is missing.
            NotConvertible: when one has another type.
        """
        super()._demand(op, inputs)
        for formal, value in zip(op.operands, inputs, strict=False):
            if (
                op.quant_rule is QuantRule.REAL
                and formal.role is Role.DATA
                and value is not None
                and value.dtype.is_integer
                and value.quant is None
                and DType.INT32 not in formal.types  # it takes integers as codes alone
            ):
                raise self.fail(f"operand {formal.name} has no quantization parameters")
        if op.quant_rule is QuantRule.REAL and op.operands:
            self._demand_company(op, inputs)

    def _demand_company(self, op: Op, inputs: Sequence[Value | None]) -> None:
        """See that no codes without parameters stand beside operands that mean real numbers."""
        numbers = [
            value
            for formal, value in zip_longest(op.operands, inputs, fillvalue=op.operands[-1])
            if isinstance(value, Value) and formal.role in (Role.DATA, Role.WEIGHT)
        ]
        if any(v.quant is not None or v.dtype.is_float for v in numbers):
            for v in numbers:
                if v.quant is None and v.dtype.is_integer and v.dtype.bits <= 16:
                    raise self.fail(f"`{v.name}` has no quantization parameters")

    # ---------------------------------------------------------------- state

    def state(self, index: int) -> Value:
        """The current value of a variable operand (``is_variable``): a state of the model."""
        return self.scope.state_of(self._state_tensor(index), self.op)

    def _state_tensor(self, index: int) -> int:
        if index >= len(self.op.inputs) or self.op.inputs[index] < 0:
            raise self.fail(f"operand {index} is missing, must be a variable")
        return self.op.inputs[index]

    def set_state(self, index: int, value: Value) -> None:
        """The next value of a variable operand."""
        self.scope.set_state(self._state_tensor(index), value, self.op)
