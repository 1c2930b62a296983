"""Operands of an NNAPI graph under construction: of values, constants, scalars."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from nnconv.decompositions.base import Refused
from nnconv.formats.indexed import IndexedExport, Ref
from nnconv.formats.nnapi.check import UNKNOWN_RANK_LEVEL, type_faults
from nnconv.formats.nnapi.table import type_levels
from nnconv.formats.nnapi.types import NUMPY, PER_CHANNEL, ZERO_POINTS, OperandCode
from nnconv.formats.nnapi.wire import ChannelQuant, Lifetime, Operand
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType

PLAIN = {
    DType.FLOAT32: OperandCode.TENSOR_FLOAT32,
    DType.FLOAT16: OperandCode.TENSOR_FLOAT16,
    DType.INT32: OperandCode.TENSOR_INT32,
    DType.BOOL: OperandCode.TENSOR_BOOL8,
}
"""The types of numbers that stand for themselves."""

CODED = {
    DType.UINT8: OperandCode.TENSOR_QUANT8_ASYMM,
    DType.INT8: OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    DType.INT16: OperandCode.TENSOR_QUANT16_SYMM,
    DType.UINT16: OperandCode.TENSOR_QUANT16_ASYMM,
}
"""The types of codes; that of symmetric int8 is chosen where an operation asks for it."""

WIDE = frozenset({DType.INT16, DType.UINT16})
"""The types of codes that next to no operation takes: models of other formats have int32 for them.
"""

SIGNED_LEVEL = 4
"""From this level on there are signed codes."""

AS_THEY_ARE = Quant.per_tensor(1.0)
"""The parameters of codes that stand for themselves."""


class OperandMaker(IndexedExport):
    """Makes the operands of a graph.

    Attributes:
        operands: what there is so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operands: list[Operand] = []

    @property
    @abstractmethod
    def level(self) -> int:
        """The feature level that is written for."""

    @property
    @abstractmethod
    def keeps_wide(self) -> bool:
        """Whether 16-bit codes have operands of their own types, as NNAPI's own models have."""

    def is_lacking(self, dtype: DType) -> bool:
        """Whether int32 stands in for a type: 16-bit codes, and signed ones at old levels."""
        if dtype is DType.INT8:
            return self.level < SIGNED_LEVEL
        return dtype in WIDE and not self.keeps_wide

    def is_stood_in_for(self, kind: TensorType) -> bool:
        """Whether values of a type are int32 ones; weights of channels have a type of their own."""
        return self.is_lacking(kind.dtype) and (kind.quant is None or kind.quant.is_per_tensor)

    def stored(self, dtype: DType) -> DType:
        """The type in which numbers of a type are stored."""
        return DType.INT32 if self.is_lacking(dtype) else dtype

    def operand(self, value: Value) -> Ref:
        """The operand of a value.

        Raises:
            Refused: NNAPI has no type of a constant.
        """
        return self.place(value)

    def declare_scalar(self, value: Value) -> Ref:
        """Make the operand of an int32 value that an operation gives without dimensions."""
        index = self.declare(value)
        self.operands[index] = Operand(OperandCode.INT32, name=value.name)
        return index

    def const(
        self,
        data: np.ndarray,
        *,
        quant: Quant | None = None,
        dtype: DType | None = None,
        name: str = "",
        code: OperandCode | None = None,
    ) -> Ref:
        """A constant tensor; equal small ones are made once, but not where ``code`` is its type."""
        if code is None:
            return super().const(data, quant=quant, dtype=dtype, name=name)
        data = np.asarray(data)
        kind = TensorType(dtype or DType.of(data), tuple(data.shape), quant)
        return Ref(self._add(kind, name, data, code=code))

    def index(self, value: Value) -> Ref:
        """An index operand as int32, whatever integer type it has; constants saturate."""
        if self.stored(value.dtype) is DType.INT32:
            return self.operand(value)
        if value.data is None:
            raise self.refused(f"the index operand `{value.name}` is {value.dtype}")
        return self.const(self.saturated(value.data))

    def scalar(self, code: OperandCode, number: float) -> Ref:
        """A constant scalar; equal ones are made once."""
        try:
            data = np.asarray(number, NUMPY[code])
        except OverflowError as error:
            raise self.refused(f"{number} is beyond {code.name}") from error
        operand = Operand(code, lifetime=Lifetime.CONSTANT, value=data)
        return self.once((code, data.tobytes()), lambda: self._append(operand))

    def omitted(self, code: OperandCode, rank: int) -> Ref:
        """An operand without a value; its rank, where early levels must know it."""
        dimensions = (0,) * rank if self.level < UNKNOWN_RANK_LEVEL else ()
        scale = 1.0 if code in ZERO_POINTS else 0.0  # which codes must have
        operand = Operand(code, dimensions, scale=scale, lifetime=Lifetime.NO_VALUE)
        return self.once((code, dimensions), lambda: self._append(operand))

    def model(self, number: int) -> Ref:
        """The operand that stands for a referenced graph."""
        return Ref(self._append(Operand(OperandCode.MODEL, lifetime=Lifetime.MODEL, value=number)))

    def _append(self, operand: Operand) -> int:
        self.operands.append(operand)
        return len(self.operands) - 1

    def _add(
        self,
        kind: TensorType,
        name: str,
        data: np.ndarray | None = None,
        *,
        code: OperandCode | None = None,
    ) -> int:
        plain = kind.dtype is DType.INT32 and data is None  # what reads biases gives them scales
        if plain or (code is None and self.is_stood_in_for(kind)):
            kind = TensorType(DType.INT32, kind.shape)
        operand = _described(kind, code)
        if operand is None:
            raise Refused(f"`{name}` is {kind}, NNAPI has no such type", types=_PLAIN_TYPES)
        level = type_levels()[operand.type]
        if level > self.level:
            raise Refused(
                f"`{name}` is {operand.type.name}, which needs feature level {level}",
                types=_plain_types(self.level),
            )
        for fault in type_faults(operand):
            raise self.refused(f"`{name}`: {fault}")
        operand.name = name
        if data is not None:
            if not data.size:
                raise self.refused(f"`{name}` is a constant without elements, NNAPI has none")
            operand.lifetime = Lifetime.CONSTANT
            operand.value = data.reshape(operand.dimensions).astype(NUMPY[operand.type], copy=False)
        return self._append(operand)


_PLAIN_TYPES = frozenset(PLAIN)


def _plain_types(level: int) -> frozenset[DType]:
    return frozenset(d for d, code in PLAIN.items() if type_levels()[code] <= level)


def _described(kind: TensorType, code: OperandCode | None = None) -> Operand | None:
    """An operand of a type; None if NNAPI has none."""
    quant = kind.quant if kind.has_codes else None
    dims = operand_dimensions(kind.shape)
    if quant is not None and not quant.is_per_tensor:
        if kind.dtype is DType.INT32:
            return Operand(OperandCode.TENSOR_INT32, dims)  # a bias: its scales follow
        if kind.dtype is not DType.INT8 or quant.block or not quant.is_symmetric:
            return None
        assert quant.axis is not None
        return Operand(PER_CHANNEL, dims, channel_quant=ChannelQuant(quant.axis, quant.scale))
    if kind.dtype in PLAIN:
        found = code or PLAIN[kind.dtype]
        scale = quant.scale[0] if quant is not None and quant.is_symmetric else 0.0
        return Operand(found, dims, scale=scale)
    if kind.dtype not in CODED:
        return None
    found = code or CODED[kind.dtype]
    quant = quant or AS_THEY_ARE
    low, high = ZERO_POINTS[found]
    if not low <= quant.zero_point[0] <= high:
        return None
    return Operand(found, dims, scale=quant.scale[0], zero_point=quant.zero_point[0])


def operand_dimensions(shape: Shape) -> tuple[int, ...]:
    """A shape as operands have it: 0 where an extent isn't known, or is 0, which runs tell."""
    if shape is None:
        return ()
    return tuple(d if isinstance(d, int) else 0 for d in shape) or (1,)
