"""The spine of tests on what the NNAPI writer makes: a graph of the IR is where they begin.

A case is a function that builds a small graph and gives its outputs. It runs through the verifier,
the reference backend, the passes, the NNAPI writer, NNAPI's own rules at the feature level, the
file, our reader, and the reference backend again:

    CASES = [NnapiCase("tile", tile, operations={"TILE": 1})]

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_tile(case: NnapiCase) -> None:
        check_nnapi(case)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.errors import UnsupportedError
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.check import check
from nnconv.formats.nnapi.operands import SIGNED_LEVEL
from nnconv.formats.nnapi.reader import import_model
from nnconv.formats.nnapi.types import NEWEST_LEVEL
from nnconv.ir import Builder, DType, Layout, Value
from nnconv.ir.clone import clone_model
from nnconv.ir.graph import unique_names
from nnconv.ir.verifier import verify_model
from nnconv.lowering import to_nnapi
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.passes.to_floats import WIDE, computes_wide_codes
from nnconv.pipelines import nnapi_passes
from support.spine import random_array
from support.tflite_spine import Expected, Feeds, assert_outputs, model_of


@dataclass(frozen=True)
class NnapiCase:
    """One graph with what to expect of it.

    Attributes:
        id: what the test is called.
        build: adds inputs and nodes, gives the output or the outputs.
        feeds: arrays for the inputs; random ones of each input's type in place of None.
        expected: the outputs, or a numpy function that gives them (or the one output) of the feeds.
            None: the reference backend alone tells them.
        operations: how many operations of each kind the model must have.
        level: the feature level to write for.
        refused: part of the reason for which the writer must refuse it; empty if it must not.
        tolerance: of float results, relative to the largest expected value.
        steps: of quantized results.
        format: the format that the model is said to be of.
        seed: of random inputs.
        note: anything to say.
    """

    id: str
    build: Callable[[Builder], Value | Sequence[Value]]
    feeds: Feeds | None = None
    expected: Expected | None = None
    operations: dict[str, int] | None = None
    level: int = NEWEST_LEVEL
    refused: str = ""
    tolerance: float = 1e-5
    steps: int = 1
    format: str = "tflite"
    seed: int = 0
    note: str = ""

    def __str__(self) -> str:
        return self.id


def check_nnapi(case: NnapiCase) -> None:
    """Run a case through everything and compare."""
    model = model_of(case.build, format=case.format, source=case.id)
    verify_model(model)
    if case.refused:
        with pytest.raises(UnsupportedError) as caught:
            to_nnapi(clone_model(model), feature_level=case.level)
        assert any(case.refused in item.why for item in caught.value.items), str(caught.value)
        return
    rng = np.random.default_rng(case.seed)
    feeds = [
        np.asarray(random_array(value, rng) if array is None else array)
        for value, array in zip(model.inputs, case.feeds or [None] * len(model.inputs), strict=True)
    ]
    wanted = run_graph(model.graph, feeds)
    if case.expected is not None:
        found = case.expected(*feeds) if callable(case.expected) else case.expected
        results = found if isinstance(found, tuple | list) else [found]
        kinds = [value.dtype.numpy for value in model.outputs]
        exact = [np.asarray(a).astype(kind) for a, kind in zip(results, kinds, strict=True)]
        _compare("reference", case, model, wanted, exact)
        wanted = exact
    wide = computes_wide_codes(model.graph)
    passes = nnapi_passes(LayoutPass(Layout.NHWC), wide=wide, level=case.level)
    run_passes(clone_model(model), passes, verify=True)
    lowered = to_nnapi(clone_model(model), feature_level=case.level)
    check(lowered.model, case.level)
    if case.operations is not None:
        assert lowered.written.counts == case.operations
    again = import_model(file.read(file.to_bytes(lowered.model), name=case.id))
    verify_model(again)
    assert [v.name for v in again.inputs] == [v.name for v in model.inputs]
    assert [v.name for v in again.outputs] == unique_names(v.name for v in model.outputs)
    for a, b in zip((*again.inputs, *again.outputs), (*model.inputs, *model.outputs), strict=True):
        lacking = b.dtype in WIDE or (b.dtype is DType.INT8 and case.level < SIGNED_LEVEL)
        kind = DType.INT32 if lacking else b.dtype
        assert (a.dtype, a.shape) == (kind, b.shape or (1,)), "the interface changed"
    given = [
        array.reshape(array.shape or (1,)).astype(value.dtype.numpy)
        for array, value in zip(feeds, again.inputs, strict=True)
    ]
    seen = run_graph(again.graph, given)
    flat = [a.reshape(w.shape).astype(w.dtype) for a, w in zip(seen, wanted, strict=True)]
    _compare("read again", case, model, flat, wanted)


def _compare(label, case, model, actual, wanted) -> None:
    assert_outputs(model, actual, wanted, tolerance=case.tolerance, steps=case.steps, label=label)
