"""Whole recurrent layers, which TFLite lacks: its recurrent ops keep a state from run to run."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.recurrent import GruLayer, LstmLayer, RnnLayer


def export_layer(node: Node, t: Target) -> None:
    """Decomposed, in float32."""
    t.require(node, plain=FLOAT32, operands=[i for i in range(len(node.inputs)) if i != 4])
    raise t.refused("TFLite's recurrent ops keep their states from run to run")


EXPORTERS: dict[type[Op], Exporter] = dict.fromkeys((RnnLayer, GruLayer, LstmLayer), export_layer)
