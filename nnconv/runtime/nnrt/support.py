"""Which operations a device can run."""

from __future__ import annotations

from nnconv.formats.nnrt.device import device_faults
from nnconv.formats.nnrt.wire import Graph
from nnconv.runtime.core import support
from nnconv.runtime.nnrt.source import ModelSource


def supported(graph: Graph, device: str) -> list[bool]:
    """Whether a device runs an operation, for each of a model."""
    found = support.supported(ModelSource(graph), [device])
    return [
        takes and not any(device_faults(operation, graph, graph.api))
        for takes, operation in zip(found, graph.operations, strict=True)
    ]
