"""Ops that exchange space with depth or batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from nnconv.errors import plural
from nnconv.ir.dtype import ANY
from nnconv.ir.op import (
    Layout,
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    Types,
    index_operand,
    op_class,
    operand_type,
    require_rank,
)
from nnconv.ir.types import Dim, TensorType, shape_of_rank
from nnconv.ops.moves import Move, moved
from nnconv.ops.spatial import channel_dim, other, spatial_dims, to_layout

_Ratio: TypeAlias = tuple[int, int]
"""Factor and divisor of an extent."""


@op_class
class _DepthSpace(Move):
    layout_kind = LayoutKind.IMPLICIT

    layout: Layout = Layout.NHWC
    block: int
    column_row_depth: bool = False

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        target = other(self.layout)
        if perm != to_layout(target, 4):
            return None
        return Permuted(self.replace(layout=target), (perm,), (perm,))

    def _exchanged(
        self, types: Types, *, channels: _Ratio, extents: _Ratio
    ) -> tuple[TensorType, ...]:
        """The result of an op that multiplies and divides channels and spatial extents so."""
        x = operand_type(types, 0)
        shape = require_rank(x.shape, 4, "input")
        if shape is None:
            return moved(x, None)
        result: list[Dim] = [*shape]
        channel = channel_dim(4, self.layout)
        result[channel] = _scaled(result[channel], *channels)
        for dim in spatial_dims(4, self.layout):
            result[dim] = _scaled(result[dim], *extents)
        return moved(x, tuple(result))


def _scaled(dim: Dim, factor: int, divisor: int) -> Dim:
    if not isinstance(dim, int):
        return None
    if (dim * factor) % divisor:
        raise ValueError(f"extent {dim} doesn't divide by {divisor}")
    return dim * factor // divisor


class DepthToSpace(_DepthSpace):
    """Channels spread over ``block`` x ``block`` pixels.

    Channel index of the input: with ``column_row_depth`` depth is outermost (ONNX CRD, PyTorch's
    pixel shuffle), else it is block row, block column, depth (ONNX DCR, TFLite).
    TFLite, NNAPI and NNRt DEPTH_TO_SPACE, ONNX DepthToSpace.
    """

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        block = self.block
        return self._exchanged(types, channels=(1, block * block), extents=(block, 1))


class SpaceToDepth(_DepthSpace):
    """``block`` x ``block`` pixels gathered into channels: block row, block column, depth.

    With ``column_row_depth`` depth is outermost, as in DepthToSpace.
    TFLite SPACE_TO_DEPTH, ONNX SpaceToDepth, NNAPI SPACE_TO_DEPTH, NNRt SPACE_TO_DEPTH.
    """

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        block = self.block
        return self._exchanged(types, channels=(block * block, 1), extents=(1, block))


@op_class
class _BatchSpace(Move):
    layout_kind = LayoutKind.ATTRIBUTE
    edges: ClassVar[str]
    """Which attribute has what is put on or taken off."""

    block: tuple[int, ...] | None
    channels_first: bool = False

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if self.block is None or len(perm) != len(self.block) + 2:
            return None
        if perm != to_layout(Layout.NHWC if self.channels_first else Layout.NCHW, len(perm)):
            return None
        op = self.replace(channels_first=not self.channels_first)
        return Permuted(op, (perm,) + (None,) * (len(types) - 1), (perm,))

    def _open_type(self, types: Types) -> tuple[TensorType, ...]:
        """The result's type for block sizes computed at run time."""
        x, sizes = operand_type(types, 0), operand_type(types, 1).shape
        rank, count = x.rank, sizes[0] if sizes else None
        if rank is not None and isinstance(count, int) and count >= rank:
            raise ValueError(f"{plural(count, 'block size')} for rank {rank}")
        return moved(x, shape_of_rank(rank))

    def specialize(
        self, known: Sequence[tuple[int, ...] | None], types: Types
    ) -> tuple[Op, frozenset[int]]:
        if len(known) < 3 or known[1] is None or known[2] is None or self.block is not None:
            return self, frozenset()
        edges = tuple(zip(known[2][0::2], known[2][1::2], strict=True))
        return self.replace(block=known[1], **{self.edges: edges}), frozenset({1, 2})


@op_class
class SpaceToBatch(_BatchSpace):
    """Pads dimensions 1.. (with real 0) and moves blocks of them into the batch.

    ``block`` has one entry for each of dimensions 1..M, ``pads`` a (before, after) pair each. None:
    operands ``block`` [M] and ``pads`` [M, 2] give them at run time. ``channels_first`` when
    dimensions 2..M+1 are meant instead. TFLite, NNAPI and NNRt SPACE_TO_BATCH_ND.
    """

    operands = (Operand("x", ANY), index_operand("block"), index_operand("pads"))

    edges = "pads"

    pads: tuple[tuple[int, int], ...] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return moved(x, None)
        if self.block is None or self.pads is None:
            return self._open_type(types)
        first = 2 if self.channels_first else 1
        if len(x.shape) < first + len(self.block):
            raise ValueError(f"{plural(len(self.block), 'block size')} for rank {len(x.shape)}")
        result = list(x.shape)
        for i, (size, (before, after)) in enumerate(zip(self.block, self.pads, strict=True)):
            dim = result[first + i]
            padded = dim + before + after if isinstance(dim, int) else None
            result[first + i] = _scaled(padded, 1, size)
            result[0] = _scaled(result[0], size, 1)
        return moved(x, tuple(result))


@op_class
class BatchToSpace(_BatchSpace):
    """Moves blocks of the batch into dimensions 1.. and crops them: SpaceToBatch's inverse.

    Attributes and operands as there, with ``crops`` for pads. TFLite BATCH_TO_SPACE_ND, NNAPI
    BATCH_TO_SPACE_ND (no crops), NNRt BATCH_TO_SPACE_ND.
    """

    operands = (Operand("x", ANY), index_operand("block"), index_operand("crops"))

    edges = "crops"

    crops: tuple[tuple[int, int], ...] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return moved(x, None)
        if self.block is None or self.crops is None:
            return self._open_type(types)
        first = 2 if self.channels_first else 1
        if len(x.shape) < first + len(self.block):
            raise ValueError(f"{plural(len(self.block), 'block size')} for rank {len(x.shape)}")
        result = list(x.shape)
        for i, (size, (before, after)) in enumerate(zip(self.block, self.crops, strict=True)):
            dim = result[first + i]
            result[first + i] = dim * size - before - after if isinstance(dim, int) else None
            result[0] = _scaled(result[0], 1, size)
        return moved(x, tuple(result))
