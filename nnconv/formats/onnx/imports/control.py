"""Control flow. What a body reads from outside becomes an operand of the IR's node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnconv.errors import GraphError, InvalidModelError, UnsupportedItem
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.graph import GraphImport
from nnconv.formats.onnx.importer import Importer, NotConvertible, Source
from nnconv.formats.onnx.imports.sequence import give, joined, refused
from nnconv.formats.onnx.lists import Listed, TensorList, collected_instead
from nnconv.formats.onnx.loops import COUNTER, Turn, emit_loop, like
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.types import TensorType
from nnconv.ops.control import If
from nnconv.ops.elementwise import Equal, Sub
from nnconv.ops.gather import Gather
from nnconv.ops.shape import (
    Identity,
    Reshape,
    ShapeOf,
    Squeeze,
    Transpose,
)
from nnconv.ops.slices import Reverse, Slice

_FLAG = TensorType(DType.BOOL, ())


def import_if(src: Source) -> None:
    """If: a branch that is chosen beforehand is inlined."""
    condition = src.operand(0)
    names = ("then_branch", "else_branch")
    told = src.dims(0)
    if told is not None and len(told) == 1 and isinstance(told[0], int):
        _inline(src, names[0 if told[0] else 1])
        return
    scopes = [src.scope.inner(src, name) for name in names]
    failures: dict[str, InvalidModelError] = {}
    refused: list[UnsupportedItem] = []
    for name, scope in zip(names, scopes, strict=True):
        scope.graph.name = name
        try:
            scope.graph.outputs = scope.import_body(src.graph(name))
        except InvalidModelError as error:
            if not isinstance(error.__cause__, ValueError | GraphError):
                raise
            failures[name] = error
            continue
        except NotConvertible as refusal:
            refused += refusal.items
            continue
        _check_count(src, scope.graph.outputs)
    if refused:
        raise NotConvertible(*refused)
    if failures:
        _import_other(src, failures)
        return
    squeezed = _squeezed(src, condition, scopes)
    if squeezed is not None:
        src.bind(0, squeezed)
        return
    captured = list(dict.fromkeys(outer for scope in scopes for outer in scope.captured))
    for scope in scopes:
        scope.graph.inputs = [scope.captured.get(v) or like(v) for v in captured]
    src.emit(If(), [condition, *captured], bodies=[scope.graph for scope in scopes])


def _inline(src: Source, name: str) -> None:
    """Let a branch run always."""
    outputs = src.scope.inner(src, name, inlined=True).import_body(src.graph(name))
    _check_count(src, outputs)
    for index, value in enumerate(outputs):
        src.bind(index, value)


def _import_other(src: Source, failures: Mapping[str, InvalidModelError]) -> None:
    """Let the one branch run always whose operands fit; the other would fail whenever it ran.

    Such are left where a model takes data of several kinds, and the shapes are those of one.
    """
    if len(failures) == 2:
        raise next(iter(failures.values()))
    _inline(src, "else_branch" if "then_branch" in failures else "then_branch")


def _squeezed(src: Source, condition: Value, scopes: Sequence[GraphImport]) -> Value | None:
    """What is squeezed if an extent is 1, and else left as it is: squeezed, whatever the extent.

    PyTorch writes so where it doesn't know the extent. What follows takes one rank alone, and no
    runtime but ONNX's changes ranks from run to run. Inside a branch the first element is taken, as
    runtimes prepare branches that won't run: those mustn't fail.
    """
    then, other = (scope.graph for scope in scopes)
    ends = [graph.outputs for graph in (then, other)]
    if len(ends[0]) != 1 or condition.producer is None:
        return None
    made, kept = (_behind_identities(values[0]) for values in ends)
    node = made.producer
    if node is None or not isinstance(node.op, Squeeze) or len(node.op.axes) != 1:
        return None
    outers = [{inner: outer for outer, inner in scope.captured.items()} for scope in scopes]
    x = node.inputs[0] and outers[0].get(node.inputs[0])
    if x is None or x is not outers[1].get(kept) or x.type.rank is None:
        return None
    one = [v for v in condition.producer.inputs if v is not None and v.data is not None]
    if not isinstance(condition.producer.op, Equal) or not all(np.all(v.data == 1) for v in one):
        return None
    rank = x.type.rank
    if src.scope.depth:
        ends_at = tuple(1 if axis in node.op.axes else None for axis in range(rank))
        x = src.add(Slice(starts=(0,) * rank, ends=ends_at, strides=(1,) * rank), [x])
    return src.add(node.op, [x])


def _behind_identities(value: Value) -> Value:
    while value.producer is not None and isinstance(value.producer.op, Identity):
        source = value.producer.operand(0)
        value = source
    return value


def _check_count(src: Source, outputs: Sequence[Value]) -> None:
    if len(outputs) != len(src.node.outputs):
        raise src.fail(f"results are {len(src.node.outputs)}, a branch gives {len(outputs)}")


def import_loop(src: Source) -> None:
    """Loop: trip count and condition, either of which may be left out."""
    lists = {
        place: found
        for place, name in enumerate(src.node.inputs[2:])
        if (found := src.scope.find_list(name)) is not None
    }
    if lists:
        _import_collecting(src, lists)
        return
    limit, condition = src.optional(0), src.optional(1)
    carried = [src.operand(i) for i in range(2, src.operand_count)]
    body = src.graph("body")
    count = len(carried)
    if len(body.inputs) != count + 2 or len(body.outputs) < count + 1:
        raise src.fail(
            f"values carried are {count}, its body's inputs {len(body.inputs)}, "
            f"its outputs {len(body.outputs)}"
        )
    if condition is not None and _is_true(condition) and _goes_on(src, body):
        condition = None

    def make(types: Sequence[TensorType]) -> Turn:
        scope = src.scope.inner(src, "body")
        names = [info.name for info in body.inputs]
        counter = scope.add_input(names[0], COUNTER)
        if condition is None:  # what the body says of it then counts for nothing
            scope.values[names[1]] = Value(names[1], _FLAG, data=np.ones((), np.bool_))
        else:
            asked = scope.add_input(names[1], _FLAG)
        before = [scope.add_input(n, t) for n, t in zip(names[2:], types, strict=True)]
        again, *outputs = scope.import_body(body)
        return Turn(
            scope,
            counter,
            before,
            outputs[:count],
            outputs[count:],
            None if condition is None else (asked, again),
        )

    results = emit_loop(src, make, carried, limit, condition)
    if len(results) < len(src.node.outputs):
        raise src.fail(f"results are {len(src.node.outputs)}, its body gives {len(results)}")
    for index, value in enumerate(results):
        src.bind(index, value)


def _is_true(value: Value | None) -> bool:
    return value is not None and value.data is not None and bool(value.data.all())


def _goes_on(src: Source, body: wire.Graph) -> bool:
    """Whether a loop's body always asks for another turn, as PyTorch's loops that count do."""
    makers = {name: node for node in body.nodes for name in node.outputs}
    name = body.outputs[0].name
    for _ in body.nodes:  # no more, for a broken body's may wait for each other
        if name not in makers or makers[name].op_type != "Identity" or not makers[name].inputs:
            break
        name = makers[name].inputs[0]
    if name == body.inputs[1].name:
        return True
    if name in makers:
        made = makers[name]
        given = made.attributes.get("value") if made.op_type == "Constant" else None
        given = given.value if isinstance(given, wire.Attribute) else given
        return isinstance(given, wire.Tensor) and bool(given.array().all())
    own = [t for t in body.initializers if t.name == name]
    return bool(own[0].array().all()) if own else _is_true(src.scope.find(name))


def _import_collecting(src: Source, lists: Mapping[int, TensorList]) -> None:
    """Loop that puts tensors at the end of sequences: they become scan outputs."""
    body = src.graph("body")
    fits = len(body.inputs) == src.operand_count and len(body.outputs) >= src.operand_count - 1
    before = {place: found for place, found in lists.items() if isinstance(found, Listed)}
    changed = collected_instead(body, before) if fits and len(before) == len(lists) else None
    if changed is None:
        raise refused(src, "a loop does more with a sequence than put tensors at its end")
    operands = [src.optional(i) for i in range(src.operand_count) if i - 2 not in before]
    count = len(changed.outputs) - 1
    results = iter(src.standard("Loop", operands, {"body": changed}, results=count))
    for place in range(len(body.outputs) - 1):
        if place not in before:
            src.bind(place, next(results))
    for place, first in before.items():
        give(src, joined(src, first, next(results)), place)


def import_scan(src: Source) -> None:
    """Scan: states and slices of the scan inputs go through the body, turn by turn."""
    if src.version < 9 and not src.has("scan_input_axes"):
        _import_batched_scan(src)
        return
    body, count = src.graph("body"), src.int("num_scan_inputs")
    operands = src.all_operands()
    if not 0 < count <= len(operands):
        raise src.fail(f"scan inputs are {count}, operands {len(operands)}")
    states, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
    if not scanned or len(body.inputs) != len(operands):
        raise src.fail(f"operands are {len(operands)}, its body's inputs {len(body.inputs)}")
    axes = src.int_list("scan_input_axes") or (0,) * count
    backward = src.int_list("scan_input_directions") or (0,) * count
    if len(axes) != count or len(backward) != count:
        raise src.fail(f"scan inputs are {count}, axes {len(axes)}, directions {len(backward)}")
    axes = tuple(src.axis(a, src.rank(v)) for a, v in zip(axes, scanned, strict=True))
    length = src.add(ShapeOf(dtype=DType.INT64, dims=(axes[0],)), [scanned[0]])
    limit = src.add(Reshape(shape=()), [length])
    known = (scanned[0].shape or ())[axes[0]]
    if isinstance(known, int):
        limit = src.const(np.asarray(known, np.int64))

    def make(types: Sequence[TensorType]) -> Turn:
        scope = src.scope.inner(src, "body")
        counter = scope.add_input("", COUNTER)
        builder = Builder(scope.graph, origin=src.builder.origin)
        names = [info.name for info in body.inputs]
        before = [scope.add_input(n, t) for n, t in zip(names[: len(states)], types, strict=True)]
        for name, outer, axis, reverse in zip(
            names[len(states) :], scanned, axes, backward, strict=True
        ):
            place = counter
            if reverse:
                whole = scope.capture(limit)
                last = builder.add(Sub(), [whole, builder.const(np.ones((), np.int64))])
                place = builder.add(Sub(), [last, counter])
            scope.values[name] = builder.add(Gather(axis=axis), [scope.capture(outer), place])
        outputs = scope.import_body(body)
        return Turn(scope, counter, before, outputs[: len(states)], outputs[len(states) :])

    results = emit_loop(src, make, states, limit, None)
    if len(results) < len(src.node.outputs):
        raise src.fail(f"results are {len(src.node.outputs)}, its body gives {len(results)}")
    for index, value in enumerate(results):
        place = index - len(states)
        src.bind(index, value if place < 0 else _placed(src, value, place))


def _import_batched_scan(src: Source) -> None:
    """Scan of opset 8, all of whose operands have a batch first: a newer Scan for each of it."""
    if src.optional(0) is not None:
        raise src.unsupported("a Scan of opset 8 with the lengths of its sequences")
    body, count = src.graph("body"), src.int("num_scan_inputs")
    operands = [src.operand(i) for i in range(1, src.operand_count)]
    if not 0 < count <= len(operands):
        raise src.fail(f"scan inputs are {count}, operands {len(operands)}")
    given = [f"{info.name}/whole" for info in body.inputs]
    made = [f"{info.name}/whole" for info in body.outputs]
    if len(given) != len(operands):
        raise src.fail(f"operands are {len(operands)}, its body's inputs {len(given)}")
    turn: dict[str, Any] = {"body": body, "num_scan_inputs": count, "scan_input_axes": [0] * count}
    if src.has("directions"):
        turn["scan_input_directions"] = list(src.int_list("directions") or ())
    inner = wire.Node("Scan", given, made, turn)
    whole = wire.Graph(
        "sequence",
        [inner],
        [wire.ValueInfo(n, i.dtype, None) for n, i in zip(given, body.inputs, strict=True)],
        [wire.ValueInfo(n, i.dtype, None) for n, i in zip(made, body.outputs, strict=True)],
    )
    every = {"num_scan_inputs": len(operands), "scan_input_axes": [0] * len(operands)}
    results = src.standard("Scan", operands, {"body": whole, **every}, results=len(made))
    for place, value in enumerate(results):
        src.bind(place, value)


def _placed(src: Source, value: Value, place: int) -> Value:
    """A scan output in its direction, the turns along its axis."""
    backward = src.int_list("scan_output_directions") or ()
    axes = src.int_list("scan_output_axes") or ()
    if place < len(backward) and backward[place]:
        value = src.add(Reverse(axes=(0,)), [value])
    axis = src.axis(axes[place], src.rank(value)) if place < len(axes) else 0
    if axis:
        rank = src.rank(value)
        perm = (*range(1, axis + 1), 0, *range(axis + 1, rank))
        value = src.add(Transpose(perm=perm), [value])
    return value


IMPORTERS: dict[str, Importer] = {
    "If": import_if,
    "Loop": import_loop,
    "Scan": import_scan,
}
