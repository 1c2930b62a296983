"""The layout pass on random image networks: same results, few transposes, sound graphs."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Layout, Model, Signature, Value
from nnconv.ops import elementwise as e
from nnconv.ops import reduce as r
from nnconv.ops.blocks import DepthToSpace, SpaceToDepth
from nnconv.ops.conv import Conv2D
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.norm import L2Normalization, Softmax
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.shape import Concat, Reshape, Split, Squeeze, Tile, Transpose, Unsqueeze
from nnconv.ops.slices import Pad, Slice
from nnconv.ops.spatial import Padding, channel_dim, other, spatial_dims
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.passes.layout_walk import is_seed
from nnconv.passes.prune import PrunePass

F32 = DType.FLOAT32


class Maker:
    """Draws one node after another; ``pool`` holds the values made so far."""

    def __init__(self, data: st.DataObject, layout: Layout) -> None:
        self.draw = data.draw
        self.layout = layout
        self.channels = channel_dim(4, layout)
        self.pixels = spatial_dims(4, layout)
        self.graph = Graph("random")
        self.b = Builder(self.graph)
        self.rng = np.random.default_rng(self.number(0, 99))
        self.pool: list[Value] = []

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def floats(self, *shape: int) -> Value:
        return self.b.const(self.rng.uniform(0.5, 1.5, shape).astype(np.float32))

    def pick(self, rank: int | None = 4) -> Value | None:
        known = [v for v in self.pool if rank is None or v.type.rank == rank]
        return self.draw(st.sampled_from(known)) if known else None

    def add(self, op: object, *inputs: Value | None) -> None:
        self.pool.append(self.b.add(op, list(inputs)))  # type: ignore[arg-type]


def conv(m: Maker, x: Value) -> None:
    size, filters = m.number(1, 3), m.number(1, 4)
    edges = (size // 2, size // 2)
    op = Conv2D(
        layout=m.layout,
        stride=(m.number(1, 2), 1),
        dilation=(1, 1),
        padding=Padding(edges, edges),
    )
    m.add(op, x, m.floats(filters, size, size, x.shape[m.channels]), m.floats(filters))  # type: ignore[index]


def pool(m: Maker, x: Value) -> None:
    kind = m.draw(st.sampled_from([MaxPool2D, AveragePool2D]))
    op = kind(layout=m.layout, window=(1, 1), stride=(2, 1), padding=Padding.none())
    m.add(op, x)


def unary(m: Maker, x: Value) -> None:
    m.add(m.draw(st.sampled_from([e.Abs(), e.Tanh(), e.Clip(low=0.0, high=1.0)])), x)


def constant(m: Maker, x: Value) -> None:
    shape = tuple(d if m.number(0, 1) else 1 for d in x.shape or ())
    other = m.floats(*shape[m.number(0, len(shape)) :])  # type: ignore[arg-type]
    pair = [x, other] if m.number(0, 1) else [other, x]
    m.add(m.draw(st.sampled_from([e.Add(), e.Sub(), e.Mul()])), *pair)


def binary(m: Maker, x: Value) -> None:
    fitting = [v for v in m.pool if _broadcast(v, x)]
    m.add(
        m.draw(st.sampled_from([e.Add(), e.Mul(), e.Maximum()])),
        x,
        m.draw(st.sampled_from(fitting)),
    )


def _broadcast(a: Value, b: Value) -> bool:
    pairs = zip(reversed(a.shape or ()), reversed(b.shape or ()), strict=False)
    return all(x == y or 1 in (x, y) for x, y in pairs)


def joined(m: Maker, x: Value) -> None:
    axis = m.number(0, 3)
    fitting = [
        v
        for v in m.pool
        if v.type.rank == 4 and all(v.shape[i] == x.shape[i] for i in range(4) if i != axis)  # type: ignore[index]
    ]
    m.add(Concat(axis=axis), x, m.draw(st.sampled_from(fitting)))


def reduced(m: Maker, x: Value) -> None:
    axes = tuple(i for i in range(4) if m.number(0, 1))
    kind = m.draw(st.sampled_from([r.ReduceMean, r.ReduceMax]))
    m.add(kind(axes=axes, keep_dims=bool(m.number(0, 1))), x)


def along(m: Maker, x: Value) -> None:
    kind = m.draw(st.sampled_from([Softmax, L2Normalization, r.CumSum]))
    m.add(kind(axis=m.number(0, 3)), x)


def moved(m: Maker, x: Value) -> None:
    shape = [d for d in x.shape or () if isinstance(d, int)]
    starts = tuple(m.number(0, d - 1) for d in shape)
    op = m.draw(
        st.sampled_from(
            [
                Slice(starts=starts, ends=(None,) * 4, strides=(1,) * 4),
                Pad(before=(0, 1, 0, 0), after=(0, 0, 2, 1)),
                Tile(repeats=(1, 1, 1, 2)),
                Transpose(perm=m.draw(st.sampled_from([(0, 3, 1, 2), (0, 2, 3, 1), (1, 0, 3, 2)]))),
            ]
        )
    )
    m.add(op, x)


def resized(m: Maker, x: Value) -> None:
    kind = m.draw(st.sampled_from([ResizeBilinear, ResizeNearest]))
    m.add(kind(layout=m.layout, size=(m.number(1, 4), m.number(1, 4))), x)


def split(m: Maker, x: Value) -> None:
    axis = m.number(0, 3)
    extent = x.shape[axis]  # type: ignore[index]
    first = m.number(0, extent)
    m.pool += m.b.add_many(Split(axis=axis, sizes=(first, extent - first)), [x])
    m.pool = [v for v in m.pool if 0 not in (v.shape or ())]


def blocked(m: Maker, x: Value) -> None:
    shape = x.shape or ()
    if shape[m.channels] % 4 == 0:
        crd = bool(m.number(0, 1))
        m.add(DepthToSpace(layout=m.layout, block=2, column_row_depth=crd), x)
    elif all(shape[i] % 2 == 0 for i in m.pixels):
        m.add(SpaceToDepth(layout=m.layout, block=2), x)


def flattened(m: Maker, x: Value) -> None:
    rows = x.shape[0]  # type: ignore[index]
    flat = m.b.add(Reshape(shape=(rows, -1)), [x])
    m.pool.append(flat)
    if m.number(0, 1):
        flat = m.b.add(m.draw(st.sampled_from([e.Abs(), e.Tanh()])), [flat])
    if m.number(0, 1):
        flat = m.b.add(e.Mul(), [m.floats(flat.shape[1]), flat])  # type: ignore[index]
    kind = m.number(0, 3)
    if kind == 1:
        m.add(FullyConnected(), flat, m.floats(3, flat.shape[1]), None)  # type: ignore[index]
    elif kind > 1:
        shape = (3, flat.shape[1]) if kind == 2 else (flat.shape[1], 3)  # type: ignore[index]
        m.add(MatMul(transpose_b=kind == 2), flat, m.floats(*shape))  # type: ignore[arg-type]


def squeezed(m: Maker, x: Value) -> None:
    axes = tuple(i for i, d in enumerate(x.shape or ()) if d == 1 and m.number(0, 1))
    flat = m.b.add(Squeeze(axes=axes), [x])
    m.pool.append(flat)
    if m.number(0, 1):
        flat = m.b.add(e.Tanh(), [flat])
    if m.number(0, 1):
        m.add(Unsqueeze(axes=axes), flat)
    else:
        m.add(Reshape(shape=x.shape), flat)


def gated(m: Maker, x: Value) -> None:
    channels = x.shape[m.channels]  # type: ignore[index]
    gate = m.b.add(r.ReduceMean(axes=tuple(m.pixels), keep_dims=True), [x])
    op = Conv2D(layout=m.layout, stride=(1, 1), dilation=(1, 1), padding=Padding.none())
    gate = m.b.add(op, [gate, m.floats(channels, 1, 1, channels), None])
    m.add(e.Mul(), x, gate)


def attention(m: Maker, x: Value) -> None:
    """Pixels by channels, or channels by pixels, times themselves and back."""
    shape = [d for d in x.shape or () if isinstance(d, int)]
    first, *rest = shape
    axis = m.number(1, 2)
    sizes = [rest[0], rest[1] * rest[2]] if axis == 1 else [rest[0] * rest[1], rest[2]]
    flat = m.b.add(Reshape(shape=(first, *sizes)), [x])
    turned = m.b.add(Transpose(perm=(0, 2, 1)), [flat])
    if m.number(0, 1):
        scores = m.b.add(MatMul(), [flat, turned])
    else:
        scores = m.b.add(MatMul(transpose_b=True), [flat, flat])
    scores = m.b.add(Softmax(axis=2), [scores])
    m.pool.append(scores)
    result = m.b.add(MatMul(transpose_a=bool(m.number(0, 1))), [scores, flat])
    m.add(Reshape(shape=tuple(shape)), result)


def shuffled(m: Maker, x: Value) -> None:
    shape = [d for d in x.shape or () if isinstance(d, int)]
    axis = m.number(1, 3)
    groups = next(g for g in (2, 3, 1) if shape[axis] % g == 0)
    split = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    y = m.b.add(Reshape(shape=split), [x])
    if m.number(0, 1):
        y = m.b.add(e.Abs(), [y])
    perm = list(range(5))
    perm[axis : axis + 2] = [axis + 1, axis]
    if m.number(0, 3) == 0:
        perm = m.draw(st.permutations(perm))
    y = m.b.add(Transpose(perm=tuple(perm)), [y])
    if m.number(0, 3):
        m.add(Reshape(shape=tuple(shape)), y)
    else:
        m.pool.append(y)


STEPS: list[Callable[[Maker, Value], None]] = [
    *(conv, conv, conv, pool, unary, constant, binary, joined, reduced, along, moved),
    *(resized, split, blocked, flattened, gated, squeezed, attention, shuffled),
]


def build(m: Maker) -> None:
    for i in range(m.number(1, 2)):
        shape = tuple(m.number(1, 4) for _ in range(4))
        m.pool.append(m.b.input(f"x{i}", F32, shape))
    for _ in range(m.number(1, 12)):
        x = m.pick()
        if x is not None and all(0 < d < 40 for d in x.shape or ()):
            m.draw(st.sampled_from(STEPS))(m, x)
    made = [v for v in m.pool if v.producer is not None] or m.pool
    m.graph.outputs = [made[-1], *m.draw(st.lists(st.sampled_from(made), max_size=2))]


@pytest.mark.parametrize("target", Layout)
@given(data=st.data())
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_random_networks(target: Layout, data: st.DataObject) -> None:
    m = Maker(data, other(target))
    build(m)
    inputs = [
        np.random.default_rng(3).uniform(0.5, 1.5, v.shape).astype(np.float32)
        for v in m.graph.inputs
    ]
    before = run_graph(m.graph, inputs)
    run_passes(Model([Signature("", m.graph)]), [PrunePass()])
    present = _transposes(m.graph)
    seeds = sum(is_seed(node, target) for node in m.graph.nodes)
    model = Model([Signature("", m.graph)])
    run_passes(model, [PrunePass(), LayoutPass(target), PrunePass()], verify=True)
    after = run_graph(m.graph, inputs)
    for old, new in zip(before, after, strict=True):
        assert old.shape == new.shape
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5)
    # a pair around each op that fixes the layout is what it would take to look at no other op
    assert _transposes(m.graph) <= present + 2 * seeds + len(m.graph.outputs)
    again = LayoutPass(target)
    assert not again.run(m.graph), "nothing is left to move"


def _transposes(graph: Graph) -> int:
    return sum(isinstance(node.op, Transpose) for node in graph.nodes)
