"""Resizes images whose extents aren't known by factors, where their new sizes are whole ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.resample import (
    RESIZE_FLAGS,
    Coordinates,
    Policy,
    Resample,
    ResampleNearest,
    Rounding,
)
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.rewrite import factors_of
from nnconv.ops.spatial import spatial_dims
from nnconv.passes.base import Rule, RulesPass


def _by_factors(node: Node, _outputs: set[Value]) -> bool:
    op, size = node.op, node.optional(1)
    assert isinstance(op, ResizeBilinear | ResizeNearest)
    axes = tuple(spatial_dims(4, op.layout))
    x = node.operand(0)
    factors = None if size is None else factors_of(size, x, axes)
    if factors is None or min(factors) < 1:
        return False
    scales = tuple(float(factor) for factor in factors)
    if isinstance(op, ResizeNearest):
        if op.align_corners:
            return False
        plain = Coordinates.ASYMMETRIC  # either way element i is that at i // factor
        node.op = ResampleNearest(
            axes=axes, scales=scales, coordinates=plain, rounding=Rounding.FLOOR
        )
    else:
        flags = (op.align_corners, op.half_pixel)
        modes = [mode for mode, known in RESIZE_FLAGS.items() if known == flags]
        if not modes:
            return False
        node.op = Resample(axes=axes, scales=scales, coordinates=modes[0])
    node.set_inputs([x])
    return True


def _by_own_factors(node: Node, _outputs: set[Value]) -> bool:
    op, size = node.op, node.optional(3)
    assert isinstance(op, Resample | ResampleNearest)
    if size is None or op.policy is not Policy.STRETCH or node.optional(1) is not None:
        return False
    factors = factors_of(size, node.operand(0), op.axes)
    if factors is None or min(factors) < 1:
        return False
    node.op = op.replace(scales=tuple(float(factor) for factor in factors))
    node.set_inputs(node.inputs[:1])
    return True


class ResizeFactorsPass(RulesPass):
    """Lets a Resize to the extents of its own operand times whole factors grow it by those.

    That takes formats which know factors, but no sizes that a run tells.
    """

    name: ClassVar[str] = "resize_factors"
    rules: ClassVar[Mapping[type[Op], Rule]] = {
        ResizeBilinear: _by_factors,
        ResizeNearest: _by_factors,
        Resample: _by_own_factors,
        ResampleNearest: _by_own_factors,
    }
