"""Control flow: bodies become subgraphs."""

from __future__ import annotations

from nnconv.decompositions.control import collections
from nnconv.formats.refusals import NotExportable
from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.control import If, While
from nnconv.ops.shape import Identity


def _bodies(node: Node, t: Target) -> list[int]:
    """The subgraphs of a node's bodies.

    Raises:
        NotExportable: with everything in them that can't be exported.
    """
    indices, refused = [], []
    for body in node.bodies:
        index, items = t.file.subgraph(body)
        indices.append(index)
        refused += items
    if refused:
        raise NotExportable(*refused)
    return indices


def _emit(node: Node, t: Target, name: str, table: str, fields: dict[str, int]) -> None:
    inputs = [t.tensor(v) for v in node.inputs]
    t.operator(name, inputs, [t.declare(v) for v in node.outputs], (table, fields))


def export_if(node: Node, t: Target) -> None:
    """IF."""
    then, otherwise = _bodies(node, t)
    fields = {"then_subgraph_index": then, "else_subgraph_index": otherwise}
    _emit(node, t, "IF", "IfOptions", fields)


def export_while(node: Node, t: Target) -> None:
    """WHILE; what it carries isn't empty (see ``nnconv.decompositions.control``)."""
    if collections(node):
        raise t.refused("LiteRT's WHILE fails on an empty value")
    body = node.bodies[1]
    for place, value in enumerate(body.outputs):
        if value in body.inputs and body.inputs[place] is not value:
            # LiteRT hands results on one after the other: the first would overwrite the second
            copies = Builder(body).add_typed(Identity(), [value], [value.type])
            body.outputs[place] = copies[0]
    condition, turn = _bodies(node, t)
    fields = {"cond_subgraph_index": condition, "body_subgraph_index": turn}
    _emit(node, t, "WHILE", "WhileOptions", fields)


EXPORTERS: dict[type[Op], Exporter] = {If: export_if, While: export_while}
