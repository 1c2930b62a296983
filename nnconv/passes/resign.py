"""Gives quantized values inside a graph signed codes."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import QuantRule, Role
from nnconv.ir.types import TensorType
from nnconv.ops.matmul import MatMul
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.ops.reduce import ArgExtreme
from nnconv.ops.shape import Rank, ShapeOf
from nnconv.passes.base import Pass
from nnconv.passes.weight_codes import WEIGHTED, resigned, weights_as_codes

_LOOKING = (Dequantize, Quantize, ArgExtreme, ShapeOf, Rank)
"""Ops whose results are the same whatever sign their operand's codes have."""

_SIGNED = {DType.UINT8: DType.INT8, DType.UINT16: DType.INT16}
_OTHER = {**_SIGNED, DType.INT8: DType.UINT8}


class ResignPass(Pass):
    """Makes uint8 values int8 ones, and uint16 values int16 ones, with equal real values.

    Products of int8 are the fast ones on runtimes that have both, and of 16-bit codes only signed
    ones are known. Inputs, outputs and what works on the codes themselves keep their types: a
    Quantize that keeps the scale stands between. Values that no product of signed codes is
    connected with stay as they are: there, either sign serves. So do products with uint8 weights
    of a common zero point that has no signed form; where such a product stands between signed
    values, it gets unsigned ones for itself. Where most products are of that kind, those that could
    do with either sign stay unsigned as well.

    Attributes:
        keep: leave the signs of 8-bit values. Products whose data and weights differ in sign get
            weights of the data's, or signed data for themselves.
        whole: turn all that can be, for a target that knows signed codes alone; weights may keep a
            zero point.
    """

    name: ClassVar[str] = "resign"

    def __init__(self, *, keep: bool = False, whole: bool = False) -> None:
        """Say whether signs of 8 bits are to stay, or none at all."""
        self.keep = keep
        self.whole = whole

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        regions = _Regions(graph, keep=self.keep, whole=self.whole)
        walk = _Walk(graph, regions)
        for node in graph.nodes:
            if node not in walk.added:
                walk.visit(node)
        walk.finish()
        return walk.modified


class _Regions:
    """Which values change their sign: those connected by ops that want it alike.

    Attributes:
        whole: see ``ResignPass``.
        outside: products that get codes of another sign for themselves, and whether signed ones.
    """

    def __init__(self, graph: Graph, *, keep: bool, whole: bool) -> None:
        self.whole = whole
        self._parent: dict[Value, Value] = {}
        self.outside: dict[Node, bool] = {}
        wanting: list[Value] = []  # of those that know both
        needing: list[Value] = []  # of products that know signed codes alone
        for node in graph.nodes:
            if isinstance(node.op, WEIGHTED) and not whole and not _has_signed_weights(node):
                self.outside[node] = False
            elif keep and _needs_signs(node) and not _is_wide(node):
                self.outside[node] = True
            if isinstance(node.op, _LOOKING):
                turned = None if keep else _turned_for_its_sign(node)
                if turned is not None:
                    needing.append(turned)
                if whole and isinstance(node.op, Quantize) and _turns(node.outputs[0]):
                    needing.append(node.outputs[0])
                continue
            values = [v for v in (*node.inputs, *node.outputs) if v is not None and _turns(v)]
            if not values or node in self.outside or not can_turn(node):
                continue
            for value in values[1:]:
                self._join(values[0], value)
            if whole or _needs_signs(node):
                needing.append(values[0])
            elif isinstance(node.op, WEIGHTED) and not keep:
                wanting.append(values[0])
        if len(self.outside) <= len(needing) + len(wanting):
            needing += wanting
        self._wanted = {self._root(value) for value in needing}

    def turns(self, value: Value) -> bool:
        """Whether a value is to be signed."""
        return value in self._parent and self._root(value) in self._wanted

    def _root(self, value: Value) -> Value:
        parent = self._parent
        parent.setdefault(value, value)
        while parent[value] is not value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    def _join(self, a: Value, b: Value) -> None:
        self._parent[self._root(a)] = self._root(b)


def _turned_for_its_sign(node: Node) -> Value | None:
    """The unsigned side of a Quantize that does nothing but turn signs: signed, it needs none."""
    x, y = node.inputs[0], node.outputs[0]
    if not isinstance(node.op, Quantize) or x is None or x.quant is None or y.quant is None:
        return None
    if x.dtype is DType.UINT8 and y.dtype is DType.INT8:
        return x if x.quant.shifted(-128) == y.quant else None
    if x.dtype is DType.INT8 and y.dtype is DType.UINT8:
        return y if x.quant == y.quant.shifted(-128) else None
    return None


class _Walk:
    """The rewrite of one graph.

    Attributes:
        old: for a value that is signed now, the type that it had.
        added: the nodes that the rewrite put in.
        modified: whether anything changed.
    """

    def __init__(self, graph: Graph, regions: _Regions) -> None:
        self.graph = graph
        self.regions = regions
        self.old: dict[Value, TensorType] = {}
        self.added: set[Node] = set()
        self.modified = False
        self._other: dict[Value, Value] = {}
        self._constants: dict[Value, Value] = {}

    def visit(self, node: Node) -> None:
        """Let one node work on signed codes, or give it the unsigned ones that it needs."""
        op = node.op
        if node in self.regions.outside:
            self._surround(node, signed=self.regions.outside[node])
            return
        if isinstance(op, _LOOKING):
            if isinstance(op, Quantize) and self.regions.turns(node.outputs[0]):
                self._turn(node.outputs[0])
                node.op = op.replace(dtype=node.outputs[0].dtype)
            return
        if not can_turn(node):
            for index, value in enumerate(node.inputs):
                if value is not None and value in self.old:
                    node.replace_input_with(index, self._unsigned(value))
            return
        values = [v for v in (*node.inputs, *node.outputs) if v is not None]
        turning = any(self.regions.turns(value) for value in values)
        if isinstance(op, WEIGHTED):
            if turning or values[0].dtype not in _SIGNED:
                self._align(node)
            elif values[1].dtype is DType.INT8 and values[1].data is not None:
                self._resign(node, 1, values[1])
        if turning:
            self._sign(node)

    def _sign(self, node: Node) -> None:
        """Let a node work on signed codes."""
        aligned = isinstance(node.op, WEIGHTED)
        for index, value in enumerate(node.inputs):
            if value is None or value.dtype not in _SIGNED or not value.type.has_codes:
                continue
            if not (aligned and index and value.data is not None):
                node.replace_input_with(index, self._signed(value))
        for value in node.outputs:
            if _turns(value):
                self._turn(value)

    def finish(self) -> None:
        """Let what goes out have the type that it had."""
        ends: dict[Value, Value] = {}
        for value in self.graph.outputs:
            if value in self.old and value not in ends:
                end = ends[value] = self._unsigned(value)
                value.name, end.name = f"{value.name}/signed", value.name
        if ends:
            self.graph.outputs = [ends.get(value, value) for value in self.graph.outputs]

    # ---------------------------------------------------------------- values

    def _turn(self, value: Value) -> None:
        """Give a node's result signed codes."""
        self.old[value] = value.type
        value.type = _turned(value.type)
        self.modified = True

    def _signed(self, value: Value) -> Value:
        """The signed codes of an operand that has unsigned ones."""
        if value.data is not None:
            found = self._constants.get(value)
            if found is None:
                found = resigned(value, _SIGNED[value.dtype])
                assert found is not None
                self._constants[value] = found
                self.modified = True
            return found
        return self._converted(value, _turned(value.type))

    def _unsigned(self, value: Value) -> Value:
        """The codes that a value had."""
        return self._converted(value, self.old[value])

    def _converted(self, value: Value, kind: TensorType) -> Value:
        """A value's codes as another type's, right behind what makes it."""
        found = self._other.get(value)
        if found is None or found.type != kind:
            sign = "signed" if kind.dtype.is_signed else "unsigned"
            found = Value(f"{value.name}/{sign}", kind, origin=value.origin)
            node = Node(Quantize(dtype=kind.dtype), [value], [found], origin=value.origin)
            if value.producer is None:
                self.graph.prepend(node)
            else:
                self.graph.insert_after(value.producer, node)
            self.added.add(node)
            self._other[value] = found
            self.modified = True
        return found

    # ---------------------------------------------------------------- products

    def _align(self, node: Node) -> None:
        """Give a product of codes signed weights without zero points."""
        weights = node.operand(1)
        if not weights.type.has_codes or not _reads_codes(node):
            return
        found = self._constants.get(weights) or weights_as_codes(weights)
        if isinstance(found, Value) and found is not weights:
            self._constants[weights] = found
            node.replace_input_with(1, found)
            self.modified = True
        elif self.regions.whole and weights.data is not None and weights.dtype is DType.UINT8:
            self._resign(node, 1, weights)

    def _surround(self, node: Node, *, signed: bool) -> None:
        """Let a product work on codes of one sign, which is converted before and behind it."""
        wanted = DType.INT8 if signed else DType.UINT8
        for index, value in enumerate(node.inputs):
            if value is None or not value.type.has_codes or value.dtype.bits != 8:
                continue
            if value in self.old and not signed:
                node.replace_input_with(index, self._unsigned(value))
            elif value.dtype is not wanted and value.data is None:
                node.replace_input_with(index, self._converted(value, _turned(value.type)))
            elif value.dtype is not wanted:
                self._resign(node, index, value)
        if isinstance(node.op, WEIGHTED) and signed:
            self._align(node)
        result = node.outputs[0]
        if result.type.has_codes and result.dtype.bits == 8 and result.dtype is not wanted:
            self._give_back(node, result)

    def _resign(self, node: Node, index: int, constant: Value) -> None:
        """Give a product a constant of the other sign."""
        found = self._constants.get(constant) or resigned(constant, _OTHER[constant.dtype])
        assert found is not None
        self._constants[constant] = found
        node.replace_input_with(index, found)
        self.modified = True

    def _give_back(self, node: Node, result: Value) -> None:
        """Let a node make codes of the other sign, and a Quantize those that it made."""
        codes = Value(result.name, result.type, origin=result.origin)
        result.replace_all_uses_with(codes)
        self.graph.replace_output(result, codes)
        result.type = _turned(result.type)
        sign = "signed" if result.dtype.is_signed else "unsigned"
        result.name = f"{result.name}/{sign}"
        back = Node(Quantize(dtype=codes.dtype), [result], [codes], origin=node.origin)
        self.graph.insert_after(node, back)
        self.added.add(back)
        self._other[result] = codes
        self.modified = True


def can_turn(node: Node) -> bool:
    """Whether a node does the same whatever the sign of the codes is."""
    if node.bodies or node.op.quant_rule is QuantRule.EXACT:
        return False
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        role = node.op.role(index)
        if role is Role.STATE:
            return False
        coded = value.quant is not None and value.quant.is_per_tensor
        if role is Role.DATA and value.dtype in _SIGNED and not coded:
            return False
    return all(v.quant is not None for v in node.outputs if v.dtype in _SIGNED)


def _needs_signs(node: Node) -> bool:
    """Whether a node that reads unsigned codes has kernels for signed ones alone."""
    if _is_wide(node):
        return True
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    if not any(_turns(v) for v in values):
        return False
    if not isinstance(node.op, WEIGHTED):
        return isinstance(node.op, MatMul)
    weights = node.operand(1)
    if not weights.type.has_codes or weights.quant is None:
        return False
    return weights.dtype.bits != 8 or not weights.quant.is_per_tensor


def _is_wide(node: Node) -> bool:
    """Whether a node has unsigned 16-bit codes."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    return any(_turns(v) and v.dtype is DType.UINT16 for v in values)


def _turns(value: Value) -> bool:
    """Whether a value has unsigned codes at run time."""
    return (
        value.data is None
        and value.dtype in _SIGNED
        and value.quant is not None
        and value.quant.is_per_tensor
    )


def _turned(kind: TensorType) -> TensorType:
    assert kind.quant is not None
    half = 1 << (kind.dtype.bits - 1)
    shift = half if kind.dtype.is_signed else -half
    return TensorType(_OTHER[kind.dtype], kind.shape, kind.quant.shifted(shift))


def _reads_codes(node: Node) -> bool:
    x = node.inputs[0]
    return x is not None and x.type.has_codes


def _has_signed_weights(node: Node) -> bool:
    """Whether a product's weights are signed codes without zero points, or could be."""
    weights = node.inputs[1]
    x = node.inputs[0]
    if weights is None or x is None or x.dtype.bits != 8 or not weights.type.has_codes:
        return True
    if not _reads_codes(node) or weights.dtype.bits != 8:
        return True
    found = weights_as_codes(weights)
    if isinstance(found, str) or found.quant is None:
        return weights.data is None and weights.dtype is DType.INT8
    return found.quant.is_symmetric
