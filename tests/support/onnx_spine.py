"""The spine of tests on ops that TFLite lacks: a graph of the IR is where they begin.

A case is a function that builds a small graph and gives its outputs. It runs through the verifier,
the passes, the reference backend and, at several opsets, the ONNX writer, the full checker and
onnxruntime. What is right is told by numpy (``expected``) and, independent of it, by onnx's own
reference evaluator on the written file:

    def tan(b: Builder) -> Value:
        return b.add(Tan(), [b.input("x", DType.FLOAT32, (2, 3))])

    CASES = [IrCase("tan", tan, expected=np.tan, nodes={"Tan": 1})]

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_tan(case: IrCase, tmp_path: Path) -> None:
        check_ir(case, tmp_path)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from nnconv.backends.reference.executor import run_graph
from onnx.reference import ReferenceEvaluator

import nnconv
from nnconv.formats.onnx.writer import LEAST_OPSET, NEWEST_OPSET
from nnconv.ir import Builder, DType, Layout, Model, Value
from nnconv.ir.clone import clone_model
from nnconv.ir.verifier import verify_model
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.pipelines import onnx_passes
from support.spine import onnx_ops, random_array, run_onnx
from support.tflite_spine import TfliteCase, compare_case, model_of, typed

OPSETS = (LEAST_OPSET, 21, NEWEST_OPSET)

Expected = Sequence[np.ndarray] | Callable[..., Any]


@dataclass(frozen=True)
class IrCase:
    """One graph with what to expect of it.

    Attributes:
        id: what the test is called.
        build: adds inputs and nodes, gives the output or the outputs.
        feeds: arrays for the inputs; random ones of each input's type in place of None.
        expected: the outputs, or a numpy function that gives them (or the one output) of the feeds.
            None: onnx's reference evaluator alone tells them.
        nodes: how many nodes of each type the file must have at ``nodes_at``.
        nodes_at: the opset whose nodes are counted.
        opsets: where it can be written.
        refused_at: opsets at which the writer must refuse it.
        runs: the opsets at which onnxruntime has kernels for it; None for all (say why not).
        evaluated: whether onnx's reference evaluator is asked (say why not).
        tolerance: of float results, relative to the largest expected value.
        runtime_tolerance: another bound for onnxruntime and the evaluator (say why).
        format: the format that the model is said to be of: what comes from ONNX is written in as
            many nodes, else in the quickest spelling.
        options: keyword arguments of nnconv.save.
        not_on_litert: why the case isn't run on LiteRT as well; "" if it is.
        litert_tolerance: another bound there (say why).
        seed: of random inputs.
        note: anything to say.
    """

    id: str
    build: Callable[[Builder], Value | Sequence[Value]]
    feeds: Sequence[np.ndarray | None] | None = None
    expected: Expected | None = None
    nodes: dict[str, int] | None = None
    nodes_at: int = NEWEST_OPSET
    opsets: Sequence[int] = OPSETS
    refused_at: Sequence[int] = ()
    runs: Sequence[int] | None = None
    evaluated: bool = True
    tolerance: float = 1e-5
    runtime_tolerance: float | None = None
    format: str = "onnx"
    options: dict[str, Any] = field(default_factory=dict)
    not_on_litert: str = ""
    litert_tolerance: float | None = None
    seed: int = 0
    note: str = ""

    def __str__(self) -> str:
        return self.id

    def model(self) -> Model:
        """The case's graph as a model, its outputs named if nothing names them."""
        return model_of(self.build, format=self.format, source=self.id)

    def arrays(self, model: Model) -> list[np.ndarray]:
        """The feeds, random where none are given."""
        rng = np.random.default_rng(self.seed)
        given = self.feeds or [None] * len(model.inputs)
        return [
            np.asarray(random_array(value, rng) if array is None else array)
            for value, array in zip(model.inputs, given, strict=True)
        ]


def check_ir(case: IrCase, folder: Path) -> None:
    """Run a case through everything and compare."""
    model = case.model()
    verify_model(model)
    arrays = case.arrays(model)
    computed = run_graph(model.graph, arrays)
    wanted = _expected(case, arrays, model)
    if wanted is not None:
        compare_case("reference", case, model, computed, wanted)
    run_passes(clone_model(model), onnx_passes(LayoutPass(Layout.NCHW)), verify=True)
    path = folder / "model.onnx"
    for opset in case.refused_at:
        _check_refusal(case, model, path, opset)
    for opset in case.opsets:
        nnconv.save(model, path, opset=opset, **case.options)
        if opset == case.nodes_at and case.nodes is not None:
            assert onnx_ops(path) == case.nodes
        onnx.checker.check_model(str(path), full_check=True)
        oracle = computed if wanted is None else wanted
        if case.runs is None or opset in case.runs:
            results = run_onnx(path, model, arrays)
            compare_case(f"onnxruntime, opset {opset}", case, model, results, oracle)
    if case.evaluated:
        oracle = ReferenceEvaluator(str(path))
        feeds = dict(zip(oracle.input_names, arrays, strict=True))
        told = [np.asarray(array) for array in oracle.run(None, feeds)]
        compare_case("reference against onnx's evaluator", case, model, computed, told)


_LITERT_TOLERANCES = {DType.FLOAT16: 2e-3, DType.FLOAT32: 1e-5, DType.FLOAT64: 1e-5}
"""LiteRT computes in float32; it lacks kernels for the others."""


def on_litert(cases: Sequence[IrCase]) -> list[TfliteCase]:
    """The cases again, for `support.tflite_spine`; LiteRT lacks bfloat16."""
    found = []
    for case in cases:
        graph = case.model().graph
        dtypes = {value.dtype for value in (*graph.inputs, *graph.outputs)}
        if case.not_on_litert or DType.BFLOAT16 in dtypes:
            continue
        least = max(_LITERT_TOLERANCES.get(dtype, 0) for dtype in dtypes)
        told = case.litert_tolerance or case.runtime_tolerance or case.tolerance
        found.append(
            TfliteCase(
                case.id,
                case.build,
                case.feeds,
                expected=None if case.expected is None else _quiet(case.expected),
                tolerance=max(least, told),
                seed=case.seed,
            )
        )
    return found


def _quiet(expected: Expected) -> Expected:
    """Numbers that overflow in float64 are meant to."""
    if not callable(expected):
        return expected

    def compute(*arrays: np.ndarray) -> Any:
        with np.errstate(all="ignore"):
            return expected(*arrays)

    return compute


def _check_refusal(case: IrCase, model: Model, path: Path, opset: int) -> None:
    try:
        nnconv.save(model, path, opset=opset, **case.options)
    except nnconv.errors.UnsupportedError:
        assert not path.exists()
        return
    raise AssertionError(f"the ONNX writer should refuse this at opset {opset}")


def _expected(case: IrCase, arrays: list[np.ndarray], model: Model) -> list[np.ndarray] | None:
    if case.expected is None:
        return None
    with np.errstate(all="ignore"):
        found = case.expected(*arrays) if callable(case.expected) else case.expected
    return typed(model, found)
