"""Recurrent layers."""

from __future__ import annotations

from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ops.recurrent import Function, LstmLayer
from nnconv.ops.shape import Concat, Squeeze, Unstack
from nnconv.ops.slices import Slice

_FUNCTIONS = (Function("Sigmoid"), Function("Tanh"), Function("Tanh"))

_WITHOUT_FORM = ("zoneoutCell", "zoneoutHidden")


def import_lstm(s: Source) -> None:
    """LSTM: layers of one or two directions, each reading the one before it.

    Rows of the weights are the gates i, o, f, c, as in the kernels that the runtime's models are
    made for; the documents don't say. ``dropout`` is a matter of training.
    """
    for name in _WITHOUT_FORM:
        if s.float(name) != 0.0:
            raise s.unsupported(f"{name} is {s.float(name)}")
    if s.int("projSize"):
        raise s.unsupported(
            "projSize, which the runtime reads as another number", hint="Leave it out."
        )
    directions, layers = s.positive("numDirections"), s.positive("numLayers")
    if directions != 1 + s.bool("bidirectional"):
        raise s.fail(f"numDirections is {directions}, bidirectional {s.bool('bidirectional')}")
    op = LstmLayer(directions=(False, True)[:directions], functions=_FUNCTIONS * directions)
    x = s.operand("input")
    names = ("wIh", "wHh", "bias", "hx", "cx")
    given = [s.operand(name) for name in names]
    for name, value in zip(names, given, strict=True):
        if value.shape and value.shape[0] not in (None, directions * layers):
            raise s.fail(f"{name} is of {value.shape[0]} layers, must be {directions * layers}")
    hidden, states = [], []
    for layer in range(layers):
        rows = (layer * directions, (layer + 1) * directions)
        weights, recurrent, bias, output, cell = (
            value if layers == 1 else _rows(s, value, rows) for value in given
        )
        inputs: list[Value | None] = [x, weights, recurrent]
        inputs += [bias if s.bool("hasBias") else None, None, output, cell]
        steps, last, memory = s.add_many(op, inputs)
        x = _joined(s, steps, directions)
        hidden.append(last)
        states.append(memory)
    s.bind(0, x)
    for place, parts in ((1, hidden), (2, states)):
        s.bind(place, parts[0] if layers == 1 else s.add(Concat(axis=0), parts))


def _rows(s: Source, value: Value, rows: tuple[int, int]) -> Value:
    rest = s.rank(value) - 1
    op = Slice(
        starts=(rows[0], *[None] * rest), ends=(rows[1], *[None] * rest), strides=(1,) * (rest + 1)
    )
    return s.add(op, [value])


def _joined(s: Source, steps: Value, directions: int) -> Value:
    """The outputs [T, D, B, H] of a layer as [T, B, D * H]."""
    if directions == 1:
        return s.add(Squeeze(axes=(1,)), [steps])
    return s.add(Concat(axis=2), s.add_many(Unstack(axis=1, count=directions), [steps]))


IMPORTERS: dict[str, Importer] = {"LSTM": import_lstm}
