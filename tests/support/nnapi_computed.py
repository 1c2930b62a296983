"""Parts of NNAPI models that compute what their operations need to know beforehand."""

import numpy as np

from nnconv.formats.nnapi.types import NUMPY
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode
from support.nnapi_runtime import FLOAT

INT = OperandCode.TENSOR_INT32


def scalar(model: nnapi.Model, number: int, code: OperandCode = OperandCode.INT32) -> int:
    """A scalar that is known, by default an integer."""
    made = model.add_operand(OperandType(code))
    model.set_operand_value(made, np.asarray(number, NUMPY[code]))
    return made


def reshaped(model: nnapi.Model, x: int, extents: int, dimensions: tuple[int, ...] = ()) -> int:
    """``x`` with extents that are given as floats."""
    shape = model.add_operand(OperandType(INT, (2,)))
    model.add_operation(OperationCode.CAST, [extents], [shape])
    moved = model.add_operand(OperandType(FLOAT, dimensions))
    model.add_operation(OperationCode.RESHAPE, [x, shape], [moved])
    return moved


def halves(
    model: nnapi.Model, x: int, axis: int = 0, dimensions: tuple[int, ...] = ()
) -> list[int]:
    """Both halves of ``x``; SPLIT must know the extent that it splits."""
    made = [model.add_operand(OperandType(FLOAT, dimensions)) for _ in range(2)]
    model.add_operation(OperationCode.SPLIT, [x, scalar(model, axis), scalar(model, 2)], made)
    return made
