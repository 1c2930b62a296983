"""Every reference model is converted, checked and compared with LiteRT on both its kernel sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import nnconv
from nnconv.diff.inputs import index_bounds, random_array
from nnconv.errors import InvalidModelError, UnsupportedError
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


@pytest.mark.parametrize("opset", [13, 24])
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
        bounds = index_bounds(entry.graph)
        feeds = {v.name: random_array(v, rng, below=bounds.get(v.name, 8)) for v in entry.inputs}
        assert sorted(entry.input_names) == sorted(called["inputs"])
        given = dict(zip(entry.input_names, feeds.values(), strict=True))
        wanted = [runner.run_signature(key, given) for runner in runners]
        session = onnx_session(target)
        states = [state.initial for state in entry.states]
        names = [i.name for i in session.get_inputs()]
        got = session.run(None, dict(zip(names, [*feeds.values(), *states], strict=True)))
        assert [row[0] for row in report.inputs] == names
        for value, name, array in zip(entry.outputs, entry.output_names, got, strict=False):
            _compare(value, array, [w[name] for w in wanted], None)


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
            _compare(value, array, [w[i] for w in wanted], record["outputs"][i].get("lsb"))


def draw(
    record: dict[str, Any],
    model: Model,
    *,
    seed: int,
    shapes: dict[str, tuple[int, ...]] | None = None,
) -> list[np.ndarray]:
    """Random inputs of a reference model, with the shapes and values that it asks for."""
    rng = np.random.default_rng(seed)
    bounds = index_bounds(model.graph)
    arrays = []
    for value in model.inputs:
        shape = (shapes or {}).get(value.name) or record["fixed_shapes"].get(value.name)
        fixed = Value(value.name, value.type.with_shape(tuple(shape))) if shape else value
        array = random_array(fixed, rng, below=bounds.get(value.name, record["int_hi"]))
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


def _compare(
    value: Value, array: np.ndarray, references: list[np.ndarray], step: float | None
) -> None:
    """Within tolerance of either kernel set, or within what these are apart."""
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
    assert gap <= max(bound, spread, step or 0.0), (
        f"{value.name}: {gap:g} apart, allowed {bound:g}, LiteRT's kernel sets are {spread:g} apart"
    )
