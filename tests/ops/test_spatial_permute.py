"""Spatial ops on transposed data give transposed results, wherever they say that they can."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from nnconv.backends.reference.executor import kernel_of

from nnconv.ir import Builder, DType, Graph, Layout, Op
from nnconv.ir.types import TensorType
from nnconv.ops import conv as c
from nnconv.ops import norm as n
from nnconv.ops import pool as p
from nnconv.ops import resample as r
from nnconv.ops import standardize as s
from nnconv.ops.blocks import DepthToSpace, SpaceToDepth
from nnconv.ops.slices import Pad, PadMode
from nnconv.ops.spatial import Padding

WINDOW = {"window": (3, 2), "stride": (2, 1), "padding": Padding((1, 0), (1, 1))}
CONV = {"stride": (2, 1), "dilation": (1, 2), "padding": Padding((1, 0), (1, 1))}
NCHW = {"layout": Layout.NCHW}

IMAGE = (2, 4, 6, 8)
WEIGHTS = (6, 3, 2, 4)

OPS: dict[str, tuple[Op, list[tuple[int, ...]]]] = {
    "conv": (c.Conv2D(**CONV, **NCHW), [IMAGE, WEIGHTS, (6,)]),
    "conv 1-D": (
        c.Conv1D(stride=(2,), dilation=(1,), padding=Padding((1,), (0,)), **NCHW),
        [(2, 4, 9), (6, 3, 4), (6,)],
    ),
    "conv transposed": (
        c.ConvTranspose2D(**CONV, **NCHW, output_padding=(1, 0)),
        [IMAGE, WEIGHTS, (6,)],
    ),
    "max pool": (p.MaxPool2D(**WINDOW, **NCHW, dilation=(1, 2)), [IMAGE]),
    "max pool 3-D": (
        p.MaxPool3D(window=(2, 2, 1), stride=(1, 2, 1), padding=Padding.none(3), **NCHW),
        [(2, 3, 4, 5, 2)],
    ),
    "places": (p.MaxPoolIndices(**WINDOW, **NCHW), [IMAGE]),
    "places, first fastest": (p.MaxPoolIndices(**WINDOW, **NCHW, column_major=True), [IMAGE]),
    "mean pool": (p.AveragePool2D(**WINDOW, **NCHW, ceil=True), [IMAGE]),
    "norm pool": (p.LpPool(**WINDOW, **NCHW, p=3), [IMAGE]),
    "norm of all": (p.GlobalLpPool(p=3, **NCHW), [IMAGE]),
    "batch": (s.BatchNormalization(axis=1, epsilon=1e-3), [IMAGE, *[(4,)] * 4]),
    "instance": (s.InstanceNormalization(axis=1, epsilon=1e-3), [IMAGE, (4,), (4,)]),
    "group": (s.GroupNormalization(axis=1, epsilon=1e-3, groups=2), [IMAGE, (4,), (4,)]),
    "layer": (
        s.LayerNormalization(axis=2, epsilon=1e-3, statistics=True),
        [IMAGE, (6, 8), (6, 8)],
    ),
    "rms": (s.RmsNormalization(axis=3, epsilon=1e-3), [IMAGE, (8,)]),
    "mean and variance": (s.MeanVarianceNormalization(axes=(0, 2)), [IMAGE]),
    "norm": (n.LpNormalization(axis=2, p=1), [IMAGE]),
    "local response": (
        n.LocalResponseNormalization(axis=1, radius=1, behind=1, bias=1.0, alpha=0.5, beta=0.75),
        [IMAGE],
    ),
    "linear": (r.Resample(axes=(3, 1), scales=(1.5, 2.0)), [IMAGE]),
    "nearest": (r.ResampleNearest(axes=(2, 3), sizes=(5, 12)), [IMAGE]),
    "depth to space": (DepthToSpace(block=2, column_row_depth=True, **NCHW), [IMAGE]),
    "space to depth": (SpaceToDepth(block=2, **NCHW), [IMAGE]),
    "pad": (Pad(before=(0, 1, 2, 0), after=(1, 0, 0, 3), mode=PadMode.WRAP), [IMAGE]),
}

MOVED = {  # how many of all transposes each can follow, itself included
    **dict.fromkeys(("conv", "conv 1-D", "conv transposed", "max pool", "max pool 3-D"), 1),
    **dict.fromkeys(("places", "places, first fastest", "mean pool", "norm pool"), 1),
    **dict.fromkeys(("norm of all", "depth to space", "space to depth"), 1),
    **dict.fromkeys(("instance", "group"), 6),
    "layer": 2,
    "rms": 6,
}


def run(op: Op, arrays: list[np.ndarray]) -> list[np.ndarray]:
    kernel = kernel_of(type(op))
    assert kernel is not None
    if not getattr(kernel, "takes_kind", False):
        return kernel(op, *arrays)
    kind = TensorType(DType.of(arrays[0]), arrays[0].shape)
    return kernel(op, *arrays, kind=kind)


@pytest.mark.parametrize("what", OPS)
def test_permuted(what: str) -> None:
    op, shapes = OPS[what]
    rng = np.random.default_rng(0)
    arrays = [np.abs(rng.standard_normal(shape)) + 0.1 for shape in shapes]
    arrays[0] = rng.standard_normal(shapes[0])
    types = [TensorType(DType.FLOAT64, shape) for shape in shapes]
    wanted = run(op, arrays)
    followed = 0
    for perm in permutations(range(len(shapes[0]))):
        permuted = op.permute(perm, types)
        if permuted is None:
            continue
        followed += 1
        turned = [
            a if order is None else a.transpose(order)
            for a, order in zip(arrays, permuted.operands, strict=True)
        ]
        results = run(permuted.op, turned)
        b = Builder(Graph("g"))
        inputs = [b.const(a) for a in turned]
        inferred = b.infer(permuted.op, inputs)
        for result, told, order, kind in zip(
            results, wanted, permuted.results, inferred, strict=True
        ):
            back = told if order is None else told.transpose(order)
            np.testing.assert_allclose(result, back, rtol=1e-12, atol=1e-12)
            assert kind.shape == result.shape
    total = int(np.prod(range(1, len(shapes[0]) + 1)))
    assert followed == MOVED.get(what, total)
