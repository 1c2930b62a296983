"""Graphs whose extents aren't known become NNAPI and NNRt models that take them as they come.

Each case is written with its open inputs, read again, and run on arrays of several shapes; the
reference backend on the graph itself says what to expect.
"""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.nnapi import file as nnapi_file
from nnconv.formats.nnapi.check import check as check_nnapi
from nnconv.formats.nnapi.reader import import_model as read_nnapi
from nnconv.formats.nnrt.check import findings
from nnconv.formats.nnrt.reader import import_model as read_nnrt
from nnconv.ir import Builder, DType, Graph, Model, Signature
from nnconv.ir.clone import clone_model
from nnconv.lowering import to_nnapi, to_nnrt
from nnconv.ops import elementwise as e
from nnconv.ops.dynamic import DynamicSqueeze
from nnconv.ops.gather import Gather, GatherNd, NonZero
from nnconv.ops.matmul import MatMul
from nnconv.ops.quantize import Cast
from nnconv.ops.recurrent import Function, GruLayer, LstmLayer, RnnLayer
from nnconv.ops.resample import Coordinates, Resample, ResampleNearest, Rounding
from nnconv.ops.sampling import Col2Im
from nnconv.ops.shape import BroadcastArgs, Fill, Range, ShapeOf
from nnconv.ops.spatial import Padding
from nnconv.ops.window import Dilate

RNG = np.random.default_rng(3)
LSTM = (Function("Sigmoid"), Function("Tanh"), Function("Tanh"))


def nnapi(model, level):
    lowered = to_nnapi(model, feature_level=level)
    check_nnapi(lowered.model, level)
    return lowered, read_nnapi(nnapi_file.read(nnapi_file.to_bytes(lowered.model)))


def nnrt(model, api):
    lowered = to_nnrt(model, api=api)
    assert not findings(lowered.model, api)
    return lowered, read_nnrt(lowered.model)


TARGETS = {"nnapi 8": (nnapi, 8), "nnapi 3": (nnapi, 3), "nnrt 2": (nnrt, 2), "nnrt 1": (nnrt, 1)}


def model_of(build, inputs):
    graph = Graph("open")
    b = Builder(graph)
    values = [b.input(name, dtype, shape) for name, dtype, shape in inputs]
    results = build(b, *values)
    graph.outputs = list(results) if isinstance(results, tuple) else [results]
    names = tuple(f"y{i}" for i in range(len(graph.outputs)))
    for value, name in zip(graph.outputs, names, strict=True):
        value.name = name
    return Model([Signature("", graph, tuple(name for name, _, _ in inputs), names)], format="onnx")


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def weights(b, *shape):
    return b.const(floats(*shape) / 2)


def extents(dims):
    return lambda b, x: b.add(ShapeOf(dims=dims), [x])


def count_up(b, start, limit, step):
    kinds = {int: np.int32, float: np.float32}
    given = (start, limit, step)
    return b.add(Range(), [b.const(kinds[type(v)](v)) if type(v) in kinds else v for v in given])


def steps_of(layer, gates, *, initial=False):
    def build(b, x, *states):
        count, rows = len(layer.directions), 3 * gates
        operands = [x, weights(b, count, rows, 2), weights(b, count, rows, 3)]
        operands += [weights(b, count, 2 * rows), None, *states]
        results = b.add_many(layer, operands)
        return results if initial else results[0]

    return build


def grown(op, factors):
    def build(b, x):
        given = {"scales": tuple(float(f) for f in factors)}
        return b.add(op.replace(**given), [x])

    return build


def picked(op):
    return lambda b, x, places: b.add(op, [x, places])


def places(extent, *shape):
    return RNG.integers(0, extent, shape).astype(np.int32)


NEAREST = ResampleNearest(axes=(1, 2), coordinates=Coordinates.ASYMMETRIC, rounding=Rounding.FLOOR)
X = [("x", DType.FLOAT32, (None, 3, None))]
TENSOR = [floats(2, 3, 4)], [floats(1, 3, 1)]
WILD = [np.full((2, 3, 5), np.nan, np.float32)], [np.full((1, 3, 2), np.inf, np.float32)]
IMAGE = [("x", DType.FLOAT32, ("n", None, None, 2))]
IMAGES = [floats(1, 3, 5, 2)], [floats(2, 4, 4, 2)]
SEQUENCE = [("x", DType.FLOAT32, (None, "n", 2))]
SEQUENCES = [floats(5, 2, 2)], [floats(1, 1, 2)], [floats(9, 3, 2)]
LIMIT = [("limit", DType.INT32, ())]
LIMITS = [np.int32(7)], [np.int32(0)], [np.int32(-3)], [np.int32(1)]

ALL = tuple(TARGETS)
NEW = ("nnapi 8", "nnapi 3", "nnrt 2")

CASES = {
    "extents": (extents(None), X, TENSOR, ALL),
    "extents of what is no number": (extents((2, 0)), X, WILD, ALL),
    "an extent beside empty ones": (extents((0,)), X, ([floats(4, 3, 0)],), ALL),
    "extents of integers": (
        extents((1, 0)),
        [("x", DType.INT32, (None, None))],
        ([np.zeros((2, 5), np.int32)], [np.ones((0, 3), np.int32)]),
        ALL,
    ),
    "a known extent": (extents((1,)), X, TENSOR, ALL),
    "numbers up to a limit": (lambda b, n: count_up(b, 0, n, 1), LIMIT, LIMITS, ALL),
    "numbers by twos": (lambda b, n: count_up(b, 3, n, 2), LIMIT, LIMITS, ("nnapi 8", "nnrt 2")),
    "numbers down": (
        lambda b, n: count_up(b, n, -2, -3), LIMIT, LIMITS, ("nnapi 8", "nnrt 2"),
    ),
    "parts of ones": (
        lambda b, x: count_up(b, 0.0, x, 0.25),
        [("limit", DType.FLOAT32, ())],
        ([np.float32(1.6)], [np.float32(-1)], [np.float32(0.5)]),
        NEW,
    ),
    "two shapes": (
        lambda b, x, y: b.add(BroadcastArgs(), [x, y]),
        [("x", DType.INT32, (3,)), ("y", DType.INT32, (2,))],
        ([np.int32([2, 1, 4]), np.int32([5, 1])], [np.int32([2, 3, 1]), np.int32([1, 7])]),
        ("nnapi 8", "nnrt 2"),
    ),
    "as many as there are": (
        lambda b, x: b.add(Fill(shape=None), [b.const(np.float32(2)), b.add(ShapeOf(), [x])]),
        X, TENSOR, ALL,
    ),
    "truth as numbers": (
        lambda b, x, y: b.add(Cast(dtype=DType.FLOAT32), [b.add(e.Less(), [x, y])]),
        [("x", DType.FLOAT32, (None, 3)), ("y", DType.FLOAT32, (3,))],
        ([floats(4, 3), floats(3)], [np.full((1, 3), np.nan, np.float32), floats(3)]),
        NEW,
    ),
    "a choice": (
        lambda b, c, x, y: b.add(e.Select(), [b.add(e.Less(), [c, x]), x, y]),
        [
            ("c", DType.FLOAT32, (None, 1, 3)),
            ("x", DType.FLOAT32, (1, None, 1)),
            ("y", DType.FLOAT32, ()),
        ],
        (
            [floats(2, 1, 3), floats(1, 4, 1), np.float32(7)],
            [floats(1, 1, 3), floats(1, 1, 1), np.float32(7)],
        ),
        NEW,
    ),
    "a quotient by what may be zero": (
        lambda b, x, y: b.add(
            e.Select(),
            [
                b.add(e.Equal(), [y, b.const(np.float32(0))]),
                b.const(np.float32(0)),
                b.add(e.Div(), [x, y]),
            ],
        ),
        [("x", DType.FLOAT32, ("n", 4, 3)), ("y", DType.FLOAT32, ("n", 1, 1))],
        ([floats(2, 4, 3), np.float32([[[0]], [[2]]])], [floats(1, 4, 3), floats(1, 1, 1)]),
        NEW,
    ),
    "pixels twice": (grown(NEAREST, (2, 2)), IMAGE, IMAGES, NEW),
    "pixels thrice": (grown(NEAREST, (3, 3)), IMAGE, IMAGES, NEW),
    "pixels of rows and columns": (grown(NEAREST, (2, 4)), IMAGE, IMAGES, ("nnapi 8", "nnapi 3")),
    "pixels between": (
        grown(Resample(axes=(1, 2), coordinates=Coordinates.HALF_PIXEL), (2, 3)),
        IMAGE, IMAGES, ("nnapi 8",),
    ),
    "picked from each batch": (
        picked(Gather(axis=1, batch_dims=1)),
        [("x", DType.FLOAT32, ("n", 5, 3)), ("i", DType.INT32, ("n", 4))],
        ([floats(2, 5, 3), places(5, 2, 4)], [floats(1, 5, 3), places(5, 1, 4)]),
        ("nnapi 8", "nnrt 2", "nnrt 1"),
    ),
    "picked from as many as there are": (
        picked(Gather(axis=2, batch_dims=1)),
        [("x", DType.FLOAT32, (2, 3, "n")), ("i", DType.INT32, (2, 4))],
        ([floats(2, 3, 5), places(5, 2, 4)], [floats(2, 3, 1), places(1, 2, 4)]),
        ("nnapi 8", "nnrt 2", "nnrt 1"),
    ),
    "slices at places in an image": (
        picked(GatherNd()),
        [("x", DType.FLOAT32, ("n", 5, 3)), ("i", DType.INT32, ("m", 4, 2))],
        (
            [floats(2, 5, 3), places(2, 3, 4, 2)],
            [floats(4, 5, 3), np.stack([places(4, 1, 4), places(5, 1, 4)], -1)],
        ),
        ("nnapi 8", "nnrt 2", "nnrt 1"),
    ),
    "gaps in each image": (
        lambda b, x: b.add(Dilate(dilations=(1, 3, 2, 1)), [x, b.const(np.float32(7))]),
        [("x", DType.FLOAT32, ("n", 3, 4, 2))],
        ([floats(2, 3, 4, 2)], [floats(1, 3, 4, 2)]),
        ALL,
    ),
    "images of blocks": (
        lambda b, x: b.add(
            Col2Im(
                image=(4, 5), block=(2, 3), stride=(2, 1), dilation=(1, 1),
                padding=Padding((0, 1), (0, 1)),
            ),
            [x],
        ),
        [("x", DType.FLOAT32, ("n", 12, 10))],
        ([floats(2, 12, 10)], [floats(1, 12, 10)]),
        ALL,
    ),
    "steps of an LSTM": (steps_of(LstmLayer(functions=LSTM), 4), SEQUENCE, SEQUENCES, NEW),
    "steps from the last": (
        steps_of(LstmLayer(functions=LSTM, directions=(True,)), 4), SEQUENCE, SEQUENCES, NEW,
    ),
    "steps both ways": (
        steps_of(LstmLayer(functions=LSTM * 2, directions=(False, True)), 4),
        SEQUENCE, SEQUENCES, NEW,
    ),
    "steps and states": (
        steps_of(LstmLayer(functions=LSTM), 4, initial=True),
        [*SEQUENCE, ("h", DType.FLOAT32, (1, "n", 3)), ("c", DType.FLOAT32, (1, "n", 3))],
        ([floats(4, 2, 2), floats(1, 2, 3), floats(1, 2, 3)],),
        ("nnapi 8", "nnrt 2"),
    ),
    "steps of an RNN": (
        steps_of(RnnLayer(functions=(Function("Tanh"),) * 2, directions=(False, True)), 1),
        SEQUENCE, SEQUENCES, ("nnapi 8", "nnapi 3"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "target"), [(name, target) for name in CASES for target in CASES[name][3]]
)
def test_open_extents_are_taken_as_they_come(case, target):
    build, inputs, several, _ = CASES[case]
    model = model_of(build, inputs)
    write, version = TARGETS[target]
    _, again = write(clone_model(model), version)
    for value, (_, _, shape) in zip(again.inputs, inputs, strict=True):
        assert [isinstance(d, int) for d in value.shape or ()] == [
            isinstance(d, int) for d in shape or value.shape
        ]
    for arrays in several:
        wanted = run_graph(model.graph, list(arrays))
        given = [
            np.reshape(array, (1,)) if v.shape == (1,) and np.ndim(array) == 0 else array
            for array, v in zip(arrays, again.inputs, strict=True)
        ]
        for seen, expected in zip(run_graph(again.graph, given), wanted, strict=True):
            assert expected.shape in (seen.shape, ())
            assert seen.dtype == expected.dtype
            np.testing.assert_allclose(seen.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


def test_what_is_stated_of_a_squeezed_shape_is_enough():
    def build(b, x, axes):
        y = b.add(DynamicSqueeze(), [x, axes])
        y.type = y.type.with_shape((2, 3, 1))
        return y

    model = model_of(build, [("x", DType.FLOAT32, (1, 2, 3, 1)), ("axes", DType.INT32, (1,))])
    for target, (write, version) in TARGETS.items():
        lowered, again = write(clone_model(model), version)
        assert list(lowered.written.counts.values()) == [1], target
        x = floats(1, 2, 3, 1)
        (seen,) = run_graph(again.graph, [x, np.int32([0])])
        np.testing.assert_array_equal(seen, x[0])


def gated(b, x):
    functions = (Function("Sigmoid"), Function("Tanh"))
    return steps_of(GruLayer(functions=functions), 3)(b, x)


def products(b, x):
    return b.add(MatMul(transpose_b=True), [x, x])


REFUSED = {
    "nnapi": (products, ("n", None, 2), {"feature_level": 3}),
    "nnrt": (gated, (None, "n", 2), {"api": 2}),
}


@pytest.mark.parametrize("target", REFUSED)
def test_what_open_extents_keep_from_being_written_names_the_inputs(target, tmp_path):
    build, shape, version = REFUSED[target]
    model = model_of(build, [("x", DType.FLOAT32, shape)])
    found = nnconv.check(model, target, **version).obstacles
    assert any("the shape of `x` (--input-shape)" in obstacle.hint for obstacle in found)
    with pytest.raises(UnsupportedError) as caught:
        nnconv.save(model, tmp_path / f"m.{target}", **version)
    assert [item.hint for item in caught.value.items] == [obstacle.hint for obstacle in found]
    known = model_of(build, [("x", DType.FLOAT32, (4, 3, 2))])
    assert nnconv.check(known, target, **version).passed


@pytest.mark.parametrize("target", ["nnapi", "nnrt"])
def test_extents_that_no_input_shape_decides_ask_for_none(target):
    def build(b, x):
        return b.add(NonZero(), [x])

    model = model_of(build, [("x", DType.FLOAT32, (3, 4))])
    found = nnconv.check(model, target).obstacles
    assert found
    assert not any("--input-shape" in obstacle.hint for obstacle in found)
