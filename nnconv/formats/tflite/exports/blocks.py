"""Ops that exchange space with depth or batch, channels-last."""

from __future__ import annotations

import numpy as np

from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.formats.tflite.window import require_channels_last
from nnconv.ir.dtype import EIGHT_BITS, DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth

_DEPTH = frozenset({DType.FLOAT32, DType.INT32, DType.INT64})
_BATCH_CODES = EIGHT_BITS | {DType.INT16}
_BATCH = frozenset(
    {
        DType.FLOAT16,
        DType.FLOAT32,
        DType.FLOAT64,
        DType.INT32,
        DType.INT64,
        DType.UINT32,
        DType.UINT16,
        DType.BOOL,
    }
)


def export_depth(node: Node, t: Target) -> None:
    """DEPTH_TO_SPACE, SPACE_TO_DEPTH, with depth innermost."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, DepthToSpace | SpaceToDepth)
    t.require(node, plain=_DEPTH, codes=EIGHT_BITS)
    require_channels_last(t, x, op.layout, 4)
    if op.column_row_depth:
        raise t.refused("its channels have the depth outermost")
    depth = isinstance(op, DepthToSpace)
    table = "DepthToSpaceOptions" if depth else "SpaceToDepthOptions"
    version = 2 if x.dtype is DType.INT8 and not depth else 1
    name = "DEPTH_TO_SPACE" if depth else "SPACE_TO_DEPTH"
    options = (table, {"block_size": op.block})
    t.emit(name, [t.tensor(x)], node.outputs[0], options, version=version)


def _vector(t: Target, given: object, operand: Value | None) -> int:
    if given is not None:
        return t.const(np.asarray(given, np.int32))
    assert operand is not None, "the verifier wants an operand or an attribute"
    return t.index(operand)


def export_batch(node: Node, t: Target) -> None:
    """SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND."""
    op = node.op
    assert isinstance(op, SpaceToBatch | BatchToSpace)
    x, block, edges = node.operand(0), node.optional(1), node.optional(2)
    t.require(node, plain=_BATCH, codes=_BATCH_CODES, operands=[0])
    if op.channels_first:
        raise t.refused("its channels stand before what it exchanges")
    into = isinstance(op, SpaceToBatch)
    given = op.pads if isinstance(op, SpaceToBatch) else op.crops
    operands = [t.tensor(x), _vector(t, op.block, block), _vector(t, given, edges)]
    name = "SPACE_TO_BATCH_ND" if into else "BATCH_TO_SPACE_ND"
    table = "SpaceToBatchNDOptions" if into else "BatchToSpaceNDOptions"
    version = 2 if x.dtype is DType.INT8 else 1
    t.emit(name, operands, node.outputs[0], (table, {}), version=version)


EXPORTERS: dict[type[Op], Exporter] = {
    DepthToSpace: export_depth,
    SpaceToDepth: export_depth,
    SpaceToBatch: export_batch,
    BatchToSpace: export_batch,
}
