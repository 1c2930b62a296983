"""Ops that cut, pad, turn round or overwrite."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.formats.tflite.exports.pad import export_pad
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.types import Dim
from nnconv.ops import slices as o

_CUT = frozenset(DType) - {
    DType.INT2,
    DType.INT4,
    DType.UINT4,
    DType.BFLOAT16,
    DType.UINT64,
    DType.COMPLEX128,
    DType.STRING,
}


# -------------------------------------------------------------------- cutting


def export_slice(node: Node, t: Target) -> None:
    """SLICE where all extents and bounds are known, else STRIDED_SLICE.

    SLICE is the faster one without XNNPACK; but with a size that is left open XNNPACK doesn't take
    it, and a size that isn't left open stays where an extent changes.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, o.Slice)
    t.require(node, plain=_CUT, codes=_CUT, operands=(0,))
    if op.starts is None or op.ends is None or op.strides is None:
        _cut_at_run_time(node, t)
        return
    if not op.strides:
        t.emit("RESHAPE", [t.tensor(x), t.ints(())], y, ("ReshapeOptions", {}))
        return
    if -1 in op.strides:
        raise t.refused("STRIDED_SLICE turns dimensions round slowly")
    if x.type.is_static and all(stride == 1 for stride in op.strides):
        bounds = [
            range(*slice(start, end).indices(int(dim)))  # type: ignore[arg-type]
            for start, end, dim in zip(op.starts, op.ends, x.shape or (), strict=True)
        ]
        begin, size = t.ints(r.start for r in bounds), t.ints(len(r) for r in bounds)
        t.emit("SLICE", [t.tensor(x), begin, size], y, ("SliceOptions", {}))
        return
    dims: tuple[Dim, ...] = x.shape or (None,) * len(op.strides)
    triples = zip(op.starts, op.ends, op.strides, strict=True)
    begins, ends, masks = [], [], [0, 0]
    for i, ((start, end, stride), dim) in enumerate(zip(triples, dims, strict=True)):
        low = None if start == 0 and stride > 0 else start
        high = None if end is not None and isinstance(dim, int) and 0 < dim <= end else end
        if high == 0 and stride > 0:
            low = high = 1  # of no elements as well; XNNPACK takes an end of 0 for the last
        masks[0] |= (low is None) << i
        masks[1] |= (high is None) << i
        begins.append(low or 0)
        ends.append(high or 0)
    operands = [t.tensor(x), t.ints(begins), t.ints(ends), t.ints(op.strides)]
    fields = {"begin_mask": masks[0], "end_mask": masks[1]}
    t.emit("STRIDED_SLICE", operands, y, ("StridedSliceOptions", fields))


def _cut_at_run_time(node: Node, t: Target) -> None:
    """STRIDED_SLICE with operands, and masks for attributes that are left open."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, o.Slice)
    operands, masks = [t.tensor(x)], [0, 0]
    rest = [*node.inputs, None, None, None]
    for place, given in enumerate((op.starts, op.ends)):
        if given is None:
            value = rest[place + 1]
            assert value is not None, "the verifier wants bounds"
            operands.append(t.index(value))
        else:
            masks[place] = sum((entry is None) << i for i, entry in enumerate(given))
            operands.append(t.ints(entry or 0 for entry in given))
    if op.strides is None:
        strides = rest[3]
        assert strides is not None, "the verifier wants strides"
        operands.append(t.index(strides))
    else:
        operands.append(t.ints(op.strides))
    fields = {"begin_mask": masks[0], "end_mask": masks[1]}
    t.emit("STRIDED_SLICE", operands, node.outputs[0], ("StridedSliceOptions", fields))


# -------------------------------------------------------------------- turning round, overwriting

_REVERSED = frozenset(
    {
        DType.BOOL,
        DType.INT8,
        DType.UINT8,
        DType.INT16,
        DType.INT32,
        DType.INT64,
        DType.FLOAT16,
        DType.FLOAT32,
    }
)


def export_reverse(node: Node, t: Target) -> None:
    """REVERSE_V2 of neighbouring dimensions."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, o.Reverse)
    t.require(node, plain=_REVERSED, codes=_REVERSED)
    axes = sorted(set(op.axes))
    if not axes:
        extents = t.ints(d if isinstance(d, int) else -1 for d in x.shape or ())
        t.emit("RESHAPE", [t.tensor(x), extents], y, ("ReshapeOptions", {}))
        return
    if axes[-1] - axes[0] >= len(axes):
        raise t.refused("REVERSE_V2 wants axes side by side")
    t.emit("REVERSE_V2", [t.tensor(x), t.ints(axes)], y, ("ReverseV2Options", {}))


_SEQUENCES = frozenset({DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32})


def export_reverse_sequence(node: Node, t: Target) -> None:
    """REVERSE_SEQUENCE."""
    op, x, lengths = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, o.ReverseSequence)
    t.require(node, plain=_SEQUENCES, codes=_SEQUENCES, operands=(0,))
    fields = {"seq_dim": op.axis, "batch_dim": op.batch_axis}
    operands = [t.tensor(x), t.index(lengths)]
    t.emit("REVERSE_SEQUENCE", operands, node.outputs[0], ("ReverseSequenceOptions", fields))


def export_dynamic_update_slice(node: Node, t: Target) -> None:
    """DYNAMIC_UPDATE_SLICE."""
    x, update, starts = (node.operand(i) for i in range(3))
    y = node.outputs[0]
    t.require(node, plain=_CUT, codes=_CUT, operands=(0, 1))
    if y.quant is not None:
        tensors = [t.requantized(v, y.quant) for v in (x, update)]
    else:
        tensors = [t.tensor(x), t.tensor(update)]
    operands = [*tensors, t.index(starts)]
    t.emit("DYNAMIC_UPDATE_SLICE", operands, y, ("DynamicUpdateSliceOptions", {}))


EXPORTERS: dict[type[Op], Exporter] = {
    o.Slice: export_slice,
    o.Pad: export_pad,
    o.Reverse: export_reverse,
    o.ReverseSequence: export_reverse_sequence,
    o.DynamicUpdateSlice: export_dynamic_update_slice,
}
