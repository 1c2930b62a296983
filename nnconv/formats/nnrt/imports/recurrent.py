"""Recurrent layers."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.formats.nnrt.zoneout import zoned_layer
from nnconv.ir.graph import Value
from nnconv.ops.recurrent import Function, LstmLayer
from nnconv.ops.shape import Concat, Squeeze, Unstack
from nnconv.ops.slices import Slice

_FUNCTIONS = (Function("Sigmoid"), Function("Tanh"), Function("Tanh"))


def import_lstm(s: Source) -> None:
    """LSTM: layers of one or two directions, each reading the one before it.

    Rows of the weights are the gates i, o, f, c, as in the kernels that the runtime's models are
    made for; the documents don't say. ``dropout`` is a matter of training. Zoneout is too, but
    what it leaves of the states on average counts: such layers are written out step by step.
    """
    _check_projection(s)
    directions, layers = s.positive("numDirections"), s.positive("numLayers")
    if directions != 1 + s.bool("bidirectional"):
        raise s.fail(f"numDirections is {directions}, bidirectional {s.bool('bidirectional')}")
    op = LstmLayer(directions=(False, True)[:directions], functions=_FUNCTIONS * directions)
    zoneout = (s.float("zoneoutCell"), s.float("zoneoutHidden"))
    x = s.operand("input")
    names = ("wIh", "wHh", "bias", "hx", "cx")
    given = [s.operand(name) for name in names]
    for name, value in zip(names, given, strict=True):
        if value.shape and value.shape[0] not in (None, directions * layers):
            raise s.fail(
                f"{name} is of {plural(value.shape[0], 'layer')}, must be {directions * layers}"
            )
    hidden, states = [], []
    for layer in range(layers):
        rows = (layer * directions, (layer + 1) * directions)
        weights, recurrent, bias, output, cell = (
            value if layers == 1 else _rows(s, value, rows) for value in given
        )
        inputs: list[Value | None] = [x, weights, recurrent]
        inputs += [bias if s.bool("hasBias") else None, None, output, cell]
        if zoneout == (0.0, 0.0):
            steps, last, memory = s.add_many(op, inputs)
            x = _joined(s, steps, directions)
        else:
            x, last, memory = zoned_layer(s, inputs, zoneout, directions)
        hidden.append(last)
        states.append(memory)
    s.bind(0, x)
    for place, parts in ((1, hidden), (2, states)):
        s.bind(place, parts[0] if layers == 1 else s.add(Concat(axis=0), parts))


def _check_projection(s: Source) -> None:
    """See that the outputs have the size of the cells.

    The runtime takes the bits of the number for a float32 one, which cut off is 0 for all sizes
    that a layer may have; and there is no input for a projection's weights.

    Raises:
        NotConvertible: the bits are those of 1 or more.
    """
    bits = np.asarray(s.int("projSize"), np.int64).tobytes()
    size = float(np.frombuffer(bits[:4], "<f4")[0])
    if not abs(size) < 1:
        raise s.unsupported(
            f"projSize, which the runtime reads as {size:g}: LSTM has no weights for it",
            hint="Leave it out.",
        )


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
