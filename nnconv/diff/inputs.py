"""Random inputs of the right kind: what a model's inputs mean decides what is drawn for them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from nnconv.errors import NnconvError, UsageError
from nnconv.formats import read_model
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Role
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape
from nnconv.lowering import choose_signature

WIDE_INTEGERS_BELOW = 8
"""Wide integers that aren't codes are counts, positions or indices: small ones fit all."""

MOST_ELEMENTS = 1 << 31
"""Elements of the largest input that is drawn: beyond it memory ends, on most machines."""

_MOVES = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Cast", "Bitcast"})
"""Ops that hand indices on as they are."""

_OF_POSITIVES = frozenset({"Log", "Sqrt", "Rsqrt"})
_BROADCASTS = frozenset({"BroadcastTo", "Expand"})


class Described(Protocol):
    """An input as far as drawing for it goes: a value of a graph, or a device's description."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def dtype(self) -> DType:
        """Element type."""

    @property
    def shape(self) -> Shape:
        """Extents."""

    @property
    def quant(self) -> Quant | None:
        """Quantization parameters, if any."""


def random_inputs(
    values: Sequence[Described],
    *,
    seed: int,
    below: Mapping[str, int] | None = None,
    extent: int = 1,
) -> dict[str, np.ndarray]:
    """Draw an array for each input, by name.

    Floats are standard normal, codes take the full range of their type, and other wide integers are
    small and not negative.

    Args:
        values: the inputs.
        seed: the same seed and inputs give the same arrays.
        below: upper bounds (exclusive) of wide integers, by name, as ``index_bounds`` finds them.
        extent: what open extents become.

    Raises:
        UsageError: for an input of strings, or one that is too large, or a negative seed.
    """
    check_seed(seed)
    rng = np.random.default_rng(seed)
    limits = below or {}
    return {
        value.name: random_array(
            value, rng, below=limits.get(value.name, WIDE_INTEGERS_BELOW), extent=extent
        )
        for value in values
    }


def check_seed(seed: object) -> None:
    """See that a seed is a whole number that is not negative.

    Raises:
        UsageError: it isn't.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"seed is {seed!r}, must be 0 or a positive number")


def random_array(
    value: Described,
    rng: np.random.Generator,
    *,
    below: int = WIDE_INTEGERS_BELOW,
    extent: int = 1,
) -> np.ndarray:
    """Draw one input; see ``random_inputs``."""
    shape = tuple(d if isinstance(d, int) else extent for d in value.shape or ())
    if math.prod(shape) > MOST_ELEMENTS:
        raise UsageError(f"input {value.name!r} of shape {list(shape)} is too large to be drawn")
    dtype = value.dtype
    if dtype is DType.STRING:
        raise UsageError(f"nothing can be drawn for the strings of input `{value.name}`: give it")
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    if not dtype.is_integer:
        drawn = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        return drawn.astype(dtype.numpy)
    if dtype.bits <= 16:
        low, high = dtype.int_range
        return rng.integers(low, high, shape, endpoint=True).astype(dtype.numpy)
    return rng.integers(0, max(below, 1), shape).astype(dtype.numpy)


def index_bounds_of(
    path: str | os.PathLike[str], *, signature: str | None = None
) -> dict[str, int]:
    """``index_bounds`` of a file's entry point; none where nnconv can't read it."""
    try:
        return index_bounds(choose_signature(read_model(path), signature).graph)
    except NnconvError:
        return {}


def positive_inputs(graph: Graph) -> set[str]:
    """The inputs of floats that an op takes which has no result for negative numbers."""
    return {
        value.name
        for value in graph.inputs
        if value.dtype.is_float and any(node.op.name in _OF_POSITIVES for node in _readers(value))
    }


def shape_inputs(graph: Graph) -> set[str]:
    """The inputs that are the shape which something is broadcast to."""
    return {
        value.name
        for value in graph.inputs
        if value.dtype.is_integer
        for node, index in value.uses
        if node.op.name in _BROADCASTS and index == 1
    }


def _readers(start: Value) -> list[Node]:
    """What reads a value, or the same numbers moved."""
    readers, seen, waiting = [], {start}, [start]
    while waiting:
        for node, _ in waiting.pop().uses:
            readers.append(node)
            if node.op.name in _MOVES:
                waiting += [v for v in node.outputs if v not in seen]
                seen.update(node.outputs)
    return readers


def index_bounds(graph: Graph) -> dict[str, int]:
    """For each input that picks elements out of a tensor: what its numbers must stay below."""
    found: dict[str, int] = {}
    for value in graph.inputs:
        if value.dtype.is_integer and value.dtype.bits > 16:
            bounds = _bounds(value)
            if bounds:
                found[value.name] = min(bounds)
    return found


def _bounds(start: Value) -> list[int]:
    bounds: list[int] = []
    seen = {start}
    waiting = [start]
    while waiting:
        for node, index in waiting.pop().uses:
            if node.op.name in _MOVES and index == 0:
                waiting += [v for v in node.outputs if v not in seen]
                seen.update(node.outputs)
            elif _is_index(node, index):
                bounds += _extents(node)
    return bounds


def _is_index(node: Node, index: int) -> bool:
    formal = node.op.operands
    return index < len(formal) and formal[index].role is Role.INDEX


def _extents(node: Node) -> list[int]:
    """The extents that indices of a node may run over.

    That of its axis, else all of its table's: below the least of them an index is right whatever it
    counts.
    """
    tables = [
        value
        for value, formal in zip(node.inputs, node.op.operands, strict=False)
        if value is not None and formal.role in (Role.DATA, Role.WEIGHT) and value.shape
    ]
    if not tables:
        return []
    shape = tables[0].shape or ()
    axis = getattr(node.op, "axis", None)
    dims = shape[axis : axis + 1] if isinstance(axis, int) and 0 <= axis < len(shape) else shape
    return [dim for dim in dims if isinstance(dim, int)]
