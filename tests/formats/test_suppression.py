"""Taking boxes in formats that have no loop for it: against onnxruntime and the kernel."""

import numpy as np
import onnx
import pytest
from nnconv.backends.reference.executor import run_graph
from onnx import TensorProto, helper

import nnconv
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.ops.detection import DetectionPostProcess, NonMaxSuppression

COUNT = 12


def boxes_and_scores(seed, *lead):
    """Boxes of which some overlap, some are alike and some have no area; some scores are equal."""
    rng = np.random.default_rng(seed)
    centres, sizes = rng.uniform(0, 1, (*lead, COUNT, 2)), rng.uniform(0.1, 0.8, (*lead, COUNT, 2))
    sizes[..., ::5, 0] = 0
    boxes = np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=-1)
    boxes[..., 3, :] = boxes[..., 4, :]
    boxes[..., 6, :] = boxes[..., 6, [2, 3, 0, 1]]
    return boxes.astype(np.float32), np.round(rng.uniform(0, 1, (*lead, COUNT)), 1)


@pytest.mark.parametrize("target", ["nnrt", "nnapi"])
@pytest.mark.parametrize(
    ("limit", "overlap", "lowest"), [(3, 0.5, 0.2), (20, 0.1, 0.45), (5, 0, 0)]
)
def test_lists_of_boxes_are_those_of_onnxruntime(tmp_path, target, limit, overlap, lowest):
    ort = pytest.importorskip("onnxruntime")
    numbers = [("limit", np.int64(limit)), ("overlap", np.float32(overlap))]
    numbers.append(("lowest", np.float32(lowest)))
    ends = [
        helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [2, COUNT, 4]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [2, 3, COUNT]),
        helper.make_tensor_value_info("chosen", TensorProto.INT64, ["n", 3]),
    ]
    names = ["boxes", "scores", *(name for name, _ in numbers)]
    constants = [onnx.numpy_helper.from_array(n.reshape(1), name) for name, n in numbers]
    node = helper.make_node("NonMaxSuppression", names, ["chosen"])
    graph = helper.make_graph([node], "nms", ends[:2], ends[2:], constants)
    opset = [helper.make_opsetid("", 17)]
    source = tmp_path / "nms.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), source)
    session = ort.InferenceSession(source, providers=["CPUExecutionProvider"])
    nnconv.convert(source, tmp_path / f"nms.{target}")
    executable = nnconv.compile(tmp_path / f"nms.{target}", "reference")
    for seed in range(3):
        boxes, _ = boxes_and_scores(seed, 2)
        scores = np.random.default_rng(seed).uniform(0, 1, (2, 3, COUNT)).astype(np.float32)
        feeds = {"boxes": boxes, "scores": scores}
        (wanted,) = session.run(None, feeds)
        result = executable.run(feeds)["chosen"]
        np.testing.assert_array_equal(result, wanted)
        assert len(wanted) > 3


@pytest.mark.parametrize("device", ["reference", "onnxruntime:cpu", "litert:cpu"])
@pytest.mark.parametrize("sigma", [None, 0.0, 0.4])
@pytest.mark.parametrize("limit", [4, COUNT + 3])
def test_taken_boxes_and_their_scores_are_those_of_the_kernel(tmp_path, limit, sigma, device):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    graph = Graph("nms")
    b = Builder(graph)
    given = [
        b.input("boxes", DType.FLOAT32, (COUNT, 4)),
        b.input("scores", DType.FLOAT32, (COUNT,)),
    ]
    given += [None, b.const(np.float32(0.4)), b.const(np.float32(0.25))]
    given += [] if sigma is None else [b.const(np.float32(sigma))]
    graph.outputs = list(b.add_many(NonMaxSuppression(limit=limit, with_scores=True), given))
    for value, name in zip(graph.outputs, ("chosen", "final", "count"), strict=True):
        value.name = name
    nnconv.save(Model([Signature("", graph)]), tmp_path / "nms.nnrt")
    executable = nnconv.compile(tmp_path / "nms.nnrt", device)
    for seed in range(4):
        boxes, scores = boxes_and_scores(seed)
        feeds = {"boxes": boxes, "scores": scores.astype(np.float32)}
        results = executable.run(feeds)
        wanted = run_graph(graph, list(feeds.values()))
        np.testing.assert_array_equal(results["chosen"], wanted[0])
        np.testing.assert_allclose(results["final"], wanted[1], rtol=1e-5)
        assert results["count"].reshape(()) == wanted[2]
        assert wanted[2] > 1
    nothing = {"boxes": boxes, "scores": np.zeros(COUNT, np.float32)}
    assert not executable.run(nothing)["chosen"].any()
    assert executable.run(nothing)["count"].reshape(()) == 0


def test_what_stands_behind_the_corners_of_detections_is_left_out(tmp_path):
    graph = Graph("post")
    b = Builder(graph)
    rng = np.random.default_rng(3)
    shapes = ((1, COUNT, 7), (1, COUNT, 3), (COUNT, 4))
    given = [b.input(f"x{i}", DType.FLOAT32, shape) for i, shape in enumerate(shapes)]
    op = DetectionPostProcess(
        max_detections=4, max_classes=1, per_class=4, regular=True, score_threshold=0.3,
        iou_threshold=0.4, classes=2, scales=(10.0, 10.0, 5.0, 5.0),
    )  # fmt: skip
    graph.outputs = list(b.add_many(op, given))
    nnconv.save(Model([Signature("", graph)]), tmp_path / "post.nnrt")
    feeds = [rng.uniform(0, 1, shape).astype(np.float32) for shape in shapes]
    executable = nnconv.compile(tmp_path / "post.nnrt", "reference")
    results = executable.run({f"x{i}": x for i, x in enumerate(feeds)})
    for got, wanted in zip(results.values(), run_graph(graph, feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert wanted[0] > 1


@pytest.mark.parametrize("level", [3, 8])
def test_no_box_is_taken_where_no_limit_is_given(tmp_path, level):
    """The limit's default is 0; NNAPI's integers are of 32 bits, those of the constant too."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    nms (float[2, 6, 4] boxes, float[2, 3, 6] scores) => (int64[n, 3] chosen) {
        chosen = NonMaxSuppression(boxes, scores)
    }"""
    source, target = tmp_path / "nms.onnx", tmp_path / "nms.nnapi"
    onnx.save(onnx.parser.parse_model(text), source)
    nnconv.convert(source, target, feature_level=level)
    feeds = {"boxes": np.ones((2, 6, 4), np.float32), "scores": np.ones((2, 3, 6), np.float32)}
    result = nnconv.compile(target, "reference").run(feeds)["chosen"]
    assert result.shape == (0, 3)
