"""Every reference model in ONNX's format is converted and compared with onnxruntime."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnconv
from nnconv.diff.compare import Tolerance, distance, judge, tolerances_of
from nnconv.diff.inputs import random_array
from nnconv.diff.meanings import meanings
from nnconv.errors import NnconvError, UnsupportedError
from nnconv.formats.onnx.writer import LEAST_OPSET, NEWEST_OPSET
from nnconv.ir import Model, Value
from support.flatbuffer_verifier import verify
from support.litert import RESOLVERS
from support.litert_worker import worker
from support.onnx_routes import assert_interface, run_onnxruntime
from support.places import find_shared_dir

SEEDS = (0, 1)

Arrays = list[np.ndarray]


def _records() -> list[dict[str, Any]]:
    folder = find_shared_dir()
    index = folder / "models" / "index.json" if folder else None
    if index is None or not index.exists():
        return []
    records = json.loads(index.read_text(encoding="utf-8"))
    return [record for record in records if record["format"] == "onnx"]


RECORDS = _records()
RUNNABLE = [record for record in RECORDS if record["runs"]]
IMAGES = [r for r in RUNNABLE if any(len(i["shape"]) == 4 for i in r["inputs"])]
QUANTIZED = [r for r in RUNNABLE if r["quant"].endswith(("qdq", "qoperator"))]
OPEN = [
    r
    for r in RUNNABLE
    if any(not isinstance(d, int) or d < 0 for i in r["inputs"] for d in i["shape"])
]


def _models(records: list[dict[str, Any]]) -> pytest.MarkDecorator:
    """Parametrize by record; an empty list (no reference models here) skips."""
    names = ["/".join(Path(r["path"]).with_suffix("").parts[-2:]) for r in records]
    return pytest.mark.parametrize("record", records, ids=names)


@_models(RUNNABLE)
def test_a_model_gives_what_onnxruntime_gives(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    check_tflite(record, shared_dir, tmp_path, seeds=SEEDS)


@_models(QUANTIZED)
def test_signs_that_are_kept_give_the_same(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    check_tflite(record, shared_dir, tmp_path, int8="keep")


@_models(QUANTIZED)
def test_quantized_models_in_floats_give_the_same_from_both_writers(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    path = shared_dir / "models" / record["path"]
    lite, other = tmp_path / "model.tflite", tmp_path / "model.onnx"
    nnconv.convert(path, lite, quant="float")
    nnconv.convert(path, other, quant="float")
    model = nnconv.load(path)
    arrays = draw(record, model, seed=0)
    wanted = run_onnxruntime(str(other), feeds_of(model, arrays))
    (results,) = worker().run(lite.read_bytes(), [arrays], "xnn")[1]
    for value, got, want in zip(model.outputs, results, wanted, strict=True):
        compare(value.name, got, [want, want], Tolerance("relative", 1e-3, "many layers"))


@_models(IMAGES)
def test_channels_last_at_the_edge_gives_the_same(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    check_tflite(record, shared_dir, tmp_path, resolvers=("xnn",), io_layout="nhwc")


@_models(OPEN)
def test_open_extents_stay_open(record: dict[str, Any], shared_dir: Path, tmp_path: Path) -> None:
    """One file takes another batch too, where onnxruntime runs the source with it."""
    path = shared_dir / "models" / record["path"]
    model = nnconv.load(path)
    shapes = {
        v.name: tuple(3 if given == 1 and not isinstance(d, int) else given for given, d in dims)
        for v in model.inputs
        if (dims := list(zip(record["fixed_shapes"][v.name], v.shape or (), strict=True)))
    }
    arrays = draw(record, model, seed=5, shapes=shapes)
    try:
        run_onnxruntime(str(path), feeds_of(model, arrays))
    except Exception as error:  # noqa: BLE001 # onnxruntime's errors have no common class
        pytest.skip(f"onnxruntime can't run this model with another batch: {error!s:.80}")
    check_tflite(record, shared_dir, tmp_path, more=[arrays])


@_models(OPEN)
def test_extents_are_fixed_on_request(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    shapes = {name: tuple(shape) for name, shape in record["fixed_shapes"].items()}
    check_tflite(record, shared_dir, tmp_path, resolvers=("xnn",), input_shapes=shapes)


@pytest.mark.parametrize("opset", [None, LEAST_OPSET, NEWEST_OPSET])
@_models(RUNNABLE)
def test_onnx_again_gives_the_same(
    record: dict[str, Any], opset: int | None, shared_dir: Path, tmp_path: Path
) -> None:
    path, target = shared_dir / "models" / record["path"], tmp_path / "model.onnx"
    try:
        report = nnconv.convert(path, target, opset=opset)
    except UnsupportedError as error:
        if opset is None or any((item.opset or 0) <= opset for item in error.items):
            raise
        pytest.skip(f"opset {opset} lacks an operator of it")
    onnx.checker.check_model(str(target), full_check=True)
    model = nnconv.load(path)
    again = onnx.load(str(target), load_external_data=False).graph
    assert [i.name for i in again.input] == [v.name for v in model.inputs]
    assert [o.name for o in again.output] == [v.name for v in model.outputs]
    assert [row[0] for row in report.inputs] == [v.name for v in model.inputs]
    arrays = draw(record, model, seed=0)
    wanted = run_source(path, model, arrays)
    try:
        got = run_onnxruntime(str(target), feeds_of(model, arrays))
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) and opset == NEWEST_OPSET:
            pytest.skip("onnxruntime has no kernel for an operator's newest version")
        raise
    tolerances = tolerances_of(model.outputs, model.graph)
    for i, value in enumerate(model.outputs):
        compare(value.name, got[i], [w[i] for w in wanted], tolerances[i])


REFUSED = {
    "DeformConv_19": r"DeformConv .*channels for filter",
    "If_p2_11": r"`/SequenceConstruct_output_0` is a sequence of tensors",
    "StringNormalizer_strnorm_model_monday_casesensintive_lower": r"StringNormalizer .*strings",
    "attention_same_qkv": r"the rank of `attention_1_mm1_out` isn't known",
    "empty": r"gives nothing",
    "ext_weights": r"'ext_weights.data' can't be read",
    "matmul.bf16": None,
    "multi_attention": r"the rank of `attention_1_mm1_out` isn't known",
    "weightless.sparse.conv": r"have 0 bytes",
    "weightless.transpose_matmul": r"have 0 bytes",
    "test_recursive_pattern_building": r"A at node #0 .*no translation is known",
    "test_toyPlugin_constant_node_match_case": r"D at node #3 .*no translation is known",
    "test_toyPlugin_intermediate_output_to_other_node_unmatch_case": r"O at node #0",
}
"""What is said of files that onnxruntime can't run; None where there is nothing to say."""


@_models([r for r in RECORDS if not r["runs"]])
def test_files_that_can_not_run_are_converted_or_refused_with_the_reason(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    path, target = shared_dir / "models" / record["path"], tmp_path / "model.tflite"
    said = REFUSED[path.stem]
    if said is None:
        nnconv.convert(path, target)
        return
    with pytest.raises(NnconvError) as caught:
        nnconv.convert(path, target)
    assert re.search(said, str(caught.value), re.DOTALL)
    assert not target.exists()


GIVEN = {"DFT_20": {"dft_length": 4, "axis": 1}}
"""Inputs that mean something."""

SLOW = {"STFT_17"}
"""Files that take LiteRT's reference kernels half a minute a run."""

MISSTATED = {"empty_tensor_expand", "residual_block"}
"""Files that state a shape of an output which their nodes can't give."""

# ------------------------------------------------------------------------------------ running


def check_tflite(
    record: dict[str, Any],
    shared: Path,
    folder: Path,
    *,
    seeds: Sequence[int] = (0,),
    more: Sequence[Arrays] = (),
    resolvers: Sequence[str] = RESOLVERS,
    **options: Any,
) -> None:
    """Convert a model; compare interface and results with the source's, which stays as it was."""
    path, target = shared / "models" / record["path"], folder / "model.tflite"
    before = path.read_bytes()
    report = nnconv.convert(path, target, **options)
    assert path.read_bytes() == before
    content = target.read_bytes()
    verify(content)
    model = nnconv.load(path, input_shapes=options.get("input_shapes"))
    runs = [draw(record, model, seed=seed) for seed in seeds] + list(more)
    wanted = [run_source(path, model, arrays) for arrays in runs]
    moved = report.moved_io
    given = [
        [_moved(a, 1, -1, v.name in moved) for a, v in zip(arrays, model.inputs, strict=True)]
        for arrays in runs
    ]
    tolerances = tolerances_of(model.outputs, model.graph)
    used = [r for r in resolvers if r != "ref" or path.stem not in SLOW]
    for resolver in reversed(used):  # with XNNPACK first: that is what users have
        told, results = worker().run(content, given, resolver)
        if not moved and "input_shapes" not in options and path.stem not in MISSTATED:
            assert_interface(path, told)
        for run, got in enumerate(results):
            for i, value in enumerate(model.outputs):
                array = _moved(got[i], -1, 1, value.name in moved)
                label = f"LiteRT ({resolver}), run {run}, {value.name}"
                sources = [w[i] for w in wanted[run]]
                deep = _is_deep(record) and resolver != resolvers[-1]
                compare(label, array, sources, tolerances[i], few=deep)


def _is_deep(record: dict[str, Any]) -> bool:
    """Whether roundings to 8 bits follow one another in many layers."""
    return record["quant"].endswith(("qdq", "qoperator")) and record["n_ops"] > 100


def _moved(array: np.ndarray, source: int, place: int, wanted: bool) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(array, source, place)) if wanted else array


def run_source(path: Path, model: Model, arrays: Arrays) -> list[Arrays]:
    """What onnxruntime gives with all its optimizations, and with none."""
    feeds = feeds_of(model, arrays)
    return [run_onnxruntime(str(path), feeds, optimize=on) for on in (True, False)]


def feeds_of(model: Model, arrays: Arrays) -> Mapping[str, np.ndarray]:
    """The inputs by name."""
    return {value.name: array for value, array in zip(model.inputs, arrays, strict=True)}


def draw(
    record: dict[str, Any],
    model: Model,
    *,
    seed: int,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Arrays:
    """Random inputs of a reference model, with the shapes and values that it asks for."""
    rng = np.random.default_rng(seed)
    known = meanings(model.graph)
    arrays = []
    for value in model.inputs:
        shape = tuple((shapes or {}).get(value.name, record["fixed_shapes"][value.name]))
        fixed = Value(value.name, value.type.with_shape(shape))
        meaning = known.get(value.name)
        array = random_array(fixed, rng, meaning=meaning, below=record["int_hi"])
        given = record.get("values", GIVEN.get(Path(record["path"]).stem, {}))
        if value.name in given:
            array = np.full_like(array, given[value.name])
        arrays.append(array)
    return arrays


def compare(
    label: str,
    array: np.ndarray,
    references: Sequence[np.ndarray],
    tolerance: Tolerance,
    *,
    few: bool = False,
) -> None:
    """Within tolerance of either run of the source, or within what these are apart.

    With ``few``, one in 200 elements may be farther off, or all of them three times as far: a
    rounding that goes the other way in an early layer of a deep net is several steps at its end.
    """
    if array.size and array.dtype.kind == "f" and all(np.isnan(r).all() for r in references):
        return  # nothing to hold it against
    spread = distance(references[0], references[1]).max_abs
    found = min((distance(array, r) for r in references), key=lambda d: d.max_abs)
    passed, bound = judge(found, tolerance, spread if np.isfinite(spread) else 0.0)
    if not passed and few and not found.wrong_form:
        off = np.abs(array.astype(np.float64) - references[0].astype(np.float64)) > bound
        passed = off.mean() < 0.005 or found.max_abs <= 3 * bound
    assert passed, f"{label}: {found.wrong_form or found.max_abs}, allowed {bound:g}"
