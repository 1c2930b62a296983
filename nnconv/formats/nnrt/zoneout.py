"""LSTM layers with zoneout, written out step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.hints import GIVE_SHAPES
from nnconv.formats.nnrt.importer import Source
from nnconv.ir.graph import Value
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import MatMul
from nnconv.ops.shape import Concat, Reshape, Split, Stack

MOST_STEPS = 1 << 12
"""Layers of more steps would make a graph that nobody wants."""


def zoned_layer(
    s: Source, inputs: Sequence[Value | None], zoneout: tuple[float, float], directions: int
) -> tuple[Value, Value, Value]:
    """A layer that keeps a share of its cells, and one of its outputs, from step to step.

    Args:
        s: the operation.
        inputs: of an LstmLayer: x [T, B, I], weights, recurrent weights, bias, nothing, the states.
        zoneout: the shares of cells and outputs.
        directions: 1, or 2 where another runs from the last step to the first.

    Returns:
        Outputs [T, B, D * H], the last outputs and the last cells [D, B, H].

    Raises:
        NotConvertible: the number of steps isn't known, or is too great.
    """
    x = inputs[0]
    assert x is not None
    steps = x.shape[0] if x.shape else None
    if not isinstance(steps, int) or not 0 < steps <= MOST_STEPS:
        raise s.unsupported(
            "zoneout in a layer whose number of steps isn't known, or very great",
            hint=GIVE_SHAPES,
        )
    found = [_direction(s, inputs, zoneout, number, steps) for number in range(directions)]
    columns, last, cells = zip(*found, strict=True)
    whole = columns[0] if directions == 1 else s.add(Concat(axis=2), list(columns))
    return whole, s.add(Stack(axis=0), list(last)), s.add(Stack(axis=0), list(cells))


def _direction(
    s: Source,
    inputs: Sequence[Value | None],
    zoneout: tuple[float, float],
    number: int,
    steps: int,
) -> tuple[Value, Value, Value]:
    """Outputs [T, B, H], the last output and the last cells [B, H] of one direction."""
    x, *rest = inputs
    weights, recurrent, bias, _, h, c = (None if v is None else _at(s, v, number) for v in rest)
    assert x is not None
    assert recurrent is not None
    assert h is not None
    assert c is not None
    whole = s.add(MatMul(transpose_b=True), [x, weights])
    size = (recurrent.shape or (None,))[0]
    if not isinstance(size, int):
        raise s.unsupported("the number of its cells isn't known")
    if bias is not None:
        halves = s.add(Reshape(shape=(2, size)), [bias])
        whole = s.add(e.Add(), [whole, s.add(e.Add(), [_at(s, halves, 0), _at(s, halves, 1)])])
    outputs: list[Value] = []
    for step in reversed(range(steps)) if number else range(steps):
        past = s.add(MatMul(transpose_b=True), [h, recurrent])
        gates = s.add(e.Add(), [_at(s, whole, step), past])
        i, o, f, g = s.add_many(Split(axis=1, sizes=(size // 4,) * 4), [gates])
        kept = s.add(e.Mul(), [s.add(e.Sigmoid(), [f]), c])
        new = s.add(e.Mul(), [s.add(e.Sigmoid(), [i]), s.add(e.Tanh(), [g])])
        c = _zoned(s, c, s.add(e.Add(), [kept, new]), zoneout[0])
        shown = s.add(e.Mul(), [s.add(e.Sigmoid(), [o]), s.add(e.Tanh(), [c])])
        h = _zoned(s, h, shown, zoneout[1])
        outputs.append(h)
    return s.add(Stack(axis=0), outputs[::-1] if number else outputs), h, c


def _zoned(s: Source, old: Value, new: Value, share: float) -> Value:
    """A share of the old state, and the rest of the new one."""
    if share == 0:
        return new
    parts = [_times(s, old, share), _times(s, new, 1 - share)]
    return s.add(e.Add(), parts)


def _times(s: Source, value: Value, factor: float) -> Value:
    return s.add(e.Mul(), [value, s.scalar(factor, value.dtype)])


def _at(s: Source, value: Value, index: int) -> Value:
    """value[index], of the first dimension."""
    return s.add(Gather(axis=0), [value, s.const(np.asarray(index, np.int32))])
