"""Graphs of one quantized input, folded by ``FoldQdqPass``, with their results before and after."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import DType, Graph, Model, Signature, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import Layout
from nnconv.ir.quant import Quant
from nnconv.ops.conv import Conv2D
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.fold_qdq import FoldQdqPass
from nnconv.passes.prune import PrunePass
from support.qdq import op_names

SHAPE = (2, 4, 6, 8)
IN = {
    DType.INT8: Quant.per_tensor(0.05, 3),
    DType.UINT8: Quant.per_tensor(0.05, 131),
    DType.INT16: Quant.per_tensor(0.0002, 0),
    DType.UINT16: Quant.per_tensor(0.0002, 32768),
}
OUT = {
    DType.INT8: Quant.per_tensor(0.07, -9),
    DType.UINT8: Quant.per_tensor(0.07, 119),
    DType.INT16: Quant.per_tensor(0.0003, 0),
    DType.UINT16: Quant.per_tensor(0.0003, 32768),
}
TYPES = list(IN)


class Made:
    """A graph of one quantized input, folded.

    Attributes:
        graph: the folded graph.
        ops: the names of its ops.
        reasons: why nodes stayed.
        before, after: the results before and after, of one input.
    """

    def __init__(
        self,
        build: Callable[[Builder, Value], Value | list[Value]],
        *,
        dtype: DType = DType.INT8,
        shape: tuple[int, ...] = SHAPE,
        quant: Quant | None = None,
        real: bool = False,
    ) -> None:
        self.graph = Graph("g")
        b = Builder(self.graph)
        kind = DType.FLOAT32 if real else dtype
        x = b.input("x", kind, shape, quant=None if real else quant or IN[dtype])
        built = build(b, x)
        self.graph.outputs = built if isinstance(built, list) else [built]
        types = [v.type for v in self.graph.outputs]
        rng = np.random.default_rng(1)
        if real:
            data = rng.normal(0, 2, shape).astype(np.float32)
        else:
            low, high = kind.int_range
            data = rng.integers(low, high + 1, shape).astype(kind.numpy)
        self.before = run_graph(self.graph, [data])
        step = FoldQdqPass()
        run_passes(
            Model([Signature("", self.graph)]), [PrunePass(), step, PrunePass()], verify=True
        )
        self.after = run_graph(self.graph, [data])
        self.ops = op_names(self.graph)
        self.reasons = [str(i) for i in step.islands]
        assert [v.type for v in self.graph.outputs] == types

    def agree(self, *, exact: bool = False) -> Made:
        """Check that results are the same, but for ties: float32 falls to either side of those."""
        for old, new in zip(self.before, self.after, strict=True):
            if old.dtype.kind == "f" or exact:
                np.testing.assert_array_equal(old, new)
                continue
            far = np.abs(old.astype(np.int64) - new.astype(np.int64))
            assert far.max(initial=0) <= 1
            assert np.count_nonzero(far) <= max(2, far.size // 10)
            assert len(np.unique(old)) > 1
        return self


CONV = Conv2D(layout=Layout.NHWC, stride=(1, 1), dilation=(1, 1), padding=Padding.none(2))
POOL = {
    "layout": Layout.NHWC,
    "window": (2, 2),
    "stride": (2, 2),
    "padding": Padding.none(2),
}
