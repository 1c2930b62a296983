"""Moving regions of images, and finding points in them."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.errors import GraphError
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph
from nnconv.ir.quant import Quant
from nnconv.ops.regions import BoxTransform, HeatmapKeypoints
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import check_tflite


def results(op, arrays):
    """What an op gives for arrays."""
    graph = Graph()
    builder = Builder(graph)
    values = [builder.input(f"x{i}", DType.of(a), a.shape) for i, a in enumerate(arrays)]
    graph.outputs = list(builder.add_many(op, values))
    return run_graph(graph, arrays)


def as_floats(*arrays):
    return [np.asarray(array, np.float32) for array in arrays]


def test_boxes_move_by_their_size_grow_and_are_cut():
    boxes, deltas, sizes = as_floats(
        [[2, 2, 6, 4], [2, 2, 6, 4]],
        [[0.5, 0, 0, 0, 0, 0.5, np.log(2), 0], [-1, 0, 0, 0, 0, 0, 0, np.log(4)]],
        [[100, 100], [5, 5]],
    )
    (moved,) = results(BoxTransform(), [boxes, deltas, np.int32([0, 1]), sizes])
    wanted = [[4, 2, 8, 4, 0, 3, 8, 5], [0, 2, 2, 4, 2, 0, 5, 5]]
    assert np.allclose(moved, wanted)


def test_deltas_come_by_fours():
    arrays = as_floats(np.zeros((1, 4)), np.zeros((1, 6)), np.zeros((1, 2)))
    arrays.insert(2, np.zeros(1, np.int32))
    with pytest.raises(GraphError, match="deltas of 6 columns, must be four for each class"):
        results(BoxTransform(), arrays)


@pytest.mark.parametrize("first", [True, False])
def test_the_peak_of_a_parabola_is_found(first):
    rows, columns = np.mgrid[:5, :5]
    maps = 3 - (columns - 2.25) ** 2 - 2 * (rows - 1.75) ** 2
    maps = maps[None, None] if first else maps[None, ..., None]
    heights, points = results(
        HeatmapKeypoints(points_first=first), as_floats(maps, [[10, 20, 15, 30]])
    )
    assert heights.tolist() == [[pytest.approx(3.0)]]
    assert np.allclose(points, [[[10 + 2.75, 20 + 2.25 / 5 * 10]]])


def test_a_peak_at_an_edge_is_that_of_a_mirrored_map():
    maps = np.zeros((1, 3, 3, 1))
    maps[0, 0, 0] = 1.0
    heights, points = results(HeatmapKeypoints(), as_floats(maps, [[0, 0, 3, 3]]))
    assert heights.tolist() == [[1.0]]
    assert points.tolist() == [[[0.5, 0.5]]]


def test_a_flat_map_has_its_first_element():
    heights, points = results(
        HeatmapKeypoints(), as_floats(np.full((1, 2, 2, 1), 4), [[0, 0, 8, 8]])
    )
    assert heights.tolist() == [[4.0]]
    assert points.tolist() == [[[2.0, 2.0]]]


def test_maps_are_square():
    with pytest.raises(GraphError, match="maps of 2 x 3, must be square"):
        results(HeatmapKeypoints(), as_floats(np.zeros((1, 2, 3, 1)), np.zeros((1, 4))))


# -------------------------------------------------------------------- in other formats

WIDE = Quant.per_tensor(0.125)


def boxes_of(random, count):
    corner = random.uniform(0, 20, (count, 2))
    return np.concatenate([corner, corner + random.uniform(2, 9, (count, 2))], axis=1)


def transform_case(name, *, dtype=DType.FLOAT32, codes=False):
    random = np.random.default_rng(7)
    feeds = as_floats(boxes_of(random, 5), random.normal(0, 0.4, (5, 12)), [[24, 28], [18, 30]])
    kinds = [(dtype, None)] * 3
    if codes:
        kinds = [
            (DType.UINT16, WIDE),
            (DType.INT8, Quant.per_tensor(0.02, 3)),
            (DType.UINT16, WIDE),
        ]
        ranges = ((0, 200), (-40, 40), (150, 250))
        feeds = [
            random.integers(*ends, array.shape).astype(kind.numpy)
            for ends, array, (kind, _) in zip(ranges, feeds, kinds, strict=True)
        ]
        feeds[0][:, 2:] += 100
    else:
        feeds = [array.astype(dtype.numpy) for array in feeds]
    images = np.int32([0, 1, 1, 0, 1])

    def build(b):
        boxes, deltas, sizes = (
            b.input(f"x{i}", kind, array.shape, quant=quant)
            for i, (array, (kind, quant)) in enumerate(zip(feeds, kinds, strict=True))
        )
        given = [boxes, deltas, b.input("images", DType.INT32, (5,)), sizes]
        op = BoxTransform()
        (result,) = op.infer([value.type for value in given])
        return b.add(op, given, quant=WIDE if codes else None, dtype=result.dtype)

    tolerance = 4e-3 if dtype is DType.FLOAT16 else 1e-5
    return IrCase(name, build, [*feeds, images], tolerance=tolerance)


def keypoint_case(name, *, first=False, dtype=DType.FLOAT32):
    random = np.random.default_rng(9)
    shape = (3, 2, 5, 5) if first else (3, 5, 5, 2)
    maps = random.permutation(3 * 2 * 25).reshape(shape) / 20
    feeds = [maps.astype(dtype.numpy), boxes_of(random, 3).astype(dtype.numpy)]

    def build(b):
        values = [b.input(f"x{i}", dtype, array.shape) for i, array in enumerate(feeds)]
        return b.add_many(HeatmapKeypoints(points_first=first), values)

    tolerance = 4e-3 if dtype is DType.FLOAT16 else 1e-4
    return IrCase(name, build, feeds, tolerance=tolerance)


CASES = [
    transform_case("boxes"),
    transform_case("boxes-half", dtype=DType.FLOAT16),
    transform_case("boxes-codes", codes=True),
    keypoint_case("keypoints"),
    keypoint_case("keypoints-first", first=True),
    keypoint_case("keypoints-half", dtype=DType.FLOAT16),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_onnx(case, tmp_path):
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(CASES), ids=str)
def test_tflite(case, tmp_path):
    check_tflite(case, tmp_path)
