"""Counting n-grams."""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.ngrams import TfIdf


def export_tf_idf(node: Node, t: Target) -> None:
    """TfIdfVectorizer."""
    op = node.op
    assert isinstance(op, TfIdf)
    pool: list[int] = []
    starts = []
    longest = max(len(g.numbers) for g in op.grams)
    for length in range(1, longest + 1):
        starts.append(len(pool))
        pool += [n for g in op.grams if len(g.numbers) == length for n in g.numbers]
    ordered = sorted(op.grams, key=lambda g: len(g.numbers))
    weights = [g.weight for g in ordered]
    result = t.node(
        "TfIdfVectorizer",
        [t.stored(node.inputs[0])],
        mode=op.mode,
        min_gram_length=op.shortest,
        max_gram_length=op.longest,
        max_skip_count=op.skips,
        ngram_counts=starts,
        ngram_indexes=[g.place for g in ordered],
        pool_int64s=pool,
        weights=weights if any(w != 1 for w in weights) else None,
    )
    t.set_stored(node.outputs[0], result)


EXPORTERS: dict[type[Op], Exporter] = {TfIdf: export_tf_idf}
