"""What random ONNX graphs are drawn from: single nodes, and groups that converters write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper

from support import random_onnx_moves as m
from support import random_onnx_ops as o
from support.random_core import UnfitError
from support.random_onnx import OnnxNet, Slot
from support.random_onnx_ops import Maker, coded, rounded, weight

# ------------------------------------------------------------------------- groups of nodes


def residual(n: OnnxNet) -> None:
    x = coded(n, n.pick(ranks=[4]))
    depth = x.shape[1]
    y = n.add("Conv", [x, weight(n, (depth, depth, 3, 3), 0, depth * 9)], pads=[1] * 4)[0]
    y = coded(n, n.add("Relu", [y])[0])
    rounded(n, n.add("Add", [y, x])[0])


def gate(n: OnnxNet) -> None:
    """Squeeze and excitation."""
    x = coded(n, n.pick(ranks=[4]))
    depth = x.shape[1]
    y = coded(n, n.add("GlobalAveragePool", [x])[0])
    y = n.add("Conv", [y, weight(n, (depth, depth, 1, 1), 0, depth)])[0]
    y = coded(n, n.add(n.one(["Sigmoid", "HardSigmoid"]), [coded(n, y)])[0])
    rounded(n, n.add("Mul", [x, y])[0])


def swish(n: OnnxNet) -> None:
    x = n.pick()
    n.add("Mul", [x, n.add(n.one(["Sigmoid", "HardSigmoid"]), [x])[0]])


def gelu(n: OnnxNet) -> None:
    x = n.pick()
    y = n.add("Div", [x, n.const(np.float32(np.sqrt(2)))])[0]
    y = n.add("Add", [n.add("Erf", [y])[0], n.const(np.float32(1))])[0]
    n.add("Mul", [n.add("Mul", [x, y])[0], n.const(np.float32(0.5))])


def attention(n: OnnxNet) -> None:
    x = n.pick(ranks=[3])
    k = n.add("Transpose", [x], perm=[0, 2, 1])[0]
    scores = n.add("MatMul", [x, k])[0]
    scores = n.add("Mul", [scores, n.const(np.float32(x.shape[2] ** -0.5))])[0]
    n.add("MatMul", [n.add("Softmax", [scores], axis=-1)[0], x])


def channel_shuffle(n: OnnxNet) -> None:
    x = n.pick(ranks=[4])
    _, c, h, w = x.shape
    groups = [g for g in (2, 3) if c % g == 0]
    if not groups:
        raise UnfitError
    g = n.one(groups)
    y = n.add("Reshape", [x, n.const([0, g, c // g, h, w], np.int64)])[0]
    y = n.add("Transpose", [y], perm=[0, 2, 1, 3, 4])[0]
    n.add("Reshape", [y, n.const([0, c, h, w], np.int64)])


def other_layout(n: OnnxNet) -> None:
    """To channels last, something there, and now and then the way back."""
    x = n.add("Transpose", [n.pick(ranks=[4])], perm=[0, 2, 3, 1])[0]
    if n.chance(0.5):
        x = n.add(n.one(["Relu", "Sigmoid", "Neg"]), [x])[0]
    if n.chance(0.5):
        x = n.add("Add", [x, n.const(n.random(x.shape[-1:]))])[0]
    if n.chance(0.6):
        n.add("Transpose", [x], perm=[0, 3, 1, 2])


def recurrent(n: OnnxNet) -> None:
    x = n.pick(ranks=[3], small=200)
    n.still()
    op, gates = n.one([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    both = n.chance(0.3)
    ways, hidden = 1 + both, n.number(1, 4)
    w = n.const(n.random((ways, gates * hidden, x.shape[2])) * np.float32(0.5))
    r = n.const(n.random((ways, gates * hidden, hidden)) * np.float32(0.5))
    operands: list[Slot | None] = [x, w, r]
    if n.chance(0.6):
        operands.append(n.const(n.random((ways, 2 * gates * hidden))))
    more: dict[str, Any] = {"linear_before_reset": n.number(0, 1)} if op == "GRU" else {}
    n.add(
        op,
        operands,
        n.number(1, 3 if op == "LSTM" else 2),
        hidden_size=hidden,
        direction="bidirectional" if both else n.one(["forward", "reverse"]),
        **more,
    )


# ------------------------------------------------------------------------- codes as such


def _parameters(n: OnnxNet, data: np.ndarray, kind: str) -> tuple[Slot, Slot]:
    """Scale and zero point for a range of numbers."""
    low, high = min(0.0, float(data.min())), max(0.0, float(data.max()))
    scale = np.float32(max(high - low, 1e-2) / 255)
    least = -128 if kind == "int8" else 0
    zero = np.clip(round(least - low / float(scale)), least, least + 255)
    return n.const(scale), n.const(zero, kind)


def _codes_of_weights(n: OnnxNet, shape: Sequence[int]) -> list[Slot]:
    real = n.random(shape) / np.float32(np.sqrt(np.prod(shape[1:])))
    scale = np.float32(np.abs(real).max() / 127 + 1e-4)
    codes = np.clip(np.round(real / scale), -127, 127).astype(np.int8)
    return [n.const(codes), n.const(scale), n.const(np.int8(0))]


def quantized_operator(n: OnnxNet) -> None:
    """QLinearConv or QLinearMatMul between conversions."""
    x = n.pick(ranks=[2, 4])
    kind = n.one(["uint8", "int8"])
    before = _parameters(n, x.data, kind)
    codes = n.add("QuantizeLinear", [x, *before])[0]
    n.slots.remove(codes)
    more: dict[str, Any] = {}
    if x.rank == 4:
        size = [min(3, e) for e in x.shape[2:]]
        shape: tuple[int, ...] = (n.number(1, 5), x.shape[1], *size)
        real = n.add("Conv", [x, n.const(n.random(shape))])[0]
        op = "QLinearConv"
    else:
        shape = (x.shape[1], n.number(1, 5))
        real = n.add("MatMul", [x, n.const(n.random(shape))])[0]
        op = "QLinearMatMul"
    after = _parameters(n, real.data, kind)
    made = n.add(op, [codes, *before, *_codes_of_weights(n, shape), *after], **more)[0]
    n.slots.remove(made)
    n.add("DequantizeLinear", [made, *after])


def dynamic_product(n: OnnxNet) -> None:
    """A product of what is quantized by its own range, as onnxruntime's quantizer writes it."""
    x = n.pick(ranks=[2, 3])
    weights = _codes_of_weights(n, (x.shape[-1], n.number(1, 5)))
    codes, scale, zero = n.add("DynamicQuantizeLinear", [x], 3)
    for slot in (codes, scale, zero):
        n.slots.remove(slot)
    sums = n.add("MatMulInteger", [codes, weights[0], zero, weights[2]])[0]
    n.slots.remove(sums)
    factor = n.add("Mul", [scale, weights[1]])[0]
    n.slots.remove(factor)
    n.add("Mul", [n.add("Cast", [sums], to=1)[0], factor])


# ------------------------------------------------------------------------- bodies


def _body(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    infos = [
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in side]
        for side in (inputs, outputs)
    ]
    return helper.make_graph(list(nodes), "body", *infos)


def _to_capture(n: OnnxNet) -> Slot:
    """What a body may read: onnxruntime crashes on codes that are moved and then read there."""
    n.still()
    return n.add("Add", [n.pick(small=200), n.const(np.float32(0.25))])[0]


def branch(n: OnnxNet) -> None:
    """One of two ops, chosen by the data."""
    x = _to_capture(n)
    flag = n.add("ReduceSum", [x], keepdims=0)[0]
    flag = n.add("Greater", [flag, n.const(np.float32(0))])[0]
    first, second = (n.one(["Relu", "Neg", "Abs", "Exp"]) for _ in range(2))
    names = [f"b{len(n.log)}_{i}" for i in range(2)]
    bodies = [
        _body([helper.make_node(op, [x.name], [name])], [], [(name, 1, x.shape)])
        for op, name in zip((first, second), names, strict=True)
    ]
    n.add("If", [flag], captured=[x], then_branch=bodies[0], else_branch=bodies[1])


def loop(n: OnnxNet) -> None:
    """A few turns that change a value, which is collected."""
    x = _to_capture(n)
    p = f"l{len(n.log)}_"
    nodes = [
        helper.make_node("Sin", [p + "v"], [p + "s"]),
        helper.make_node("Add", [p + "s", x.name], [p + "w"]),
        helper.make_node("Identity", [p + "g"], [p + "h"]),
        helper.make_node("Identity", [p + "w"], [p + "c"]),
    ]
    body = _body(
        nodes,
        [(p + "i", 7, ()), (p + "g", 9, ()), (p + "v", 1, x.shape)],
        [(p + "h", 9, ()), (p + "w", 1, x.shape), (p + "c", 1, x.shape)],
    )
    turns = n.const(np.int64(n.number(1, 3)))
    n.add("Loop", [turns, n.const(np.bool_(True)), x], 2, captured=[x], body=body)


# ------------------------------------------------------------------------- others


def einsum(n: OnnxNet) -> None:
    x = n.pick(ranks=[3])
    equation, other = n.one(
        [
            ("bij,bkj->bik", x),
            ("bij,jk->bik", n.const(n.random((x.shape[2], 3)))),
            ("bij,jk->kib", n.const(n.random((x.shape[2], 3)))),
        ]
    )
    n.add("Einsum", [x, other], equation=equation)


def group_norm(n: OnnxNet) -> None:
    x = n.pick(ranks=[3, 4], where=lambda s: s.shape[1] % 2 == 0 and np.prod(s.shape[2:]) > 3)
    if n.opset < 21:
        raise UnfitError
    parts = [n.const(n.random((x.shape[1],))) for _ in range(2)]
    n.add("GroupNormalization", [x, *parts], num_groups=2, epsilon=0.01)


def modulo(n: OnnxNet) -> None:
    x = n.pick("i")
    n.add("Mod", [x, n.const(n.rng.integers(1, 5, x.shape[-1:]), x.data.dtype)])


def one_hot(n: OnnxNet) -> None:
    x = n.pick("i", small=100)
    values = n.const(np.array([n.one([0, -1]), 1], np.float32))
    n.add("OneHot", [x, n.const(np.int64(4)), values], axis=n.one([-1, x.rank]))


def scatter_elements(n: OnnxNet) -> None:
    n.still()
    x = n.pick("f", small=200)
    axis = n.axis(x)
    places = np.argsort(n.rng.random(x.shape), axis=axis)
    count = n.number(1, x.shape[axis])
    indices = np.take(places, range(count), axis=axis)
    updates = n.const(n.random(indices.shape))
    n.add("ScatterElements", [x, n.const(indices, np.int64), updates], axis=axis)


def gather_nd(n: OnnxNet) -> None:
    n.still()
    x = n.pick("fi", ranks=[2, 3, 4], small=300)
    depth = n.number(1, 2)
    indices = np.stack([n.rng.integers(0, e, 3) for e in x.shape[:depth]], axis=-1)
    n.add("GatherND", [x, n.const(indices, np.int64)])


def norm_of_elements(n: OnnxNet) -> None:
    x = n.add("Add", [n.pick(ranks=[2, 3, 4]), n.const(np.float32(0.1))])[0]
    n.add("LpNormalization", [x], axis=n.axis(x), p=n.one([1, 2]))


WEIGHTS: dict[Maker, int] = {
    residual: 1,
    gate: 1,
    swish: 1,
    gelu: 1,
    attention: 1,
    channel_shuffle: 1,
    other_layout: 1,
    recurrent: 1,
    quantized_operator: 1,
    dynamic_product: 1,
    branch: 1,
    loop: 1,
    einsum: 1,
    group_norm: 1,
    modulo: 1,
    one_hot: 1,
    scatter_elements: 1,
    gather_nd: 1,
    norm_of_elements: 1,
}
"""What is drawn besides, and how often."""

MAKERS = tuple(
    maker
    for weights in (o.WEIGHTS, m.WEIGHTS, WEIGHTS)
    for maker, share in weights.items()
    for _ in range(share)
)


def add_random(n: OnnxNet) -> None:
    """Add one node, or a group of them.

    Raises:
        UnfitError: what was drawn doesn't fit; nodes that were added before that was found stay.
    """
    n.one(MAKERS)(n)
