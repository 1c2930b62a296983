"""Sequences of steps in ONNX: its own recurrent ops, steps one after another, a Scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from nnconv.formats.onnx import wire
from nnconv.formats.onnx.exporter import Target
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.formats.onnx.weights import kept_apart
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Role
from nnconv.ir.types import Dim, TensorType, static_shape
from nnconv.ops.rnn import Lstm, Rnn

UNROLLED = 4
"""The most steps that are written out one after another; a Scan of more is smaller, not slower."""

Step: TypeAlias = Callable[[Target, str, Sequence[str]], list[str]]
"""From the step's projected input and the states to the next states; the first is the result."""

NATIVE: dict[Activation, str] = {
    Activation.TANH: "Tanh",
    Activation.RELU: "Relu",
    Activation.SIGMOID: "Sigmoid",
    Activation.NONE: "Affine",
}
"""Activations that ONNX's LSTM and RNN know by name."""


def unsqueeze(t: Target, name: str, axis: int) -> str:
    """``name`` with an extent of 1 put in at ``axis``."""
    return t.node("Unsqueeze", [name, t.const([axis])])


def squeeze(t: Target, name: str, axis: int) -> str:
    """``name`` without the extent of 1 at ``axis``."""
    return t.node("Squeeze", [name, t.const([axis])])


def time_first(t: Target, op: Lstm | Rnn, x: Value, name: str) -> str:
    """A sequence [B,T,...] as [T,B,...], or back; as it is where time is first or missing."""
    if op.time_major or x.type.rank != 3:
        return name
    return t.node("Transpose", [name], perm=(1, 0, 2))


def sequence_of(t: Target, op: Lstm | Rnn, x: Value) -> str:
    """The real values of x, time first; int8 codes by uint8 (see `rounded`)."""
    if not t.is_quantized(x):
        name = t.real(x)
        turned = time_first(t, op, x, name)
        is_half = t.real_type(x) is DType.FLOAT16
        return kept_apart(t, turned) if is_half and turned != name else turned
    codes, quant, dtype = time_first(t, op, x, t.codes(x)), t.inner_quant(x), t.inner_type(x)
    if dtype is DType.INT8:
        codes, quant, dtype = t.resigned(codes), quant.shifted(128), DType.UINT8
    return t.dequantize(codes, quant, dtype)


def step_count(op: Lstm | Rnn, x: Value) -> Dim:
    """How many steps x has, which isn't a single one without a time dimension."""
    assert x.shape is not None, "the importer knows the rank"
    return x.shape[0 if op.time_major else 1]


def initial(t: Target, op: Lstm | Rnn, x: Value, state: Value | None, size: int) -> str:
    """A state [B,size] before the first step: zeros where it is left out."""
    if state is not None:
        return t.real(state)
    assert x.shape is not None, "the importer knows the rank"
    axis = 1 if op.time_major and len(x.shape) == 3 else 0
    batch = x.shape[axis]
    zero = np.zeros((1,), t.real_type(x).numpy)
    if isinstance(batch, int):
        return t.const(np.zeros((batch, size), zero.dtype))
    rows = t.node(
        "Gather", [t.node("Shape", [t.codes(x)]), t.const(np.array([axis], np.int64))], axis=0
    )
    shape = t.node("Concat", [rows, t.const([size])], axis=0)
    return t.node("Expand", [t.const(zero), shape])


def spelled_out(
    t: Target, node: Node, projected: str, states: Sequence[str], step: Step
) -> tuple[str, list[str]]:
    """Run ``step`` over a projected input [T,B,G] or [B,G]: all results, the last states."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Lstm | Rnn)
    if x.type.rank == 2:
        last = step(t, projected, states)
        return last[0], last
    count = step_count(op, x)
    if not isinstance(count, int) or not 0 < count <= UNROLLED:
        sequence, last = _scan(t, node, projected, states, step)
        return time_first(t, op, x, sequence), last
    pieces = [projected]
    if count > 1:
        sizes = t.const([1] * count)
        pieces = t.nodes_of("Split", [projected, sizes], count, axis=0)
    axis = 0 if op.time_major else 1
    last, results = list(states), []
    for piece in reversed(pieces) if op.reverse else pieces:
        last = step(t, squeeze(t, piece, 0), last)
        results.append(unsqueeze(t, last[0], axis))
    if op.reverse:
        results.reverse()
    return (t.node("Concat", results, axis=axis) if count > 1 else results[0]), last


def _scan(
    t: Target, node: Node, projected: str, states: Sequence[str], step: Step
) -> tuple[str, list[str]]:
    op, x = node.op, node.operand(0)
    assert isinstance(op, Lstm | Rnn)
    kind = DATA_TYPES[t.real_type(x)]
    body = t.inner()
    names = [t.names.unique(f"{projected}/{what}") for what in ("h", "c")[: len(states)]]
    piece = t.names.unique(f"{projected}/step")
    after = step(body, piece, names)
    result = body.node("Identity", [after[0]])  # a body's outputs must be different values
    dims = (None, None)
    graph = wire.Graph(
        f"{names[0]}/body",
        body.nodes,
        [wire.ValueInfo(name, kind, dims) for name in (*names, piece)],
        [wire.ValueInfo(name, kind, dims) for name in (*after, result)],
        body.initializers,
    )
    backward = (1,) if op.reverse else None
    *last, sequence = t.nodes_of(
        "Scan",
        [*states, projected],
        len(states) + 1,
        body=graph,
        num_scan_inputs=1,
        scan_input_directions=backward,
        scan_output_directions=backward,
    )
    return sequence, last


def choose(
    t: Target,
    condition: str,
    then: Callable[[Target], list[str]],
    otherwise: Callable[[Target], list[str]],
) -> list[str]:
    """An If whose branches, made in a graph of their own each, give equally many float results."""
    graphs = []
    for build in (then, otherwise):
        branch = t.inner()
        results = build(branch)
        infos = [wire.ValueInfo(name, DATA_TYPES[DType.FLOAT32], None) for name in results]
        graphs.append(wire.Graph(results[0], branch.nodes, (), infos, branch.initializers))
    return t.nodes_of("If", [condition], len(results), then_branch=graphs[0], else_branch=graphs[1])


def native(t: Target, node: Node, kind: str, inputs: Sequence[str], size: Dim) -> list[str]:
    """ONNX's LSTM or RNN: the results in x's order and the last states.

    ``inputs`` are W, R, B, the states [B,O] by name, and what follows them.
    """
    op, x = node.op, node.operand(0)
    assert isinstance(op, Lstm | Rnn)
    flat = x.type.rank == 2
    data = t.real(x)
    data = unsqueeze(t, data, 0) if flat else time_first(t, op, x, data)
    attributes: dict[str, Any] = {"hidden_size": size}
    if op.reverse:
        attributes["direction"] = "reverse"
    if op.activation is not Activation.TANH:
        own = [NATIVE[op.activation]] * (2 if kind == "LSTM" else 1)
        attributes["activations"] = ["Sigmoid", *own] if kind == "LSTM" else own
        if op.activation is Activation.NONE:
            attributes["activation_alpha"] = [1.0] * len(own)
            attributes["activation_beta"] = [0.0] * len(own)
    weights, recurrent, bias, *rest = inputs
    count = 3 if kind == "LSTM" else 2
    states = [unsqueeze(t, s, 0) if s else "" for s in rest[: count - 1]]
    results = t.nodes_of(
        kind,
        [data, weights, recurrent, bias, "", *states, *rest[count - 1 :]],
        count,
        **attributes,
    )
    last = [squeeze(t, name, 0) for name in results[1:]]
    if flat:
        return [last[0], *last]
    steps = step_count(op, x)
    if not isinstance(steps, int) or steps == 0:
        last = _kept(t, node, data, rest, last)
    return [time_first(t, op, x, squeeze(t, results[0], 1)), *last]


def _kept(
    t: Target, node: Node, data: str, before: Sequence[str], after: Sequence[str]
) -> list[str]:
    """Last states that are the first ones where there are no steps: onnxruntime has zeros then."""
    found = list(after)
    none = ""
    for i, (first, value) in enumerate(zip(before, node.outputs[1:], strict=False)):
        if first and value.is_wanted:
            if not none:
                steps = t.node("Gather", [t.node("Shape", [data]), t.const([0])], axis=0)
                none = t.node("Equal", [steps, t.const([0])])
            found[i] = t.node("Where", [none, first, after[i]])
    return found


def finish(t: Target, node: Node, names: Sequence[str]) -> None:
    """Give the results by their real values; int8 ones by uint8 (see `rounded`)."""
    for value, name in zip(node.outputs, names, strict=True):
        if value.quant is not None and t.inner_type(value) is DType.INT8:
            codes = t.quantize(name, value.quant.shifted(128), DType.UINT8)
            t.set_codes(value, t.unsigned_to_signed(codes))
        else:
            t.set_real(value, name)


def without_elements(t: Target, node: Node) -> bool:
    """Give the results of no steps or an empty batch; False where there is something to compute.

    onnxruntime's Scan fails without steps, and its LSTM ends the process on an empty batch.
    """
    y, *after = node.outputs
    shape = static_shape(y.shape)
    if shape is None or 0 not in shape:
        return False
    t.set_real(y, t.const(np.zeros(shape, t.real_type(y).numpy)))
    for place, value in zip(node.op.places_of(Role.STATE), after, strict=True):
        before = node.optional(place)
        if before is None:
            extents = static_shape(value.shape)
            assert extents is not None, "the result's shape is known, hence the state's"
            t.set_real(value, t.const(np.zeros(extents, t.real_type(value).numpy)))
        else:
            t.set_codes(value, t.codes(before))
    return True


def rounded(g: Target, name: str, kind: TensorType | None) -> str:
    """Real values on the grid of a quantized type.

    Its int8 codes are uint8 ones here: the grid is the same, and onnxruntime, which moves these
    nodes about, makes QuantizeLinear nodes that contradict themselves of int8.
    """
    if kind is None:
        return name
    assert kind.quant is not None, "a step's type is quantized"
    quant, dtype = kind.quant, kind.dtype
    if dtype is DType.INT8:
        quant, dtype = quant.shifted(128), DType.UINT8
    return g.dequantize(g.quantize(name, quant, dtype), quant, dtype)
