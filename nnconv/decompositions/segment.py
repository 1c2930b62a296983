"""Combining slices by number, by other ops."""

from __future__ import annotations

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.comparing import segments_by_comparing
from nnconv.ir.op import Op
from nnconv.ops.segment import Segment

DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {Segment: (segments_by_comparing,)}
