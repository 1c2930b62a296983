"""Ops on the bytes of tensors, and on tables of keys."""

from __future__ import annotations

from typing import ClassVar

from nnconv.errors import plural
from nnconv.ir.dtype import ANY, FLOATS, DType
from nnconv.ir.op import Op, Operand, QuantRule, Types, op_class, operand_type, require_rank
from nnconv.ir.types import Dim, TensorType

MOST_BITS = 32
"""Results are int32."""

_KEYS = frozenset({DType.INT32})


@op_class
class LshProjection(Op):
    """Locality-sensitive hashing: bits that are likely to be equal for like inputs.

    A bit is whether the sum over rows i of weight i (1 without weights) times hash(seed, row i) is
    above 0. The hash is FarmHash's Fingerprint64, taken as signed, of the seed as a float32 and of
    the row's bytes as they are stored.

    Operands: seeds [K, B], B at most 32; x [N, ...]; weights [N], optional. Results, int32: with
    ``dense`` all bits [K * B], else for each k its bits as a number [K], the first the highest;
    with ``apart`` k * 2**B is added to it. NNAPI LSH_PROJECTION.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("seeds", FLOATS),
        Operand("x", ANY),
        Operand("weights", FLOATS, optional=True),
    )
    quant_rule: ClassVar[QuantRule] = QuantRule.EXACT

    dense: bool
    apart: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        seeds = require_rank(operand_type(types, 0).shape, 2, "seeds")
        if operand_type(types, 1).shape == ():
            raise ValueError("x has rank 0, must have rows")
        count: Dim = None
        if seeds is not None:
            rows, bits = seeds
            if isinstance(bits, int) and bits > MOST_BITS:
                raise ValueError(f"{plural(bits, 'bit')}, at most {MOST_BITS} are possible")
            known = isinstance(rows, int) and isinstance(bits, int)
            count = (rows * bits if known else None) if self.dense else rows
        return (TensorType(DType.INT32, (count,)),)


class HashtableLookup(Op):
    """Rows of a table by their keys.

    Operands: keys to look up, int32 [K]; the table's keys, int32 [N], in ascending order; its rows
    [N, ...]. Results: the rows [K, ...], where there is none zeros, also of codes; whether there
    is one, 1 or 0, uint8 [K]. NNAPI HASHTABLE_LOOKUP.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("lookups", _KEYS),
        Operand("keys", _KEYS),
        Operand("rows", ANY),
    )
    quant_rule: ClassVar[QuantRule] = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        lookups, keys, rows = (operand_type(types, i) for i in range(3))
        count = (require_rank(lookups.shape, 1, "lookups") or (None,))[0]
        require_rank(keys.shape, 1, "keys")
        if rows.shape == ():
            raise ValueError("a table of rank 0, must have rows")
        shape = None if rows.shape is None else (count, *rows.shape[1:])
        return TensorType(rows.dtype, shape, rows.quant), TensorType(DType.UINT8, (count,))
