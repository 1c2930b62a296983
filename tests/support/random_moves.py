"""Random ops that move, cut and count elements, for `support.random_ops`."""

from __future__ import annotations

import numpy as np

from support.random_core import UnfitError
from support.random_net import Net, Slot
from support.random_ops import BYTES, CODED, FLOAT, Maker, axis_of, still

MOVED = (*FLOAT, *CODED, "int32", "int64", "bool")


def concat(n: Net) -> None:
    x = n.pick(*FLOAT, *CODED, "int32", "int64", "bool")
    axis = axis_of(n, x)
    rest = [e for i, e in enumerate(x.shape) if i != axis % x.rank]

    def fits(s: Slot) -> bool:
        return (
            s.dtype == x.dtype
            and s.rank == x.rank
            and [e for i, e in enumerate(s.shape) if i != axis % x.rank] == rest
            and (s.quant == x.quant or x.dtype == "uint8")
            and s.quantized == x.quantized
        )

    parts = [x]
    for _ in range(n.number(0, 3)):
        others = [s for s in n.slots if fits(s)]
        if others and n.chance(0.7):
            parts.append(n.one(others))
        elif not n.dynamic:
            shape = list(x.shape)
            shape[axis] = n.number(1, 3)
            parts.append(n.like(x, shape))
    n.add("CONCATENATION", parts, axis=axis)


def split(n: Net) -> None:
    x = n.pick(*FLOAT, *CODED, "int32", "int64")
    axis = axis_of(n, x)
    extent = x.shape[axis]
    if n.chance(0.5):
        count = n.one([c for c in range(1, extent + 1) if extent % c == 0][:4])
        n.add(
            "SPLIT",
            [n.const(np.int32(axis)), x],
            [x.dtype] * count,
            num_splits=count,
            quant=x.quant,  # type: ignore[arg-type]
        )
    else:
        if extent < 2:
            raise UnfitError
        cut = n.number(1, extent - 1)
        sizes = n.one([(cut, extent - cut), (cut, -1)])
        n.add("SPLIT_V", [x, n.ints(*sizes), n.const(np.int32(axis))], [None, None], num_splits=2)


def slice_(n: Net) -> None:
    x = n.pick(*MOVED)
    begin = [n.number(0, extent - 1) for extent in x.shape]
    size = [n.number(1, e - b) for e, b in zip(x.shape, begin, strict=True)]
    if n.dynamic:
        begin[0], size[0] = 0, -1
    n.add("SLICE", [x, n.ints(*begin), n.ints(*size)])


def strided_slice(n: Net) -> None:
    x = n.pick(*MOVED)
    begin, end, strides = [], [], []
    for extent in x.shape:
        low = n.number(0, extent - 1)
        high = n.number(low + 1, extent)
        step = n.one([1, 1, 2, -1])
        if step < 0:
            begin.append(high - 1)
            end.append(low - 1 if low else -extent - 1)
        else:
            begin.append(low - extent if n.chance(0.2) else low)
            end.append(high)
        strides.append(step)
    open_ = int(n.rng.integers(1 << x.rank)) if n.chance(0.5) else 0
    shrink = 1 << n.number(0, x.rank - 1) if x.rank > 1 and n.chance(0.3) else 0
    if n.dynamic:
        open_ |= 1
        strides[0], shrink = 1, shrink & ~1
    for i in range(x.rank):
        if shrink >> i & 1:
            strides[i] = 1
    begin_mask = open_ & ~shrink
    n.add(
        "STRIDED_SLICE",
        [x, n.ints(*begin), n.ints(*end), n.ints(*strides)],
        begin_mask=begin_mask,
        end_mask=open_ & ~shrink,
        shrink_axis_mask=shrink,
    )


def pad(n: Net) -> None:
    op = n.one(["PAD", "PADV2", "MIRROR_PAD"])
    x = n.pick(*FLOAT, *CODED, "int32", ranks=[1, 2, 3, 4], small=600)
    amounts = n.rng.integers(0, 3, (x.rank, 2)).astype(np.int32)
    if n.dynamic or n.chance(0.6):
        amounts[0] = 0
    if n.chance(0.5):
        amounts[-1] = 0
    options = {}
    operands = [x]
    if op == "MIRROR_PAD":
        options["mode"] = n.one(["REFLECT", "SYMMETRIC"])
        least = np.asarray(x.shape) - (options["mode"] == "REFLECT")
        amounts = np.minimum(amounts, least[:, None]).astype(np.int32)
    operands.append(n.const(amounts))
    if op == "PADV2":
        operands.append(n.like(x, ()))
    n.add(op, operands, **options)


def transpose(n: Net) -> None:
    x = n.pick(*MOVED, ranks=[2, 3, 4, 5])
    perm = list(n.rng.permutation(x.rank))
    if n.dynamic:
        perm = [0, *(int(p) + 1 for p in n.rng.permutation(x.rank - 1))]
    n.add("TRANSPOSE", [x, n.ints(*map(int, perm))])


def reshape(n: Net) -> None:
    x = n.pick(*MOVED)
    rest = list(x.shape[1:]) if n.dynamic else list(x.shape)
    if n.chance(0.3):
        rest = [int(np.prod(rest))]
    elif len(rest) > 1:
        at = n.number(0, len(rest) - 2)
        rest[at : at + 2] = [rest[at] * rest[at + 1]]
    if n.chance(0.4):
        at = n.number(0, len(rest))
        extent = 1
        if at < len(rest):
            extent = n.one([d for d in range(1, rest[at] + 1) if rest[at] % d == 0])
            rest[at] //= extent
        rest.insert(at, extent)
    shape = [-1, *rest] if n.dynamic else rest
    if not n.dynamic and shape and n.chance(0.3):
        shape[n.number(0, len(shape) - 1)] = -1
    n.add("RESHAPE", [x, n.ints(*shape)], new_shape=shape)


def squeeze(n: Net) -> None:
    x = n.pick(*MOVED, ranks=[2, 3, 4, 5])
    ones = [i for i, e in enumerate(x.shape) if e == 1 and not (n.dynamic and i == 0)]
    if not ones:
        raise UnfitError
    n.add("SQUEEZE", [x], squeeze_dims=[n.one(ones)])


def expand(n: Net) -> None:
    x = n.pick(*MOVED, ranks=[1, 2, 3, 4])
    n.add("EXPAND_DIMS", [x, n.ints(n.number(1, x.rank))])


def tile(n: Net) -> None:
    x = n.pick(*MOVED, ranks=[1, 2, 3, 4], small=400)
    times = [n.number(1, 2) for _ in x.shape]
    times[0] = 1 if n.dynamic else times[0]
    n.add("TILE", [x, n.ints(*times)])


def gather(n: Net) -> None:
    x = n.pick(*MOVED, ranks=[1, 2, 3, 4])
    axis = axis_of(n, x)
    shape = n.one([(), (2,), (3,), (2, 2)])
    indices = n.const(n.rng.integers(0, x.shape[axis], shape).astype(n.one(["int32", "int64"])))
    n.add("GATHER", [x, indices], axis=axis)


def gather_nd(n: Net) -> None:
    still(n)
    x = n.pick(*MOVED, ranks=[2, 3, 4])
    depth = n.number(1, x.rank)
    columns = [n.rng.integers(0, extent, (3,)) for extent in x.shape[:depth]]
    n.add("GATHER_ND", [x, n.const(np.stack(columns, axis=1).astype(np.int32))])


def pack(n: Net) -> None:
    x = n.pick(*FLOAT, *CODED, "int32", "int64", ranks=[1, 2, 3, 4])
    like = [s for s in n.slots if (s.dtype, s.shape, s.quant) == (x.dtype, x.shape, x.quant)]
    parts = [x, *(n.one(like) for _ in range(n.number(0, 2)))]
    axis = n.number(int(n.dynamic), x.rank)
    n.add("PACK", parts, axis=axis, values_count=len(parts))


def unpack(n: Net) -> None:
    x = n.pick(*FLOAT, *CODED, "int32", "bool", ranks=[2, 3, 4])
    axis = axis_of(n, x)
    if x.shape[axis] > 4:
        raise UnfitError
    n.add("UNPACK", [x], [None] * x.shape[axis], axis=axis, num=x.shape[axis])


def blocks(n: Net) -> None:
    op = n.one(["SPACE_TO_DEPTH", "DEPTH_TO_SPACE"])
    x = n.pick(*FLOAT, *BYTES, "int32", ranks=[4])
    size = 2
    if op == "SPACE_TO_DEPTH" and (x.shape[1] % size or x.shape[2] % size):
        raise UnfitError
    if op == "DEPTH_TO_SPACE" and x.shape[3] % (size * size):
        raise UnfitError
    n.add(op, [x], block_size=size)


def batches(n: Net) -> None:
    still(n)
    x = n.pick(*FLOAT, *CODED, ranks=[4], small=600)
    block = (n.number(1, 2), n.number(1, 2))
    if x.shape[0] % (block[0] * block[1]) == 0 and n.chance(0.6):
        crops = [
            [n.number(0, 1) if e * b > 2 else 0, 0]
            for e, b in zip(x.shape[1:3], block, strict=True)
        ]
        n.add("BATCH_TO_SPACE_ND", [x, n.ints(*block), n.const(np.int32(crops))])
        return
    pads = [[n.number(0, 1), 0] for _ in block]
    for i, b in enumerate(block):
        pads[i][1] = -(x.shape[1 + i] + pads[i][0]) % b
    n.add("SPACE_TO_BATCH_ND", [x, n.ints(*block), n.const(np.int32(pads))])


def reverse(n: Net) -> None:
    x = n.pick(*MOVED, ranks=[1, 2, 3, 4])
    n.add("REVERSE_V2", [x, n.ints(axis_of(n, x) % x.rank)])


def broadcast_to(n: Net) -> None:
    still(n)
    x = n.pick(*MOVED, ranks=[1, 2, 3], small=300)
    shape = [n.number(2, 3) if e == 1 else e for e in x.shape]
    n.add("BROADCAST_TO", [x, n.ints(n.number(1, 2), *shape)], version=2)


def one_hot(n: Net) -> None:
    x = n.pick("int32", "int64", ranks=[1, 2, 3], small=200)
    on, off = n.const(np.float32(2.5)), n.const(np.float32(-1))
    n.add("ONE_HOT", [x, n.const(np.int32(4)), on, off], ["float32"], axis=-1)


def shape_of(n: Net) -> None:
    still(n)
    n.add("SHAPE", [n.pick(*MOVED)], ["int32"], out_type="int32")


MOVERS: tuple[tuple[Maker, float], ...] = (
    (concat, 3),
    (split, 1.5),
    (slice_, 1.5),
    (strided_slice, 2),
    (pad, 2),
    (transpose, 2),
    (reshape, 2),
    (squeeze, 0.7),
    (expand, 0.7),
    (tile, 0.7),
    (gather, 1),
    (gather_nd, 0.5),
    (pack, 1),
    (unpack, 0.7),
    (blocks, 1),
    (batches, 1),
    (reverse, 0.7),
    (broadcast_to, 0.5),
    (one_hot, 0.5),
    (shape_of, 0.2),
)
