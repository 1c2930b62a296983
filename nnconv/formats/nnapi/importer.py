"""From NNAPI's operations to the IR: the context that the op importers work in.

An importer (``nnconv.formats.nnapi.imports.<family>``) gets one ``Source``, decodes the operation
once and binds IR nodes to its outputs. Operands go by the names that schemas/nnapi gives them:

    def import_softmax(s: Source) -> None:
        x = s.operand("input")
        s.emit(Softmax(axis=s.axis(s.int("axis"), s.rank(x)), beta=s.float("beta")), [x])

    IMPORTERS = {"SOFTMAX": import_softmax}

Inputs that are left off give their defaults, so that an importer sees no variants but those of
padding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import nnconv.formats.nnapi.imports as op_package
from nnconv.formats.calls import StepSource
from nnconv.formats.nnapi.extents import extent_faults
from nnconv.formats.nnapi.table import Match
from nnconv.formats.nnapi.types import ZERO_POINTS, FuseCode
from nnconv.formats.nnapi.wire import Lifetime, Operand, Operation
from nnconv.formats.source import Importers, Integer, NotConvertible
from nnconv.ir.graph import Value
from nnconv.ir.op import Activation, Layout
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape

if TYPE_CHECKING:
    from nnconv.formats.nnapi.graph import GraphImport

__all__ = ["Importer", "NotConvertible", "Source", "importers"]

Importer: TypeAlias = "Callable[[Source], None]"

ACTIVATIONS = {
    int(FuseCode.NONE): Activation.NONE,
    int(FuseCode.RELU): Activation.RELU,
    int(FuseCode.RELU1): Activation.RELU_N1_TO_1,
    int(FuseCode.RELU6): Activation.RELU6,
}


@cache
def importers() -> Importers:
    """Every importer by the operation's name."""
    return Importers(op_package)


class Source(StepSource):
    """One operation being imported: its operands, and where its results go."""

    __slots__ = ()

    op: Operation
    match: Match
    scope: GraphImport

    def demand(self) -> None:
        """See that the operands have the extents that they must have.

        Raises:
            InvalidModelError: they don't.
        """
        for fault in extent_faults(self.match, self._shape_at, nchw=self._is_nchw()):
            raise self.fail(fault)

    def _shape_at(self, position: Integer) -> Shape:
        value = self._value_at(position)
        return None if value is None else value.shape

    def _value_at(self, position: Integer) -> Value | None:
        """An input, or None where it has no value."""
        index = self.op.inputs[position]
        found = self.scope.values.get(index)
        if found is None and not self.scope.is_omitted(index):
            found = self.scope.value(index, self)
        return found

    def _is_nchw(self) -> bool:
        place = self.match.variant.layout
        if place is None or place >= len(self.op.inputs):
            return False
        data = self.scope.source.operands[self.op.inputs[place]].data
        return data is not None and bool(data.any())

    # ---------------------------------------------------------------- operands

    def has(self, name: str) -> bool:
        """Whether an input is given: neither left off nor without a value."""
        place = self.match.position(name)
        return place is not None and not self.scope.is_omitted(self.op.inputs[place])

    def wire(self, name: str) -> Operand:
        """An input as the model has it."""
        place = self.match.position(name)
        if place is None:
            raise self.fail(f"input {name} is missing")
        return self.scope.source.operands[self.op.inputs[place]]

    def optional(self, name: str) -> Value | None:
        """An input, or None where it is left out."""
        place = self.match.position(name)
        return None if place is None else self._value_at(place)

    def operand(self, name: str) -> Value:
        """A required input.

        Raises:
            InvalidModelError: when it is left out.
        """
        value = self.optional(name)
        if value is None:
            raise self.fail(f"input {name} is left out")
        return value

    def operands(self, name: str) -> list[Value]:
        """All inputs of a run."""
        places = [i for i, formal in enumerate(self.match.inputs) if formal.name == name]
        for place in places:
            if self.scope.is_omitted(self.op.inputs[place]):
                raise self.fail(f"input {place} is left out")
        return [self.scope.value(self.op.inputs[place], self) for place in places]

    def single(self, name: str) -> Any:
        """The element of a scalar, or its default."""
        place = self.match.position(name)
        if place is None:
            return self.match.variant.by_name[name].default
        operand = self.scope.source.operands[self.op.inputs[place]]
        data = operand.data
        if data is None:
            if operand.lifetime is Lifetime.NO_VALUE:
                raise self.fail(f"input {name} is left out")
            raise self.unsupported(f"{name} is computed at run time")
        number = data.item(0)
        allowed = self.match.inputs[place].values
        if allowed is not None and number not in allowed:
            raise self.fail(f"{name} is {number}, allowed are {list(allowed)}")
        return number

    def activation(self) -> Activation:
        """The fused activation."""
        found = ACTIVATIONS[self.int("activation")]
        kind = self.match.signature.types.get("T")
        if found is Activation.NONE or kind is None:
            return found
        for rule in self.match.spec.rules:
            if rule["rule"] == "activation_none" and rule["type"] == kind.name:
                raise self.fail(f"activation {found.name} with {kind.name} data")
        return found

    def layout(self) -> Layout:
        """Where the data have their channels."""
        return Layout.NCHW if self.bool("nchw") else Layout.NHWC

    # ---------------------------------------------------------------- results

    def output(self, index: Integer = 0) -> Operand:
        """An output as the model has it."""
        return self.scope.source.operands[self.op.outputs[index]]

    def result_quant(self, index: Integer = 0) -> Quant | None:
        """The parameters of a result: what the operation fixes, else what the model says.

        Raises:
            InvalidModelError: when an output of the model states others than the operation gives.
        """
        operand = self.output(index)
        if operand.type not in ZERO_POINTS:
            return None
        stated = self.scope.stated(self.outputs[index]).quant
        fixed = self.match.outputs[index].quant
        wanted = fixed.get(operand.type.name, fixed.get("any"))
        given = None if wanted is None else Quant.per_tensor(*wanted)
        for rule in self.match.spec.rules:
            if rule["rule"] == "keeps_quant" and given is None:
                given = self.operand(rule["as"]).quant
        if given is None or given == stated:
            return stated
        if operand.lifetime is Lifetime.OUTPUT:
            raise self.fail(f"output {index} states {stated}, the operation gives {given}")
        return given
