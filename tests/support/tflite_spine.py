"""The spine of tests on what the TFLite writer makes: a graph of the IR is where they begin.

A case is a function that builds a small graph and gives its outputs. It runs through the verifier,
the reference backend, the passes, the TFLite writer, a check of the file's layout, our reader with
the reference backend again, and LiteRT with each of its three sets of kernels:

    def tile(b: Builder) -> Value:
        return b.add(Tile(repeats=(2, 1)), [b.input("x", DType.FLOAT32, (2, 3))])

    CASES = [TfliteCase("tile", tile, expected=lambda x: np.tile(x, (2, 1)), ops={"TILE": 1})]

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_tile(case: TfliteCase, tmp_path: Path) -> None:
        check_tflite(case, tmp_path)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.formats.tflite import wire
from nnconv.formats.tflite.reader import read
from nnconv.ir import Builder, Graph, Layout, Model, Signature, Value
from nnconv.ir.clone import clone_model
from nnconv.ir.verifier import verify_model
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.pipelines import tflite_passes
from support.compare import assert_match
from support.flatbuffer_verifier import verify
from support.litert import RESOLVERS
from support.litert_worker import worker
from support.spine import random_array

Feeds = Sequence[np.ndarray | None]

Expected = Sequence[np.ndarray] | Callable[..., Any]


@dataclass(frozen=True)
class TfliteCase:
    """One graph with what to expect of it.

    Attributes:
        id: what the test is called.
        build: adds inputs and nodes, gives the output or the outputs.
        feeds: arrays for the inputs; random ones of each input's type in place of None.
        more: feeds for further runs of the same file, of other extents where these are open.
        expected: the outputs, or a numpy function that gives them (or the one output) of the feeds.
            None: the reference backend alone tells them. Outputs apply to the first run only.
        ops: how many operators of each builtin the file must have.
        resolvers: the sets of kernels that it runs on (say why not all).
        refused: whether the writer must refuse it (say why).
        reread: whether the file is also read again and run on the reference backend (say why not).
        tolerance: of float results, relative to the largest expected value.
        runtime_tolerance: another bound for LiteRT (say why).
        steps: of quantized results, on LiteRT and in the file read again.
        format: the format that the model is said to be of.
        options: keyword arguments of nnconv.save.
        seed: of random inputs.
        note: anything to say.
    """

    id: str
    build: Callable[[Builder], Value | Sequence[Value]]
    feeds: Feeds | None = None
    more: Sequence[Feeds] = ()
    expected: Expected | None = None
    ops: dict[str, int] | None = None
    resolvers: Sequence[str] = RESOLVERS
    refused: bool = False
    reread: bool = True
    tolerance: float = 1e-5
    runtime_tolerance: float | None = None
    steps: int = 1
    format: str = "onnx"
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    note: str = ""

    def __str__(self) -> str:
        return self.id

    def model(self) -> Model:
        """The case's graph as a model, its outputs named if nothing names them."""
        return model_of(self.build, format=self.format, source=self.id)

    def runs(self, model: Model) -> list[list[np.ndarray]]:
        """The feeds of each run, random where none are given."""
        rng = np.random.default_rng(self.seed)
        given = self.feeds or [None] * len(model.inputs)
        return [
            [
                np.asarray(random_array(value, rng) if array is None else array)
                for value, array in zip(model.inputs, feeds, strict=True)
            ]
            for feeds in (given, *self.more)
        ]


def model_of(
    build: Callable[[Builder], Value | Sequence[Value]], *, format: str, source: str
) -> Model:
    """What a function builds as a model, its outputs named if nothing names them."""
    graph = Graph("main")
    found = build(Builder(graph))
    graph.outputs = [found] if isinstance(found, Value) else list(found)
    for index, value in enumerate(graph.outputs):
        value.name = value.name or f"y{index}"
    return Model([Signature("", graph)], format=format, source=source)


def check_tflite(case: TfliteCase, folder: Path) -> None:
    """Run a case through everything and compare."""
    model = case.model()
    verify_model(model)
    runs = case.runs(model)
    computed = [run_graph(model.graph, arrays) for arrays in runs]
    oracle = [_expected(case, place, runs, computed, model) for place in range(len(runs))]
    for seen, wanted in zip(computed, oracle, strict=True):
        compare_case("reference", case, model, seen, wanted, steps=case.steps)
    path = folder / "model.tflite"
    if case.refused:
        _check_refusal(case, model, path)
        return
    run_passes(clone_model(model), tflite_passes(LayoutPass(Layout.NHWC)), verify=True)
    nnconv.save(model, path, **case.options)
    content = path.read_bytes()
    verify(content)
    if case.ops is not None:
        assert tflite_ops(content) == case.ops
    if case.reread:
        again = read(content, name=case.id)
        verify_model(again)
        for arrays, wanted in zip(runs, oracle, strict=True):
            compare_case(
                "read again", case, model, run_graph(again.graph, arrays), wanted, steps=case.steps
            )
    for resolver in case.resolvers:
        interface, results = worker().run(content, runs, resolver)
        for values, told in zip((model.inputs, model.outputs), interface, strict=True):
            stated = [(v.name, v.dtype.numpy.name, _signature(v)) for v in values]
            assert [t[:2] for t in told] == [s[:2] for s in stated], "the interface changed"
            if values is model.inputs:
                assert told == stated, "an input's shape changed"
        for seen, wanted in zip(results, oracle, strict=True):
            compare_case(f"LiteRT ({resolver})", case, model, seen, wanted, steps=case.steps)


def _signature(value: Value) -> tuple[int, ...]:
    return tuple(dim if isinstance(dim, int) else -1 for dim in value.shape or ())


def _check_refusal(case: TfliteCase, model: Model, path: Path) -> None:
    try:
        nnconv.save(model, path, **case.options)
    except nnconv.errors.UnsupportedError:
        assert not path.exists()
        return
    raise AssertionError("the TFLite writer should refuse this")


def _expected(
    case: TfliteCase,
    place: int,
    runs: list[list[np.ndarray]],
    computed: list[list[np.ndarray]],
    model: Model,
) -> list[np.ndarray]:
    """What run number ``place`` must give."""
    if case.expected is None:
        return computed[place]
    if callable(case.expected):
        return typed(model, case.expected(*runs[place]))
    return computed[place] if place else typed(model, case.expected)


def typed(model: Model, found: np.ndarray | Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results that were worked out elsewhere, in the types of a model's outputs."""
    results = found if isinstance(found, list | tuple) else [found]
    kinds = [value.dtype.numpy for value in model.outputs]
    return [np.asarray(a).astype(kind) for a, kind in zip(results, kinds, strict=True)]


class Tolerant(Protocol):
    """A case that says how far its results may be off.

    Attributes:
        tolerance: of floats.
        runtime_tolerance: of those of other runtimes than the reference, where it differs.
    """

    @property
    def tolerance(self) -> float: ...

    @property
    def runtime_tolerance(self) -> float | None: ...


def compare_case(
    label: str,
    case: Tolerant,
    model: Model,
    actual: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    *,
    steps: int = 1,
) -> None:
    """Assert that results match, as near as a case asks for."""
    tolerance = case.tolerance
    if label != "reference" and case.runtime_tolerance is not None:
        tolerance = case.runtime_tolerance
    assert_outputs(model, actual, wanted, tolerance=tolerance, steps=steps, label=label)


def assert_outputs(
    model: Model,
    actual: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    *,
    tolerance: float,
    steps: int = 1,
    label: str,
) -> None:
    """Assert that results match, each by its output's type."""
    for value, seen, expected in zip(model.outputs, actual, wanted, strict=True):
        assert_match(
            seen,
            expected,
            quantized=value.quant is not None and value.dtype.is_integer,
            tol=tolerance,
            steps=steps,
            label=f"{label}, {value.name}",
        )


def tflite_ops(content: bytes) -> dict[str, int]:
    """How many operators of each builtin a file has, in all subgraphs."""
    subgraphs = wire.read(content).subgraphs
    return dict(Counter(operator.name for graph in subgraphs for operator in graph.operators))
