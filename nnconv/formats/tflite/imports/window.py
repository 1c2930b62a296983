"""Windows and grids over every dimension, diagonals."""

from __future__ import annotations

from nnconv.formats.tflite._gen.schema import ReduceWindowFunction
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ops.diagonal import MatrixDiag, MatrixSetDiag
from nnconv.ops.gather import Reduction
from nnconv.ops.quantize import Cast
from nnconv.ops.window import Dilate, ReduceWindow

FUNCTIONS = {
    int(ReduceWindowFunction.ADD): Reduction.ADD,
    int(ReduceWindowFunction.MUL): Reduction.MUL,
    int(ReduceWindowFunction.MINIMUM): Reduction.MIN,
    int(ReduceWindowFunction.MAXIMUM): Reduction.MAX,
    int(ReduceWindowFunction.ALL): Reduction.AND,
    int(ReduceWindowFunction.ANY): Reduction.OR,
}

LOGICAL = {
    Reduction.ADD: Reduction.OR,
    Reduction.MUL: Reduction.AND,
    Reduction.MIN: Reduction.AND,
    Reduction.MAX: Reduction.OR,
}
"""What arithmetic comes to on truth values."""


def import_reduce_window(s: Source) -> None:
    """REDUCE_WINDOW: window, strides and dilations are constants."""
    x, init = s.operand(0), s.operand(1)
    reduction = FUNCTIONS.get(s.options.int("reduce_function"))
    if reduction is None:
        raise s.fail(f"reduce function {s.options.int('reduce_function')} is unknown")
    if x.dtype is DType.BOOL:
        reduction = LOGICAL.get(reduction, reduction)
    op = ReduceWindow(
        reduction=reduction,
        window=s.required_ints(2, "the window"),
        stride=s.required_ints(3, "the strides"),
        dilation=s.required_ints(4, "the dilations"),
    )
    if x.dtype is not DType.BOOL and reduction not in LOGICAL:
        # Numbers stand for whether they are zero; the result is 0 or 1 in their type.
        truths = [s.add(Cast(dtype=DType.BOOL), [value]) for value in (x, init)]
        s.emit(Cast(dtype=x.dtype), [s.add(op, truths)])
    else:
        s.emit(op, [x, init])


def import_dilate(s: Source) -> None:
    """DILATE: operands x, factors, padding value."""
    factors = s.ints(1)
    run_time = s.operand(1) if factors is None else None
    s.emit(Dilate(dilations=factors), [s.operand(0), s.operand(2), run_time])


def import_matrix_diag(s: Source) -> None:
    """MATRIX_DIAG."""
    s.emit(MatrixDiag(), [s.operand(0)])


def import_matrix_set_diag(s: Source) -> None:
    """MATRIX_SET_DIAG."""
    s.emit(MatrixSetDiag(), [s.operand(0), s.operand(1)])


IMPORTERS: dict[str, Importer] = {
    "REDUCE_WINDOW": import_reduce_window,
    "DILATE": import_dilate,
    "MATRIX_DIAG": import_matrix_diag,
    "MATRIX_SET_DIAG": import_matrix_set_diag,
}
