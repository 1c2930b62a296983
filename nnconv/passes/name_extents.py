"""Gives extents of inputs that have no name one, so that equal extents are known to be equal."""

from __future__ import annotations

from collections.abc import Iterable

from nnconv.ir.graph import Graph, Model, Value
from nnconv.ir.types import merge_shapes
from nnconv.ops.control import If
from nnconv.passes.base import retype


def name_extents(model: Model) -> frozenset[str]:
    """Name the open extents of a model's inputs, and of what is computed from these.

    The bodies of branches learn of them; those of loops, whose turns may change extents, don't.

    Returns:
        the names that were given.
    """
    names: list[str] = []
    for signature in model.signatures:
        graph, named = signature.graph, []
        for place, value in enumerate(graph.inputs):
            if value.shape is None or None not in value.shape:
                continue
            start = value.name or f"input{place}"
            dims = tuple(f"{start}:{i}" if d is None else d for i, d in enumerate(value.shape))
            names += (str(d) for d, old in zip(dims, value.shape, strict=True) if old is None)
            value.type = value.type.with_shape(dims)
            named.append(value)
        if named:
            _spread(graph, named)
    return frozenset(names)


def forget_extents(values: Iterable[Value], names: frozenset[str]) -> None:
    """Let extents that were named so have no name again."""
    for value in values:
        if value.shape is not None and not names.isdisjoint(value.shape):
            dims = tuple(None if d in names else d for d in value.shape)
            value.type = value.type.with_shape(dims)


def _spread(graph: Graph, changed: Iterable[Value]) -> None:
    """Let what is computed of values whose types changed have what is now known of theirs."""
    known = set(changed)
    for node in graph.nodes:
        if known.isdisjoint(v for v in node.inputs if v is not None):
            continue
        if isinstance(node.op, If):
            for body in node.bodies:
                _spread(body, _handed(body, node.inputs[1:]))
        if not node.bodies or isinstance(node.op, If):
            known.update(retype(node))


def _handed(body: Graph, operands: Iterable[Value | None]) -> list[Value]:
    """The inputs of a body that learn more of their extents from what it gets."""
    found = []
    for value, operand in zip(body.inputs, operands, strict=True):
        shape = merge_shapes(value.shape, None if operand is None else operand.shape)
        if shape != value.shape:
            value.type = value.type.with_shape(shape)
            found.append(value)
    return found
