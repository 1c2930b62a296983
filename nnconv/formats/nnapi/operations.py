"""Operations of an NNAPI graph under construction, each seen to when it is added."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from nnconv.decompositions.base import Refused
from nnconv.formats.graph_export import data_operands
from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.check import operation_faults
from nnconv.formats.nnapi.forms import Form, Given, form_of
from nnconv.formats.nnapi.operands import CODED, PLAIN, OperandMaker
from nnconv.formats.nnapi.table import spec_of
from nnconv.formats.nnapi.types import DTYPES, PER_CHANNEL, OperationCode
from nnconv.formats.nnapi.wire import Graph as WireGraph
from nnconv.formats.nnapi.wire import Model, Operation
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType


class OperationMaker(OperandMaker):
    """Makes the operations of a graph.

    Attributes:
        operations: what there is so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []

    @property
    @abstractmethod
    def models(self) -> Sequence[WireGraph | None]:
        """The referenced graphs; None for one that is being made."""

    def operand(self, value: Value) -> Ref:
        """The operand of a value; a constant without elements is a SLICE of one that has some."""
        data = value.data
        if value not in self._index and data is not None and not data.size:
            truth = value.dtype is DType.BOOL  # which SLICE doesn't take
            kind = TensorType(DType.INT32, value.shape) if truth else value.type
            some = np.zeros([max(extent, 1) for extent in data.shape], kind.dtype.numpy)
            inputs = {
                "input": self.const(some, quant=value.quant),
                "begin": self.ints([0] * data.ndim),
                "size": self.ints(data.shape),
            }
            made = self.result("SLICE", inputs, kind)
            if truth:
                none = {"input0": made, "input1": self.ints([0])}
                made = self.result("NOT_EQUAL", none, value.type)
            self._index[value] = made
        return super().operand(value)

    def emit(
        self,
        name: str,
        inputs: Mapping[str, object],
        values: Value | Sequence[Value],
        *,
        quant: Quant | None = None,
        scalar: bool = False,
    ) -> None:
        """Add the operation that makes ``values``; ``scalar``: they have no dimensions.

        ``quant`` are the parameters that the operation gives where it leaves no choice: the codes
        are then brought to those of the value.

        Raises:
            Refused: NNAPI doesn't take it at this level; types that it takes go with it.
        """
        outputs = [values] if isinstance(values, Value) else list(values)
        first = outputs[0]
        fixed = quant or self.fixed_quant(name, first) or self._kept_quant(name, inputs, first)
        if fixed is None or first.quant is None or _alike(first.quant, fixed):
            made_all = [self.declare_scalar(v) if scalar else self.declare(v) for v in outputs]
            self.operation(name, inputs, made_all)
            return
        made = self.temp(TensorType(first.dtype, first.shape, fixed))
        self.operation(name, inputs, [made, *(self.declare(v) for v in outputs[1:])])
        self.operation("ADD", self.rescaling(made), [self.declare(first)])

    def result(self, name: str, inputs: Mapping[str, object], kind: TensorType) -> Ref:
        """Add an operation of one result in between; gives its operand."""
        made = self.temp(kind)
        self.operation(name, inputs, [made])
        return made

    def operation(self, name: str, inputs: Mapping[str, object], outputs: Sequence[int]) -> None:
        """Add an operation whose outputs are there already.

        Raises:
            Refused: NNAPI doesn't take it at this level.
        """
        code = OperationCode[name]
        given: dict[str, Given] = {key: self._given(entry) for key, entry in inputs.items()}
        form = form_of(code, given, self.operands, outputs)
        indices: list[int] = []
        for formal, (kind, entry) in zip(form.formals, form.entries, strict=True):
            if isinstance(entry, Ref):
                indices.append(entry)
            elif entry is None:
                indices.append(self.omitted(kind, formal.rank[0] if formal.rank else 0))
            else:
                assert isinstance(entry, int | float), f"{name} is given {entry!r}"
                indices.append(self.scalar(kind, entry))
        operation = Operation(code, indices, outputs)
        self._vet(name, operation, form)
        self.operations.append(operation)

    def fixed_quant(self, name: str, value: Value) -> Quant | None:
        """The parameters that an operation gives to codes of a type; None where they are free."""
        if value.quant is None or value.dtype not in CODED or self.is_lacking(value.dtype):
            return None
        stated = spec_of(OperationCode[name]).outputs[0].quant
        found = stated.get(CODED[value.dtype].name, stated.get("any"))
        return None if found is None else Quant.per_tensor(*found)

    def _kept_quant(self, name: str, inputs: Mapping[str, object], value: Value) -> Quant | None:
        """The parameters of the input whose parameters an operation's result has."""
        if value.quant is None:
            return None
        for rule in spec_of(OperationCode[name]).rules:
            if rule["rule"] in _KEEPING and rule.get("as") in inputs:
                source = self.operands[cast(int, self._given(inputs[rule["as"]]))]
                if source.scale:
                    return Quant.per_tensor(source.scale, source.zero_point)
        return None

    def _given(self, entry: object) -> Given:
        if isinstance(entry, Value):
            return self.operand(entry)
        if isinstance(entry, list | tuple):
            return [self.operand(e) if isinstance(e, Value) else Ref(e) for e in entry]
        return entry  # type: ignore[return-value]

    def _vet(self, name: str, operation: Operation, form: Form) -> None:
        """See that an operation keeps NNAPI's rules at the level that is written for."""
        for formal, index in zip(form.formals, operation.inputs, strict=True):
            rank, bounds = self.operands[index].rank, formal.rank
            if rank and bounds and bounds[1] and rank > bounds[1]:
                why = f"{name}: {formal.name} has rank {rank}, at most {bounds[1]} is allowed"
                raise Refused(why, rank=bounds[1])
        graph = WireGraph(self.operands)
        named = (self.operands[index].body for index in operation.inputs)
        bodies = {body: self.models[body] or WireGraph() for body in named if body is not None}
        for message, level in operation_faults(operation, graph, Model(graph, bodies)):
            if level is not None and level <= self.level:
                continue
            needs = "" if level is None else f" needs feature level {level}"
            told = message if message.startswith(name) else f"{name}: {message}"
            node = self.node
            lacking = self._lacking_types(name, operation, form)
            raise Refused(
                f"{told}{needs}",
                types=self.types_of(name) if lacking else None,
                operands=tuple(
                    i
                    for i in data_operands(node)
                    if (v := node.inputs[i]) is not None and self.stored(v.dtype) in lacking
                ),
            )

    def _lacking_types(self, name: str, operation: Operation, form: Form) -> set[DType]:
        """Which types of an operation's data its table lacks at this level."""
        spec = spec_of(OperationCode[name])
        ends = [
            *zip(form.formals, operation.inputs, strict=True),
            *zip(spec.outputs, operation.outputs, strict=False),
        ]
        seen = {(formal.var, self.operands[i].type) for formal, i in ends if formal.var}
        known = {pair for s in spec.signatures if s.level <= self.level for pair in s.types.items()}
        return {DTYPES[code] for _, code in seen - known if code in _OF_DATA}

    def types_of(self, name: str) -> frozenset[DType]:
        """The types of plain numbers that an operation's data may have at this level."""
        signatures = spec_of(OperationCode[name]).signatures
        codes = {s.types["T"] for s in signatures if s.level <= self.level and "T" in s.types}
        return frozenset(dtype for dtype, code in PLAIN.items() if code in codes)

    def scalars_of(self, name: str) -> frozenset[DType]:
        """The types that an operation's scalar of its signatures may have at this level."""
        signatures = spec_of(OperationCode[name]).signatures
        return frozenset(DTYPES[s.types["S"]] for s in signatures if s.level <= self.level)

    def rescaling(self, operand: Ref) -> dict[str, object]:
        """The inputs of an ADD of zero, whose result may have other parameters."""
        like = self.operands[operand]
        dtype = DTYPES[like.type]
        quant = Quant.per_tensor(like.scale, like.zero_point)
        zero = self.const(np.full(1, like.zero_point, dtype.numpy), quant=quant)
        return {"input0": operand, "input1": zero, "activation": 0}


_KEEPING = frozenset({"keeps_quant", "same_quant"})
_OF_DATA = frozenset({*PLAIN.values(), *CODED.values(), PER_CHANNEL})


def _alike(a: Quant, b: Quant) -> bool:
    return a == b
