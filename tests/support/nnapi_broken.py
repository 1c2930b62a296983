"""NNAPI models that break one rule each: made from valid ones, as schemas/nnapi says.

A valid model of one operation is taken, and what the operation's entry demands is broken, one
demand after the other: its types, ranks, extents, numbers, scales, and the rules behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnconv.formats.nnapi.rules import Subject
from nnconv.formats.nnapi.table import Match, OperandSpec, match
from nnconv.formats.nnapi.types import NUMPY, PER_CHANNEL, ZERO_POINTS, OperandCode
from nnconv.formats.nnapi.wire import ChannelQuant, Graph, Lifetime, Model, Operand, Operation

BUILD, COMPUTE = "build", "compute"


@dataclass
class Broken:
    """A model that breaks a rule.

    Attributes:
        rule: what was done to it.
        stage: whether Android sees it while the model is built, or only when it runs.
        model: the model.
        level: the feature level below which alone the rule holds; None where it always does.
    """

    rule: str
    stage: str
    model: Model
    level: int | None = None


NUMBERS: dict[str, Sequence[int]] = {
    "axis": (99, -99),
    "axes": (99, -99),
    "begin": (99,),
    "block_size": (0, -1),
    "block_sizes": (0, -1),
    "cell_clip": (-1,),
    "count": (99, 0),
    "depth_multiplier": (0, 99),
    "dilation_height": (0, -1),
    "dilation_width": (0, -1),
    "filter_height": (0, -1),
    "filter_width": (0, -1),
    "groups": (0, -1, 99),
    "height_samples": (-1,),
    "indices": (99, -99),
    "k": (0, 99),
    "lookups": (99, -1),
    "multiples": (-1,),
    "out_height": (0, -1),
    "out_width": (0, -1),
    "pad_bottom": (999,),
    "pad_left": (-1, 999),
    "pad_right": (999,),
    "pad_top": (-1, 999),
    "paddings": (-1,),
    "perm": (0, 99),
    "projection_clip": (-1,),
    "radius": (-1,),
    "rank": (0, 99),
    "samples": (-1,),
    "shape": (99,),
    "size": (99,),
    "stride_height": (0, -1),
    "stride_width": (0, -1),
    "strides": (0,),
    "time_major": (2,),
    "width_samples": (-1,),
}
"""Numbers that no operation takes for an input of that name; tensors are filled with them."""

FINE = {
    ("STRIDED_SLICE", "begin"),  # bounds are cut to what there is
    ("TRANSPOSE_CONV_2D", "pad_bottom"),  # only takes off what there is
    ("TRANSPOSE_CONV_2D", "pad_right"),
    ("HASHTABLE_LOOKUP", "lookups"),  # not every key is found
}
"""Names whose numbers mean something else in an operation."""


def copied(model: Model) -> Model:
    """A model whose operands may be changed."""
    return Model(
        _copy(model.main), [_copy(g) for g in model.referenced.values()], relaxed=model.relaxed
    )


def _copy(graph: Graph) -> Graph:
    operands = [
        Operand(
            o.type,
            o.dimensions,
            scale=o.scale,
            zero_point=o.zero_point,
            lifetime=o.lifetime,
            channel_quant=o.channel_quant,
            value=o.value,
            name=o.name,
        )
        for o in graph.operands
    ]
    return Graph(operands, list(graph.operations), graph.inputs, graph.outputs, name=graph.name)


class Breaker:
    """Breaks a valid model of one operation."""

    def __init__(self, model: Model) -> None:
        self.model = model
        (self.operation,) = model.main.operations
        self.match: Match = match(self.operation, model.main)
        self.subject = Subject(self.operation, model.main, model, self.match)

    def all(self) -> Iterator[Broken]:
        """Every model that breaks one of its demands."""
        yield from self._counts()
        for place, formal in enumerate(self.match.inputs):
            if self._operand(place).lifetime in (Lifetime.NO_VALUE, Lifetime.MODEL):
                continue
            yield from self._types(place, formal)
            yield from self._numbers(place, formal)
            yield from self._shapes(place, formal)
        yield from self._outputs()
        for rule in self.match.spec.rules:
            if self.subject.concerned(rule):
                for number, model in enumerate(RULES[rule["rule"]](self, rule)):
                    name = f"rule {rule['rule']} {number}"
                    yield Broken(name, rule["stage"], model, rule.get("level"))

    # ---------------------------------------------------------------- helpers

    def _operand(self, place: int) -> Operand:
        return self.model.main.operands[self.operation.inputs[place]]

    def index(self, name: str) -> int:
        """The first operand of a name."""
        for specs, indices in (
            (self.match.inputs, self.operation.inputs),
            (self.match.outputs, self.operation.outputs),
        ):
            for formal, index in zip(specs, indices, strict=True):
                if formal.name == name:
                    return index
        raise KeyError(name)

    def has(self, name: str) -> bool:
        """Whether an operand of this name is given."""
        names = [formal.name for formal in (*self.match.inputs, *self.match.outputs)]
        return name in names

    def changed(self, index: int, **changes: Any) -> Model:
        """The model with an operand that differs; a constant is fitted to its dimensions."""
        model = copied(self.model)
        operand = model.main.operands[index]
        for name, value in changes.items():
            setattr(operand, name, value)
        data = self.model.main.operands[index].data
        if data is not None and "dimensions" in changes:
            operand.value = np.resize(data, operand.dimensions)
        if data is not None and "type" in changes:
            operand.value = np.resize(data, operand.dimensions).astype(NUMPY[operand.type])
        quant = operand.channel_quant
        if quant is not None and "dimensions" in changes and quant.dim < len(operand.dimensions):
            scales = np.resize(quant.scales, operand.dimensions[quant.dim])
            operand.channel_quant = ChannelQuant(quant.dim, tuple(scales.tolist()))
        return model

    def relisted(self, inputs: Sequence[int], outputs: Sequence[int]) -> Model:
        """The model whose operation lists other operands."""
        model = copied(self.model)
        model.main.operations = [Operation(self.operation.code, inputs, outputs)]
        return model

    # ---------------------------------------------------------------- demands

    def _counts(self) -> Iterator[Broken]:
        inputs, outputs = self.operation.inputs, self.operation.outputs
        most = max((n for v in self.match.spec.variants for n in v.counts), default=0)
        if most:
            inputs = (*inputs, *[inputs[-1]] * (most + 1 - len(inputs)))
            yield Broken("one input too many", BUILD, self.relisted(inputs, outputs))
        if not any(formal.repeat for formal in self.match.spec.outputs):
            outputs = (*outputs, *[outputs[-1]] * 9)
            yield Broken("outputs too many", BUILD, self.relisted(self.operation.inputs, outputs))

    def _types(self, place: int, formal: OperandSpec) -> Iterator[Broken]:
        if formal.types is None and not formal.var:
            return
        index = self.operation.inputs[place]
        seen = self.model.main.operands[index]
        strange = OperandCode.UINT32 if seen.is_scalar else OperandCode.TENSOR_QUANT16_SYMM
        taken = {t for s in self.match.spec.signatures for t in s.types.values()}
        if strange in taken | set(formal.types or ()):
            return
        scale = 1.0 if strange in ZERO_POINTS else 0.0
        model = self.changed(index, type=strange, scale=scale, zero_point=0, channel_quant=None)
        yield Broken(f"type of {formal.name}", BUILD, model)

    def _numbers(self, place: int, formal: OperandSpec) -> Iterator[Broken]:
        operand = self._operand(place)
        if operand.data is None or (self.match.spec.name, formal.name) in FINE:
            return
        numbers = list(NUMBERS.get(formal.name, ()))
        if formal.values is not None:
            numbers += [min(formal.values) - 1, max(formal.values) + 7]
        if operand.data.dtype == bool or operand.type is OperandCode.BOOL:
            return
        for number in numbers:
            model = self.changed(
                self.operation.inputs[place],
                value=np.full(operand.dimensions, number, operand.data.dtype),
            )
            yield Broken(f"{formal.name} {number}", COMPUTE, model)

    def _shapes(self, place: int, formal: OperandSpec) -> Iterator[Broken]:
        index = self.operation.inputs[place]
        operand = self.model.main.operands[index]
        if operand.is_scalar or not operand.dimensions:
            return
        if formal.rank is not None and formal.rank[1] is not None:
            more = (1,) * (formal.rank[1] + 1 - len(operand.dimensions))
            model = self.changed(index, dimensions=(*operand.dimensions, *more))
            yield Broken(f"rank of {formal.name}", COMPUTE, model)
        if formal.dims is None or len(formal.dims) != len(operand.dimensions):
            return
        for axis, name in enumerate(formal.dims):
            if isinstance(name, int) or self._is_bound(name, place):
                dimensions = list(operand.dimensions)
                dimensions[axis] += 1
                model = self.changed(index, dimensions=tuple(dimensions))
                yield Broken(f"dimension {axis} ({name}) of {formal.name}", COMPUTE, model)

    def _is_bound(self, name: str, place: int) -> bool:
        """Whether another input has an extent of this name."""
        return any(
            name in (formal.dims or ())
            for other, formal in enumerate(self.match.inputs)
            if other != place and self._operand(other).lifetime is not Lifetime.NO_VALUE
        )

    def _outputs(self) -> Iterator[Broken]:
        for place, formal in enumerate(self.match.outputs):
            index = self.operation.outputs[place]
            operand = self.model.main.operands[index]
            is_fixed = formal.quant.get(operand.type.name, formal.quant.get("any")) is not None
            if is_fixed and operand.type in ZERO_POINTS:
                model = self.changed(index, scale=operand.scale * 2)
                yield Broken(f"scale of {formal.name}", COMPUTE, model)
            if operand.is_known and not operand.is_scalar and formal.name != "scratch":
                dimensions = (*operand.dimensions[:-1], operand.dimensions[-1] + 1)
                yield Broken(
                    f"extents of {formal.name}", COMPUTE, self.changed(index, dimensions=dimensions)
                )


Rule = dict[str, Any]


def _more_rank(b: Breaker, rule: Rule) -> Iterator[Model]:
    for name in rule["operands"]:
        if b.has(name):
            operand = b.model.main.operands[b.index(name)]
            if operand.dimensions:
                yield b.changed(b.index(name), dimensions=(*operand.dimensions, 1, 1, 1, 1))


def _other_scale(name: str) -> Callable[[Breaker, Rule], Iterator[Model]]:
    def change(b: Breaker, rule: Rule) -> Iterator[Model]:
        names = rule.get(name, name)
        for each in [names] if isinstance(names, str) else names:
            if not b.has(each):
                continue
            operand = b.model.main.operands[b.index(each)]
            if operand.type in ZERO_POINTS or operand.scale:
                yield b.changed(b.index(each), scale=operand.scale * 2)

    return change


def _zero_point(b: Breaker, rule: Rule) -> Iterator[Model]:
    yield b.changed(b.index(rule["operand"]), zero_point=rule["is"] + 1)


def _channel_dim(b: Breaker, rule: Rule) -> Iterator[Model]:
    index = b.index(rule["operand"])
    operand = b.model.main.operands[index]
    if operand.type is PER_CHANNEL:
        dim = 1 if rule["is"] != 1 else 2
        quant = ChannelQuant(dim, (0.5,) * operand.dimensions[dim])
        yield b.changed(index, channel_quant=quant)


def _scale_above_product(b: Breaker, rule: Rule) -> Iterator[Model]:
    yield b.changed(b.index(rule["of"]), scale=1e-9)


def _more_extent(name: str) -> Callable[[Breaker, Rule], Iterator[Model]]:
    def change(b: Breaker, rule: Rule) -> Iterator[Model]:
        names = rule.get(name, name)
        for each in [names] if isinstance(names, str) else names:
            operand = b.model.main.operands[b.index(each)]
            if operand.dimensions and 0 not in operand.dimensions:
                yield b.changed(
                    b.index(each), dimensions=(operand.dimensions[0] + 1, *operand.dimensions[1:])
                )

    return change


def _activation(b: Breaker, rule: Rule) -> Iterator[Model]:  # noqa: ARG001 - all are called alike
    yield b.changed(b.index("activation"), value=np.asarray(1, np.int32))


def _inner(b: Breaker, rule: Rule) -> Iterator[Model]:  # noqa: ARG001 - all are called alike
    model = copied(b.model)
    for graph in model.referenced.values():
        for index in graph.inputs:
            is_half = graph.operands[index].type is OperandCode.TENSOR_FLOAT16
            other = OperandCode.TENSOR_FLOAT32 if is_half else OperandCode.TENSOR_FLOAT16
            graph.operands[index].type = other
    yield model


RULES: dict[str, Callable[[Breaker, Rule], Iterator[Model]]] = {
    "activation_none": _activation,
    "bias_scale": _other_scale("operand"),
    "channel_dim": _channel_dim,
    "dimensions": _more_extent("operand"),
    "fully_connected": _more_extent("bias"),
    "if_models": _inner,
    "keeps_quant": _other_scale("output"),
    "max_rank": _more_rank,
    "paddings": _more_extent("operand"),
    "rank": _more_rank,
    "same_dimensions": _more_extent("operands"),
    "same_quant": _other_scale("operands"),
    "same_rank": _more_rank,
    "scale_above_product": _scale_above_product,
    "while_models": _inner,
    "zero_point": _zero_point,
}
"""For each kind of rule, models that break it; none where the types aren't those it speaks of."""
