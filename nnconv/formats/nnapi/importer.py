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

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from itertools import zip_longest
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

import nnconv.formats.nnapi.imports as op_package
from nnconv.errors import GraphError, InvalidModelError, Reason, UnsupportedItem
from nnconv.formats.nnapi.table import Match
from nnconv.formats.nnapi.types import ZERO_POINTS, FuseCode
from nnconv.formats.nnapi.wire import Lifetime, Operand, Operation
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Origin, Value
from nnconv.ir.op import Activation, Layout, Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType, merge_shapes

if TYPE_CHECKING:
    from nnconv.formats.nnapi.graph import GraphImport

Importer: TypeAlias = "Callable[[Source], None]"

Built = TypeVar("Built")

Integer: TypeAlias = int
Number: TypeAlias = float
"""What ``Source``, whose methods have those names, can't call so."""

ACTIVATIONS = {
    int(FuseCode.NONE): Activation.NONE,
    int(FuseCode.RELU): Activation.RELU,
    int(FuseCode.RELU1): Activation.RELU_N1_TO_1,
    int(FuseCode.RELU6): Activation.RELU6,
}


class NotConvertible(Exception):  # noqa: N818 - a refusal that the driver collects, not an error
    """Raised by an importer for an operation that can't be imported; the driver collects all."""

    def __init__(self, item: UnsupportedItem) -> None:
        super().__init__(str(item))
        self.item = item


@cache
def importers() -> dict[str, Importer]:
    """Every importer by the operation's name, gathered from the family modules."""
    table: dict[str, Importer] = {}
    for module in iter_modules(op_package.__path__):
        family = import_module(f"{op_package.__name__}.{module.name}")
        for name, importer in family.IMPORTERS.items():
            assert name not in table, f"two importers of {name}"
            table[name] = importer
    return table


class Source:
    """One operation being imported: its operands, and where its results go.

    Attributes:
        op: the operation.
        match: what its operands are.
        scope: the graph being imported.
        builder: adds nodes to the graph under construction; its origin is this operation's.
        where: its place, for messages.
    """

    __slots__ = ("builder", "match", "op", "scope", "where")

    def __init__(self, op: Operation, index: int, match: Match, scope: GraphImport) -> None:
        self.op = op
        self.match = match
        self.scope = scope
        self.where = f"{scope.label}operation {index}"
        origin = Origin("nnapi", self.name, index, scope.label.rstrip(" ,"))
        self.builder = Builder(scope.graph, origin=origin)

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.match.spec.name

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
        if place is None or self.scope.is_omitted(self.op.inputs[place]):
            return None
        return self.scope.value(self.op.inputs[place], self)

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

    def _scalar(self, name: str) -> Any:
        place = self.match.position(name)
        formal = next(f for f in self.match.variant.inputs if f.name == name)
        if place is None:
            return formal.default
        operand = self.scope.source.operands[self.op.inputs[place]]
        if operand.data is None:
            if operand.lifetime is Lifetime.NO_VALUE:
                raise self.fail(f"input {name} is left out")
            raise self.unsupported(f"{name} is computed at run time")
        number = operand.data.reshape(-1)[0].item()
        if formal.values is not None and number not in formal.values:
            raise self.fail(f"{name} is {number}, allowed are {list(formal.values)}")
        return number

    def int(self, name: str) -> Integer:
        """An integer scalar, or its default."""
        return Integer(self._scalar(name))

    def positive(self, name: str) -> Integer:
        """An integer scalar above 0."""
        number = self.int(name)
        if number < 1:
            raise self.fail(f"{name} is {number}, must be above 0")
        return number

    def float(self, name: str) -> Number:
        """A float scalar, or its default."""
        return Number(self._scalar(name))

    def bool(self, name: str) -> bool:
        """A truth value, or its default."""
        return self._scalar(name) not in (0, False)

    def ints(self, name: str) -> tuple[Integer, ...] | None:
        """The elements of an integer tensor, flat; None where they are computed at run time."""
        data = self.operand(name).data
        return None if data is None else tuple(Integer(i) for i in data.reshape(-1))

    def required_ints(self, name: str) -> tuple[Integer, ...]:
        """The elements of an integer tensor that must be known.

        Raises:
            NotConvertible: when they are computed at run time.
        """
        values = self.ints(name)
        if values is None:
            raise self.unsupported(
                f"{name} is computed at run time", hint="Make it a constant of the model."
            )
        return values

    def activation(self) -> Activation:
        """The fused activation."""
        found = ACTIVATIONS[self.int("activation")]
        kind = self.match.signature.types.get("T")
        if found is not Activation.NONE and any(
            rule["rule"] == "activation_none" and kind is not None and rule["type"] == kind.name
            for rule in self.match.spec.rules
        ):
            raise self.fail(f"activation {found.name} with {kind.name if kind else ''} data")
        return found

    def layout(self) -> Layout:
        """Where the data have their channels."""
        return Layout.NCHW if self.bool("nchw") else Layout.NHWC

    def rank(self, value: Value) -> Integer:
        """The rank of a value.

        Raises:
            NotConvertible: when it isn't known.
        """
        if value.shape is None:
            raise self.unsupported(
                f"the rank of `{value.name}` isn't known",
                hint="Give the shapes of the inputs (--input-shape).",
            )
        return len(value.shape)

    def of_rank(self, value: Value, rank: Integer) -> Value:
        """The value, if it has this rank, as far as that is known.

        Raises:
            InvalidModelError: when it has another one.
        """
        if value.shape is not None and len(value.shape) != rank:
            raise self.fail(f"`{value.name}` has rank {len(value.shape)}, must have {rank}")
        return value

    def axis(self, axis: Integer, rank: Integer) -> Integer:
        """An axis counted from the front.

        Raises:
            InvalidModelError: when it is out of range.
        """
        if not -rank <= axis < rank:
            raise self.fail(f"axis {axis} is out of range for rank {rank}")
        return axis % rank

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
        stated = Quant.per_tensor(operand.scale, operand.zero_point)
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

    def add(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        *,
        quant: Quant | None = None,
        dtype: DType | None = None,
    ) -> Value:
        """Add a node of one result that isn't the operation's own."""
        self._demand(op, inputs)
        name = f"{self.scope.name_of(self.op.outputs[0])}/{op.name}"
        return self._checked(
            lambda: self.builder.add(op, inputs, name=name, quant=quant, dtype=dtype)
        )

    def add_many(self, op: Op, inputs: Sequence[Value | None]) -> tuple[Value, ...]:
        """Add a node of several results that aren't the operation's own."""
        self._demand(op, inputs)
        kinds = [None if v is None else v.type for v in inputs]
        types = self._checked(lambda: op.infer(kinds))
        return self.builder.add_typed(op, inputs, types)

    def const(self, data: np.ndarray, name: str = "", *, quant: Quant | None = None) -> Value:
        """Make a constant."""
        return self.builder.const(data, name, quant=quant)

    def emit(
        self, op: Op, inputs: Sequence[Value | None], *, bodies: Sequence[Graph] = ()
    ) -> tuple[Value, ...]:
        """Add the node whose results are the operation's, in order; further ones stay its own."""
        self._demand(op, inputs)
        kinds = [None if v is None else v.type for v in inputs]
        inferred = list(self._checked(lambda: op.infer_node(kinds, bodies)))
        for index in range(min(len(inferred), len(self.op.outputs))):
            kind = inferred[index]
            quant = kind.quant if bodies else self.result_quant(index)
            inferred[index] = TensorType(kind.dtype, kind.shape, quant)
        values = self.builder.add_typed(op, inputs, inferred, bodies=bodies)
        for index, value in enumerate(values[: len(self.op.outputs)]):
            self.bind(index, value)
        return values

    def bind(self, index: Integer, value: Value) -> None:
        """Let ``value`` be result number ``index``.

        Raises:
            InvalidModelError: when the model states another type, or other extents of an output.
        """
        operand, place = self.output(index), self.op.outputs[index]
        kind = self.scope.type_of(operand)
        if kind.dtype is not value.dtype:
            raise self.fail(f"output {index} is {kind.dtype}, the operation gives {value.dtype}")
        if operand.lifetime is Lifetime.OUTPUT and not operand.is_scalar:
            self._check_extents(index, kind.shape, value.shape)
        if value.shape is None or None in value.shape:
            value.type = value.type.with_shape(merge_shapes(value.shape, kind.shape))
        value.name = self.scope.name_of(place)
        self.scope.values[place] = value

    def _check_extents(self, index: Integer, stated: Shape, given: Shape) -> None:
        if stated is None or given is None:
            return
        pairs = zip_longest(stated, given)
        if any(isinstance(a, Integer) and isinstance(b, Integer) and a != b for a, b in pairs):
            fits = False
        else:
            fits = len(stated) == len(given)
        if not fits:
            raise self.fail(
                f"output {index} states the dimensions {list(stated)}, "
                f"the operation gives {list(given)}"
            )

    def _demand(self, op: Op, inputs: Sequence[Value | None]) -> None:
        """See that an op has all the operands that it can't do without, of types that it takes."""
        for formal, value in zip_longest(op.operands, inputs[: len(op.operands)]):
            if value is None:
                if not formal.optional and not formal.variadic:
                    raise self.fail(f"operand {formal.name} is missing")
            elif value.dtype not in formal.types:
                raise self.unsupported(f"operand {formal.name} is {value.dtype}")

    def _checked(self, action: Callable[[], Built]) -> Built:
        try:
            return action()
        except (GraphError, ValueError) as error:
            raise self.fail(getattr(error, "message", str(error))) from error
        except (ArithmeticError, LookupError) as error:
            raise self.misfit(error) from error

    # ---------------------------------------------------------------- refusals

    def fail(self, message: str) -> InvalidModelError:
        """The exception to raise for an operation that breaks a rule of NNAPI."""
        return InvalidModelError(message, path=self.scope.path, where=f"{self.where} ({self.name})")

    def misfit(self, error: Exception) -> InvalidModelError:
        """The exception to raise where the model's numbers can't be computed with."""
        return self.fail(f"its numbers don't fit together ({type(error).__name__}: {error})")

    def unsupported(
        self, why: str, *, reason: Reason = Reason.NOT_IMPLEMENTED, hint: str = ""
    ) -> NotConvertible:
        """The exception to raise for an operation that can't be imported."""
        return NotConvertible(
            UnsupportedItem(op=self.name, where=self.where, why=why, reason=reason, hint=hint)
        )
