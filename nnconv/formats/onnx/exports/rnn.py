"""Recurrent ops.

ONNX's own LSTM and RNN are taken wherever they mean the same: they run several times as fast as
anything else (`benchmarks/lstm_forms.py`). They can't clip the cell (see `_LstmForm.guarded`),
project, normalize or round at each step. Then a step is spelled out: once for each of up to
`UNROLLED` steps, else as the body of a Scan. What of a step doesn't depend on the last one, the
product of input and weights, is done for all steps at once before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.sequences import (
    NATIVE,
    UNROLLED,
    choose,
    finish,
    initial,
    native,
    rounded,
    sequence_of,
    spelled_out,
    step_count,
    unsqueeze,
    without_elements,
)
from nnconv.formats.onnx.stacked import stacked
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import TensorType
from nnconv.ops.rnn import LAYER_NORM_EPSILON, Lstm, LstmOperands, Rnn, by_gate

GUARD_LEAST = 2.0
"""The least clip of a cell that is worth hoping that no cell meets it. Keras always has 10."""

GUARD_BOUND = 5.0
"""A cell beyond this bound shows in the results well before their float32 tanh is 1."""

GUARD_MARGIN = 1e-6
"""What is allowed for the errors of the runtime's logistic function."""


class _Stacked(NamedTuple):
    weights: str
    recurrent: str
    bias: str


def _transposed(t: Target, name: str) -> str:
    return t.node("Transpose", [name], perm=(1, 0))


def _previous(t: Target, results: str, first: str, axis: int, *, reverse: bool) -> str:
    """What each step started from: ``first``, and the results but the last, along ``axis``."""
    start, end = (1, 2**31 - 1) if reverse else (0, -1)
    rest = t.node("Slice", [results, t.const([start]), t.const([end]), t.const([axis])])
    return t.node("Concat", [rest, first] if reverse else [first, rest], axis=axis)


class _LstmForm:
    """An Lstm's operands by what they are, and its step in ONNX nodes.

    Attributes:
        order: the gates that have weights of their own, as they are stacked.
    """

    def __init__(self, t: Target, node: Node) -> None:
        op = node.op
        assert isinstance(op, Lstm), "an Lstm is expected"
        given = LstmOperands(node.inputs)
        assert given.x is not None, "x is required"
        self.t, self.op, self.x = t, op, given.x
        self.weights, self.recurrent = by_gate(given.weights), by_gate(given.recurrent)
        self.peephole, self.bias, self.norm = map(
            by_gate, (given.peepholes, given.biases, given.norms)
        )
        self.projection, self.projection_bias = given.projection, given.projection_bias
        self.output, self.cell = given.output, given.cell
        self.order = "iofc" if self.weights["i"] is not None else "ofc"

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
        """Whether ONNX's LSTM means the same, but for the clip of the cell."""
        op = self.op
        return (
            op.steps is None
            and self.projection is None
            and not any(self.norm.values())
            and op.activation in NATIVE
        )

    @property
    def can_be_guarded(self) -> bool:
        """Whether it pays, and is possible, to tell from the results that the clip does nothing."""
        op, x = self.op, self.x
        if op.activation is not Activation.TANH or any(self.peephole.values()):
            return False
        count = step_count(op, x) if x.type.rank == 3 else 1
        return op.cell_clip >= GUARD_LEAST and not (isinstance(count, int) and count <= UNROLLED)

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

    def stacked(self) -> _Stacked:
        """The weights as ONNX's LSTM takes them: gates in the order i, o, f, c."""
        t, order = self.t, "iofc"
        return _Stacked(
            stacked(t, self.rows(self.weights, order), self.x),
            stacked(t, self.rows(self.recurrent, order), self.x),
            self.vector(t, self.bias, order) if any(self.bias.values()) else "",
        )

    def native(self, node: Node, given: _Stacked) -> list[str]:
        """ONNX's LSTM."""
        t = self.t
        bias, peephole = "", ""
        if given.bias:
            other = t.const(np.zeros(4 * self.cells, t.real_type(self.x).numpy))
            bias = unsqueeze(t, t.node("Concat", [given.bias, other], axis=0), 0)
        if any(self.peephole.values()):
            peephole = unsqueeze(t, self.vector(t, self.peephole, "iof"), 0)
        weights, recurrent = unsqueeze(t, given.weights, 0), unsqueeze(t, given.recurrent, 0)
        states = [t.real(self.output), t.real(self.cell)]
        inputs = [weights, recurrent, bias, *states, *([peephole] if peephole else [])]
        return native(t, node, "LSTM", inputs, self.cells)

    def guarded(self, node: Node) -> list[str]:
        """ONNX's LSTM where the clip of the cell does nothing, which its results tell.

        With h = o * tanh(c), |h| / o beyond the tanh of some bound below the clip would show a cell
        beyond that bound. o is computed once more, for all steps at once. Only if such a cell
        shows, the steps are run as they are spelled out, with the clip.
        """
        t, op, x, cells = self.t, self.op, self.x, self.cells
        given = self.stacked()
        results = self.native(node, given)
        axis = 0 if op.time_major else 1
        first = initial(t, op, x, self.output, cells)
        before = _previous(t, results[0], unsqueeze(t, first, axis), axis, reverse=op.reverse)
        rows = t.const([cells]), t.const([2 * cells]), t.const([0])
        opening = [
            t.node("MatMul", [source, _transposed(t, t.node("Slice", [matrix, *rows]))])
            for source, matrix in ((t.real(x), given.weights), (before, given.recurrent))
        ]
        if given.bias:
            opening.append(t.node("Slice", [given.bias, *rows]))
        total = opening[0]
        for term in opening[1:]:
            total = t.node("Add", [total, term])
        limit = float(np.tanh(0.99 * min(op.cell_clip, GUARD_BOUND)))
        allowed = t.node("Mul", [t.node("Sigmoid", [total]), t.floats(limit, x)])
        excess = t.node("Sub", [t.node("Abs", [results[0]]), allowed])
        worst = t.node("ReduceMax", [excess], keepdims=0)
        fine = t.node("Less", [worst, t.floats(-GUARD_MARGIN, x)])
        data = sequence_of(t, op, x)
        last = initial(t, op, x, self.cell, cells)
        return choose(
            t,
            fine,
            lambda g: [g.node("Identity", [name]) for name in results],
            lambda g: self._again(g, node, given, data, [first, last]),
        )

    def _again(
        self, g: Target, node: Node, given: _Stacked, data: str, states: Sequence[str]
    ) -> list[str]:
        """The steps spelled out in a branch, from what the outer graph has."""
        weights, recurrent, bias = given
        if self.weights["i"] is None:
            cut = g.const([self.cells]), g.const([4 * self.cells]), g.const([0])
            weights, recurrent = (g.node("Slice", [n, *cut]) for n in (weights, recurrent))
            bias = g.node("Slice", [bias, *cut]) if bias else ""
        projected = g.node("MatMul", [data, _transposed(g, weights)])
        if bias:
            projected = g.node("Add", [projected, bias])
        recurrent = _transposed(g, recurrent)

        def step(inner: Target, piece: str, before: Sequence[str]) -> list[str]:
            z = inner.node("Add", [piece, inner.node("MatMul", [before[0], recurrent])])
            return list(self._cell(inner, z, before[1], {}))

        sequence, last = spelled_out(g, node, projected, states, step)
        return [sequence, *last]

    def spelled_out(self, node: Node) -> list[str]:
        """The steps in ONNX nodes."""
        t, op, x = self.t, self.op, self.x
        weights = stacked(t, self.rows(self.weights, self.order), x, transpose=True)
        projected = t.node("MatMul", [sequence_of(t, op, x), weights])
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
                h = rounded(g, h, op.steps.output if op.steps is not None else None)
            return [h, c]

        states = [
            initial(t, op, x, self.output, size),
            initial(t, op, x, self.cell, self.cells),
        ]
        sequence, last = spelled_out(t, node, projected, states, step)
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
        c = rounded(g, c, op.steps.cell if op.steps is not None else None)
        if "o" not in gates:
            gates["o"] = g.node("Sigmoid", [self._gate(g, "o", raw["o"], c, extras)])
        h = g.node("Mul", [gates["o"], g.activate(c, op.activation, self.x)])
        return rounded(g, h, op.steps.hidden if op.steps is not None else None), c

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


def export_lstm(node: Node, t: Target) -> None:
    """Lstm."""
    if without_elements(t, node):
        return
    form = _LstmForm(t, node)
    if form.is_native and form.op.cell_clip <= 0:
        results = form.native(node, form.stacked())
    elif form.is_native and form.can_be_guarded:
        results = form.guarded(node)
    else:
        results = form.spelled_out(node)
    finish(t, node, results)


def export_rnn(node: Node, t: Target) -> None:
    """Rnn: ONNX's RNN where it has the activation."""
    if without_elements(t, node):
        return
    op = node.op
    assert isinstance(op, Rnn)
    x, weights, recurrent, bias, state = node.operands()
    assert x is not None
    assert weights is not None
    assert recurrent is not None
    units = weights.shape[0] if weights.shape is not None else None
    if not isinstance(units, int):
        raise t.unsupported("the number of units isn't known")
    if op.activation in NATIVE:
        matrices = [unsqueeze(t, stacked(t, [(v, 1)], x), 0) for v in (weights, recurrent)]
        both = ""
        if bias is not None:
            zeros = t.const(np.zeros(units, t.real_type(x).numpy))
            both = unsqueeze(t, t.node("Concat", [stacked(t, [(bias, 1)], x), zeros], axis=0), 0)
        finish(t, node, native(t, node, "RNN", [*matrices, both, t.real(state)], units))
        return
    projected = t.node(
        "MatMul",
        [sequence_of(t, op, x), stacked(t, [(weights, 1)], x, transpose=True)],
    )
    if bias is not None:
        projected = t.node("Add", [projected, stacked(t, [(bias, 1)], x)])
    last_weights = stacked(t, [(recurrent, 1)], x, transpose=True)

    def step(g: Target, piece: str, states: Sequence[str]) -> list[str]:
        z = g.node("Add", [piece, g.node("MatMul", [states[0], last_weights])])
        return [g.activate(z, op.activation, x)]

    sequence, last = spelled_out(t, node, projected, [initial(t, op, x, state, units)], step)
    finish(t, node, [sequence, *last])


EXPORTERS: dict[type[Op], Exporter] = {Lstm: export_lstm, Rnn: export_rnn}
