"""Lets a graph work with real and imaginary parts, for formats that have no complex numbers."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import COMPLEXES, DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ops import elementwise as e
from nnconv.ops.matmul import MatMul
from nnconv.ops.moves import Move
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, Identity, Transpose
from nnconv.ops.signal import RFFT2D, kernel
from nnconv.ops.slices import Pad, Slice
from nnconv.passes.base import Pass


class Parts(NamedTuple):
    """What a complex value is made of, float32 both."""

    real: Value
    imaginary: Value


class SplitComplexPass(Pass):
    """Makes two values of each that RFFT2D gives, and of what is moved of them.

    What can't be told so stays; what nothing reads any more is left to prune.
    """

    name: ClassVar[str] = "split_complex"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        parts: dict[Value, Parts] = {}
        for node in graph.nodes:
            if isinstance(node.op, RFFT2D):
                found = _transformed(node)
                if found is not None:
                    parts[node.outputs[0]] = found
            elif parts and any(v in parts for v in node.inputs):
                _visit(node, parts)
        return bool(parts)


def _visit(node: Node, parts: dict[Value, Parts]) -> None:
    """Let a node read parts, or have such of what it moves."""
    assert node.graph is not None
    b = Builder(node.graph, before=node, origin=node.origin)
    x = parts.get(node.operand(0))
    if isinstance(node.op, Move | Concat):
        complex_ones = [v for v in node.inputs if v is not None and v.dtype in COMPLEXES]
        if not all(v in parts for v in complex_ones):
            return
        sides = [
            b.add_many(node.op, [parts[v][side] if v in parts else v for v in node.inputs])
            for side in (0, 1)
        ]
        for value, real, imaginary in zip(node.outputs, *sides, strict=True):
            parts[value] = Parts(real, imaginary)
    elif x is None:
        return
    elif isinstance(node.op, e.Real | e.Imag):
        chosen = x.real if isinstance(node.op, e.Real) else x.imaginary
        node.op = Identity()
        node.set_inputs([chosen])
    elif isinstance(node.op, e.ComplexAbs):
        squares = [b.add(e.Mul(), [part, part]) for part in x]
        node.op = e.Sqrt()
        node.set_inputs([b.add(e.Add(), squares)])
    elif isinstance(node.op, Cast) and node.op.dtype not in COMPLEXES:
        node.set_inputs([x.real])
        if node.op.dtype is DType.FLOAT32:
            node.op = Identity()


_MOST_WEIGHTS = 1 << 25
"""No matrix of more elements is made."""


def _transformed(node: Node) -> Parts | None:
    """A transform as products with the matrices of cosines and sines."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, RFFT2D)
    assert node.graph is not None
    if op.length is None or x.shape is None or max(op.length) ** 2 > _MOST_WEIGHTS:
        return None
    b = Builder(node.graph, before=node, origin=node.origin)
    height, width = op.length
    rows = _with_extents(b, x, op.length)
    across = kernel(width, width // 2 + 1, width, sign=-1)
    real, imaginary = (_times(b, rows, part) for part in (across.real, across.imag))
    if height == 1:
        return Parts(real, imaginary)
    rank = len(x.shape)
    turn = Transpose(perm=(*range(rank - 2), rank - 1, rank - 2))
    down = kernel(height, height, height, sign=-1)
    turned = [b.add(turn, [part]) for part in (real, imaginary)]
    products = [[_times(b, part, m) for m in (down.real, down.imag)] for part in turned]
    (rr, ri), (ir, ii) = products
    return Parts(
        b.add(turn, [b.add(e.Sub(), [rr, ii])]),
        b.add(turn, [b.add(e.Add(), [ri, ir])]),
    )


def _times(b: Builder, x: Value, matrix: np.ndarray) -> Value:
    return b.add(MatMul(), [x, b.const(np.ascontiguousarray(matrix, dtype=np.float32))])


def _with_extents(b: Builder, x: Value, extents: tuple[int, int]) -> Value:
    """The last two dimensions cut, or filled with zeros."""
    assert x.shape is not None
    if tuple(x.shape[-2:]) == extents:
        return x
    rank = len(x.shape)
    free = [
        max(wanted - own, 0) if isinstance(own, int) else wanted
        for own, wanted in zip(x.shape[-2:], extents, strict=True)
    ]
    if any(free):
        x = b.add(Pad(before=(0,) * rank, after=(*(0,) * (rank - 2), *free)), [x])
    cut = Slice(starts=(0,) * rank, ends=(*(None,) * (rank - 2), *extents), strides=(1,) * rank)
    return b.add(cut, [x])
