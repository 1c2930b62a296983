"""The reference backend as a device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from nnconv.backends.base import (
    Device,
    Executable,
    GraphExecutable,
    check_options,
    refuse_shapes,
)
from nnconv.backends.reference.executor import run_graph

from nnconv.formats import read_model
from nnconv.ir.graph import Model
from nnconv.lowering import choose_signature


def find(device: str) -> Device:
    """The reference backend; it is always there."""
    return Device(device, "cpu", available=True, version=f"numpy {np.__version__}")


def make(
    source: Model | str | os.PathLike[str], device: str, options: Mapping[str, Any]
) -> Executable:
    """Make a model ready for the reference backend; ``nnconv.compile`` says more."""
    check_options(options, ReferenceExecutable.OPTIONS, device)
    rest = dict(options)
    shapes = rest.pop("input_shapes", None)
    if isinstance(source, Model):
        refuse_shapes(shapes)
        return ReferenceExecutable(source, device, **rest)
    return ReferenceExecutable(read_model(source, input_shapes=shapes), device, **rest)


class ReferenceExecutable(GraphExecutable):
    """A graph of the IR, run node by node."""

    OPTIONS = frozenset({"input_shapes", "signature"})

    def __init__(self, model: Model, device: str, *, signature: str | None = None) -> None:
        """Take an entry point of ``model``; it must not be changed as long as this is in use."""
        super().__init__(device)
        entry = choose_signature(model, signature)
        self._graph = entry.graph
        self._describe(entry)

    def _execute(self, feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        results = run_graph(self._graph, [feeds[name] for name in self._fed])
        return dict(zip(self._results, results, strict=True))
