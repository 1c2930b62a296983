"""What is told of nodes that can't be exported: one item for each node of the source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nnconv.errors import Reason, UnsupportedItem
from nnconv.ir.graph import Node

STRINGS = "it has a constant of strings", "Look the texts up outside the model."
"""Why a node isn't read from TFLite, nor written anywhere, and what would help."""

_MOST_REASONS = 3
"""So many are told of a node of the source that became several ops."""


class NotExportable(Exception):  # noqa: N818 - a refusal that the writer collects, not an error
    """Raised by an exporter for what nothing can take the place of, such as a body's contents."""

    def __init__(self, *items: UnsupportedItem) -> None:
        """Refuse a node for at least one reason: those of a body may be several."""
        super().__init__("; ".join(map(str, items)))
        self.items = items


def item_of(
    node: Node, why: str, *, reason: Reason, hint: str = "", opset: int = 0
) -> UnsupportedItem:
    """What is told of a node, by its place in the source and the first name of a result."""
    origin = node.origin
    place = str(origin) or node.op.name
    name = next((value.name for value in node.outputs if value.name), "")
    return UnsupportedItem(
        op=node.op.name,
        where=f"{place} (`{name}`)" if name else place,
        why=why,
        reason=reason,
        hint=hint,
        opset=opset,
        node=origin.index,
        scope=origin.scope,
    )


def one_each(refused: Iterable[UnsupportedItem]) -> list[UnsupportedItem]:
    """One item for each node of the source, with its reasons; what is no node stands alone."""
    found: dict[object, list[UnsupportedItem]] = {}
    for item in refused:
        found.setdefault((item.scope, item.node) if item.node >= 0 else item, []).append(item)
    return [_joined(items) for items in found.values()]


def _joined(items: Sequence[UnsupportedItem]) -> UnsupportedItem:
    whys = list(dict.fromkeys(item.why for item in items))
    more = [f"{len(whys) - _MOST_REASONS} more"] if len(whys) > _MOST_REASONS else []
    hint = next((item.hint for item in items if item.hint), "")
    return replace(items[0], why="; ".join((*whys[:_MOST_REASONS], *more)), hint=hint)
