"""What a model's inputs mean to the ops that read them, and numbers that fit.

Any float is a fine float, but few integers are an axis, a shape or an index. The op that reads an
input tells what it is, also where ops that move stand in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Role

WIDE_INTEGERS_BELOW = 8
"""Wide integers that aren't codes are counts, positions or indices: small ones fit all."""

_MOVES = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Cast", "Bitcast"})
"""Ops that hand numbers on as they are."""

_OF_POSITIVES = frozenset({"Log", "Sqrt", "Rsqrt"})

Drawn: TypeAlias = Callable[[tuple[int, ...], tuple[int, ...], np.random.Generator], np.ndarray]
"""Draws an array of the first shape, for an op whose data have extents as in the second."""


class Meaning(NamedTuple):
    """What an input is to an op.

    Attributes:
        drawn: how to draw it.
        extents: those of the op's data that count; open ones are 1.
    """

    drawn: Drawn
    extents: tuple[int, ...]

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """An array of ``shape``."""
        return self.drawn(shape, self.extents, rng)


def positive(
    shape: tuple[int, ...], _extents: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Floats above 0."""
    return np.abs(rng.standard_normal(shape))


def index(shape: tuple[int, ...], extents: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Places: below the least extent they are right whatever they count."""
    return rng.integers(0, max(min(extents, default=WIDE_INTEGERS_BELOW), 1), shape)


def axes(shape: tuple[int, ...], extents: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Dimensions, each once as long as there are any."""
    return np.resize(rng.permutation(max(len(extents), 1)), shape)


def inner_axes(
    shape: tuple[int, ...], extents: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Dimensions but the last."""
    return axes(shape, extents[:-1], rng)


def new_axes(
    shape: tuple[int, ...], extents: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Dimensions of the result, which has so many more."""
    return axes(shape, (*extents, *(1,) * int(np.prod(shape))), rng)


def single_axes(
    shape: tuple[int, ...], extents: tuple[int, ...], _rng: np.random.Generator
) -> np.ndarray:
    """Dimensions of extent 1."""
    return np.resize([i for i, size in enumerate(extents) if size == 1] or [0], shape)


def same_count(
    shape: tuple[int, ...], extents: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Another shape of as many elements."""
    rank = int(np.prod(shape))
    sizes = np.ones(rank, np.int64)
    for size in extents:
        if rank:
            sizes[rng.integers(rank)] *= size
    return sizes.reshape(shape)


def broadcast(
    shape: tuple[int, ...], extents: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """A shape that the data can be broadcast to: their own, and more in front."""
    rank = int(np.prod(shape))
    sizes = [*rng.integers(1, 4, max(rank - len(extents), 0)), *extents][-rank:] if rank else []
    return np.asarray(sizes, np.int64).reshape(shape)


def parts(shape: tuple[int, ...], extents: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers that add up to the extent."""
    count = int(np.prod(shape))
    whole = min(extents, default=1)
    cuts = np.sort(rng.integers(0, whole, max(count - 1, 0), endpoint=True))
    return np.diff(cuts, prepend=0, append=whole)[:count].reshape(shape)


def portion(
    shape: tuple[int, ...], extents: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """From 1 to the extent."""
    return 1 + index(shape, extents, rng)


def whole(
    shape: tuple[int, ...], extents: tuple[int, ...], _rng: np.random.Generator
) -> np.ndarray:
    """The largest extent: ends are cut to what there is."""
    return np.full(shape, max(extents, default=WIDE_INTEGERS_BELOW))


def extent(
    shape: tuple[int, ...], _extents: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Extents of a result: small, and none 0."""
    return rng.integers(1, WIDE_INTEGERS_BELOW, shape)


def pixels(
    shape: tuple[int, ...], extents: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """The batch that there is, then extents."""
    sizes = extent(shape, extents, rng)
    sizes[..., :1] = extents[:1] or 1
    return sizes


def step(shape: tuple[int, ...], _extents: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """1 or 2."""
    return rng.integers(1, 3, shape)


def margin(
    shape: tuple[int, ...], extents: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """0 or 1; 0 where there is nothing to mirror."""
    return rng.integers(0, 1 if min(extents, default=1) < 2 else 2, shape)


def one(shape: tuple[int, ...], _extents: tuple[int, ...], _rng: np.random.Generator) -> np.ndarray:
    """1, which divides everything."""
    return np.ones(shape, np.int64)


def none(
    shape: tuple[int, ...], _extents: tuple[int, ...], _rng: np.random.Generator
) -> np.ndarray:
    """0."""
    return np.zeros(shape, np.int64)


def all_places(
    shape: tuple[int, ...], _extents: tuple[int, ...], _rng: np.random.Generator
) -> np.ndarray:
    """More than any index that is drawn."""
    return np.full(shape, WIDE_INTEGERS_BELOW)


_OF_OPERANDS: dict[str, Drawn] = {
    "axis": axes,
    "axes": axes,
    "perm": axes,
    "shape": extent,
    "size": extent,
    "sizes": extent,
    "image": extent,
    "length": extent,
    "depth": extent,
    "dense_shape": all_places,
    "num_segments": all_places,
    "repeats": step,
    "strides": step,
    "steps": step,
    "step": step,
    "dilations": step,
    "ends": whole,
    "k": portion,
    "block": one,
    "pads": margin,
    "crops": none,
}
"""By the operand's name; all others are places."""

_OF_OPS: dict[tuple[str, str], Drawn] = {
    ("Reshape", "shape"): same_count,
    ("DynamicReshape", "shape"): same_count,
    ("BroadcastTo", "shape"): broadcast,
    ("Expand", "shape"): broadcast,
    ("DynamicSqueeze", "axes"): single_axes,
    ("DynamicUnsqueeze", "axes"): new_axes,
    ("DynamicSplit", "sizes"): parts,
    ("Dft", "axis"): inner_axes,
    ("Trilu", "k"): index,
    ("AffineGrid", "size"): pixels,
    ("ReverseSequence", "lengths"): portion,
}
"""Where an op means something else by that name."""


def meanings(graph: Graph) -> dict[str, Meaning]:
    """What the inputs are whose numbers can't be any; by name."""
    found = {}
    for value in graph.inputs:
        meaning = _meaning(value)
        if meaning is not None:
            found[value.name] = meaning
    return found


def _meaning(value: Value) -> Meaning | None:
    uses = list(_uses(value))
    if value.dtype.is_float:
        above_0 = any(node.op.name in _OF_POSITIVES for node, _, _ in uses)
        return Meaning(positive, ()) if above_0 else None
    if not value.dtype.is_integer or value.dtype.bits <= 16:
        return None
    found = [_of(node, place, more) for node, place, more in uses if _is_index(node, place)]
    others = [meaning for meaning in found if meaning.drawn is not index]
    if others:
        return others[0]
    extents = [size for meaning in found for size in meaning.extents]
    if extents:
        return Meaning(index, tuple(extents))
    numbers = sorted({number for node, _, _ in uses for number in _compared(node)})
    return Meaning(_choice(numbers), ()) if numbers else None


def _compared(node: Node) -> list[int]:
    """The single number that an input is held against: most likely what it should be."""
    constants = [v.data for v in node.inputs if v is not None and v.data is not None]
    asks = node.op.name == "Equal"
    return [int(data.reshape(-1)[0]) for data in constants if asks and data.size == 1]


def _choice(numbers: list[int]) -> Drawn:
    """One of some numbers."""

    def drawn(
        shape: tuple[int, ...], _extents: tuple[int, ...], rng: np.random.Generator
    ) -> np.ndarray:
        return rng.choice(numbers, shape)

    return drawn


def _uses(start: Value) -> Iterator[tuple[Node, int, int]]:
    """What reads a value, or the same numbers moved, at which place, and how much more at most."""
    seen, waiting = {start}, [(start, 0)]
    while waiting:
        value, more = waiting.pop()
        for node, place in value.uses:
            yield node, place, more
            added = _added(node, place)
            if added is not None:
                waiting += [(v, more + added) for v in node.outputs if v not in seen]
                seen.update(node.outputs)


def _added(node: Node, place: int) -> int | None:
    """What a node adds to the numbers that it hands on, at most; None if these are others."""
    if (node.op.name in _MOVES and place == 0) or node.op.name == "Concat":
        return 0
    if node.op.name != "Add":
        return None
    data = node.operand(1 - place).data
    return None if data is None or data.dtype.kind != "i" else int(data.max(initial=0))


def _is_index(node: Node, place: int) -> bool:
    formal = node.op.operands
    return place < len(formal) and formal[place].role is Role.INDEX


def _of(node: Node, place: int, more: int) -> Meaning:
    name = node.op.operands[place].name
    drawn = _OF_OPS.get((node.op.name, name)) or _OF_OPERANDS.get(name, index)
    shape = _table(node)
    axis = getattr(node.op, "axis", None)
    if drawn in (index, portion, parts) and isinstance(axis, int) and 0 <= axis < len(shape):
        shape = shape[axis : axis + 1]
    if drawn is index:
        return Meaning(index, tuple(size - more for size in shape if isinstance(size, int)))
    return Meaning(drawn, tuple(size if isinstance(size, int) else 1 for size in shape))


def _table(node: Node) -> tuple[int | str | None, ...]:
    """The shape of a node's first operand that is no index; () if it has none, or isn't known."""
    for value, formal in zip(node.inputs, node.op.operands, strict=False):
        if value is not None and formal.role in (Role.DATA, Role.WEIGHT) and value.shape:
            return value.shape
    return ()
