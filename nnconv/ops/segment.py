"""Ops that combine elements by the group that each belongs to, or tell the group."""

from __future__ import annotations

import enum

from nnconv.errors import plural
from nnconv.ir.dtype import NUMBERS, DType
from nnconv.ir.op import Op, Operand, QuantRule, Role, Types, index_operand, op_class, operand_type
from nnconv.ir.types import TensorType
from nnconv.ops.gather import INDEX_TYPES, Reduction


@op_class
class Segment(Op):
    """The slices of ``data`` that have the same number in ``ids``, combined.

    data has the shape of ids and more; the result is [num_segments] + data[rank of ids:]. Slices of
    negative ids are left out. A segment without slices is what ``reduction`` (ADD, MUL, MIN, MAX)
    starts from: 0, 1, the type's greatest, its least finite value. ``num_segments`` None: operand
    ``num_segments`` (one element) gives it at run time. Integers wrap. TFLite SEGMENT_SUM and
    UNSORTED_SEGMENT_SUM, _PROD, _MIN, _MAX; ONNX ScatterND.
    """

    operands = (
        Operand("data", NUMBERS),
        Operand("ids", INDEX_TYPES, Role.INDEX),
        index_operand("num_segments"),
    )

    reduction: Reduction
    num_segments: int | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        data, ids = operand_type(types, 0), operand_type(types, 1)
        if self.reduction in (Reduction.NONE, Reduction.AND, Reduction.OR):
            raise ValueError(f"reduction {self.reduction.value} isn't one of segments")
        if data.shape is None or ids.shape is None:
            return (TensorType(data.dtype, None),)
        if not 1 <= len(ids.shape) <= len(data.shape):
            raise ValueError(f"ids have rank {len(ids.shape)}, data has {len(data.shape)}")
        for a, b in zip(ids.shape, data.shape, strict=False):
            if isinstance(a, int) and isinstance(b, int) and a != b:
                raise ValueError(f"ids are {ids}, data is {data}: their extents must agree")
        return (TensorType(data.dtype, (self.num_segments, *data.shape[len(ids.shape) :])),)


class Combiner(enum.Enum):
    """What the weighted sum of the rows of one place is divided by."""

    SUM = "sum"
    """Nothing."""

    MEAN = "mean"
    """The sum of the weights."""

    SQRTN = "sqrtn"
    """The square root of the sum of the squared weights."""


@op_class
class EmbeddingSparse(Op):
    """Rows of a table, weighted and combined by the place in a sparse tensor that asks for them.

    Entry i of the sparse tensor stands at ``indices[i]`` ([entries, rank], row-major order) and
    asks for row ``ids[i]`` with weight ``weights[i]``. The result is dense_shape[:-1] + table[1:];
    places without an entry are 0. ``dense_shape`` None: operand ``dense_shape`` gives it at run
    time. TFLite EMBEDDING_LOOKUP_SPARSE; ONNX Gather and ScatterND.
    """

    operands = (
        Operand("ids", INDEX_TYPES, Role.INDEX),
        Operand("indices", INDEX_TYPES, Role.INDEX),
        Operand("weights", NUMBERS),
        Operand("table", NUMBERS, Role.WEIGHT),
        index_operand("dense_shape"),
    )

    combiner: Combiner
    dense_shape: tuple[int, ...] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        indices, table = operand_type(types, 1), operand_type(types, 3)
        rank = indices.shape[1] if indices.shape is not None and len(indices.shape) == 2 else None
        if not isinstance(rank, int) or rank < 2:
            raise ValueError(f"indices are {indices}, must be [entries, 2 or more]")
        if self.dense_shape is not None and len(self.dense_shape) != rank:
            raise ValueError(
                f"dense shape {list(self.dense_shape)} has not {plural(rank, 'extent')}"
            )
        if table.shape is None:
            return (TensorType(table.dtype, None),)
        lead = (None,) * (rank - 1) if self.dense_shape is None else self.dense_shape[:-1]
        return (TensorType(table.dtype, (*lead, *table.shape[1:])),)


@op_class
class Bucketize(Op):
    """How many of the rising ``boundaries`` (float32 values) are at most x, an int32; for NaN all.

    Integers are compared as float32. It looks at the stored numbers. TFLite BUCKETIZE; ONNX Less
    and ReduceSum.
    """

    operands = (Operand("x", NUMBERS),)
    quant_rule = QuantRule.EXACT

    boundaries: tuple[float, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (TensorType(DType.INT32, operand_type(types, 0).shape),)
