"""A Loop that takes the best of what is left, turn by turn: how boxes are chosen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnconv.formats.onnx import wire
from nnconv.formats.onnx.exporter import Target

LOWEST = np.float32(-np.inf)
"""The score of what is out."""


def take_best(
    t: Target, scores: str, weaken: Callable[[Target, str, str], str], *, limit: str = ""
) -> tuple[str, str]:
    """Who is taken, int64 [n], and their scores then.

    Args:
        t: the graph under construction.
        scores: float32 [m], ``LOWEST`` for what is out from the start.
        weaken: gives the scores behind a turn, in the graph of the turn, of those before it and of
            the place of the one that was taken.
        limit: the most turns, a scalar; until nothing is left where it is empty.
    """
    inner = t.inner()
    turn, go_on, live = (t.names.unique(name) for name in ("turn", "go_on", "live"))
    best = inner.node("ArgMax", [live], axis=0, keepdims=0)
    score = inner.node("Gather", [live, best])
    left = weaken(inner, live, best)
    again, index = _any_left(inner, left), inner.node("Identity", [best])
    body = wire.Graph(
        t.names.unique("turn"),
        inner.nodes,
        [
            wire.ValueInfo(turn, wire.DataType.INT64, ()),
            wire.ValueInfo(go_on, wire.DataType.BOOL, ()),
            wire.ValueInfo(live, wire.DataType.FLOAT, (None,)),
        ],
        [
            wire.ValueInfo(again, wire.DataType.BOOL, ()),
            wire.ValueInfo(left, wire.DataType.FLOAT, (None,)),
            wire.ValueInfo(index, wire.DataType.INT64, ()),
            wire.ValueInfo(score, wire.DataType.FLOAT, ()),
        ],
        inner.initializers,
    )
    results = t.nodes_of("Loop", [limit, _any_left(t, scores), scores], 3, body=body)
    return results[1], results[2]


def _any_left(t: Target, live: str) -> str:
    best = t.node("ReduceMax", [live], keepdims=0)
    return t.node("Greater", [best, t.const(LOWEST)])
