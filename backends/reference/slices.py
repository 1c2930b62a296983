"""Ops that cut, pad, turn round or overwrite stretches of a tensor."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel, code_of, flat, takes_kind

from nnconv.errors import plural
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.slices import (
    DynamicUpdateSlice,
    Pad,
    PadMode,
    Reverse,
    ReverseSequence,
    Slice,
)


def _given(attribute: tuple[int | None, ...] | None, operand: Array | None) -> list[int | None]:
    if attribute is not None:
        return list(attribute)
    assert operand is not None
    return [int(n) for n in np.ravel(operand)]


def cut(
    op: Slice,
    x: Array,
    starts: Array | None = None,
    ends: Array | None = None,
    strides: Array | None = None,
) -> list[Array]:
    """Slice."""
    bounds = zip(
        _given(op.starts, starts),
        _given(op.ends, ends),
        _given(op.strides, strides),
        strict=True,
    )
    return [x[tuple(slice(*b) for b in bounds)]]


_MODES = {
    PadMode.REFLECT: "reflect",
    PadMode.SYMMETRIC: "symmetric",
    PadMode.EDGE: "edge",
    PadMode.WRAP: "wrap",
}


@takes_kind
def pad(
    op: Pad,
    x: Array,
    pads: Array | None = None,
    value: Array | None = None,
    *,
    kind: TensorType,
) -> list[Array]:
    """Pad."""
    if op.before is not None and op.after is not None:
        pairs = list(zip(op.before, op.after, strict=True))
    else:
        assert pads is not None
        found = op.pairs(flat(pads), x.ndim)
        if found is None or len(found) != x.ndim:
            raise ValueError(f"{plural(pads.size, 'pad')} for rank {x.ndim}")
        pairs = found
    grown = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if op.mode is PadMode.CONSTANT:
        fill = code_of(op.value, kind) if value is None else value.reshape(-1)[0]
        result = np.pad(x, grown, constant_values=fill)
    else:
        result = np.pad(x, grown, mode=_MODES[op.mode])  # type: ignore[call-overload]
    keep = tuple(
        slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, result.shape, strict=True)
    )
    return [result[keep]]


def reverse_sequence(op: ReverseSequence, x: Array, lengths: Array) -> list[Array]:
    """ReverseSequence."""
    data = np.moveaxis(x, (op.batch_axis, op.axis), (0, 1))
    result = data.copy()
    for row, length in enumerate(np.ravel(lengths)):
        result[row, :length] = data[row, :length][::-1]
    return [np.moveaxis(result, (0, 1), (op.batch_axis, op.axis))]


def update_slice(op: DynamicUpdateSlice, x: Array, update: Array, starts: Array) -> list[Array]:
    """DynamicUpdateSlice."""
    result = x.copy()
    places = [
        min(max(int(start), 0), n - m)
        for start, n, m in zip(np.ravel(starts), x.shape, update.shape, strict=True)
    ]
    result[tuple(slice(p, p + m) for p, m in zip(places, update.shape, strict=True))] = update
    return [result]


KERNELS: dict[type[Op], Kernel] = {
    Slice: cut,
    Pad: pad,
    Reverse: lambda op, x: [np.flip(x, op.axes)],
    ReverseSequence: reverse_sequence,
    DynamicUpdateSlice: update_slice,
}
