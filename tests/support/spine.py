"""The spine of the op tests.

One case runs through LiteRT, the importer, the reference backend, the ONNX exporter, the full ONNX
checker and onnxruntime; and as a .tflite file of our writing through LiteRT again.

A case is a function that builds a one-op (or few-op) model:

    def softmax(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (2, 3, 4, 5))
        b.output(b.op("SOFTMAX", [x], [("float32", (2, 3, 4, 5))], options={"beta": 1.0}))

    CASES = [Case("float", softmax)]

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_softmax(case: Case, tmp_path: Path) -> None:
        check(case, tmp_path)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.formats.tflite.reader import read
from nnconv.ir import DType, Layout, Model, Value
from nnconv.ir.clone import clone_model
from nnconv.ir.verifier import verify_model
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.pipelines import onnx_passes
from support.compare import assert_match
from support.litert import run_litert
from support.litert_worker import worker
from support.tflite_builder import TfliteBuilder


@dataclass(frozen=True)
class Case:
    """One model with what to expect of it.

    Attributes:
        id: what the test is called.
        build: makes the model.
        inputs: arrays for the inputs; random ones of each input's type when None. An entry of None
            in the tuple stands for a random one too.
        resolver: the LiteRT kernels that are the oracle: "ref", "opt" or "xnn". None: LiteRT isn't
            asked, the reference backend is the oracle for onnxruntime (say why in the case).
        expected: outputs known from elsewhere (numpy), instead of LiteRT's.
        tolerance: of float results, relative to the largest expected value.
        steps: of quantized results.
        onnx_steps, onnx_tolerance: other bounds for onnxruntime, where they differ (say why).
        rounded: whether integers without parameters are rounded results, compared by `steps` too.
        options: keyword arguments of nnconv.save, such as opset or int8.
        onnx: False where ONNX has no form (say why); the writer must then refuse.
        again: False where our own .tflite file gives something else (say why).
        seed: of random inputs.
        note: anything to say.
    """

    id: str
    build: Callable[[TfliteBuilder], None]
    inputs: Sequence[np.ndarray | None] | None = None
    resolver: str | None = "opt"
    expected: Sequence[np.ndarray] | None = None
    tolerance: float = 1e-5
    steps: int = 1
    onnx_steps: int | None = None
    onnx_tolerance: float | None = None
    rounded: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    onnx: bool = True
    again: bool = True
    seed: int = 0
    note: str = ""

    def __str__(self) -> str:
        return self.id


def model_bytes(case: Case) -> bytes:
    """The case's model as a .tflite file."""
    builder = TfliteBuilder()
    case.build(builder)
    return bytes(builder.build())


def random_array(value: Value, rng: np.random.Generator) -> np.ndarray:
    """A random tensor of a value's type.

    All codes for quantized and narrow types, small wide integers.
    """
    shape = tuple(d if isinstance(d, int) else 2 for d in value.shape or ())
    dtype = value.dtype
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_float:
        return (2 * rng.standard_normal(shape)).astype(dtype.numpy)
    if dtype.is_integer and (value.quant is not None or dtype.bits <= 8):
        low, high = dtype.int_range
        if dtype.bits > 16:
            low, high = -1000, 1000
        return rng.integers(low, high, shape, endpoint=True).astype(dtype.numpy)
    if dtype.is_integer:
        return rng.integers(0 if not dtype.is_signed else -50, 50, shape).astype(dtype.numpy)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype.numpy)


def case_inputs(case: Case, model: Model) -> list[np.ndarray]:
    """The case's inputs, random where it gives none."""
    rng = np.random.default_rng(case.seed)
    given = case.inputs or [None] * len(model.inputs)
    return [
        np.asarray(random_array(value, rng) if array is None else array)
        for value, array in zip(model.inputs, given, strict=True)
    ]


def check(case: Case, folder: Path) -> None:
    """Run a case through everything and compare."""
    content = model_bytes(case)
    model = read(content, name=case.id)
    verify_model(model)
    inputs = case_inputs(case, model)
    states = [state.initial for state in model.states]
    reference = run_graph(model.graph, [*inputs, *states])[: len(model.outputs)]
    expected = _expected(case, content, inputs, reference)
    for value, actual, wanted in zip(model.outputs, reference, expected, strict=True):
        _compare(f"reference {value.name}", actual, wanted, value, case, case.tolerance, case.steps)
    if case.again and case.resolver is not None:
        _check_again(case, model, inputs, expected, folder / "again.tflite")
    path = folder / "model.onnx"
    if not case.onnx:
        try:
            nnconv.save(model, path, **case.options)
        except nnconv.errors.UnsupportedError:
            assert not path.exists()
            return
        raise AssertionError("the ONNX writer should refuse this model")
    nnconv.save(model, path, **case.options)
    run_passes(clone_model(model), onnx_passes(LayoutPass(Layout.NCHW)), verify=True)
    results = run_onnx(path, model, inputs)
    tolerance = case.tolerance if case.onnx_tolerance is None else case.onnx_tolerance
    steps = case.steps if case.onnx_steps is None else case.onnx_steps
    for value, actual, wanted in zip(model.outputs, results, expected, strict=True):
        _compare(f"onnxruntime {value.name}", actual, wanted, value, case, tolerance, steps)


def _check_again(
    case: Case,
    model: Model,
    inputs: list[np.ndarray],
    expected: Sequence[np.ndarray],
    path: Path,
) -> None:
    """Write a case's model as TFLite again, and run that on LiteRT."""
    options = {name: value for name, value in case.options.items() if name != "opset"}
    nnconv.save(model, path, **options)
    assert case.resolver is not None
    _, (results,) = worker().run(path.read_bytes(), [inputs], case.resolver)
    for value, actual, wanted in zip(model.outputs, results, expected, strict=True):
        label = f"TFLite again {value.name}"
        _compare(label, actual, wanted, value, case, case.tolerance, case.steps)


def _expected(
    case: Case, content: bytes, inputs: list[np.ndarray], reference: list[np.ndarray]
) -> Sequence[np.ndarray]:
    if case.expected is not None:
        return case.expected
    if case.resolver is None:
        return reference
    return run_litert(content, inputs, resolver=case.resolver)


def _compare(
    label: str,
    actual: np.ndarray,
    wanted: np.ndarray,
    value: Value,
    case: Case,
    tolerance: float,
    steps: int,
) -> None:
    quantized = (value.quant is not None or case.rounded) and value.dtype.is_integer
    assert_match(
        actual,
        wanted,
        quantized=quantized,
        tol=tolerance,
        steps=steps,
        label=label,
    )


def onnx_session(path: Path, **config: str) -> onnxruntime.InferenceSession:
    """A one-thread CPU session on a file, after the full check."""
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    for key, entry in config.items():
        options.add_session_config_entry(key, entry)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run_onnx(path: Path, model: Model, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Check a written file and its interface against the model's, and run it."""
    session = onnx_session(path)
    arrays = [*inputs, *(state.initial for state in model.states)]
    feeds = dict(zip((i.name for i in session.get_inputs()), arrays, strict=True))
    for value, info in zip(model.inputs, session.get_inputs(), strict=False):
        assert not value.name or info.name == value.name, "an input's name changed"
        assert _dims(info.shape) == _dims(value.shape), "an input's shape changed"
    for value, info in zip(model.outputs, session.get_outputs(), strict=False):
        assert not value.name or info.name == value.name, "an output's name changed"
    return session.run(None, feeds)[: len(model.outputs)]


def _dims(shape: Any) -> list[object]:
    return [d if isinstance(d, int) else "?" for d in shape or ()]


def onnx_ops(path: Path) -> dict[str, int]:
    """How many nodes of each type an ONNX file has, bodies left out."""
    counts: dict[str, int] = {}
    for node in onnx.load(str(path), load_external_data=False).graph.node:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return counts


def optimized_ops(path: Path, folder: Path) -> dict[str, int]:
    """How many nodes of each type are left in onnxruntime's optimized graph.

    To see what it fuses.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    target = folder / "optimized.onnx"
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return onnx_ops(target)
