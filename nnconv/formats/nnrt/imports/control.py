"""What ends a run."""

from __future__ import annotations

from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ops.elementwise import LogicalNot
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceAll
from nnconv.ops.shape import Stack


def import_assert(s: Source) -> None:
    """ASSERT: the data go on unchanged; a run whose condition doesn't hold fails.

    It picks the data from a stack of them alone: at place 0 if the condition holds, else at 1,
    where there is nothing.
    """
    condition, data = s.operand("condition"), s.operand("data")
    if condition.data is not None:
        if not condition.data.all():
            raise s.fail("its condition never holds")
        s.bind(0, data)
        return
    place = s.add(Cast(dtype=DType.INT32), [s.add(LogicalNot(), [_whole(s, condition)])])
    stack = s.add(Stack(axis=0), [data], quant=data.quant)
    s.bind(0, s.add(Gather(axis=0), [stack, place], quant=data.quant))


def _whole(s: Source, condition: Value) -> Value:
    """Whether all of it holds."""
    axes = tuple(range(s.rank(condition)))
    return s.add(ReduceAll(axes=axes, keep_dims=False), [condition]) if axes else condition


IMPORTERS: dict[str, Importer] = {"ASSERT": import_assert}
