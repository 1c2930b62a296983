"""Ops that move, repeat, cut or join elements; constants; shapes."""

from __future__ import annotations

import numpy as np

from nnconv.errors import Reason, plural
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.formats.onnx.types import DTYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.types import Dim, Shape, broadcast_shapes, element_count, static_shape
from nnconv.ops import dynamic as d
from nnconv.ops import shape as s
from nnconv.ops.elements import reshape_target, solved
from nnconv.ops.reduce import ReduceProd


def import_identity(s_: Source) -> None:
    """Identity, and ops that are one at inference: the value itself under another name."""
    s_.bind(0, s_.operand(0))


def import_constant(src: Source) -> None:
    """Constant: a tensor, or numbers or texts as such."""
    for name, dtype in (
        ("value_int", np.int64),
        ("value_ints", np.int64),
        ("value_float", np.float32),
        ("value_floats", np.float32),
    ):
        if not src.has(name):
            continue
        if name.endswith("s"):
            numbers = src.int_list(name) if dtype is np.int64 else src.float_list(name)
            src.bind(0, src.const(np.asarray(numbers, dtype), src.node.outputs[0]))
        else:
            number = src.int(name) if dtype is np.int64 else src.float(name)
            src.bind(0, src.const(np.asarray(number, dtype), src.node.outputs[0]))
        return
    texts = src.text_list("value_strings")
    if texts is not None or src.has("value_string"):
        data = np.array(src.text("value_string") if texts is None else texts, object)
        src.bind(0, src.const(data, src.node.outputs[0], dtype=DType.STRING))
        return
    found = src.node.attributes.get("value") or src.node.attributes.get("sparse_value")
    tensor = found.value if isinstance(found, wire.Attribute) else found
    if not isinstance(tensor, wire.Tensor):
        raise src.unsupported("it holds no tensor of numbers", reason=Reason.OUT_OF_SCOPE)
    dtype_of = DTYPES.get(tensor.dtype)
    if dtype_of is None:
        raise src.unsupported(f"its elements are {tensor.dtype.name}", reason=Reason.OUT_OF_SCOPE)
    src.bind(0, src.const(tensor.array(), src.node.outputs[0], dtype=dtype_of))


def import_reshape(src: Source) -> None:
    """Reshape: 0 keeps the operand's extent there, unless ``allowzero``."""
    x, target = src.operand(0), src.dims(1)
    keeps = not src.int("allowzero", 0)
    if any(isinstance(dim, int) and dim < -1 for dim in target or ()):
        raise src.fail(f"shape {list(target or ())} has an extent below -1")
    stated = _kept(src, x, target) if keeps and target is not None else target
    fixed = reshape_target(x.shape, stated)
    if fixed is not None:
        src.emit(s.Reshape(shape=fixed), [x])
        return
    value = src.emit(d.DynamicReshape(keeps=keeps), [x, src.operand(1)])[0]
    if stated is not None:
        if x.shape is not None and -1 in stated:
            stated = solved(x.shape, stated)
        value.type = value.type.with_shape(tuple(None if dim == -1 else dim for dim in stated))


def _kept(src: Source, x: Value, target: tuple[Dim, ...]) -> Shape:
    """A target shape with the extents of ``x`` in the place of zeros."""
    if x.shape is None:
        return tuple(None if dim == 0 else dim for dim in target)
    if any(dim == 0 for dim in target[len(x.shape) :]):
        raise src.fail(f"shape {list(target)} keeps a dimension beyond rank {len(x.shape)}")
    return tuple(x.shape[i] if dim == 0 else dim for i, dim in enumerate(target))


def import_transpose(src: Source) -> None:
    """Transpose: the dimensions in reverse where ``perm`` is left out."""
    x = src.operand(0)
    perm = src.int_list("perm")
    if perm is None:
        perm = tuple(reversed(range(src.rank(x))))
    src.emit(s.Transpose(perm=perm), [x])


def import_flatten(src: Source) -> None:
    """Flatten: two dimensions, those before ``axis`` and those from it on."""
    x = src.operand(0)
    rank = src.rank(x)
    axis = src.int("axis", 1)
    if not -rank <= axis <= rank:
        raise src.fail(f"axis {axis} is out of range for rank {rank}")
    axis = axis + rank if axis < 0 else axis
    assert x.shape is not None
    sizes = [element_count(x.shape[:axis]), element_count(x.shape[axis:])]
    if None not in sizes or sizes.count(None) == 1:
        src.emit(s.Reshape(shape=tuple(-1 if n is None else n for n in sizes)), [x])
        return
    counts = []  # both: where there are no elements, -1 could be anything
    for dims in (range(axis), range(axis, rank)):
        extents = src.add(s.ShapeOf(dtype=DType.INT64, dims=tuple(dims)), [x])
        counts.append(src.add(ReduceProd(axes=(0,), keep_dims=True), [extents]))
    src.emit(s.Reshape(shape=None), [x, src.add(s.Concat(axis=0), counts)])


def import_squeeze(src: Source) -> None:
    """Squeeze: all dimensions of extent 1 where no axes are given."""
    x = src.operand(0)
    axes, operand = _axes(src)
    if axes is None and (operand is not None or not x.type.is_static):
        src.emit(d.DynamicSqueeze(), [x] if operand is None else [x, operand])
        return
    if axes is None:
        axes = tuple(i for i, dim in enumerate(x.shape or ()) if dim == 1)
    places = _places(src, axes, x.type.rank)
    if places is None:
        src.emit(d.DynamicSqueeze(), [x, operand or src.const(np.asarray(axes, np.int64))])
        return
    src.emit(s.Squeeze(axes=tuple(sorted(set(places)))), [x])


def _axes(src: Source) -> tuple[tuple[int, ...] | None, Value | None]:
    """Axes, an attribute before opset 13, and the operand that has been in its place since."""
    if src.version < 13:
        return src.int_list("axes"), None
    return src.ints(1), src.optional(1)


def _places(src: Source, axes: tuple[int, ...], rank: int | None) -> tuple[int, ...] | None:
    """Axes counted from the front; None where that takes a rank that isn't known."""
    if rank is not None:
        return tuple(src.axis(axis, rank) for axis in axes)
    return axes if min(axes, default=0) >= 0 else None


def import_unsqueeze(src: Source) -> None:
    """Unsqueeze: axes are those of the result."""
    x = src.operand(0)
    axes, operand = _axes(src)
    if axes is None:
        if operand is None:
            raise src.fail("axes are missing")
        src.emit(d.DynamicUnsqueeze(), [x, operand])
        return
    rank = x.type.rank
    places = _places(src, axes, None if rank is None else rank + len(axes))
    if places is None:
        src.emit(d.DynamicUnsqueeze(), [x, operand or src.const(np.asarray(axes, np.int64))])
        return
    if len(set(places)) != len(places):
        raise src.fail(f"axes {list(axes)} name a dimension twice")
    src.emit(s.Unsqueeze(axes=tuple(sorted(places))), [x])


def import_concat(src: Source) -> None:
    """Concat along an axis."""
    parts = src.all_operands()
    if not parts:
        raise src.fail("operand 0 is missing")
    if len(parts) == 1:
        src.bind(0, parts[0])
        return
    rank = next((len(v.shape) for v in parts if v.shape is not None), None)
    axis = src.int("axis") if src.version >= 4 else src.int("axis", 1)
    if rank is None:
        if axis < 0:
            raise src.unsupported("the rank of its operands isn't known")
    else:
        axis = src.axis(axis, rank)
    src.emit(s.Concat(axis=axis), parts)


def import_split(src: Source) -> None:
    """Split: sizes as an attribute (before 13) or operand, else equal parts, the last smaller."""
    x = src.operand(0)
    axis = src.int("axis", 0)
    if x.shape is not None or axis < 0:
        axis = src.axis(axis, src.rank(x))
    count = len(src.node.outputs)
    sizes = src.int_list("split") if src.version < 13 else None
    if src.version >= 13 and src.optional(1) is not None:
        sizes = src.ints(1)
        if sizes is None:
            src.emit(d.DynamicSplit(axis=axis, count=count), [x, src.operand(1)])
            return
    if sizes is None:
        count = src.int("num_outputs", count)
        if not 1 <= count <= len(src.node.outputs):
            raise src.fail(f"{plural(count, 'part')} for {plural(len(src.node.outputs), 'result')}")
        extent = None if x.shape is None else x.shape[axis]
        if not isinstance(extent, int):
            src.emit(d.DynamicSplit(axis=axis, count=count), [x])
            return
        part = -(-extent // count)
        sizes = tuple(min(part, max(extent - part * i, 0)) for i in range(count))
    if len(sizes) < len(src.node.outputs):
        raise src.fail(
            f"{plural(len(sizes), 'part')} for {plural(len(src.node.outputs), 'result')}"
        )
    src.emit(s.Split(axis=axis, sizes=sizes), [x])


def import_tile(src: Source) -> None:
    """Tile."""
    x, repeats = src.operand(0), src.ints(1)
    if repeats is None:
        src.emit(s.Tile(repeats=None), [x, src.operand(1)])
    else:
        src.emit(s.Tile(repeats=repeats), [x])


def import_expand(src: Source) -> None:
    """Expand: broadcasting both ways; the result's rank may be the operand's."""
    x, target = src.operand(0), src.dims(1)
    shape = None
    if target is not None and x.shape is not None:
        shape = broadcast_shapes((x.shape, target))
    fixed = static_shape(shape)
    if fixed is not None and static_shape(target) is not None:
        src.emit(s.BroadcastTo(shape=fixed), [x])
        return
    value = src.emit(d.Expand(), [x, src.operand(1)])[0]
    if shape is not None:
        value.type = value.type.with_shape(shape)


def import_shape(src: Source) -> None:
    """Shape, from opset 15 of a range of dimensions."""
    x = src.operand(0)
    if not src.has("start") and not src.has("end"):
        src.emit(s.ShapeOf(dtype=DType.INT64), [x])
        return
    dims = range(src.rank(x))[slice(src.int("start", 0), src.int("end", 1 << 31))]
    src.emit(s.ShapeOf(dtype=DType.INT64, dims=tuple(dims)), [x])


def import_size(src: Source) -> None:
    """Size."""
    src.emit(s.Size(), [src.operand(0)])


def import_constant_of_shape(src: Source) -> None:
    """ConstantOfShape: float zeros where no value is given."""
    tensor = src.tensor("value")
    if tensor is None:
        value = src.const(np.zeros((), np.float32))
    else:
        dtype = DTYPES.get(tensor.dtype)
        if dtype is None:
            raise src.unsupported(f"its value is {tensor.dtype.name}")
        value = src.const(tensor.array().reshape(()), dtype=dtype)
    shape = src.ints(0)
    if shape is None:
        src.emit(s.Fill(shape=None), [value, src.operand(0)])
    else:
        src.emit(s.Fill(shape=shape), [value])


def import_range(src: Source) -> None:
    """Range: start, limit, delta."""
    src.emit(s.Range(), [src.operand(i) for i in range(3)])


IMPORTERS: dict[str, Importer] = {
    "Identity": import_identity,
    "Constant": import_constant,
    "Reshape": import_reshape,
    "Transpose": import_transpose,
    "Flatten": import_flatten,
    "Squeeze": import_squeeze,
    "Unsqueeze": import_unsqueeze,
    "Concat": import_concat,
    "Split": import_split,
    "Tile": import_tile,
    "Expand": import_expand,
    "Shape": import_shape,
    "Size": import_size,
    "ConstantOfShape": import_constant_of_shape,
    "Range": import_range,
}
