"""Whether a model keeps the rules of NNAPI, and at which feature level.

Each rule that a model breaks is a ``Finding``: where, what was seen and what is allowed, and the
feature level from which on it isn't broken, if there is one. ``rules.py`` holds the rules on single
operations; the rest, on operands and on the graph as a whole, is here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nnconv.errors import plural
from nnconv.formats.findings import BrokenModelError, Finding, run_order
from nnconv.formats.nnapi.rules import BUILD_RULES, Subject
from nnconv.formats.nnapi.table import MismatchError, match, type_levels
from nnconv.formats.nnapi.types import (
    LEVELS,
    NEWEST_LEVEL,
    NUMPY,
    PER_CHANNEL,
    ZERO_POINTS,
    OperandCode,
    OperationCode,
)
from nnconv.formats.nnapi.wire import Graph, Lifetime, Model, Operand, Operation

MOST_BYTES = (1 << 32) - 1
"""Lengths are uint32 in the API."""

UNKNOWN_RANK_LEVEL = 3
"""The feature level that a tensor of unknown rank needs."""


def findings(model: Model) -> list[Finding]:
    """What the model breaks at some feature level, the first that a level above 1 allows too."""
    found = list(_references(model))
    if found:  # following circles would not end
        return found
    for number, (label, graph) in zip((-1, *model.referenced), model.graphs(), strict=True):
        found += (
            f._replace(where=f"{label}, {f.where}" if number >= 0 else f.where, graph=number)
            for f in graph_findings(graph, model)
        )
    return found


def problems(model: Model, level: int = NEWEST_LEVEL) -> list[Finding]:
    """What keeps a model from being valid at a feature level (1 to 8)."""
    return [f for f in findings(model) if f.level is None or f.level > level]


def check(model: Model, level: int = NEWEST_LEVEL, *, path: str = "") -> None:
    """See that a model is valid at a feature level; errors call it ``path``.

    Raises:
        InvalidModelError: it isn't; the text has every reason.
    """
    if found := problems(model, level):
        raise BrokenModelError(found, rules=f"NNAPI at feature level {level}", path=path)


def least_level(model: Model, *, path: str = "") -> int:
    """The least feature level at which a model is valid; errors call it ``path``.

    Raises:
        InvalidModelError: there is none.
    """
    found = findings(model)
    if any(finding.level is None for finding in found):
        check(model, path=path)
    return max([LEVELS[0], *(f.level for f in found if f.level is not None)])


# ------------------------------------------------------------------------ the model as a whole


def _references(model: Model) -> Iterator[Finding]:
    """References to models that aren't there, and circles of them."""
    count = len(model.referenced)
    for label, graph in model.graphs():
        for index, operand in enumerate(graph.operands):
            if operand.lifetime is not Lifetime.MODEL:
                continue
            if not isinstance(operand.value, int) or operand.value not in model.referenced:
                yield Finding(
                    f"{label}, operand {index}", f"model {operand.value}, there are {count}"
                )
    callers = [
        Operation(OperationCode.IF, tuple(graph.calls()), (number,))
        for number, graph in model.referenced.items()
    ]
    if run_order(callers) is None:
        yield Finding("the model", "its graphs refer to one another in a circle")


def graph_findings(graph: Graph, model: Model) -> list[Finding]:
    """What a graph breaks: its operands, its operations, and how they hang together."""
    found = list(_indices(graph))
    if found:
        return found
    used = {*graph.inputs, *graph.outputs}
    for operation in graph.operations:
        used.update(operation.inputs, operation.outputs)
    for index, operand in enumerate(graph.operands):
        place = operand_place(graph, index)
        found += (
            Finding(place, message, level)
            for message, level in operand_faults(operand)
            if level is None or index in used  # what nothing refers to costs no device anything
        )
    for index, operation in enumerate(graph.operations):
        place = f"operation {index} ({operation.code.name})"
        found += (
            Finding(place, message, level, index)
            for message, level in operation_faults(operation, graph, model)
        )
    found += _structure(graph)
    return found


def operand_place(graph: Graph, index: int) -> str:
    """What messages call an operand."""
    name = graph.operands[index].name
    return f"operand {index} (`{name}`)" if name else f"operand {index}"


def _indices(graph: Graph) -> Iterator[Finding]:
    """Indices of operands that aren't there."""
    count = len(graph.operands)
    groups = [("the inputs", graph.inputs), ("the outputs", graph.outputs)]
    for number, operation in enumerate(graph.operations):
        place = f"operation {number} ({operation.code.name})"
        groups += [(place, operation.inputs), (place, operation.outputs)]
    for place, indices in groups:
        for index in indices:
            if not 0 <= index < count:
                yield Finding(place, f"operand {index}, there are {count}")


# ------------------------------------------------------------------------ operands


def operand_faults(operand: Operand) -> Iterator[tuple[str, int | None]]:
    """What an operand breaks by itself, each with the level that allows it."""
    for fault in type_faults(operand):
        yield fault, None
    level = type_levels()[operand.type]
    if level > LEVELS[0]:
        yield f"type {operand.type.name}", level
    if not operand.is_scalar and not operand.dimensions:
        yield "a tensor of unknown rank", UNKNOWN_RANK_LEVEL
    for fault in _value_faults(operand):
        yield fault, None


def type_faults(operand: Operand) -> Iterator[str]:
    """What is wrong with an operand's type, dimensions and quantization, its value aside."""
    kind = operand.type
    if operand.is_scalar and operand.dimensions:
        yield f"a scalar has the dimensions {list(operand.dimensions)}, must have none"
    scale, point = operand.scale, operand.zero_point
    if kind in ZERO_POINTS:
        low, high = ZERO_POINTS[kind]
        if not low <= point <= high:
            yield f"zero point {point}, allowed are {low} to {high} for {kind.name}"
        if not (scale > 0 and np.isfinite(scale)):
            yield f"scale {scale:g}, must be above 0 for {kind.name}"
    elif kind is not OperandCode.TENSOR_INT32 and (scale or point):
        yield f"scale {scale:g} and zero point {point}, must be 0 for {kind.name}"
    if kind is not OperandCode.MODEL and not operand.is_scalar:
        size = NUMPY[kind].itemsize
        for extent in operand.dimensions:
            size *= extent or 1
        if size > MOST_BYTES:
            yield f"{plural(size, 'byte')}, at most {MOST_BYTES} are possible"


def _value_faults(operand: Operand) -> Iterator[str]:
    """What only the finished model must have right."""
    if operand.type is OperandCode.TENSOR_INT32:
        if operand.scale < 0 or not np.isfinite(operand.scale):
            yield f"scale {operand.scale:g}, must be 0 or more for TENSOR_INT32"
        if operand.zero_point:
            yield f"zero point {operand.zero_point}, must be 0 for TENSOR_INT32"
    if operand.type is PER_CHANNEL:
        yield from channel_faults(operand)
    elif operand.channel_quant is not None:
        yield f"scales per channel, which only {PER_CHANNEL.name} has"
    is_model = operand.type is OperandCode.MODEL
    if is_model is not (operand.lifetime is Lifetime.MODEL):
        yield f"type {operand.type.name} with the lifetime {operand.lifetime.value}"
    if operand.lifetime is Lifetime.CONSTANT:
        if not operand.is_known:
            yield f"a constant with the dimensions {list(operand.dimensions)}, all must be known"
        data = operand.data
        if data is None or data.nbytes != operand.nbytes:
            size = 0 if data is None else data.nbytes
            yield f"its value has {plural(size, 'byte')}, must have {operand.nbytes}"


def channel_faults(operand: Operand) -> Iterator[str]:
    """What is wrong with the scales of a per-channel operand."""
    quant = operand.channel_quant
    if quant is None:
        yield "scales per channel are missing"
        return
    rank = len(operand.dimensions)
    if not 0 <= quant.dim < rank:
        yield f"channel dimension {quant.dim}, its rank is {rank}"
    elif len(quant.scales) != operand.dimensions[quant.dim] or not quant.scales:
        extent = operand.dimensions[quant.dim]
        yield (
            f"{plural(len(quant.scales), 'scale')} for {plural(extent, 'channel')}, must be "
            "one for each"
        )
    scales = quant.scales
    if scales and not (min(scales) > 0 and math.isfinite(sum(scales))):
        yield "a channel's scale isn't above 0"


# ------------------------------------------------------------------------ operations


def operation_faults(
    operation: Operation, graph: Graph, model: Model
) -> Iterator[tuple[str, int | None]]:
    """What an operation breaks, each with the level that allows it; None if none does."""
    try:
        found = match(operation, graph)
    except MismatchError as error:
        yield str(error), None
        return
    if found.level > LEVELS[0]:
        yield found.reason, found.level
    subject = Subject(operation, graph, model, found)
    for rule in found.spec.rules:
        if rule["stage"] != "build" or not subject.concerned(rule):
            continue
        if message := BUILD_RULES[rule["rule"]](subject, rule):
            yield message, rule.get("level")


# ------------------------------------------------------------------------ how it hangs together


def _structure(graph: Graph) -> Iterator[Finding]:
    """Operands that nothing writes or that too much does, and operations in a circle."""
    if not graph.operands or not graph.operations:
        yield Finding("the graph", "it has no operations")
    if not graph.inputs or not graph.outputs:
        yield Finding("the graph", "it has no inputs or no outputs, at least one each is needed")
    writers: dict[int, int] = {}
    for number, operation in enumerate(graph.operations):
        place = f"operation {number} ({operation.code.name})"
        for index in operation.outputs:
            lifetime = graph.operands[index].lifetime
            if lifetime not in (Lifetime.TEMPORARY, Lifetime.OUTPUT):
                yield Finding(place, f"it writes operand {index}, a {lifetime.value}", None, number)
            if index in writers:
                text = f"it writes operand {index}, as operation {writers[index]} does"
                yield Finding(place, text, None, number)
            writers[index] = number
    yield from _ends(graph)
    for index, operand in enumerate(graph.operands):
        if operand.lifetime in (Lifetime.TEMPORARY, Lifetime.OUTPUT) and index not in writers:
            yield Finding(operand_place(graph, index), "no operation writes it")
    if run_order(graph.operations) is None:
        yield Finding("the graph", "its operations read one another's outputs in a circle")


def _ends(graph: Graph) -> Iterator[Finding]:
    """Inputs and outputs that don't say so of themselves, or are listed twice."""
    for what, lifetime, indices in (
        ("input", Lifetime.INPUT, graph.inputs),
        ("output", Lifetime.OUTPUT, graph.outputs),
    ):
        if len(set(indices)) != len(indices):
            yield Finding(f"the {what}s", "an operand is listed twice")
        listed = set(indices)
        for index, operand in enumerate(graph.operands):
            if (operand.lifetime is lifetime) is not (index in listed):
                listing = "is" if index in listed else "isn't"
                yield Finding(
                    operand_place(graph, index),
                    f"its lifetime is {operand.lifetime.value}, but it {listing} among the {what}s",
                )
