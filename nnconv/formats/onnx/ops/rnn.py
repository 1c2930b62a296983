"""Recurrent ops.

ONNX's own LSTM and RNN are taken wherever they mean the same: they run five times as fast as
anything else. They can't clip the cell, project, normalize or round at each step; then a step is
spelled out: once for each of up to `UNROLLED` steps, else as the body of a Scan. What of a step
doesn't depend on the last one, the product of input and weights, is done for all steps at once
before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from nnconv.formats.onnx import wire
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.stacked import stacked
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import Dim, TensorType, static_shape
from nnconv.ops.rnn import LAYER_NORM_EPSILON, Lstm, Rnn

UNROLLED = 4
"""The most steps that are written out one after another; a Scan of more is smaller, not slower."""

Step: TypeAlias = Callable[[Target, str, Sequence[str]], list[str]]
"""From the step's projected input and the states to the next states; the first is the result."""

_NATIVE: dict[Activation, str] = {
    Activation.TANH: "Tanh",
    Activation.RELU: "Relu",
    Activation.SIGMOID: "Sigmoid",
    Activation.NONE: "Affine",
}
"""Activations that ONNX's LSTM and RNN know by name."""


def _unsqueeze(t: Target, name: str, axis: int) -> str:
    return t.node("Unsqueeze", [name, t.const([axis])])


def _squeeze(t: Target, name: str, axis: int) -> str:
    return t.node("Squeeze", [name, t.const([axis])])


# -------------------------------------------------------------------- sequences


def _time_first(t: Target, op: Lstm | Rnn, x: Value, name: str) -> str:
    """A sequence [B,T,...] as [T,B,...], or back; as it is where time is first or missing."""
    if op.time_major or x.type.rank != 3:
        return name
    return t.node("Transpose", [name], perm=(1, 0, 2))


def _sequence(t: Target, op: Lstm | Rnn, x: Value) -> str:
    """The real values of x, time first; int8 codes by uint8 (see `_rounded`)."""
    if not t.is_quantized(x):
        return _time_first(t, op, x, t.real(x))
    codes, quant, dtype = _time_first(t, op, x, t.codes(x)), t.inner_quant(x), t.inner_type(x)
    if dtype is DType.INT8:
        codes, quant, dtype = t.resigned(codes), quant.shifted(128), DType.UINT8
    return t.dequantize(codes, quant, dtype)


def _steps(op: Lstm | Rnn, x: Value) -> Dim:
    assert x.shape is not None, "the importer knows the rank"
    return x.shape[0 if op.time_major else 1]


def _initial(t: Target, op: Lstm | Rnn, x: Value, state: Value | None, size: int) -> str:
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


def _spelled_out(
    t: Target, node: Node, projected: str, states: Sequence[str], step: Step
) -> tuple[str, list[str]]:
    """Run ``step`` over a projected input [T,B,G] or [B,G]: all results, the last states."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Lstm | Rnn)
    assert x is not None
    if x.type.rank == 2:
        last = step(t, projected, states)
        return last[0], last
    count = _steps(op, x)
    if not isinstance(count, int) or not 0 < count <= UNROLLED:
        sequence, last = _scan(t, node, projected, states, step)
        return _time_first(t, op, x, sequence), last
    pieces = [projected]
    if count > 1:
        sizes = t.const([1] * count)
        pieces = t.nodes_of("Split", [projected, sizes], count, axis=0)
    axis = 0 if op.time_major else 1
    last, results = list(states), []
    for piece in reversed(pieces) if op.reverse else pieces:
        last = step(t, _squeeze(t, piece, 0), last)
        results.append(_unsqueeze(t, last[0], axis))
    if op.reverse:
        results.reverse()
    return (t.node("Concat", results, axis=axis) if count > 1 else results[0]), last


def _scan(
    t: Target, node: Node, projected: str, states: Sequence[str], step: Step
) -> tuple[str, list[str]]:
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Lstm | Rnn)
    assert x is not None
    kind = DATA_TYPES[t.real_type(x)]
    body = Target(opset=t.opset, resign=t.resign, names=t.names, parent=t)
    body.current = node
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


def _native(t: Target, node: Node, kind: str, inputs: Sequence[str], size: Dim) -> list[str]:
    """ONNX's LSTM or RNN: the results in x's order and the last states.

    ``inputs`` are W, R, B, the states [B,O] by name, and what follows them.
    """
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Lstm | Rnn)
    assert x is not None
    flat = x.type.rank == 2
    data = t.real(x)
    data = _unsqueeze(t, data, 0) if flat else _time_first(t, op, x, data)
    attributes: dict[str, Any] = {"hidden_size": size}
    if op.reverse:
        attributes["direction"] = "reverse"
    if op.activation is not Activation.TANH:
        own = [_NATIVE[op.activation]] * (2 if kind == "LSTM" else 1)
        attributes["activations"] = ["Sigmoid", *own] if kind == "LSTM" else own
        if op.activation is Activation.NONE:
            attributes["activation_alpha"] = [1.0] * len(own)
            attributes["activation_beta"] = [0.0] * len(own)
    weights, recurrent, bias, *rest = inputs
    count = 3 if kind == "LSTM" else 2
    states = [_unsqueeze(t, s, 0) if s else "" for s in rest[: count - 1]]
    results = t.nodes_of(
        kind,
        [data, weights, recurrent, bias, "", *states, *rest[count - 1 :]],
        count,
        **attributes,
    )
    last = [_squeeze(t, name, 0) for name in results[1:]]
    if flat:
        return [last[0], *last]
    return [_time_first(t, op, x, _squeeze(t, results[0], 1)), *last]


def _finish(t: Target, node: Node, names: Sequence[str]) -> None:
    """Give the results by their real values; int8 ones by uint8 (see `_rounded`)."""
    for value, name in zip(node.outputs, names, strict=True):
        if value.quant is not None and t.inner_type(value) is DType.INT8:
            codes = t.quantize(name, value.quant.shifted(128), DType.UINT8)
            t.set_codes(value, t.unsigned_to_signed(codes))
        else:
            t.set_real(value, name)


def _without_elements(t: Target, node: Node) -> bool:
    """Give the results of no steps or an empty batch; False where there is something to compute.

    onnxruntime's Scan fails without steps, and its LSTM ends the process on an empty batch.
    """
    y, *after = node.outputs
    shape = static_shape(y.shape)
    if shape is None or 0 not in shape:
        return False
    t.set_real(y, t.const(np.zeros(shape, t.real_type(y).numpy)))
    first = 18 if isinstance(node.op, Lstm) else 4
    for index, value in enumerate(after, first):
        before = node.inputs[index] if index < len(node.inputs) else None
        if before is None:
            extents = static_shape(value.shape)
            assert extents is not None, "the result's shape is known, hence the state's"
            t.set_real(value, t.const(np.zeros(extents, t.real_type(value).numpy)))
        else:
            t.set_codes(value, t.codes(before))
    return True


# -------------------------------------------------------------------- LSTM


class _LstmForm:
    """An Lstm's operands by what they are, and its step in ONNX nodes.

    Attributes:
        order: the gates that have weights of their own, as they are stacked: those behind a
        logistic function
            first.
    """

    def __init__(self, t: Target, node: Node) -> None:
        op = node.op
        assert isinstance(op, Lstm), "an Lstm is expected"
        values = [*node.inputs, *[None] * (24 - len(node.inputs))]
        x = values[0]
        assert x is not None, "x is required"
        self.t, self.op, self.x = t, op, x
        self.weights = dict(zip("ifco", values[1:5], strict=True))
        self.recurrent = dict(zip("ifco", values[5:9], strict=True))
        self.peephole = dict(zip("ifo", values[9:12], strict=True))
        self.bias = dict(zip("ifco", values[12:16], strict=True))
        self.norm = dict(zip("ifco", values[20:24], strict=True))
        self.projection, self.projection_bias = values[16], values[17]
        self.output, self.cell = values[18], values[19]
        self.order = "ifoc" if self.weights["i"] is not None else "foc"

    @property
    def cells(self) -> int:
        """How many cells there are.

        Raises:
            NotExportable: when the weights' shape isn't known.
        """
        forget = self.weights["f"]
        cells = forget.shape[0] if forget is not None and forget.shape is not None else None
        if not isinstance(cells, int):
            raise self.t.unsupported("the number of cells isn't known")
        return cells

    @property
    def is_native(self) -> bool:
        """Whether ONNX's LSTM means the same."""
        op = self.op
        return (
            op.cell_clip <= 0
            and op.steps is None
            and self.projection is None
            and not any(self.norm.values())
            and op.activation in _NATIVE
        )

    def rows(self, values: dict[str, Value | None], order: str) -> list[tuple[Value, int]]:
        """Weights of gates. An input gate without any is 1 - f: the forget gate's, negated."""
        found = []
        for gate in order:
            value, sign = values[gate], 1
            if value is None:
                value, sign = values["f"], -1
            assert value is not None, "only the input gate may lack weights"
            found.append((value, sign))
        return found

    def vector(self, t: Target, values: dict[str, Value | None], order: str) -> str:
        """One number a cell for each gate, stacked; zeros for gates that have none."""
        zeros = Value("", TensorType(t.real_type(self.x), (self.cells,)))
        zeros.data = np.zeros(self.cells, t.real_type(self.x).numpy)
        coupled = self.weights["i"] is None
        parts = []
        for gate in order:
            value, sign = values[gate], 1
            if value is None and gate == "i" and coupled:
                value, sign = values["f"], -1
            parts.append((zeros if value is None else value, sign))
        return stacked(t, parts, self.x)

    def native(self, node: Node) -> list[str]:
        """ONNX's LSTM: gates in the order i, o, f, c."""
        t, order = self.t, "iofc"
        weights = _unsqueeze(t, stacked(t, self.rows(self.weights, order), self.x), 0)
        recurrent = _unsqueeze(t, stacked(t, self.rows(self.recurrent, order), self.x), 0)
        bias, peephole = "", ""
        if any(self.bias.values()):
            own = self.vector(t, self.bias, order)
            other = t.const(np.zeros(4 * self.cells, t.real_type(self.x).numpy))
            bias = _unsqueeze(t, t.node("Concat", [own, other], axis=0), 0)
        if any(self.peephole.values()):
            peephole = _unsqueeze(t, self.vector(t, self.peephole, "iof"), 0)
        states = [t.real(self.output), t.real(self.cell)]
        inputs = [weights, recurrent, bias, *states, *([peephole] if peephole else [])]
        return _native(t, node, "LSTM", inputs, self.cells)

    def spelled_out(self, node: Node) -> list[str]:
        """The steps in ONNX nodes."""
        t, op, x = self.t, self.op, self.x
        weights = stacked(t, self.rows(self.weights, self.order), x, transpose=True)
        projected = t.node("MatMul", [_sequence(t, op, x), weights])
        normalized = any(self.norm.values())
        if any(self.bias.values()) and not normalized:
            projected = t.node("Add", [projected, self.vector(t, self.bias, self.order)])
        size = self.cells
        projection = ""
        if self.projection is not None:
            shape = self.projection.shape
            size = shape[0] if shape is not None and isinstance(shape[0], int) else size
            projection = stacked(t, [(self.projection, 1)], x, transpose=True)
        recurrent = stacked(t, self.rows(self.recurrent, self.order), x, transpose=True)
        extras = {
            (name, gate): stacked(t, [(value, 1)], x)
            for name, values in (("peephole", self.peephole), ("norm", self.norm))
            for gate, value in values.items()
            if value is not None
        }
        if normalized:
            extras |= {("bias", g): self.vector(t, self.bias, g) for g in self.order}
        bias = "" if self.projection_bias is None else t.real(self.projection_bias)

        def step(g: Target, piece: str, states: Sequence[str]) -> list[str]:
            z = g.node("Add", [piece, g.node("MatMul", [states[0], recurrent])])
            h, c = self._cell(g, z, states[1], extras)
            if projection:
                h = g.node("MatMul", [h, projection])
                h = g.node("Add", [h, bias]) if bias else h
                h = self._clipped(g, h, op.projection_clip)
                h = _rounded(g, h, op.steps.output if op.steps is not None else None)
            return [h, c]

        states = [
            _initial(t, op, x, self.output, size),
            _initial(t, op, x, self.cell, self.cells),
        ]
        sequence, last = _spelled_out(t, node, projected, states, step)
        return [sequence, *last]

    def _cell(
        self, g: Target, z: str, c: str, extras: dict[tuple[str, str], str]
    ) -> tuple[str, str]:
        """The hidden value and the next cell state, from the stacked z and the cell state."""
        op, cells, logistic = self.op, self.cells, self.order[:-1]
        gates: dict[str, str] = {}
        if extras:
            sizes = g.const([cells] * len(self.order))
            parts = g.nodes_of("Split", [z, sizes], len(self.order), axis=1)
            raw = dict(zip(self.order, parts, strict=True))
            for gate in logistic:
                if gate != "o":
                    gates[gate] = g.node("Sigmoid", [self._gate(g, gate, raw[gate], c, extras)])
            raw["c"] = self._gate(g, "c", raw["c"], "", extras)
        else:
            bounds = g.const([cells * len(logistic), cells])
            first, second = g.nodes_of("Split", [z, bounds], 2, axis=1)
            raw = {"c": second}
            sizes = g.const([cells] * len(logistic))
            opened = g.node("Sigmoid", [first])
            parts = g.nodes_of("Split", [opened, sizes], len(logistic), axis=1)
            gates = dict(zip(logistic, parts, strict=True))
        if "i" not in gates:
            gates["i"] = g.node("Sub", [g.floats(1.0, self.x), gates["f"]])
        new = g.node("Mul", [gates["i"], g.activate(raw["c"], op.activation, self.x)])
        c = g.node("Add", [g.node("Mul", [gates["f"], c]), new])
        c = self._clipped(g, c, op.cell_clip)
        c = _rounded(g, c, op.steps.cell if op.steps is not None else None)
        if "o" not in gates:
            gates["o"] = g.node("Sigmoid", [self._gate(g, "o", raw["o"], c, extras)])
        h = g.node("Mul", [gates["o"], g.activate(c, op.activation, self.x)])
        return _rounded(g, h, op.steps.hidden if op.steps is not None else None), c

    def _gate(
        self, g: Target, gate: str, z: str, c: str, extras: dict[tuple[str, str], str]
    ) -> str:
        """Z of a gate behind its peephole and normalization."""
        peephole = extras.get(("peephole", gate))
        if peephole is not None:
            z = g.node("Add", [z, g.node("Mul", [peephole, c])])
        norm = extras.get(("norm", gate))
        if norm is not None:
            return _normalized(g, z, norm, extras["bias", gate], self.x)
        # with normalization of other gates only, no bias has been added yet
        bias = extras.get(("bias", gate))
        return z if bias is None else g.node("Add", [z, bias])

    def _clipped(self, g: Target, name: str, bound: float) -> str:
        if bound <= 0:
            return name
        return g.node("Clip", [name, g.floats(-bound, self.x), g.floats(bound, self.x)])


def _normalized(g: Target, z: str, scale: str, bias: str, like: Value) -> str:
    """Z [B,H] with mean 0 and deviation 1 over H, times ``scale``, plus ``bias``."""
    if g.opset >= 17:
        return g.node("LayerNormalization", [z, scale, bias], axis=-1, epsilon=LAYER_NORM_EPSILON)
    centred = g.node("Sub", [z, g.node("ReduceMean", [z], axes=(-1,), keepdims=1)])
    square = g.node("Mul", [centred, centred])
    variance = g.node("ReduceMean", [square], axes=(-1,), keepdims=1)
    spread = g.node("Sqrt", [g.node("Add", [variance, g.floats(LAYER_NORM_EPSILON, like)])])
    return g.node("Add", [g.node("Mul", [g.node("Div", [centred, spread]), scale]), bias])


def _rounded(g: Target, name: str, kind: TensorType | None) -> str:
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


def export_lstm(node: Node, t: Target) -> None:
    """Lstm."""
    if _without_elements(t, node):
        return
    form = _LstmForm(t, node)
    _finish(t, node, form.native(node) if form.is_native else form.spelled_out(node))


def export_rnn(node: Node, t: Target) -> None:
    """Rnn: ONNX's RNN where it has the activation."""
    if _without_elements(t, node):
        return
    op = node.op
    operands: list[Value | None] = [*node.inputs, *[None] * (5 - len(node.inputs))]
    x, weights, recurrent, bias, state = operands
    assert isinstance(op, Rnn)
    assert x is not None
    assert weights is not None
    assert recurrent is not None
    units = weights.shape[0] if weights.shape is not None else None
    if not isinstance(units, int):
        raise t.unsupported("the number of units isn't known")
    if op.activation in _NATIVE:
        native = [_unsqueeze(t, stacked(t, [(v, 1)], x), 0) for v in (weights, recurrent)]
        both = ""
        if bias is not None:
            zeros = t.const(np.zeros(units, t.real_type(x).numpy))
            both = _unsqueeze(t, t.node("Concat", [stacked(t, [(bias, 1)], x), zeros], axis=0), 0)
        _finish(t, node, _native(t, node, "RNN", [*native, both, t.real(state)], units))
        return
    projected = t.node(
        "MatMul",
        [_sequence(t, op, x), stacked(t, [(weights, 1)], x, transpose=True)],
    )
    if bias is not None:
        projected = t.node("Add", [projected, stacked(t, [(bias, 1)], x)])
    last_weights = stacked(t, [(recurrent, 1)], x, transpose=True)

    def step(g: Target, piece: str, states: Sequence[str]) -> list[str]:
        z = g.node("Add", [piece, g.node("MatMul", [states[0], last_weights])])
        return [g.activate(z, op.activation, x)]

    sequence, last = _spelled_out(t, node, projected, [_initial(t, op, x, state, units)], step)
    _finish(t, node, [sequence, *last])


EXPORTERS: dict[type[Op], Exporter] = {Lstm: export_lstm, Rnn: export_rnn}
