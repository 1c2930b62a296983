"""Combining slices by number, by other ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.comparing import segments_by_comparing
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.segment import Bucketize, Segment
from nnconv.ops.shape import Unsqueeze


def buckets_by_comparing(node: Node, b: Builder) -> Sequence[Value] | None:
    """Bucketize: how many boundaries x isn't below."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Bucketize)
    if x.shape is None or not op.boundaries:
        return None
    plain = b.add(Bitcast(dtype=x.dtype), [x]) if x.type.has_codes else x
    real = plain if x.dtype is DType.FLOAT32 else b.add(Cast(dtype=DType.FLOAT32), [plain])
    rank = len(x.shape)
    column = b.add(Unsqueeze(axes=(rank,)), [real])
    ends = b.const(np.asarray(op.boundaries, np.float32))
    beyond = b.add(e.LogicalNot(), [b.add(e.Less(), [column, ends])])
    ones = b.add(Cast(dtype=DType.FLOAT32), [beyond])
    return [b.add(Cast(dtype=DType.INT32), [b.add(ReduceSum(axes=(rank,)), [ones])])]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    Bucketize: (buckets_by_comparing,),
    Segment: (segments_by_comparing,),
}
