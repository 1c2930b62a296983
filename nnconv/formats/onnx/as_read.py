"""Codes as ONNX's nodes read them: as any numbers, but for those that are about codes.

A QuantizeLinear makes codes with parameters, which moves hand on and a DequantizeLinear takes. In
between a file may do with them whatever is done with integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnconv.ir.graph import Value
from nnconv.ir.op import Op, QuantRule, Role
from nnconv.ir.quant import Quant
from nnconv.ops.quantize import Bitcast, Dequantize, Quantize
from nnconv.ops.shape import Concat, ShapeOf

if TYPE_CHECKING:
    from nnconv.formats.onnx.graph import GraphImport

_OF_ANY = (Bitcast, Dequantize, Quantize, ShapeOf)
"""Ops that take codes as what they are."""


def as_read(
    scope: GraphImport, op: Op, inputs: Sequence[Value | None], quant: Quant | None = None
) -> tuple[Sequence[Value | None], Quant | None]:
    """Operands as the op means them, and the parameters of its result where it is a joining.

    What moves codes keeps their parameters, if all that it moves have the same; numbers among them
    are codes too. For all else codes are numbers.
    """
    if isinstance(op, _OF_ANY) or all(v is None or v.quant is None for v in inputs):
        return inputs, quant
    places = [
        place
        for place, v in enumerate(inputs)
        if v is not None and op.role(place) is not Role.INDEX
    ]
    joins = isinstance(op, Concat)
    shared: Quant | None = None
    if joins or op.quant_rule is QuantRule.CODES:
        moved = [v for place in places if (v := inputs[place]) is not None]
        quants = {v.quant for v in moved if v.data is None or v.quant is not None}
        (shared,) = quants if len(quants) == 1 else (None,)
        if len(moved) > 1 and shared is not None and not shared.is_per_tensor:
            shared = None
    found = list(inputs)
    for place, v in enumerate(inputs):
        if v is not None and (place not in places or v.quant != shared):
            found[place] = scope.reread(v, shared if place in places else None)
    return found, shared if joins else quant
