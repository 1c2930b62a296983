"""What to say would help where something isn't known that follows from the shapes of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nnconv.errors import UnsupportedItem
from nnconv.ir.graph import Value
from nnconv.ir.types import static_shape

GIVE_SHAPES = "Give the shapes of the inputs (--input-shape)."
"""The hint as one op has it, which knows nothing of the model's inputs."""

_MOST_LISTED = 8
"""So many inputs are named at most."""


def open_names(inputs: Iterable[Value]) -> list[str]:
    """The names of those inputs of a model that have extents that aren't known."""
    return [value.name for value in inputs if static_shape(value.shape) is None]


def shapes_hint(names: Sequence[str]) -> str:
    """The hint that names inputs; empty where there are none to name."""
    if not names:
        return ""
    listed = ", ".join(f"`{name}`" for name in names[:_MOST_LISTED])
    more = ", ..." if len(names) > _MOST_LISTED else ""
    return f"Giving the shape of {listed}{more} (--input-shape) may help."


def naming(items: Iterable[UnsupportedItem], inputs: Iterable[Value]) -> list[UnsupportedItem]:
    """The items, of which those with ``GIVE_SHAPES`` say which of the model's inputs to give one.

    Where all shapes are known they say nothing: what they lack depends on what the inputs hold.
    """
    hint = shapes_hint(open_names(inputs))
    return [replace(item, hint=hint) if item.hint == GIVE_SHAPES else item for item in items]
