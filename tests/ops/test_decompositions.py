"""Decompositions give what the op gives, whatever format asks for them and however far it goes.

Nodes of onnx's own tests, of random graphs and of Android's conformance vectors are taken apart,
and so is what they become, on the reference backend alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from nnconv.errors import NnconvError
from nnconv.formats.nnapi.reader import import_model
from nnconv.formats.onnx.reader import read
from nnconv.ir import DType, Model
from nnconv.ir.graph import Node
from support.cts import find_vectors, requests_of, vectors_of
from support.decomposed import decomposed, inner_values
from support.onnx_backend import cases, scope
from support.random_ir import draw

ENOUGH = 10
"""So many nodes of an op and a type are looked at."""

HALVES = frozenset({DType.FLOAT16, DType.BFLOAT16})

DIFFER = ("test_mod_float_edge_cases",)
"""Beginnings of names: a multiple of an infinite divisor is no number."""

Source = Iterator[tuple[str, Model, list[np.ndarray]]]


def of_onnx() -> Source:
    for name in scope().inside:
        if name in cases() and not name.startswith(DIFFER):
            model = read(cases()[name].model)
            arrays = cases()[name].data_sets[0][0]
            pairs = zip(arrays, model.graph.inputs, strict=False)
            yield name, model, [np.asarray(a).astype(v.dtype.numpy) for a, v in pairs]


def of_random_graphs() -> Source:
    for seed in range(20_000, 20_250):
        net, model = draw(seed)
        yield f"seed {seed}", model, [net.examples[v] for v in model.inputs]


def of_vectors() -> Source:
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    for vector in vectors_of(path):
        if not vector.expect_failure and len(vector.model.main.operations) == 1:
            try:
                model = import_model(vector.model, omitted=vector.omitted)
            except NnconvError:  # settings that are inputs
                continue
            yield vector.name, model, list(requests_of(vector, model).values())


def taken_apart(source: Source) -> Counter[str]:
    """How often each decomposition was held against its op; none may differ."""
    seen: Counter[tuple[object, ...]] = Counter()
    count: Counter[str] = Counter()
    faults = {}
    for name, model, feeds in source:
        fresh = [
            node
            for node in model.graph.nodes
            if not node.op.draws and seen[_kind(node)] < ENOUGH and node.outputs
        ]
        if not fresh:
            continue
        values = inner_values(model.graph, feeds)
        for node in fresh:
            seen[_kind(node)] += 1
            is_half = any(v.dtype in HALVES for v in node.outputs)
            found = decomposed(node, values, tolerance=2e-2 if is_half else 1e-4)
            if found is not None:
                count.update(found.names)
                if found.fault:
                    faults[name] = f"{found.fault}: {found.log}"
    assert faults == {}
    return count


def _kind(node: Node) -> tuple[object, ...]:
    first = next((v for v in node.inputs if v is not None), None)
    return (type(node.op), None if first is None else first.dtype)


@pytest.mark.filterwarnings("ignore")  # infinities and the like are among the numbers
@pytest.mark.parametrize(
    ("source", "least"), [(of_onnx, 120), (of_random_graphs, 80), (of_vectors, 40)]
)
def test_what_ops_become_gives_what_they_give(source, least):
    count = taken_apart(source())
    assert len(count) >= least
