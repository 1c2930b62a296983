"""Random nodes that move elements, for `support.random_onnx_patterns`."""

from __future__ import annotations

import numpy as np

from support.random_core import UnfitError
from support.random_onnx import OnnxNet
from support.random_onnx_ops import Maker, coded, rounded

# ------------------------------------------------------------------------- moves


def transpose(n: OnnxNet) -> None:
    x = n.pick("fib", ranks=[2, 3, 4, 5])
    perm = [int(p) for p in n.rng.permutation(x.rank)]
    if n.dynamic:
        perm = [0, *(p for p in perm if p)]
    n.add("Transpose", [x], perm=perm)


def reshape(n: OnnxNet) -> None:
    x = n.pick("fib", ranks=[2, 3, 4, 5])
    kind = n.number(0, 3)
    if kind == 0:
        n.add("Flatten", [x], axis=1)
    elif kind == 1:
        n.add("Reshape", [x, n.const([0, -1], np.int64)])
    elif kind == 2 and x.rank > 2:
        tail = list(x.shape[1:])
        place = n.number(0, len(tail) - 2)
        tail[place : place + 2] = [tail[place] * tail[place + 1]]
        n.add("Reshape", [x, n.const([0, *tail], np.int64)])
    else:
        extent = x.shape[-1]
        factors = [f for f in (2, 3) if extent % f == 0]
        if not factors or x.rank > 4:
            raise UnfitError
        f = n.one(factors)
        shape = [0 if i == 0 else e for i, e in enumerate(x.shape[:-1])]
        n.add("Reshape", [x, n.const([*shape, f, extent // f], np.int64)])


def squeeze(n: OnnxNet) -> None:
    x = n.pick("fib")
    ones = [i for i, e in enumerate(x.shape) if e == 1 and i >= int(n.dynamic)]
    if ones and n.chance(0.5):
        n.add("Squeeze", [x, n.const([n.one(ones)], np.int64)])
    elif x.rank < 5:
        n.add("Unsqueeze", [x, n.const([n.number(int(n.dynamic), x.rank)], np.int64)])


def concat(n: OnnxNet) -> None:
    x = n.pick("fi")
    axis = n.axis(x)
    rest = [e for i, e in enumerate(x.shape) if i != axis % x.rank]
    fit = [
        s
        for s in n.slots
        if s.data.dtype == x.data.dtype
        and s.rank == x.rank
        and [e for i, e in enumerate(s.shape) if i != axis % x.rank] == rest
    ]
    parts = [coded(n, x), *(n.one(fit) for _ in range(n.number(1, 3)))]
    rounded(n, n.add("Concat", parts, axis=axis)[0])


def split(n: OnnxNet) -> None:
    x = n.pick("fi")
    axis = n.axis(x)
    extent = x.shape[axis]
    if extent < 2:
        raise UnfitError
    cut = n.number(1, extent - 1)
    n.add("Split", [x, n.const([cut, extent - cut], np.int64)], 2, axis=axis)


def slice_(n: OnnxNet) -> None:
    x = n.pick("fib")
    axis = n.axis(x)
    extent = x.shape[axis]
    low = n.number(0, extent - 1)
    high = n.number(low + 1, extent)
    step = n.one([1, 1, 2, -1])
    if step < 0:
        low, high = high - 1, (low - 1 if low else -extent - 1)
    if n.chance(0.2):
        high = 1 << 40 if step > 0 else high
    numbers = [n.const([v], np.int64) for v in (low, high, axis, step)]
    n.add("Slice", [x, *numbers])


def gather(n: OnnxNet) -> None:
    x = n.pick("fib", small=600)
    axis = n.axis(x)
    extent = x.shape[axis]
    shape = n.one([(), (1,), (3,), (2, 2)])
    indices = n.rng.integers(-extent if n.chance(0.3) else 0, extent, shape)
    n.add("Gather", [x, n.const(indices, np.int64)], axis=axis)


def gather_elements(n: OnnxNet) -> None:
    n.still()
    x = n.pick("fi", small=300)
    axis = n.axis(x)
    shape = list(x.shape)
    shape[axis] = n.number(1, 3)
    indices = n.rng.integers(0, x.shape[axis], shape)
    n.add("GatherElements", [x, n.const(indices, np.int64)], axis=axis)


def scatter(n: OnnxNet) -> None:
    n.still()
    x = n.pick(ranks=[2, 3], small=300)
    count = n.number(1, x.shape[0])
    indices = n.rng.permutation(x.shape[0])[:count].reshape(-1, 1)
    updates = n.const(n.random((count, *x.shape[1:])))
    n.add("ScatterND", [x, n.const(indices, np.int64), updates])


def pad(n: OnnxNet) -> None:
    x = n.pick("f", ranks=[2, 3, 4])
    first = int(n.dynamic)
    mode = n.one(["constant", "constant", "reflect", "edge"])
    most = [
        0 if i < first else min(2, e - 1) if mode == "reflect" else 2 for i, e in enumerate(x.shape)
    ]
    pads = [n.number(0, m) if n.chance(0.6) else 0 for m in (*most, *most)]
    operands = [coded(n, x), n.const(pads, np.int64)]
    if mode == "constant" and n.chance(0.4):
        operands.append(n.const(np.float32(n.one([0, 1.5, -2]))))
    n.add("Pad", operands, mode=mode)


def expand(n: OnnxNet) -> None:
    n.still()
    x = n.pick("fib", small=300)
    shape = [n.number(1, 3) if e == 1 else e for e in x.shape]
    n.add("Expand", [x, n.const(shape, np.int64)])


def tile(n: OnnxNet) -> None:
    x = n.pick("fi", small=300)
    repeats = [1 if n.dynamic and i == 0 else n.number(1, 2) for i in range(x.rank)]
    n.add("Tile", [x, n.const(repeats, np.int64)])


def depth_space(n: OnnxNet) -> None:
    x = n.pick(ranks=[4])
    if x.shape[1] % 4 == 0:
        n.add("DepthToSpace", [x], blocksize=2, mode=n.one(["DCR", "CRD"]))
    elif x.shape[2] % 2 == x.shape[3] % 2 == 0:
        n.add("SpaceToDepth", [x], blocksize=2)
    else:
        raise UnfitError


def triangle(n: OnnxNet) -> None:
    if n.opset < 14:
        raise UnfitError
    n.add("Trilu", [n.pick(ranks=[2, 3])], upper=n.number(0, 1))


def by_shape(n: OnnxNet) -> None:
    """A reshape to extents that are computed from another's."""
    x = n.pick(ranks=[3, 4])
    dims = n.add("Shape", [x])[0]
    first = n.add("Gather", [dims, n.const([0], np.int64)])[0]
    target = n.add("Concat", [first, n.const([-1], np.int64)], axis=0)[0]
    n.add("Reshape", [x, target])


WEIGHTS: dict[Maker, int] = {
    transpose: 2,
    reshape: 2,
    squeeze: 1,
    concat: 2,
    split: 1,
    slice_: 2,
    gather: 1,
    gather_elements: 1,
    scatter: 1,
    pad: 1,
    expand: 1,
    tile: 1,
    depth_space: 1,
    triangle: 1,
    by_shape: 1,
}
"""What is drawn, and how often beside the others."""
