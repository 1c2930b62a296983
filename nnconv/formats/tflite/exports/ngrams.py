"""Counting n-grams."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.ngrams import TfIdf


def export_tf_idf(_: Node, t: Target) -> None:
    """Decomposed."""
    raise t.refused(
        "TFLite counts no n-grams", hint="The length of the sequences must be known, or short."
    )


EXPORTERS: dict[type[Op], Exporter] = {TfIdf: export_tf_idf}
