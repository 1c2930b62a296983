"""Codes that the file moves, widens or turns without saying that they are some.

nnconv writes int8 codes as uint8 ones (``Target.inner_type``): those of the interface become
``Add(Cast(x), 128)`` and go back the same way; 16-bit ones, where an opset has no conversions of
them, are widened by a Cast and a Mul, and made by Div, Round, Clip and Cast. Read as arithmetic,
they would tell nothing of the quantization of the interface.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, QuantRule, Role
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType
from nnconv.ops.affine import narrowed, widened
from nnconv.ops.elementwise import Add, FloorMod
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, Quantize
from nnconv.ops.shape import Concat, Transpose
from nnconv.ops.slices import Pad, PadMode

_HALF = 128
"""Between the int8 code and the uint8 code of one number."""


def restore_codes(graph: Graph, noted: Mapping[str, Quant]) -> None:
    """Let codes have parameters: what turns their signs is Quantize then, what widens Dequantize.

    Codes are followed through what only moves them, to where the file says what they stand for.
    ``noted`` are the parameters of inputs and outputs that the file notes: inputs and outputs are
    codes only if they are noted as such, or turned.
    """
    seen: set[Value] = set()

    def restore(start: Value) -> None:
        if start not in seen and start.quant is None and start.data is None:
            region = _region(start)
            seen.update(region.values)
            _restore(graph, region, noted)

    for node in graph.nodes:
        _join_wide_turn(graph, node)
    for node in list(graph.nodes):
        if node.graph is not None and _is_reread(node) and node.outputs[0].quant is None:
            restore(node.outputs[0])
        if node.graph is not None and narrowed(node) is not None:
            restore(node.outputs[0])
        if node.graph is None or not _turns(node):
            continue
        (operand,) = _data(node)
        if operand.quant is not None and operand.quant.is_per_tensor and _goes_back(node):
            _turn_out(graph, node, operand.quant)
            continue
        restore(node.outputs[0])
        restore(operand)
    for value in (*graph.inputs, *graph.outputs):
        if value.name not in noted or not value.dtype.is_integer:
            continue
        if not noted[value.name].is_per_tensor:
            _restore_channels(graph, value, noted[value.name])
            continue
        restore(value)
        _adopt(graph, value, noted[value.name])


def _restore_channels(graph: Graph, start: Value, quant: Quant) -> None:
    """Give an input the scales of its channels, if all that reads it, perhaps transposed, has them.

    Those that are noted: nothing is told from what reads it alone.
    """
    kinds = {start: TensorType(start.dtype, start.shape, quant)}
    rereads: list[Node] = []
    rank, axis = start.type.rank, quant.axis
    if start not in graph.inputs or start.quant is not None or rank is None or axis is None:
        return
    if not 0 <= axis < rank or (start.shape or ())[axis] != len(quant.scale):
        return
    waiting = [start]
    while waiting:
        value = waiting.pop()
        if value in graph.outputs:
            return
        for use in value.uses:
            node, y = use.node, use.node.outputs[0]
            if isinstance(node.op, Transpose) and node.op.perm is not None:
                kinds[y] = kinds[value].permuted(node.op.perm)
                waiting.append(y)
            elif _is_reread(node) and y.quant == kinds[value].quant:
                rereads.append(node)
            else:
                return
    for value, kind in kinds.items():
        value.type = kind
    for node in rereads:
        _take_out(graph, node)


def _join_wide_turn(graph: Graph, node: Node) -> None:
    """Make of an Add of 128 in int32, as before opset 14, one of uint8, which wraps."""
    if not isinstance(node.op, Cast) or node.op.dtype is not DType.UINT8:
        return
    steps = [node]
    for kind, number in ((FloorMod, 2 * _HALF), (Add, _HALF), (Cast, None)):
        value = steps[-1].inputs[0]
        maker = None if value is None or value.use_count != 1 else value.producer
        if maker is None or not isinstance(maker.op, kind) or value in graph.outputs:
            return
        if number is not None:
            added = maker.inputs[1]
            if added is None or added.data is None or not np.array_equal(added.data, number):
                return
        steps.append(maker)
    codes = steps[-1].inputs[0]
    if codes is None or codes.dtype is not DType.UINT8 or codes.quant is not None:
        return
    if steps[-1].outputs[0].dtype is not DType.INT32:
        return
    half = np.asarray(_HALF, np.uint8)
    node.op = Add()
    node.set_inputs([codes, Value("", TensorType(DType.UINT8, ()), data=half)])
    for step in steps[1:]:
        graph.remove(step)


def _adopt(graph: Graph, value: Value, quant: Quant) -> None:
    """Give an input or output the parameters that are noted, if only Casts deal with it.

    Those work on the stored numbers, whatever they stand for.
    """
    near = [use.node for use in value.uses]
    if value not in graph.inputs and value.producer is not None:
        near.append(value.producer)
    if value.quant is None and near and all(isinstance(node.op, Cast) for node in near):
        value.type = TensorType(value.dtype, value.shape, quant)


class _Region(NamedTuple):
    """Values of one type without parameters that moves connect.

    Attributes:
        values: all of them.
        quants: the parameters of what is moved together with them.
        sources: what makes the first of them.
        readers: what reads them, apart from the moves.
        pads: whether moves put numbers in.
    """

    values: set[Value]
    quants: set[Quant]
    sources: dict[Node, None]
    readers: dict[Node, None]
    pads: list[Node]


def _turns(node: Node) -> bool:
    """Whether a node is the Add of 128 to uint8 codes."""
    op, y = node.op, node.outputs[0] if node.outputs else None
    if not isinstance(op, Add) or op.activation is not Activation.NONE or y is None:
        return False
    return y.dtype is DType.UINT8 and y.quant is None and len(_data(node)) == 1


def _data(node: Node) -> list[Value]:
    """The operands that aren't the constant 128."""
    return [
        v
        for v in node.inputs
        if v is not None and not (v.data is not None and v.data.size == 1 and np.all(v.data == 128))
    ]


def _moved(node: Node, dtype: DType) -> list[Value] | None:
    """What a node moves: operands and results of one type; None if it isn't a move."""
    op = node.op
    if isinstance(op, Concat):
        if op.activation is not Activation.NONE:
            return None
    elif node.bodies or op.quant_rule is not QuantRule.CODES:
        return None
    found = list(node.outputs)
    for place, value in enumerate(node.inputs):
        if value is None or op.role(place) is Role.INDEX:
            continue
        found.append(value)
    return found if all(v.dtype is dtype for v in found) else None


def _region(start: Value) -> _Region:
    region = _Region({start}, set(), {}, {}, [])
    waiting = [start]
    while waiting:
        value = waiting.pop()
        for node in (*((value.producer,) if value.producer else ()), *(u.node for u in value.uses)):
            moved = _moved(node, start.dtype)
            if moved is None:
                (region.sources if node is value.producer else region.readers)[node] = None
                continue
            if isinstance(node.op, Pad) and node.op.mode is PadMode.CONSTANT:
                region.pads.append(node)
            region.quants.update(v.quant for v in moved if v.quant is not None)
            fresh = [v for v in moved if v.quant is None and v not in region.values]
            region.values.update(fresh)
            waiting += fresh
    return region


def _restore(graph: Graph, region: _Region, noted: Mapping[str, Quant]) -> None:
    """Give a region its parameters, if all that is around it agrees with them."""
    edge = [v for v in (*graph.inputs, *graph.outputs) if v in region.values]
    if any(v.name not in noted for v in edge):
        return
    if any(v.producer is None and v.data is None and v not in edge for v in region.values):
        return
    turned_in = {n: x for n in region.sources if (x := _source_of(n)) is not None}
    turned_out = [node for node in region.readers if _turns(node)]
    rereads = [n for n in (*region.sources, *region.readers) if _is_reread(n)]
    widenings = {n: found for n in region.readers if (found := _widenings(n))}
    narrowings = {n: made for n in region.sources if (made := narrowed(n)) is not None}
    known = {*turned_in, *turned_out, *rereads, *widenings, *narrowings}
    if any(node not in known for node in (*region.sources, *region.readers)):
        return
    if any(not _goes_back(node) for node in turned_out):
        return
    quants = region.quants | {noted[v.name] for v in edge} | set(_quants(rereads, region))
    quants |= {quant for found in widenings.values() for _, quant in found}
    quants |= {made.quant for made in narrowings.values()}
    quants = quants or set(_noted([*turned_in.values()], turned_out, noted))
    if len(quants) != 1:
        return
    (quant,) = quants
    if not quant.is_per_tensor or any(not _pads_alike(node, quant) for node in region.pads):
        return
    for value in region.values:
        value.type = TensorType(value.dtype, value.shape, quant)
    for node in rereads:
        _take_out(graph, node)
    for node, x in turned_in.items():
        _turn_in(graph, node, x, quant)
    for node in turned_out:
        _turn_out(graph, node, quant)
    for node, made in narrowings.items():
        node.op = Quantize(dtype=node.outputs[0].dtype)
        node.set_inputs([made.x])
    for cast, found in widenings.items():
        for node, _ in found:
            node.op = Dequantize(dtype=DType.FLOAT32)
            node.set_inputs([cast.inputs[0]])
        _clear(graph, cast)


def _clear(graph: Graph, cast: Node) -> None:
    """Take out a Cast that nothing reads any more, and the Subs behind it."""
    for use in cast.outputs[0].uses:
        if not any(v.use_count for v in use.node.outputs):
            graph.remove(use.node)
    if not cast.outputs[0].is_wanted:
        graph.remove(cast)


def _pads_alike(node: Node, quant: Quant) -> bool:
    """Whether a Pad of numbers puts in the same codes as one of codes with parameters."""
    given = len(node.inputs) > 2 and node.inputs[2] is not None
    return given or (quant.is_symmetric and node.op.value == 0)  # type: ignore[attr-defined]


def _widenings(node: Node) -> list[tuple[Node, Quant]]:
    """The products that widen what a Cast makes floats of, if only such ones read it."""
    if not isinstance(node.op, Cast):
        return []
    found = []
    waiting = [use.node for use in node.outputs[0].uses]
    while waiting:
        reader = waiting.pop()
        product = widened(reader)
        if product is not None and product.cast is node:
            found.append((reader, product.quant))
            continue
        behind = [use.node for use in reader.outputs[0].uses] if len(reader.outputs) == 1 else []
        products = [widened(n) for n in behind]
        if not behind or any(p is None or p.inner is not reader for p in products):
            return []
        waiting += behind
    return found


def _is_reread(node: Node) -> bool:
    """Whether a node gives codes parameters, or takes them away."""
    x = node.inputs[0] if isinstance(node.op, Bitcast) else None
    y = node.outputs[0]
    if x is None or x.dtype is not y.dtype:
        return False
    return (x.quant is None) != (y.quant is None)


def _quants(rereads: list[Node], region: _Region) -> Iterator[Quant]:
    for node in rereads:
        for value in (node.inputs[0], node.outputs[0]):
            if value is not None and value not in region.values and value.quant is not None:
                yield value.quant


def _noted(
    sources: Sequence[Value], turned_out: list[Node], noted: Mapping[str, Quant]
) -> Iterator[Quant]:
    """What the file notes of the inputs and outputs whose signs are turned."""
    for source in sources:
        if source.name in noted:
            yield noted[source.name].shifted(_HALF)
    for node in turned_out:
        for use in node.outputs[0].uses:
            name = use.node.outputs[0].name
            if name in noted:
                yield noted[name].shifted(_HALF)


def _source_of(node: Node) -> Value | None:
    """The int8 codes that a node turns into uint8 ones; None if it doesn't."""
    if not _turns(node):
        return None
    (value,) = _data(node)
    cast = value.producer
    if cast is None or not isinstance(cast.op, Cast) or value.use_count != 1:
        return None
    x = cast.inputs[0]
    return x if x is not None and x.dtype is DType.INT8 and x.quant is None else None


def _goes_back(node: Node) -> bool:
    """Whether only casts to int8 read what a node turns."""
    return all(
        isinstance(use.node.op, Cast) and use.node.outputs[0].dtype is DType.INT8
        for use in node.outputs[0].uses
    )


def _take_out(graph: Graph, node: Node) -> None:
    x, y = node.operand(0), node.outputs[0]
    y.replace_all_uses_with(x)
    graph.replace_output(y, x)
    graph.remove(node)


def _turn_in(graph: Graph, node: Node, x: Value, quant: Quant) -> None:
    """Make a Cast of ``x`` and an Add the Quantize of int8 codes."""
    (value,) = _data(node)
    cast = value.producer
    assert cast is not None
    signed = TensorType(DType.INT8, x.shape, quant.shifted(-_HALF))
    if x.use_count == 1 and x not in graph.outputs and x in graph.inputs:
        x.type = signed
        codes = x
    else:
        codes = Value(f"{x.name}/codes", signed, origin=x.origin)
        graph.insert_before(node, Node(Bitcast(dtype=DType.INT8), [x], [codes], origin=node.origin))
    node.op = Quantize(dtype=DType.UINT8)
    node.set_inputs([codes])
    graph.remove(cast)


def _turn_out(graph: Graph, node: Node, quant: Quant) -> None:
    """Make an Add and the Casts behind it a Quantize to int8 codes each."""
    (value,) = _data(node)
    signed = quant.shifted(-_HALF)
    for use in node.outputs[0].uses:
        cast, y = use.node, use.node.outputs[0]
        cast.op = Quantize(dtype=DType.INT8)
        cast.set_inputs([value])
        if not y.use_count:
            y.type = TensorType(DType.INT8, y.shape, signed)
            continue
        plain = Value(f"{y.name}/numbers", y.type, origin=y.origin)
        y.replace_all_uses_with(plain)
        y.type = TensorType(DType.INT8, y.shape, signed)
        back = Node(Bitcast(dtype=DType.INT8), [y], [plain], origin=cast.origin)
        graph.insert_after(cast, back)
    graph.remove(node)
