"""Ops that cut, pad, turn round or overwrite stretches of a tensor."""

from __future__ import annotations

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.pad import PAD
from nnconv.ir.op import Op
from nnconv.ops.slices import Pad

DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    Pad: PAD,
}
