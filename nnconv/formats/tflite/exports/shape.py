"""Ops that move, repeat, cut or join elements; shapes."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.formats.tflite.types import CODES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops import shape as s

_MOVED = frozenset(
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


def export_identity(node: Node, t: Target) -> None:
    """RESHAPE to the same shape: TFLite has no identity."""
    x = _first(node)
    if x.type.is_static or x.shape is None or sum(not isinstance(d, int) for d in x.shape) == 1:
        extents = [d if isinstance(d, int) else -1 for d in x.shape or ()]
        _reshape(t, t.tensor(x), node.outputs[0], t.ints(extents))
        return
    shape = t.result(
        "SHAPE",
        [t.tensor(x)],
        TensorType(DType.INT32, (len(x.shape),)),
        ("ShapeOptions", {"out_type": CODES[DType.INT32]}),
    )
    _reshape(t, t.tensor(x), node.outputs[0], shape)


def _first(node: Node) -> Value:
    x = node.inputs[0]
    assert x is not None, "operand 0 is required"
    return x


def _reshape(t: Target, x: int, y: Value, shape: int) -> None:
    t.emit("RESHAPE", [x, shape], y, ("ReshapeOptions", {}))


def export_reshape(node: Node, t: Target) -> None:
    """RESHAPE; the shape as a constant of int32."""
    op, x = node.op, _first(node)
    assert isinstance(op, s.Reshape)
    if op.shape is None:
        target = node.inputs[1]
        assert target is not None, "the verifier wants a shape"
        _reshape(t, t.tensor(x), node.outputs[0], t.index(target))
        return
    _reshape(t, t.tensor(x), node.outputs[0], t.ints(op.shape))


def export_squeeze(node: Node, t: Target) -> None:
    """SQUEEZE of rank 8 and less; Unsqueeze as RESHAPE where that follows an open extent."""
    op, x, y = node.op, _first(node), node.outputs[0]
    assert isinstance(op, s.Squeeze | s.Unsqueeze)
    if y.shape is not None and sum(not isinstance(d, int) for d in y.shape) <= 1:
        extents = [d if isinstance(d, int) else -1 for d in y.shape]
        if -1 not in extents or 0 not in extents:
            _reshape(t, t.tensor(x), y, t.ints(extents))
            return
    if isinstance(op, s.Squeeze):
        options = ("SqueezeOptions", {"squeeze_dims": op.axes})
        t.emit("SQUEEZE", [t.tensor(x)], y, options)
        return
    tensor, dims = t.tensor(x), list(x.shape or ())
    for axis in op.axes[:-1]:
        dims.insert(axis, 1)
        kind = TensorType(x.dtype, tuple(dims), x.quant)
        tensor = t.result("EXPAND_DIMS", [tensor, t.ints([axis])], kind, ("ExpandDimsOptions", {}))
    t.emit("EXPAND_DIMS", [tensor, t.ints([op.axes[-1]])], y, ("ExpandDimsOptions", {}))


def export_transpose(node: Node, t: Target) -> None:
    """TRANSPOSE."""
    op, x = node.op, _first(node)
    assert isinstance(op, s.Transpose)
    t.require(node, plain=_MOVED, codes=_MOVED)
    if op.perm is None:
        given = node.inputs[1]
        assert given is not None, "the verifier wants a perm"
        perm = t.index(given)
    else:
        perm = t.ints(op.perm)
    t.emit("TRANSPOSE", [t.tensor(x), perm], node.outputs[0], ("TransposeOptions", {}))


def export_concat(node: Node, t: Target) -> None:
    """CONCATENATION; int8 kernels want all operands under the result's parameters."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.Concat)
    t.require(node, plain=_MOVED - {DType.FLOAT16}, codes=_MOVED)
    parts = [
        t.tensor(v) if y.quant is None or v is None else t.requantized(v, y.quant)
        for v in node.inputs
    ]
    options = (
        "ConcatenationOptions",
        {"axis": op.axis, "fused_activation_function": t.activation(op.activation)},
    )
    t.emit("CONCATENATION", parts, y, options)


EXPORTERS: dict[type[Op], Exporter] = {
    s.Identity: export_identity,
    s.Reshape: export_reshape,
    s.Squeeze: export_squeeze,
    s.Unsqueeze: export_squeeze,
    s.Transpose: export_transpose,
    s.Concat: export_concat,
}
