"""Works out beforehand what doesn't depend on the inputs: shapes above all.

A graph that computes the shape for a Reshape from the extents of another tensor comes out with a
fixed Reshape, also where one extent (the batch) stays open. Weights are left alone: a widening of
stored float16 or int8 stays in the graph, so that they stay small in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from nnconv.errors import BackendError
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType, element_count, static_shape
from nnconv.ops.elements import elements, reshape_target
from nnconv.ops.quantize import Bitcast, Cast, Dequantize
from nnconv.ops.shape import (
    Identity,
    Range,
    Rank,
    Reshape,
    ShapeOf,
    Size,
    Split,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from nnconv.passes.base import Pass, retype

MOST = 4096
"""Results of more elements are left to be computed where they are larger than what they come from:
they would only make the file bigger."""

VIEWS = (Identity, Reshape, Squeeze, Unsqueeze, Transpose)
"""Ops whose results on constants take no memory of their own."""

FAMILIES = frozenset(
    f"nnconv.ops.{stem}"
    for stem in (
        *("activation", "blocks", "diagonal", "elementwise", "gather", "matmul", "numeric"),
        *("product", "quantize", "reduce", "shape", "slices"),
    )
)
"""Where the ops stand whose results are given by their operands alone and cheap to compute."""

CHOOSING = frozenset({"nnconv.ops.proposals"})
"""Where the ops stand that give some of what they are given: how much isn't known beforehand."""

Evaluate: TypeAlias = "Callable[[Node, Sequence[np.ndarray | None]], list[np.ndarray]]"


class FoldConstantsPass(Pass):
    """Replaces what is known by constants, and index operands that are known by attributes.

    Attributes:
        evaluate: runs one node on arrays; it is called only where there is something to fold.
        empty: whether results without elements are constants as well, whatever they come of:
            XNNPACK's pools, for one, fail on them.
        kept: ops whose results stay what they are where they only go out.
    """

    name: ClassVar[str] = "fold_constants"

    def __init__(self, evaluate: Evaluate, *, empty: bool = False) -> None:
        """Choose what evaluates nodes."""
        self.evaluate, self.empty = evaluate, empty
        self.kept: tuple[type[Op], ...] = ()

    def run(self, graph: Graph) -> bool:
        """Fold one graph, from its start: each node is looked at once."""
        walk = _Walk(graph, self.evaluate, empty=self.empty)
        for node in graph.nodes:
            if not isinstance(node.op, self.kept) or node.outputs[0].use_count:
                walk.visit(node)
        return walk.finish()


_OF_EXTENTS = (ShapeOf, Rank, Size)


class _Walk:
    def __init__(self, graph: Graph, evaluate: Evaluate, *, empty: bool) -> None:
        self.graph = graph
        self.empty = empty
        self.evaluate = evaluate
        self.modified = False
        self._retyped: set[Value] = set()
        self._known: dict[Value, np.ndarray | None] = {}
        self._folded: dict[Value, Value] = {}

    def finish(self) -> bool:
        """Let constants go out in the place of folded results; tells whether anything changed."""
        if self._folded:
            self.graph.outputs = [self._folded.get(v, v) for v in self.graph.outputs]
        return self.modified

    def visit(self, node: Node) -> None:
        """Fold, specialise or retype one node."""
        if node.bodies:
            return
        if self._retyped and any(v in self._retyped for v in node.inputs):
            self._retype(node)
        if not self._fold_nothing(node) and not self._fold(node) and self._specialise(node):
            self._retype(node)

    # ---------------------------------------------------------------- constants

    def _fold_nothing(self, node: Node) -> bool:
        """Let results without elements be constants."""
        if not self.empty:
            return False
        if isinstance(node.op, Split) and 0 in node.op.sizes:
            return self._fold_parts(node, node.op)
        shapes = [static_shape(value.shape) for value in node.outputs]
        if not shapes or any(shape is None or 0 not in shape for shape in shapes):
            return False
        kinds = [value.dtype.numpy for value in node.outputs]
        self._replace(node, [np.empty(s or (), k) for s, k in zip(shapes, kinds, strict=True)])
        return True

    def _fold_parts(self, node: Node, op: Split) -> bool:
        """Let parts without elements be constants, and the others all that there are."""
        builder = Builder(self.graph, before=node, origin=node.origin)
        sized = list(zip(node.outputs, op.sizes, strict=True))
        kept = [v for v, size in sized if size]
        if not kept or any(not size and static_shape(v.shape) is None for v, size in sized):
            return False
        sizes = tuple(size for size in op.sizes if size)
        kinds, names = [v.type for v in kept], [v.name for v in kept]
        new = iter(builder.add_typed(op.replace(sizes=sizes), node.inputs, kinds, names=names))
        for value, size in sized:
            if size:
                part = next(new)
            else:
                data = np.empty(static_shape(value.shape) or (), value.dtype.numpy)
                part = Value(value.name, value.type, data=data, origin=value.origin)
            value.replace_all_uses_with(part)
            self._folded[value] = part
        self.graph.remove(node)
        self.modified = True
        return True

    def _fold(self, node: Node) -> bool:
        if isinstance(node.op, _OF_EXTENTS):
            return self._fold_extents(node)
        inputs = node.inputs
        if not inputs or any(v is not None and v.data is None for v in inputs):
            return self._fold_elements(node)
        if not _worthwhile(node):
            return False
        first = inputs[0]
        if isinstance(node.op, Bitcast) and first is not None and first.data is not None:
            if first.dtype is node.outputs[0].dtype:  # only the parameters are others
                self._replace(node, [first.data])
                return True
            return False
        try:
            arrays = self.evaluate(node, [None if v is None else v.data for v in inputs])
        except BackendError:
            return False  # what can't be computed here is left to the target to refuse
        self._replace(node, arrays)
        return True

    def _fold_extents(self, node: Node) -> bool:
        found = elements(node.outputs[0], self._known)
        dims = None if found is None else static_shape(tuple(found.reshape(-1).tolist()))
        if found is None or dims is None:
            return False
        dtype = node.outputs[0].dtype.numpy
        self._replace(node, [np.asarray(dims, dtype).reshape(found.shape)])
        return True

    def _fold_elements(self, node: Node) -> bool:
        """A small integer result all of whose elements are known, though its operands aren't."""
        if len(node.outputs) != 1 or not node.outputs[0].dtype.is_integer:
            return False
        if node.outputs[0].quant is not None:
            return False
        return self._fold_extents(node)

    def _replace(self, node: Node, arrays: Sequence[np.ndarray]) -> None:
        for value, array in zip(node.outputs, arrays, strict=True):
            kind = TensorType(value.dtype, tuple(array.shape), value.quant)
            new = Value(value.name, kind, data=array, origin=value.origin)
            value.replace_all_uses_with(new)
            self._folded[value] = new
            if kind.shape != value.shape or value in self._retyped:
                self._retyped.add(new)
        self.graph.remove(node)
        self.modified = True

    # ---------------------------------------------------------------- operands, types

    def _specialise(self, node: Node) -> bool:
        op, inputs = node.op, node.inputs
        places = [i for i in op.setting_places() if i < len(inputs) and inputs[i] is not None]
        if not places:
            return False
        known: list[tuple[int, ...] | None] = [None] * len(inputs)
        for i in places:
            known[i] = self._numbers(node, i)
        new, taken = op.specialize(known, node.input_types)
        if not taken:
            return False
        kept = [None if i in taken else v for i, v in enumerate(inputs)]
        while kept and kept[-1] is None:
            kept.pop()
        node.op = new
        node.set_inputs(kept)
        self.modified = True
        return True

    def _numbers(self, node: Node, index: int) -> tuple[int, ...] | None:
        value = node.operand(index)
        if value.data is not None:
            return tuple(int(n) for n in value.data.reshape(-1))
        found = elements(value, self._known)
        dims = None if found is None else tuple(found.reshape(-1).tolist())
        first = node.inputs[0]
        if isinstance(node.op, Reshape) and first is not None:
            return reshape_target(first.shape, dims)
        return static_shape(dims)

    def _retype(self, node: Node) -> None:
        """Let results have what is now known of their shapes."""
        changed = retype(node)
        self._retyped.update(changed)
        self.modified |= bool(changed)


def _worthwhile(node: Node) -> bool:
    """Whether a node of constants is better computed now."""
    op = node.op
    if type(op).__module__ in CHOOSING:
        return True
    if type(op).__module__ not in FAMILIES:
        return False
    if isinstance(op, Dequantize) or (isinstance(op, Cast) and not _is_count(node)):
        return False
    if isinstance(op, (*VIEWS, Bitcast)):
        return True
    if isinstance(op, Range):
        return _range_count(node) <= MOST
    sizes = [_bits(v) for v in node.outputs]
    if any(size is None for size in sizes):
        return False
    counts = [element_count(v.shape) or 0 for v in node.outputs]
    read = sum(_bits(v) or 0 for v in node.inputs if v is not None)
    return max(counts) <= MOST or sum(size or 0 for size in sizes) <= read


def _bits(value: Value) -> int | None:
    """How many bits a value has."""
    count = element_count(value.shape)
    return None if count is None else count * value.dtype.bits


def _range_count(node: Node) -> float:
    """How many elements a Range of constants has."""
    start, limit, delta = (
        0.0 if v is None or v.data is None else float(v.data.reshape(-1)[0]) for v in node.inputs
    )
    return (limit - start) / delta if delta else float("inf")


def _is_count(node: Node) -> bool:
    """Whether a Cast of constants is of integers, or to such as hold all the numbers.

    Extents are worked out in floats at times. What integers don't hold is left to the runtime.
    """
    first, dtype = node.operand(0), node.outputs[0].dtype
    if not first.dtype.is_float:
        return True
    if first.data is None or not dtype.is_integer:
        return False
    low, high = dtype.int_range
    wide = first.data.astype(np.float64)
    return bool(np.all((wide > low - 1) & (wide < high)))
