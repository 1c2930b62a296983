"""How much one node of a model may become: its extents are whatever the file says."""

from __future__ import annotations

from nnconv.errors import plural
from nnconv.formats.onnx.exporter import Target

MOST_ELEMENTS = 1 << 24
"""Of a constant that the model doesn't have itself."""

MOST_NODES = 1 << 12


def bounded_elements(t: Target, count: int) -> int:
    """``count``, if a constant may have so many elements.

    Raises:
        NotExportable: if not.
    """
    if count > MOST_ELEMENTS:
        raise t.unsupported(f"it would take a constant of {plural(count, 'element')}")
    return count


def bounded_nodes(t: Target, count: int) -> int:
    """``count``, if one node may become so many.

    Raises:
        NotExportable: if not.
    """
    if count > MOST_NODES:
        raise t.unsupported(f"it would take {plural(count, 'node')}")
    return count
