"""SVDF of floats; the one of codes is decomposed."""

from __future__ import annotations

from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import Dim, TensorType
from nnconv.ops.svdf import Svdf


class _States:
    """The states of one node, [batch, filters * memory], taken apart along time."""

    def __init__(self, t: Target, like: Value, filters: int, memory: int) -> None:
        self.t = t
        self.dtype = like.dtype
        self.batch: Dim = None if like.shape is None else like.shape[0]
        self.filters, self.memory = filters, memory

    @property
    def kind(self) -> TensorType:
        """The type of a whole state."""
        return TensorType(self.dtype, (self.batch, self.filters * self.memory))

    def _columns(self, count: int) -> TensorType:
        return TensorType(self.dtype, (self.batch, self.filters, count))

    def apart(self, state: Value | Ref) -> Ref:
        """A state as [batch, filters, memory]."""
        shape = self.t.ints([-1, self.filters, self.memory])
        return self.t.result(
            "RESHAPE", {"input": state, "shape": shape}, self._columns(self.memory)
        )

    def part(self, state: Ref, first: int, count: int) -> Ref:
        """``count`` columns from the one called ``first`` on."""
        size = self.t.ints([-1, self.filters, count])
        operands = {"input": state, "begin": self.t.ints([0, 0, first]), "size": size}
        return self.t.result("SLICE", operands, self._columns(count))

    def joined(self, *parts: Ref) -> dict[str, Ref]:
        """What RESHAPE takes to make a state of columns side by side."""
        operands = {"inputs": list(parts), "axis": 2}
        whole = self.t.result("CONCATENATION", operands, self._columns(self.memory))
        return {"input": whole, "shape": self.t.ints([-1, self.filters * self.memory])}


def export_svdf(node: Node, t: Target) -> None:
    """SVDF: its state lacks the newest column, which the IR's has, and not the oldest."""
    op = node.op
    assert isinstance(op, Svdf)
    if any(v is not None and v.type.has_codes for v in node.inputs):
        raise t.refused("NNAPI's SVDF takes no codes")
    x, features, times, state = (node.operand(i) for i in (0, 1, 2, 4))
    filters, memory = t.static(times)
    if memory <= 1:
        raise t.refused("without a past there is no state to keep")
    states = _States(t, x, filters, memory)
    seen = states.apart(state)
    newer = states.joined(states.part(seen, 1, memory - 1), states.part(seen, 0, 1))
    operands = {
        "input": x,
        "weights_feature": features,
        "weights_time": times,
        "bias": node.inputs[3],
        "state_in": t.result("RESHAPE", newer, states.kind),
        "rank": op.rank,
        "activation": t.activation(op.activation),
    }
    output, after = node.outputs
    made = t.temp(states.kind)
    t.operation("SVDF", operands, [made, t.declare(output)])
    last = states.part(states.apart(made), 0, memory - 1)
    t.emit("RESHAPE", states.joined(states.part(seen, 1, 1), last), after)


EXPORTERS: dict[type[Op], Exporter] = {Svdf: export_svdf}
