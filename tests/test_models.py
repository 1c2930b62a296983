"""Every reference model is converted, checked and compared with LiteRT on both its kernel sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.diff.inputs import random_array
from nnconv.diff.meanings import meanings
from nnconv.errors import UnsupportedError
from nnconv.ir import DType, Model, Value
from support.litert import LiteRtRunner
from support.places import find_shared_dir
from support.spine import onnx_session

SEEDS = (0, 1)
FLOAT_TOLERANCE = 1e-4
"""Of the largest value that LiteRT gives."""


def _records() -> list[dict[str, Any]]:
    folder = find_shared_dir()
    index = folder / "models" / "index.json" if folder else None
    if index is None or not index.exists():
        return []
    records = json.loads(index.read_text(encoding="utf-8"))
    return [record for record in records if record["format"] == "tflite"]


RECORDS = _records()
RUNNABLE = [record for record in RECORDS if record["runs"]]
IMAGES = [r for r in RUNNABLE if any(len(i["shape"]) == 4 for i in r["inputs"])]
SIGNED = [r for r in RUNNABLE if "int8" in json.dumps([r["quant"], r["inputs"], r["outputs"]])]
SEVERAL = [r for r in RUNNABLE if len(r["signatures"]) > 1]
FIXED = [
    r
    for r in RUNNABLE
    if r["class"] == "model"
    and all(i["shape"][:1] == [1] and i.get("signature", [1])[0] == 1 for i in r["inputs"])
]


def _models(records: list[dict[str, Any]]) -> pytest.MarkDecorator:
    """Parametrize by record; an empty list (no reference models here) skips."""
    return pytest.mark.parametrize("record", records, ids=[Path(r["path"]).stem for r in records])


@_models(RUNNABLE)
def test_a_model_gives_what_litert_gives(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    check(record, shared_dir, tmp_path, seeds=SEEDS)


@pytest.mark.parametrize("opset", [13, 27])
@_models(RUNNABLE)
def test_the_least_and_the_newest_opset_give_the_same(
    record: dict[str, Any], opset: int, shared_dir: Path, tmp_path: Path
) -> None:
    check(record, shared_dir, tmp_path, opset=opset)


@_models(SIGNED)
def test_signs_that_are_kept_give_the_same(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    check(record, shared_dir, tmp_path, int8="keep")


@_models(IMAGES)
def test_channels_first_at_the_edge_gives_the_same(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    check(record, shared_dir, tmp_path, io_layout="nchw")


@_models(FIXED)
def test_a_batch_of_three_on_request(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    """Where LiteRT resizes the model as well."""
    path = shared_dir / "models" / record["path"]
    model = nnconv.load(path)
    shapes = {v.name: (3, *v.shape[1:]) for v in model.inputs if v.shape}
    arrays = draw(record, model, seed=0, shapes=shapes)
    try:
        LiteRtRunner(path, "opt").run(arrays)
    except (ValueError, RuntimeError):
        pytest.skip("LiteRT can't run this model with another batch")
    check(record, shared_dir, tmp_path, input_shapes=shapes)


@_models(SEVERAL)
def test_every_entry_point_converts(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    path = shared_dir / "models" / record["path"]
    runners = [LiteRtRunner(path, kernels) for kernels in ("xnn", "opt")]
    for key, called in record["signatures"].items():
        target = tmp_path / "model.onnx"
        report = nnconv.convert(path, target, signature=key)
        model = nnconv.load(path)
        entry = next(s for s in model.signatures if s.key == key)
        rng = np.random.default_rng(0)
        known = meanings(entry.graph)
        feeds = {v.name: random_array(v, rng, meaning=known.get(v.name)) for v in entry.inputs}
        assert sorted(entry.input_names) == sorted(called["inputs"])
        given = dict(zip(entry.input_names, feeds.values(), strict=True))
        wanted = [runner.run_signature(key, given) for runner in runners]
        session = onnx_session(target)
        states = [state.initial for state in entry.states]
        names = [i.name for i in session.get_inputs()]
        got = session.run(None, dict(zip(names, [*feeds.values(), *states], strict=True)))
        assert [row[0] for row in report.inputs] == names
        for value, name, array in zip(entry.outputs, entry.output_names, got, strict=False):
            _compare(value, array, [w[name] for w in wanted], 0.0)


REFUSED = {
    "audio_preprocessor_int8": ("SignalWindow", "SignalFilterBankLog"),
    "person_detect_vela": ("ethos-u",),
}
"""Files whose custom ops LiteRT lacks as well: the ops that the refusal has to name."""


@_models([r for r in RECORDS if Path(r["path"]).stem in REFUSED])
def test_custom_ops_without_a_known_meaning_are_refused_by_name(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    target = tmp_path / "model.onnx"
    with pytest.raises(UnsupportedError) as caught:
        nnconv.convert(shared_dir / "models" / record["path"], target)
    wanted = {name.removeprefix("CUSTOM:") for name in record["ops"] if name.startswith("CUSTOM:")}
    assert {item.op for item in caught.value.items} == wanted
    assert wanted.issuperset(REFUSED[Path(record["path"]).stem])
    assert not target.exists()


GIVEN = {
    "single_slice": {
        "slice_begin:0": np.array([1, 0, 2], np.int32),
        "slice_size:0": np.array([1, -1, 3], np.int32),
        "slice_input_tensor:0": np.arange(60, dtype=np.float32).reshape(3, 4, 5),
    },
    "transpose_conv1": {0: np.array([1, 3, 22, 32], np.int32)},
    "transpose_conv2": {0: np.array([1, 3, 42, 32], np.int32)},
}
"""Files that LiteRT runs as soon as their index inputs mean something, by name or place."""


@_models([r for r in RECORDS if Path(r["path"]).stem in GIVEN])
def test_index_inputs_that_mean_something(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    path, target = shared_dir / "models" / record["path"], tmp_path / "model.onnx"
    nnconv.convert(path, target)
    model = nnconv.load(path)
    given = GIVEN[Path(record["path"]).stem]
    rng = np.random.default_rng(0)
    arrays = [
        given.get(value.name, given.get(i, random_array(value, rng)))
        for i, value in enumerate(model.inputs)
    ]
    wanted = LiteRtRunner(path, "opt").run(arrays)
    session = onnx_session(target)
    feeds = dict(zip((i.name for i in session.get_inputs()), arrays, strict=True))
    for value, array, reference in zip(
        model.outputs, session.run(None, feeds), wanted, strict=True
    ):
        _compare(value, array, [reference], 0.0)


@_models([r for r in RECORDS if Path(r["path"]).stem == "selfie_segmentation"])
def test_a_custom_op_of_mediapipe_converts(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    """LiteRT's own kernels lack it, XNNPACK's have it."""
    path, target = shared_dir / "models" / record["path"], tmp_path / "model.onnx"
    nnconv.convert(path, target)
    x = np.random.default_rng(0).standard_normal((1, 256, 256, 3)).astype(np.float32)
    (value,) = nnconv.load(path).outputs
    (got,) = onnx_session(target).run(None, {"input_1": x})
    _compare(value, got, LiteRtRunner(path, "xnn").run([x]), 0.0)


@_models([r for r in RECORDS if Path(r["path"]).stem == "keyword_scrambled_8bit"])
def test_a_file_that_crashes_litert_agrees_with_the_reference(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    path, target = shared_dir / "models" / record["path"], tmp_path / "model.onnx"
    nnconv.convert(path, target)
    model = nnconv.load(path)
    arrays = [random_array(value, np.random.default_rng(0)) for value in model.inputs]
    states = [state.initial for state in model.states]
    session = onnx_session(target)
    feeds = dict(zip((i.name for i in session.get_inputs()), [*arrays, *states], strict=True))
    wanted = run_graph(model.graph, [*arrays, *states])
    for value, array, reference in zip(
        model.outputs, session.run(None, feeds), wanted, strict=False
    ):
        _compare(value, array, [reference], 0.0)


def check(
    record: dict[str, Any],
    shared: Path,
    folder: Path,
    *,
    seeds: tuple[int, ...] = (0,),
    **options: Any,
) -> None:
    """Convert a model, and compare interface and results with LiteRT's."""
    path, target = shared / "models" / record["path"], folder / "model.onnx"
    shapes = options.get("input_shapes") or {}
    report = nnconv.convert(path, target, **options)
    model = nnconv.load(path, input_shapes=shapes or None)
    session = onnx_session(target)
    _check_interface(record, model, session, report)
    for seed in seeds:
        arrays = draw(record, model, seed=seed, shapes=shapes)
        wanted = [LiteRtRunner(path, kernels).run(arrays) for kernels in ("xnn", "opt")]
        moved = [
            np.moveaxis(array, -1, 1) if value.name in report.moved_io else array
            for value, array in zip(model.inputs, arrays, strict=True)
        ]
        states = [state.initial for state in model.states]
        names = [info.name for info in session.get_inputs()]
        got = session.run(None, dict(zip(names, [*moved, *states], strict=True)))
        for i, value in enumerate(model.outputs):
            array = got[i]
            if value.name in report.moved_io:
                array = np.moveaxis(array, 1, -1)
            floor = record["noise_floor"][i]
            known = max(floor.get("abs", 0.0), record["outputs"][i].get("lsb") or 0.0)
            _compare(value, array, [w[i] for w in wanted], known)


def draw(
    record: dict[str, Any],
    model: Model,
    *,
    seed: int,
    shapes: dict[str, tuple[int, ...]] | None = None,
) -> list[np.ndarray]:
    """Random inputs of a reference model, with the shapes and values that it asks for."""
    rng = np.random.default_rng(seed)
    known = meanings(model.graph)
    arrays = []
    for value in model.inputs:
        shape = (shapes or {}).get(value.name) or record["fixed_shapes"].get(value.name)
        fixed = Value(value.name, value.type.with_shape(tuple(shape))) if shape else value
        meaning = known.get(value.name)
        array = random_array(fixed, rng, meaning=meaning, below=record["int_hi"])
        if value.name in record.get("values", {}):
            given = np.asarray(record["values"][value.name], array.dtype)
            array = (
                np.broadcast_to(given, array.shape) if given.ndim else np.full_like(array, given)
            )
        arrays.append(array)
    return arrays


def _check_interface(
    record: dict[str, Any],
    model: Model,
    session: onnxruntime.InferenceSession,
    report: nnconv.ConversionReport,
) -> None:
    """Names, order, dtypes and shapes are the source's, but for what was asked for."""
    for side, infos in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
        values = getattr(model, side)
        assert len(infos) == len(values) + len(model.states)
        for value, told, info in zip(values, record[side], infos, strict=False):
            # A name that had to change (empty, or used before) is reported.
            changes = {new for _, old, new in report.renamed if old == told["name"]}
            assert info.name == told["name"] or info.name in changes
            assert value.dtype.value == told["dtype"]
            assert info.type == f"tensor({_onnx_type(value.dtype)})"
            if value.name in report.moved_io or value.shape is None:
                continue
            assert len(info.shape) == len(value.shape)
            for seen, wanted in zip(info.shape, value.shape, strict=True):
                assert seen == wanted if isinstance(wanted, int) else not isinstance(seen, int)


def _onnx_type(dtype: DType) -> str:
    return {"float32": "float", "float64": "double"}.get(dtype.value, dtype.value)


def _compare(value: Value, array: np.ndarray, references: list[np.ndarray], known: float) -> None:
    """Within tolerance of either kernel set, or within what these are apart.

    ``known`` is how far apart they are known to be, or the step of the codes behind floats.
    """
    first = references[0]
    assert array.dtype == first.dtype
    assert array.shape == first.shape
    if not first.size:
        return
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and value.quant is None):
        assert any(np.array_equal(array, reference) for reference in references)
        return
    wide = [reference.astype(np.float64) for reference in references]
    seen = array.astype(np.float64)
    assert any(np.array_equal(np.isfinite(seen), np.isfinite(w)) for w in wide)
    with np.errstate(invalid="ignore"):
        spread = np.nanmax(np.abs(wide[0] - wide[-1]), initial=0.0)
        largest = np.abs(wide[0][np.isfinite(wide[0])]).max(initial=0.0)
        gap = min(np.nanmax(np.abs(seen - w), initial=0.0) for w in wide)
    bound = FLOAT_TOLERANCE * (largest or 1.0) if array.dtype.kind == "f" else 1.0
    assert gap <= max(bound, spread, known), (
        f"{value.name}: {gap:g} apart, allowed {bound:g} or {known:g}, LiteRT itself: {spread:g}"
    )
