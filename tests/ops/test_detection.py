"""Choosing boxes: LiteRT against the reference and onnxruntime, on random boxes and on ties."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.errors import InvalidModelError
from nnconv.formats.tflite.reader import read
from nnconv.ir import Builder, DType, Value
from nnconv.ops.detection import DetectionPostProcess
from support.litert import run_litert
from support.spine import Case, check, run_onnx
from support.tflite_builder import TfliteBuilder, flexbuffer
from support.tflite_spine import TfliteCase, check_tflite

FLOAT, INT = "float32", "int32"


def boxes_and_scores(count: int, seed: int) -> list[np.ndarray]:
    """Boxes that overlap often, some with swapped corners; scores that all differ."""
    rng = np.random.default_rng(seed)
    corner, size = rng.random((count, 2)) * 4, rng.random((count, 2)) * 3
    boxes = np.concatenate([corner, corner + size], axis=1)
    boxes[::5] = boxes[::5][:, [2, 1, 0, 3]]
    scores = rng.permutation(count) / max(count, 1) + 0.01
    return [boxes.astype(np.float32), scores.astype(np.float32)]


def suppression(
    count: int,
    limit: int,
    *,
    overlap: float = 0.5,
    lowest: float = 0.0,
    sigma: float | None = None,
    run_time: bool = False,
) -> Callable[[TfliteBuilder], None]:
    """A model of one NON_MAX_SUPPRESSION_V4, or of a V5 if there is a sigma."""

    def build(b: TfliteBuilder) -> None:
        x, s = b.input("boxes", FLOAT, (count, 4)), b.input("scores", FLOAT, (count,))
        settings = [np.int32(limit), np.float32(overlap), np.float32(lowest)]
        if sigma is not None:
            settings.append(np.float32(sigma))
        given = [
            b.input(f"s{i}", INT if i == 0 else FLOAT, ()) if run_time else b.const(value)
            for i, value in enumerate(settings)
        ]
        scores = [] if sigma is None else [(FLOAT, (limit,))]
        name = "NON_MAX_SUPPRESSION_V4" if sigma is None else "NON_MAX_SUPPRESSION_V5"
        b.output(*b.op(name, [x, s, *given], [(INT, (limit,)), *scores, (INT, ())]))

    return build


def _nms(id: str, count: int, limit: int, seed: int = 0, **options: Any) -> Case:
    inputs: list[np.ndarray] = boxes_and_scores(count, seed)
    extra = options.pop("options", {})
    if options.get("run_time"):
        defaults = {"overlap": 0.5, "lowest": 0.0}
        inputs.append(np.array(limit, np.int32))
        inputs += [np.float32(options.get(k, v)) for k, v in defaults.items()]
        if "sigma" in options:
            inputs.append(np.float32(options["sigma"]))
        inputs = [np.asarray(i) for i in inputs]
    return Case(id, suppression(count, limit, **options), inputs, options=extra)


EXACT = [np.float32([[0, 0, 1, 1], [0, 0, 1, 2], [5, 5, 6, 6]]), np.float32([0.9, 0.8, 0.25])]
"""Two boxes whose overlap is exactly a half, and a score that is exactly a quarter."""

SUPPRESSIONS = [
    *(_nms(f"v4-{seed}", 40, 12, seed) for seed in range(4)),
    _nms("v4-all", 40, 60),
    _nms("v4-lowest", 40, 30, lowest=0.4),
    _nms("v4-overlap-0", 40, 30, overlap=0.0),
    _nms("v4-overlap-1", 40, 30, overlap=1.0),
    _nms("v4-none", 10, 5, lowest=2.0),
    _nms("v4-one-box", 1, 3),
    _nms("v4-limit-0", 10, 0),
    _nms("v4-run-time", 40, 12, run_time=True),
    _nms("v4-run-time-overlap-0", 40, 12, overlap=0.0, run_time=True),
    _nms("v4-opset-13", 40, 12, options={"opset": 13}),
    Case("v4-exact", suppression(3, 3, overlap=0.5, lowest=0.25), EXACT),
    *(_nms(f"v5-hard-{seed}", 40, 12, seed, sigma=0.0) for seed in range(2)),
    *(_nms(f"v5-soft-{seed}", 40, 12, seed, sigma=0.5, lowest=0.1) for seed in range(4)),
    _nms("v5-soft-all", 40, 60, sigma=0.3, overlap=0.8),
    _nms("v5-soft-narrow", 40, 30, sigma=1e-4, lowest=0.01, overlap=1.0),
    _nms("v5-soft-none", 10, 5, sigma=0.5, lowest=2.0),
    _nms("v5-soft-limit-0", 10, 0, sigma=0.5),
    _nms("v5-soft-opset-13", 40, 12, sigma=0.5, options={"opset": 13}),
    _nms("v5-run-time", 40, 12, sigma=0.5, run_time=True),
    _nms("v5-run-time-hard", 40, 12, sigma=0.0, run_time=True),
    Case("v5-exact", suppression(3, 3, overlap=0.5, lowest=0.25, sigma=0.0), EXACT),
]


@pytest.mark.parametrize("case", SUPPRESSIONS, ids=str)
def test_suppression(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("sigma", [None, 0.5])
def test_of_equal_scores_the_lower_index_comes_first(sigma: float | None, tmp_path: Path) -> None:
    """LiteRT's own order follows from its heap: the same boxes, in another order."""
    b = TfliteBuilder()
    suppression(8, 8, sigma=sigma)(b)
    content = b.build()
    boxes = np.float32([[2 * i, 0, 2 * i + 1, 1] for i in range(8)])
    scores = np.float32([0.5, 0.6] * 4)
    model = read(content)
    nnconv.save(model, tmp_path / "model.onnx")
    wanted = [1, 3, 5, 7, 0, 2, 4, 6]
    assert run_graph(model.graph, [boxes, scores])[0].tolist() == wanted
    assert run_onnx(tmp_path / "model.onnx", model, [boxes, scores])[0].tolist() == wanted
    assert sorted(run_litert(content, [boxes, scores])[0].tolist()) == sorted(wanted)


@pytest.mark.parametrize("sigma", [None, 0.5])
def test_a_box_without_area_is_taken_once(sigma: float | None, tmp_path: Path) -> None:
    """LiteRT puts a box that it took back, to be dropped by itself: one without area never is."""
    b = TfliteBuilder()
    suppression(3, 3, sigma=sigma)(b)
    content = b.build()
    inputs = [np.float32([[0, 0, 1, 1], [3, 3, 3, 4], [5, 5, 6, 6]]), np.float32([0.9, 0.8, 0.7])]
    model = read(content)
    nnconv.save(model, tmp_path / "model.onnx")
    assert run_litert(content, inputs)[0].tolist() == [0, 1, 1]
    assert run_graph(model.graph, inputs)[0].tolist() == [0, 1, 2]
    assert run_onnx(tmp_path / "model.onnx", model, inputs)[0].tolist() == [0, 1, 2]


# -------------------------------------------------------------------- TFLite_Detection_PostProcess

QUANT = (0.05, 120), (1 / 256, 0), (0.02, 100)


def detector(
    count: int = 30, classes: int = 4, *, background: int = 1, dtype: str = FLOAT, **changes: Any
) -> Callable[[TfliteBuilder], None]:
    """A model of one TFLite_Detection_PostProcess with random anchors."""
    options = {
        "max_detections": 6,
        "max_classes_per_detection": 1,
        "detections_per_class": 5,
        "use_regular_nms": False,
        "nms_score_threshold": 0.3,
        "nms_iou_threshold": 0.5,
        "num_classes": classes,
        "y_scale": 10.0,
        "x_scale": 9.0,
        "h_scale": 5.0,
        "w_scale": 4.0,
        **changes,
    }
    options = {key: value for key, value in options.items() if value is not None}
    anchors = np.random.default_rng(count).random((count, 4)) * [2, 2, 1, 1] + [0, 0, 0.5, 0.5]

    def build(b: TfliteBuilder) -> None:
        quants = QUANT if dtype != FLOAT else (None, None, None)
        x = b.input("boxes", dtype, (1, count, 4), quant=quants[0])
        s = b.input("scores", dtype, (1, count, classes + background), quant=quants[1])
        if quants[2] is None:
            a = b.const(anchors.astype(np.float32))
        else:
            codes = np.round(anchors / quants[2][0]) + quants[2][1]
            a = b.const(np.clip(codes, 0, 255).astype(np.uint8), quant=quants[2])
        size = options["max_detections"] * options["max_classes_per_detection"]
        results = [(FLOAT, (1, size, 4)), (FLOAT, (1, size)), (FLOAT, (1, size)), (FLOAT, (1,))]
        packed = flexbuffer(options)
        b.output(*b.op("TFLite_Detection_PostProcess", [x, s, a], results, custom_options=packed))

    return build


def detector_inputs(count: int, columns: int, seed: int, *, levels: int = 0) -> list[np.ndarray]:
    """Encodings and scores; scores all differ, or are one of ``levels`` values."""
    rng = np.random.default_rng(seed)
    encodings = rng.standard_normal((1, count, 4)).astype(np.float32) * 3
    if levels:
        scores = rng.integers(0, levels, (1, count, columns)) / levels
    else:
        scores = rng.permutation(count * columns).reshape(1, count, columns) / (count * columns)
    return [encodings, scores.astype(np.float32)]


def compare_detections(
    build: Callable[[TfliteBuilder], None],
    inputs: list[np.ndarray],
    folder: Path,
    **options: Any,
) -> int:
    """Compare what LiteRT, the reference and onnxruntime detect; gives the number of detections.

    LiteRT leaves old content behind the detections; here it must be zeros.
    """
    b = TfliteBuilder()
    build(b)
    content = b.build()
    model = read(content)
    op = next(iter(model.graph.nodes)).op
    expected = [np.array(a) for a in run_litert(content, inputs)]
    assert isinstance(op, DetectionPostProcess)
    count = int(expected[3][0])
    for array in expected[:3]:
        array[:, op.places >= count] = 0
    path = folder / "model.onnx"
    nnconv.save(model, path, **options)
    for results in (run_graph(model.graph, inputs), run_onnx(path, model, inputs)):
        for actual, wanted in zip(results, expected, strict=True):
            assert actual.dtype == wanted.dtype
            assert actual.shape == wanted.shape
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)
    return count


DETECTIONS = [
    Case("regular", detector(use_regular_nms=True), detector_inputs(30, 5, 0)),
    Case("full", detector(nms_score_threshold=0.0), detector_inputs(30, 5, 0)),
]
"""Models all of whose results LiteRT defines: see ``compare_detections`` for the others."""


@pytest.mark.parametrize("case", DETECTIONS, ids=str)
def test_post_process(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize(
    ("background", "changes"),
    [
        (1, {}),
        (0, {}),
        (1, {"max_detections": 100}),
        (1, {"max_classes_per_detection": 3}),
        (1, {"max_classes_per_detection": 6}),
        (1, {"nms_iou_threshold": 1.0}),
        (1, {"nms_iou_threshold": 0.1, "nms_score_threshold": 0.0}),
        (1, {"detections_per_class": None}),
        (1, {"detections_per_class": 1}),
    ],
    ids=str,
)
def test_detections(
    seed: int, regular: bool, background: int, changes: dict[str, Any], tmp_path: Path
) -> None:
    build = detector(background=background, use_regular_nms=regular, **changes)
    inputs = detector_inputs(30, 4 + background, seed)
    assert compare_detections(build, inputs, tmp_path) > 0


@pytest.mark.parametrize("regular", [False, True])
def test_no_detection_gives_zeros(regular: bool, tmp_path: Path) -> None:
    build = detector(use_regular_nms=regular, nms_score_threshold=2.0)
    assert compare_detections(build, detector_inputs(30, 5, 0), tmp_path) == 0


@pytest.mark.parametrize("regular", [False, True])
def test_opset_13(regular: bool, tmp_path: Path) -> None:
    build = detector(use_regular_nms=regular, max_classes_per_detection=2)
    compare_detections(build, detector_inputs(30, 5, 0), tmp_path, opset=13)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("regular", [False, True])
def test_of_equal_scores_the_first_box_and_class_win(
    seed: int, regular: bool, tmp_path: Path
) -> None:
    """As in LiteRT, also for a score that equals the threshold."""
    build = detector(use_regular_nms=regular, nms_score_threshold=0.25, max_detections=20)
    inputs = detector_inputs(30, 5, seed, levels=4)
    assert compare_detections(build, inputs, tmp_path) > 0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("regular", [False, True])
def test_quantized_detections(seed: int, regular: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    build = detector(dtype="uint8", use_regular_nms=regular)
    inputs = [rng.integers(0, 256, (1, 30, k)).astype(np.uint8) for k in (4, 5)]
    assert compare_detections(build, inputs, tmp_path) > 0


def test_int8_detections_are_those_of_their_real_values(tmp_path: Path) -> None:
    """LiteRT has no int8 form, so the uint8 one of the same meaning is the oracle."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 256, (1, 30, k)).astype(np.uint8) for k in (4, 5)]
    wide, narrow = TfliteBuilder(), TfliteBuilder()
    detector(dtype="uint8")(wide)
    x = narrow.input("boxes", "int8", (1, 30, 4), quant=(QUANT[0][0], QUANT[0][1] - 128))
    s = narrow.input("scores", "int8", (1, 30, 5), quant=(QUANT[1][0], QUANT[1][1] - 128))
    model, other = read(wide.build()), TfliteBuilder()
    anchors = next(iter(model.graph.nodes)).inputs[2]
    assert anchors is not None
    assert anchors.data is not None
    a = narrow.const(anchors.data, quant=QUANT[2])
    results = [(FLOAT, (1, 6, 4)), (FLOAT, (1, 6)), (FLOAT, (1, 6)), (FLOAT, (1,))]
    detector(dtype="uint8")(other)
    operator = other.to_object().subgraphs[0].operators[0]
    packed = bytes(operator.customOptions)
    narrow.output(
        *narrow.op("TFLite_Detection_PostProcess", [x, s, a], results, custom_options=packed)
    )
    signed = read(narrow.build())
    shifted = [(c ^ np.uint8(128)).view(np.int8) for c in codes]
    nnconv.save(signed, tmp_path / "model.onnx")
    expected = run_graph(model.graph, codes)
    for results in (
        run_graph(signed.graph, shifted),
        run_onnx(tmp_path / "model.onnx", signed, shifted),
    ):
        for actual, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"nms_iou_threshold": 0.0},
        {"nms_iou_threshold": 1.5},
        {"max_classes_per_detection": 0},
        {"max_detections": -1},
        {"num_classes": 7},
        {"y_scale": 0.0},
    ],
    ids=str,
)
def test_options_that_litert_refuses_are_invalid(changes: dict[str, Any]) -> None:
    b = TfliteBuilder()
    x, s = b.input("boxes", FLOAT, (1, 30, 4)), b.input("scores", FLOAT, (1, 30, 5))
    options = {
        "max_detections": 6,
        "max_classes_per_detection": 1,
        "nms_score_threshold": 0.3,
        "nms_iou_threshold": 0.5,
        "num_classes": 4,
        **dict.fromkeys(("y_scale", "x_scale", "h_scale", "w_scale"), 5.0),
        **changes,
    }
    results = [(FLOAT, (1, 6, 4)), (FLOAT, (1, 6)), (FLOAT, (1, 6)), (FLOAT, (1,))]
    anchors = b.const(np.ones((30, 4), np.float32))
    packed = flexbuffer(options)
    b.output(*b.op("TFLite_Detection_PostProcess", [x, s, anchors], results, custom_options=packed))
    with pytest.raises(InvalidModelError):
        read(b.build())


@pytest.mark.parametrize("regular", [False, True])
def test_nothing_is_left_of_earlier_detections(regular: bool, tmp_path: Path) -> None:
    """LiteRT's operator, which has no more than two classes to give, leaves rows as they were."""
    op = DetectionPostProcess(
        max_detections=3,
        max_classes=1 if regular else 3,
        per_class=3,
        regular=regular,
        score_threshold=0.5,
        iou_threshold=0.5,
        classes=2,
        scales=(1.0, 1.0, 1.0, 1.0),
    )
    anchors = np.array([[1, 1, 1, 1], [5, 5, 1, 1], [9, 9, 1, 1]], np.float32)

    def build(b: Builder) -> list[Value]:
        encodings = b.input("e", DType.FLOAT32, (1, 3, 4))
        scores = b.input("s", DType.FLOAT32, (1, 3, 3))
        return b.add_many(op, [encodings, scores, b.const(anchors)])

    still = np.zeros((1, 3, 4), np.float32)
    high = np.array([[[0, 0.9, 0.6], [0, 0.8, 0.4], [0, 0.7, 0.3]]], np.float32)
    runs = [[still, high * factor] for factor in (np.float32(1), np.float32(0.6), np.float32(0.1))]
    check_tflite(TfliteCase("detections", build, runs[0], more=runs[1:]), tmp_path)
