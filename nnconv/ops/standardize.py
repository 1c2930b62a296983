"""Ops that take off a mean and divide by a deviation, with statistics given or worked out."""

from __future__ import annotations

from typing import ClassVar

from nnconv.errors import plural
from nnconv.ir.dtype import FLOATS, DType
from nnconv.ir.op import (
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    Role,
    Types,
    op_class,
    operand_type,
)
from nnconv.ir.types import Dim, TensorType, broadcast_shapes
from nnconv.ops.conv import QUANTIZED

_REAL = FLOATS | QUANTIZED


def _weight(name: str, *, optional: bool = False) -> Operand:
    return Operand(name, _REAL, Role.WEIGHT, optional=optional)


def _check_axis(axis: int, x: TensorType) -> None:
    if x.shape is not None and not 0 <= axis < len(x.shape):
        raise ValueError(f"axis {axis} is out of range for rank {len(x.shape)}")


@op_class
class _ByChannel(Op):
    """Base of ops with parameters for each index of ``axis`` (from the front): rank 1."""

    layout_kind: ClassVar[LayoutKind] = LayoutKind.ATTRIBUTE
    keeps_batch: ClassVar[bool] = True
    """Whether dimension 0 must stay where it is."""

    axis: int
    epsilon: float

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        _check_axis(self.axis, x)
        channels = None if x.shape is None else x.shape[self.axis]
        for kind in types[1:]:
            self._check_parameters(kind, channels)
        return (TensorType(x.dtype, x.shape),)

    def _check_parameters(self, kind: TensorType | None, channels: Dim) -> None:
        if kind is None or kind.shape is None:
            return
        count = kind.shape[0] if len(kind.shape) == 1 else None
        known = isinstance(count, int) and isinstance(channels, int)
        if len(kind.shape) != 1 or (known and count != channels):
            raise ValueError(f"parameters are {kind}, must be {channels} in one dimension")

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm) or (self.keeps_batch and perm[0] != 0):
            return None
        rest = (None,) * (len(types) - 1)
        return Permuted(self.replace(axis=perm.index(self.axis)), (perm, *rest), (perm,))


class BatchNormalization(_ByChannel):
    """(x - mean) / root of (variance + epsilon) * scale + offset, with given statistics.

    All four are of one number for each index of ``axis``. ONNX BatchNormalization at inference;
    NNRt BATCH_NORM; in TFLite a product and a sum, or part of the convolution before.
    """

    operands = (
        Operand("x", _REAL),
        _weight("scale"),
        _weight("offset"),
        _weight("mean"),
        _weight("variance"),
    )
    keeps_batch = False


class InstanceNormalization(_ByChannel):
    """(x - mean) / root of (variance + epsilon) * scale + offset.

    Statistics of each index of dimension 0 and of ``axis``. ONNX InstanceNormalization, NNAPI
    INSTANCE_NORMALIZATION, NNRt INSTANCE_NORM.
    """

    operands = (Operand("x", _REAL), _weight("scale"), _weight("offset"))


@op_class
class GroupNormalization(_ByChannel):
    """(x - mean) / root of (variance + epsilon) * scale + offset.

    Statistics of each index of dimension 0 and of each of ``groups`` equal, contiguous parts of
    ``axis``. Scale and offset are of each index of ``axis``, or, with ``by_group``, of each part.
    ONNX GroupNormalization (by group: opset 18 to 20), NNRt GROUP_NORM.
    """

    operands = (Operand("x", _REAL), _weight("scale"), _weight("offset"))

    groups: int
    by_group: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        channels = None if x.shape is None or not x.shape else x.shape[self.axis % len(x.shape)]
        if self.groups < 1 or (isinstance(channels, int) and channels % self.groups):
            raise ValueError(
                f"{plural(channels, 'channel')} can't be split into {plural(self.groups, 'group')}"
            )
        return super().infer(types)

    def _check_parameters(self, kind: TensorType | None, channels: Dim) -> None:
        super()._check_parameters(kind, self.groups if self.by_group else channels)


@op_class
class _FromAxis(Op):
    """Base of ops whose statistics are of all dimensions from ``axis`` (from the front) on."""

    layout_kind: ClassVar[LayoutKind] = LayoutKind.ATTRIBUTE

    axis: int
    epsilon: float

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        _check_axis(self.axis, x)
        for weights in types[1:]:
            if weights is not None:
                broadcast_shapes((x.shape, weights.shape))
        return (TensorType(x.dtype, x.shape),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        rank = operand_type(types, 0).rank
        if rank != len(perm) or perm[self.axis :] != tuple(range(self.axis, rank)):
            return None
        rest = (None,) * (len(types) - 1)
        return Permuted(self, (perm, *rest), (perm,) * len(self.infer(types)))


@op_class
class LayerNormalization(_FromAxis):
    """(x - mean) / root of (variance + epsilon) * scale + offset (optional).

    Statistics are of all dimensions from ``axis`` (from the front) on; scale and offset broadcast
    against those. With ``statistics`` the mean and the inverse of the root are results too, with
    extents of 1 in those dimensions, of type ``dtype``.
    ONNX LayerNormalization, NNRt LAYER_NORM.
    """

    operands = (Operand("x", _REAL), _weight("scale"), _weight("offset", optional=True))

    statistics: bool = False
    dtype: DType = DType.FLOAT32

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        results = super().infer(types)
        if not self.statistics:
            return results
        shape = results[0].shape
        if shape is not None:
            shape = (*shape[: self.axis], *(1,) * (len(shape) - self.axis))
        return (*results, *(TensorType(self.dtype, shape),) * 2)


class RmsNormalization(_FromAxis):
    """x / root of (mean of squares + epsilon) * scale, over all dimensions from ``axis`` on.

    ``axis`` counts from the front; scale broadcasts against those dimensions.
    ONNX RMSNormalization.
    """

    operands = (Operand("x", _REAL), _weight("scale"))


@op_class
class MeanVarianceNormalization(Op):
    """(x - mean) / (deviation + 1e-9), with statistics over ``axes`` (from the front).

    ONNX MeanVarianceNormalization.
    """

    operands = (Operand("x", _REAL),)
    layout_kind = LayoutKind.ATTRIBUTE

    axes: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        for axis in self.axes:
            _check_axis(axis, x)
        return (TensorType(x.dtype, x.shape),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        op = self.replace(axes=tuple(sorted(perm.index(axis) for axis in self.axes)))
        return Permuted(op, (perm,), (perm,))
