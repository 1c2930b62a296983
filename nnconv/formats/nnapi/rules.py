"""The rules of schemas/nnapi on single operations: one function for each kind.

A function gets the operation and the rule as the schema has it, and gives what is wrong, or an
empty text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnapi.table import Match
from nnconv.formats.nnapi.types import OperandCode
from nnconv.formats.nnapi.wire import Graph, Model, Operand, Operation

Rule: TypeAlias = Mapping[str, Any]


class Subject:
    """An operation that is being checked.

    Attributes:
        operation, graph, model: what it is and where.
        match: what its operands are.
    """

    __slots__ = ("graph", "match", "model", "operation")

    def __init__(self, operation: Operation, graph: Graph, model: Model, match: Match) -> None:
        self.operation = operation
        self.graph = graph
        self.model = model
        self.match = match

    def all(self, name: str) -> list[Operand]:
        """Every operand of a name: none if it is left out, several if the name is a run's."""
        sides = (
            (self.match.inputs, self.operation.inputs),
            (self.match.outputs, self.operation.outputs),
        )
        return [
            self.graph.operands[index]
            for specs, indices in sides
            for formal, index in zip(specs, indices, strict=True)
            if formal.name == name
        ]

    def one(self, name: str) -> Operand:
        """The first operand of a name."""
        return self.all(name)[0]

    def concerned(self, rule: Rule) -> bool:
        """Whether a rule speaks of data of this type, and of this list of inputs."""
        kind = self.match.signature.types.get("T")
        name = "" if kind is None else kind.name
        if "type" in rule and rule["type"] != name:
            return False
        if "types" in rule and name not in rule["types"]:
            return False
        return "without" not in rule or self.match.position(rule["without"]) is None


def _named(subject: Subject, rule: Rule) -> Iterable[tuple[str, Operand]]:
    for name in rule["operands"]:
        for operand in subject.all(name):
            yield name, operand


def _max_rank(subject: Subject, rule: Rule) -> str:
    for name, operand in _named(subject, rule):
        if (operand.rank or 0) > rule["max"]:
            return f"{name} has rank {operand.rank}, at most {rule['max']} is allowed"
    return ""


def _rank(subject: Subject, rule: Rule) -> str:
    allowed = " or ".join(map(str, rule["is"]))
    for name, operand in _named(subject, rule):
        if operand.rank is not None and operand.rank not in rule["is"]:
            return f"{name} has rank {operand.rank}, allowed is {allowed}"
    return ""


def _dimensions(subject: Subject, rule: Rule) -> str:
    seen, wanted = subject.one(rule["operand"]).dimensions, tuple(rule["is"])
    if seen and not _agree(seen, wanted):
        return f"{rule['operand']} has the dimensions {list(seen)}, must have {list(wanted)}"
    return ""


def _same_rank(subject: Subject, rule: Rule) -> str:
    model = subject.one(rule["as"]).rank
    for name, operand in _named(subject, rule):
        if model is None or operand.rank is None:
            continue
        if operand.rank != model + rule["plus"]:
            return f"{name} has rank {operand.rank}, must have {model + rule['plus']}"
    return ""


def _same_dimensions(subject: Subject, rule: Rule) -> str:
    wanted = subject.one(rule["as"]).dimensions
    for name, operand in _named(subject, rule):
        if wanted and operand.dimensions and not _agree(operand.dimensions, wanted):
            seen = list(operand.dimensions)
            return f"{name} has the dimensions {seen}, must have {list(wanted)}"
    return ""


def _same_quant(subject: Subject, rule: Rule) -> str:
    model = subject.one(rule["as"])
    for name, operand in _named(subject, rule):
        if (operand.scale, operand.zero_point) != (model.scale, model.zero_point):
            return (
                f"{name} has scale {operand.scale:g} and zero point {operand.zero_point}, must have"
                f" those of {rule['as']}: {model.scale:g} and {model.zero_point}"
            )
    return ""


def _zero_point(subject: Subject, rule: Rule) -> str:
    seen = subject.one(rule["operand"]).zero_point
    if seen != rule["is"]:
        return f"{rule['operand']} has zero point {seen}, must have {rule['is']}"
    return ""


def _channel_dim(subject: Subject, rule: Rule) -> str:
    quant = subject.one(rule["operand"]).channel_quant
    if quant is not None and quant.dim != rule["is"]:
        return f"{rule['operand']} has its scales along dimension {quant.dim}, must be {rule['is']}"
    return ""


def _scale_above_product(subject: Subject, rule: Rule) -> str:
    scales = [np.float32(subject.one(name).scale) for name in rule["operands"]]
    product = prod(scales, start=np.float32(1))
    scale = np.float32(subject.one(rule["of"]).scale)
    if scale <= product:
        names = " and ".join(rule["operands"])
        return f"{rule['of']} has scale {scale:g}, must be above that of {names}: {product:g}"
    return ""


def _fully_connected(subject: Subject, rule: Rule) -> str:  # noqa: ARG001 - all are called alike
    data, weights, bias = (subject.one(n).dimensions for n in ("input", "weights", "bias"))
    if not (data and weights and bias):
        return ""
    if not 2 <= len(data) <= 4 or len(weights) != 2 or len(bias) != 1:
        ranks = f"{len(data)}, {len(weights)}, {len(bias)}"
        return f"input, weights, bias have ranks {ranks}, allowed are 2 to 4, 2, 1"
    if 0 not in (*data, *weights) and prod(data) % weights[1]:
        return f"input {list(data)} can't be cut in rows of {weights[1]}, as weights ask"
    if weights[0] and bias[0] and weights[0] != bias[0]:
        return f"bias has {plural(bias[0], 'element')}, must have {weights[0]} as weights have rows"
    return ""


def _paddings(subject: Subject, rule: Rule) -> str:
    seen, rank = subject.one(rule["operand"]).dimensions, subject.one(rule["as"]).rank
    if not seen:
        return ""
    if not _agree(seen, (rank or 0, 2)):
        return f"{rule['operand']} has the dimensions {list(seen)}, must have [{rank or '?'}, 2]"
    return ""


# ------------------------------------------------------------------------ control flow


def _if_models(subject: Subject, rule: Rule) -> str:  # noqa: ARG001 - all are called alike
    inputs = [subject.graph.operands[i] for i in subject.operation.inputs[3:]]
    outputs = [subject.graph.operands[i] for i in subject.operation.outputs]
    for name in ("then_model", "else_model"):
        inner = _graph_of(subject, name)
        if inner is None:
            return f"{name} refers to no model"
        if fault := _fits(name, "inputs", _inner(inner, inner.inputs), inputs):
            return fault
        if fault := _fits(name, "outputs", _inner(inner, inner.outputs), outputs):
            return fault
    return ""


def _while_models(subject: Subject, rule: Rule) -> str:  # noqa: ARG001 - all are called alike
    inputs = [subject.graph.operands[i] for i in subject.operation.inputs[2:]]
    outputs = [subject.graph.operands[i] for i in subject.operation.outputs]
    condition, body = _graph_of(subject, "condition_model"), _graph_of(subject, "body_model")
    if condition is None or body is None:
        return "condition_model or body_model refers to no model"
    for name, graph in (("condition_model", condition), ("body_model", body)):
        if fault := _fits(name, "inputs", _inner(graph, graph.inputs), inputs):
            return fault
    verdict = Operand(OperandCode.TENSOR_BOOL8, (1,))
    if fault := _fits(
        "condition_model", "outputs", _inner(condition, condition.outputs), [verdict]
    ):
        return fault
    results = _inner(body, body.outputs)
    if not len(outputs) <= len(results) <= len(inputs):
        return (
            f"body_model has {plural(len(results), 'output')}, allowed are {len(outputs)} (the "
            "operation's) "
            f"to {len(inputs)} (its inputs)"
        )
    if fault := _fits("body_model", "outputs", results[: len(outputs)], outputs):
        return fault
    return _fits("body_model", "outputs", results, inputs[: len(results)])


def _graph_of(subject: Subject, name: str) -> Graph | None:
    body = subject.one(name).body
    return None if body is None else subject.model.referenced[body]


def _inner(graph: Graph, indices: Iterable[int]) -> list[Operand]:
    return [graph.operands[i] for i in indices if 0 <= i < len(graph.operands)]


def _fits(name: str, side: str, inner: list[Operand], outer: list[Operand]) -> str:
    """What keeps a model's ends from taking or giving the operands outside."""
    if len(inner) != len(outer):
        return f"{name} has {plural(len(inner), side[:-1])}, must have {len(outer)}"
    for index, (a, b) in enumerate(zip(inner, outer, strict=True)):
        if not compatible(a, b):
            return f"{name} has {_shown(a)} as number {index} of its {side}, must be {_shown(b)}"
    return ""


def compatible(a: Operand, b: Operand) -> bool:
    """Whether one operand's content can be the other's, as far as both are known."""
    if a.type is not b.type or a.scale != b.scale or a.zero_point != b.zero_point:
        return False
    if a.channel_quant != b.channel_quant:
        return False
    return not a.dimensions or not b.dimensions or _agree(a.dimensions, b.dimensions)


def _shown(operand: Operand) -> str:
    quant = f" ({operand.scale:g}, {operand.zero_point})" if operand.scale else ""
    return f"{operand.type.name} {list(operand.dimensions)}{quant}"


def _agree(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two lists of dimensions are equal where both are known."""
    return len(a) == len(b) and all(x == y or not x or not y for x, y in zip(a, b, strict=True))


BUILD_RULES: dict[str, Callable[[Subject, Rule], str]] = {
    "channel_dim": _channel_dim,
    "dimensions": _dimensions,
    "fully_connected": _fully_connected,
    "if_models": _if_models,
    "max_rank": _max_rank,
    "paddings": _paddings,
    "rank": _rank,
    "same_dimensions": _same_dimensions,
    "same_quant": _same_quant,
    "same_rank": _same_rank,
    "scale_above_product": _scale_above_product,
    "while_models": _while_models,
    "zero_point": _zero_point,
}
"""The kinds of rules that hold while a model is built. The others are seen when it runs."""
