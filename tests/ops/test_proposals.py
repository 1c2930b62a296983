"""Choosing regions: how many there are depends on the data."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.errors import GraphError, UnsupportedError
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph
from nnconv.ir.quant import Quant
from nnconv.ops.proposals import Decay, LimitedBoxes, Proposals
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import check_tflite

BOXES = [[0, 0, 10, 10], [0, 0, 10, 5], [20, 20, 30, 30], [0, 0, 10, 9]]


def limited(scores, boxes, images, **changes):
    """What LimitedBoxes gives for scores [R, C] and a box [4] a region, equal in each class."""
    options = {
        "score_threshold": 0.1,
        "limit": -1,
        "decay": Decay.HARD,
        "iou_threshold": 0.5,
        "sigma": 0.5,
        "least_score": 0.1,
    }
    graph = Graph()
    builder = Builder(graph)
    scores = np.asarray(scores, np.float32)
    boxes = np.tile(np.asarray(boxes, np.float32).reshape(-1, 4), scores.shape[1])
    arrays = [scores, boxes, np.asarray(images, np.int32)]
    values = [builder.input(f"x{i}", DType.of(a), a.shape) for i, a in enumerate(arrays)]
    graph.outputs = list(builder.add_many(LimitedBoxes(**(options | changes)), values))
    return run_graph(graph, arrays)


def test_overlapping_boxes_drop_out_and_the_background_is_passed_over():
    scores, boxes, classes, images = limited(
        [[0.9, 0.5], [0.9, 0.8], [0.9, 0.3], [0.9, 0.05]], BOXES, [0] * 4
    )
    assert scores.tolist() == pytest.approx([0.8, 0.3])
    assert boxes.tolist() == [BOXES[1], BOXES[2]]
    assert classes.tolist() == [1, 1]
    assert images.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("decay", "second"),
    [(Decay.LINEAR, 0.6 * 0.1), (Decay.GAUSSIAN, 0.6 * np.exp(-(0.9**2) / 0.5))],
)
def test_scores_fall_by_the_overlap(decay, second):
    scores, *_ = limited(
        [[0, 0.8], [0, 0.6]], [BOXES[0], BOXES[3]], [0, 0], decay=decay, least_score=0.0
    )
    assert scores.tolist() == pytest.approx([0.8, second])


def test_an_image_gives_its_best_by_class_and_then_by_score():
    scores, _, classes, images = limited(
        [[0, 0.4, 0.9], [0, 0.7, 0.2], [0, 0.6, 0.5]],
        [BOXES[0], BOXES[2], BOXES[2]],
        [3, 3, 1],
        limit=2,
    )
    assert images.tolist() == [3, 3, 1, 1]
    assert classes.tolist() == [1, 2, 1, 2]
    assert scores.tolist() == pytest.approx([0.7, 0.9, 0.6, 0.5])


def test_nothing_may_be_left_or_given():
    for scores, boxes, images in (([[0.9, 0.0]], BOXES[:1], [0]), (np.zeros((0, 3)), [], [])):
        results = limited(scores, boxes, images)
        assert [r.shape for r in results] == [(0,), (0, 4), (0,), (0,)]


def proposed(scores, deltas, anchors, sizes, *, quant=None, **changes):
    """What Proposals gives."""
    options = {
        "stride": (4.0, 8.0),
        "before": 0,
        "after": -1,
        "iou_threshold": 0.5,
        "least_size": 1.0,
    }
    graph = Graph()
    builder = Builder(graph)
    arrays = [np.asarray(a, np.float32) for a in (scores, deltas, anchors, sizes)]
    if quant is not None:
        arrays[0] = arrays[0].astype(np.uint8)
    quants = [quant, None, None, None]
    values = [
        builder.input(f"x{i}", DType.of(a), a.shape, quant=q)
        for i, (a, q) in enumerate(zip(arrays, quants, strict=True))
    ]
    op = Proposals(**(options | changes))
    types = list(op.infer([v.type for v in values]))
    if quant is not None:
        types[0] = values[0].type.with_shape((None,))
    graph.outputs = list(builder.add_typed(op, values, types))
    return run_graph(graph, arrays)


def test_anchors_move_with_the_cell_and_by_the_deltas():
    scores = [[[[0.5], [0.9]]]]
    deltas = np.zeros((1, 1, 2, 4))
    deltas[0, 0, 0] = 0.5, 0, np.log(2), 0
    found, boxes, images = proposed(scores, deltas, [[0, 0, 4, 4]], [[100, 100]])
    assert found.tolist() == pytest.approx([0.9, 0.5])
    assert np.allclose(boxes, [[8, 0, 12, 4], [0, 0, 8, 4]])
    assert images.tolist() == [0, 0]


def test_boxes_are_cut_and_those_too_small_or_outside_drop_out():
    scores = [[[[0.5, 0.6, 0.7]]]]
    anchors = [[-4, -4, 6, 6], [0, 0, 1, 9], [20, 20, 30, 30]]
    found, boxes, _ = proposed(scores, np.zeros((1, 1, 1, 12)), anchors, [[10, 5]])
    assert found.tolist() == pytest.approx([0.5])
    assert boxes.tolist() == [[0, 0, 5, 6]]


def test_limits_before_and_after():
    scores = [[[[0.5, 0.6, 0.7]]]]
    anchors = [[0, 0, 4, 4], [20, 20, 24, 24], [40, 40, 44, 44]]
    given = (scores, np.zeros((1, 1, 1, 12)), anchors, [[100, 100]])
    assert proposed(*given, before=2)[0].tolist() == pytest.approx([0.7, 0.6])
    assert proposed(*given, after=1)[0].tolist() == pytest.approx([0.7])
    codes = ([[[[5, 6, 7]]]], *given[1:])
    assert proposed(*codes, quant=Quant.per_tensor(0.1), after=2)[0].tolist() == [7, 6]


def test_columns_must_fit():
    builder = Builder(Graph())
    scores = builder.input("scores", DType.FLOAT32, (2, 3))
    boxes = builder.input("boxes", DType.FLOAT32, (2, 8))
    images = builder.input("images", DType.INT32, (2,))
    op = LimitedBoxes(
        score_threshold=0.0, limit=1, decay=Decay.HARD, iou_threshold=0.5, sigma=1.0, least_score=0
    )
    with pytest.raises(GraphError, match="boxes of 8 columns for 3 classes"):
        builder.add_many(op, [scores, boxes, images])


# -------------------------------------------------------------------- in other formats


def random_regions(seed, *, rows=24, classes=4, images=3):
    random = np.random.default_rng(seed)
    corner = random.uniform(0, 20, (rows, classes, 2))
    boxes = np.concatenate([corner, corner + random.uniform(2, 14, corner.shape)], axis=-1)
    scores = random.permutation(rows * classes).reshape(rows, classes) / (rows * classes or 1)
    numbers = np.sort(random.integers(0, images, rows)) * 2 % 5
    return [
        scores.astype(np.float32),
        boxes.reshape(rows, classes * 4).astype(np.float32),
        numbers.astype(np.int32),
    ]


def limited_case(name, decay, *, limit=-1, rows=24, open_rows=False, dtype=DType.FLOAT32):
    feeds = random_regions(3, rows=rows)
    feeds[:2] = [array.astype(dtype.numpy) for array in feeds[:2]]

    def build(b):
        kinds = [DType.of(array) for array in feeds]
        extents = [(None if open_rows else a.shape[0], *a.shape[1:]) for a in feeds]
        values = [b.input(f"x{i}", kinds[i], extents[i]) for i in range(3)]
        op = LimitedBoxes(
            score_threshold=0.15,
            limit=limit,
            decay=decay,
            iou_threshold=0.3,
            sigma=0.5,
            least_score=0.1,
        )
        return b.add_many(op, values)

    tolerance = 2e-3 if dtype is DType.FLOAT16 else 1e-5
    return IrCase(name, build, feeds, evaluated=False, tolerance=tolerance)


def proposal_case(name, *, after=-1, before=0, iou=0.4, dtype=DType.FLOAT32):
    random = np.random.default_rng(5)
    scores = random.permutation(2 * 3 * 4 * 5).reshape(2, 3, 4, 5) / 120
    feeds = [
        scores.astype(dtype.numpy),
        random.normal(0, 0.4, (2, 3, 4, 20)).astype(dtype.numpy),
        np.sort(random.uniform(-5, 9, (5, 4)), axis=1).astype(dtype.numpy),
        np.asarray([[20, 24], [18, 30]], dtype.numpy),
    ]

    def build(b):
        values = [b.input(f"x{i}", dtype, array.shape) for i, array in enumerate(feeds)]
        op = Proposals(
            stride=(4.0, 6.0), before=before, after=after, iou_threshold=iou, least_size=2.0
        )
        return b.add_many(op, values)

    return IrCase(name, build, feeds, evaluated=False, tolerance=1e-5)


IR_CASES = [
    *(limited_case(decay.value, decay) for decay in Decay),
    *(limited_case(f"{decay.value}_best", decay, limit=4) for decay in Decay),
    limited_case("one", Decay.HARD, rows=1),
    limited_case("none", Decay.HARD, rows=0, limit=3),
    limited_case("half", Decay.GAUSSIAN, limit=5, dtype=DType.FLOAT16),
    proposal_case("all"),
    proposal_case("before", before=30),
    proposal_case("after", after=4, before=60),
    proposal_case("alone", iou=0.0),
    proposal_case("beyond", iou=1.5, after=0),
]


OPEN = limited_case("open", Decay.LINEAR, limit=5, open_rows=True)


@pytest.mark.parametrize("case", [*IR_CASES, OPEN], ids=str)
def test_onnx(case, tmp_path):
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(IR_CASES), ids=str)
def test_tflite(case, tmp_path):
    check_tflite(case, tmp_path)


def test_tflite_wants_to_know_the_number_of_regions(tmp_path):
    with pytest.raises(UnsupportedError, match="regions and classes must be known"):
        nnconv.save(OPEN.model(), tmp_path / "y.tflite")
