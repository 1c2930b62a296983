"""Numbers of operations in forms that Android's conformance vectors don't have, on every device."""

import numpy as np
import pytest

import nnconv
from nnconv.errors import NnconvError, UnsupportedError
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.reader import import_model
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.formats.nnapi.wire import Lifetime
from nnconv.lowering import one_entry, to_nnapi
from nnconv.runtime.core.program import Program
from nnconv.runtime.nnapi.source import ModelSource
from support.nnapi_models import FLOAT, INT, NnapiBuilder

QUANT8 = OperandCode.TENSOR_QUANT8_ASYMM
REFERENCE = "reference"
DEVICES = [[REFERENCE], ["onnxruntime:cpu", REFERENCE], ["litert:cpu", REFERENCE]]

each_device = pytest.mark.parametrize("devices", DEVICES, ids=lambda names: names[0])


def results(model, devices, *arrays):
    return Program(ModelSource(model), devices).run(arrays)


@each_device
@pytest.mark.parametrize("alpha", [-2.0, -0.25, 0.0, 0.5])
def test_elu(alpha, devices):
    """The document's formula, which differs from the usual one where alpha is below 0."""
    b = NnapiBuilder()
    x = b.input(FLOAT, (5,))
    b.run(OperationCode.ELU, [x, b.const(OperandCode.FLOAT32, alpha)], [b.output(FLOAT, (5,))])
    numbers = np.array([-3, -0.5, 0, 0.5, 2], np.float32)
    (found,) = results(b.model(), devices, numbers)
    wanted = np.maximum(0, numbers) + np.minimum(0, alpha * (np.exp(numbers) - 1))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


AT_RUN_TIME = [
    # shape, axes, what the model says of the output, what is left
    ((2, 3), [0, 1], (0,), (1,)),
    ((2, 3), [1, -1], (), (2,)),
    ((2, 3), [1, 0], (), (1,)),
    ((3,), [-1], (), (1,)),
    ((2, 3, 2), [1, 1], (0, 0), (2, 2)),
    ((2, 3, 2), [-3], (), (3, 2)),
    ((2, 3, 2), [0, 2], (0,), (3,)),
]


def reduction(shape, axes, stated):
    b = NnapiBuilder()
    x, dropped = b.input(FLOAT, shape), b.input(OperandCode.TENSOR_INT32, (len(axes),))
    keep = b.const(OperandCode.BOOL, False)
    b.run(OperationCode.REDUCE_SUM, [x, dropped, keep], [b.output(FLOAT, stated)])
    return b.model()


@each_device
@pytest.mark.parametrize(("shape", "axes", "stated", "wanted"), AT_RUN_TIME)
def test_reductions_along_axes_given_at_run_time(shape, axes, stated, wanted, devices):
    """Axes may repeat, and one dimension stays."""
    numbers = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    given = np.asarray(axes, np.int32)
    (found,) = results(reduction(shape, axes, stated), devices, numbers, given)
    total = numbers.sum(axis=tuple({axis % len(shape) for axis in axes}))
    np.testing.assert_array_equal(found, total.reshape(wanted))


@pytest.mark.parametrize("code", [OperationCode.REDUCE_SUM, OperationCode.SQUEEZE])
def test_what_is_left_by_axes_that_may_repeat_must_be_stated(code):
    b = NnapiBuilder()
    x, axes = b.input(FLOAT, (1, 1, 3)), b.input(OperandCode.TENSOR_INT32, (2,))
    rest = [] if code is OperationCode.SQUEEZE else [b.const(OperandCode.BOOL, False)]
    b.run(code, [x, axes, *rest], [b.output(FLOAT)])
    with pytest.raises(UnsupportedError, match="may repeat"):
        import_model(b.model())
    (found,) = results(
        b.model(), [REFERENCE], np.float32([[[1, 2, 3]]]), np.asarray([0, 0], np.int32)
    )
    np.testing.assert_array_equal(found, [[1, 2, 3]])


def aligned(rois, *, samples, nchw):
    """ROI_ALIGN of an image of 2 by 3, whose elements are 0 to 5, to one element."""
    b = NnapiBuilder()
    image = b.input(FLOAT, (1, 1, 2, 3) if nchw else (1, 2, 3, 1))
    boxes = b.input(FLOAT, (len(rois), 4))
    numbers = b.const(OperandCode.TENSOR_INT32, [0] * len(rois))
    sizes = [b.const(INT, 1), b.const(INT, 1)]
    strides = [b.const(OperandCode.FLOAT32, 2.0), b.const(OperandCode.FLOAT32, 4.0)]
    counts = [b.const(INT, samples), b.const(INT, samples)]
    flag = b.const(OperandCode.BOOL, nchw)
    operands = [image, boxes, numbers, *sizes, *strides, *counts, flag]
    b.run(OperationCode.ROI_ALIGN, operands, [b.output(FLOAT, (len(rois), 1, 1, 1))])
    return b.model()


@each_device
@pytest.mark.parametrize("samples", [0, 1, 3])
@pytest.mark.parametrize("nchw", [False, True])
def test_regions_at_the_end_of_an_image_read_its_last_elements(samples, nchw, devices):
    """Those narrower than an element count as one wide, and so reach behind the image."""
    rois = [[12, 4, 12, 4], [12, 0, 12, 2], [0, 4, 4, 4], [10, 3.5, 12, 4]]
    model = aligned(rois, samples=samples, nchw=nchw)
    image = np.arange(6, dtype=np.float32).reshape(model.main.operands[0].dimensions)
    (found,) = results(model, devices, image, np.asarray(rois, np.float32))
    # a corner; the right edge, half way down; the lower edge, half way to the second; the corner
    points = {0: 1, 1: 1, 3: 3}[samples]
    places = (np.arange(points) + 0.5) / points
    wanted = [5, 2 + 3 * np.mean(places), 3 + np.mean(places), 5]
    np.testing.assert_allclose(found.reshape(-1), wanted, rtol=1e-6)


def test_regions_at_the_end_of_an_image_are_written_as_they_were():
    model = aligned([[0, 0, 12, 4]], samples=2, nchw=True)
    loaded = import_model(model)
    again = to_nnapi(one_entry(loaded, loaded.main)).model
    assert [operation.code.name for operation in again.main.operations] == ["ROI_ALIGN"]


def cells_of_boxes(b, image, size, **quant):
    """ROI_ALIGN of what is kept of a box that a run gives; and two further results of that."""
    codes = bool(quant)
    kind = QUANT8 if codes else FLOAT
    place = {"scale": 0.125} if codes else {}
    corners = OperandCode.TENSOR_QUANT16_ASYMM if codes else FLOAT
    points = {"scale": 2.0**-8} if codes else {}
    scores, rois = b.input(kind, (1, 2), **points), b.input(corners, (1, 8), **place)
    batches = b.input(OperandCode.TENSOR_INT32, (1,))
    limits = [b.const(OperandCode.FLOAT32, 0.5), b.const(INT, -1), b.const(INT, 0)]
    limits += [b.const(OperandCode.FLOAT32, number) for number in (0.4, 1.0, 0.3)]
    kept = [b.output(kind, (0,), **points), b.operand(corners, (0, 4), **place)]
    kept += [b.output(OperandCode.TENSOR_INT32, (0,)), b.operand(OperandCode.TENSOR_INT32, (0,))]
    b.run(OperationCode.BOX_WITH_NMS_LIMIT, [scores, rois, batches, *limits], kept)
    cells = b.operand(kind, (0, size, size, 1), **quant)
    extent, two, stride = b.const(INT, size), b.const(INT, 2), b.const(OperandCode.FLOAT32, 1.0)
    nhwc = b.const(OperandCode.BOOL, False)
    operands = [image, kept[1], kept[3], extent, extent, stride, stride, two, two, nhwc]
    b.run(OperationCode.ROI_ALIGN, operands, [cells])
    return cells


def see_extents(model, devices, given, shape):
    """That a run which keeps a box and one that keeps none both give outputs of their size."""
    program = Program(ModelSource(model), devices)
    scores, *rest = given
    for taken, count in ((1, 1), (0, 0), (1, 1)):
        results = program.run([scores * scores.dtype.type(taken), *rest])
        assert [r.shape for r in results] == [(count,), (count,), (count, *shape)]


@each_device
@pytest.mark.parametrize("pool", ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"])
def test_what_follows_no_boxes_has_no_elements(pool, devices):
    """All of it is given by the run, so nothing is known beforehand."""
    b = NnapiBuilder()
    image = b.input(FLOAT, (1, 2, 2, 1))
    cells, y = cells_of_boxes(b, image, 2), b.output(FLOAT, (0, 1, 1, 1))
    one, two, none = (b.const(INT, number) for number in (1, 2, 0))
    b.run(OperationCode[pool], [cells, *[none] * 4, *[one] * 2, *[two] * 2, none], [y])
    graph = b.graph
    graph.inputs = (*graph.inputs[1:], graph.inputs[0])
    boxes = np.tile(np.array([0, 0, 2, 2], np.float32), 2)[None]
    picture = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
    given = [np.float32([[0, 0.9]]), boxes, np.zeros(1, np.int32), picture]
    see_extents(b.model(), devices, given, (1, 1, 1))


@each_device
@pytest.mark.parametrize("code", ["ADD", "MUL"])
def test_no_codes_beside_a_single_one(code, devices):
    """Kernels of onnxruntime read the code that isn't there, and may die of it."""
    b, quant = NnapiBuilder(), {"scale": 0.5, "zero_point": 3}
    image, other = b.input(QUANT8, (1, 2, 2, 1), **quant), b.input(QUANT8, (1, 1, 1, 1), **quant)
    cells = cells_of_boxes(b, image, 1, **quant)
    y = b.output(QUANT8, (0, 1, 1, 1), scale=1.0)
    b.run(OperationCode[code], [cells, other, b.const(INT, 0)], [y])
    graph = b.graph
    graph.inputs = (*graph.inputs[2:], *graph.inputs[:2])
    boxes = np.tile(np.array([0, 0, 16, 16], np.uint16), 2)[None]
    picture = np.arange(4, dtype=np.uint8).reshape(1, 2, 2, 1)
    given = [np.uint8([[0, 230]]), boxes, np.zeros(1, np.int32), picture, np.uint8([[[[9]]]])]
    see_extents(b.model(), devices, given, (1, 1, 1))


@each_device
@pytest.mark.parametrize("mode", [0, 1])
def test_mirroring_nothing_gives_something_or_fails(mode, devices):
    """No box is kept of those that the model holds, so that is known beforehand."""
    b = NnapiBuilder()
    image = b.input(FLOAT, (1, 2, 2, 1))
    cells, y = cells_of_boxes(b, image, 2), b.output(FLOAT, (0, 2, 2, 1))
    paddings = b.const(OperandCode.TENSOR_INT32, [[1, 0], [0, 0], [0, 0], [0, 0]])
    b.run(OperationCode.MIRROR_PAD, [cells, paddings, b.const(INT, mode)], [y])
    graph = b.graph
    given = (np.float32([[0, 0.1]]), np.zeros((1, 8), np.float32), np.zeros(1, np.int32))
    for index, array in zip(graph.inputs[1:], given, strict=True):
        operand = graph.operands[index]
        operand.lifetime, operand.value = Lifetime.CONSTANT, array
    graph.inputs = graph.inputs[:1]
    try:
        found = results(b.model(), devices[:1], np.zeros((1, 2, 2, 1), np.float32))
    except NnconvError:
        return  # as Android's kernel
    assert devices != [REFERENCE], "it has nothing to mirror"
    assert found[-1].shape[1:] == (2, 2, 1)


@pytest.mark.parametrize("steps", [1, 3])
def test_sequences_of_halves_as_onnx_files(steps, tmp_path):
    """Time is turned to the front; onnxruntime may die of that before a product."""
    half = OperandCode.TENSOR_FLOAT16
    b, rng = NnapiBuilder(), np.random.default_rng(0)
    x, state = b.input(half, (2, steps, 3)), b.input(half, (2, 4))
    arrays = [rng.uniform(-1, 1, shape).astype(np.float16) for shape in ((4, 3), (4, 4), (4,))]
    weights = [b.const(half, array) for array in arrays]
    rest = [b.const(INT, number) for number in (4, 0)]  # tanh; batches come first
    y = b.output(half, (2, steps, 4))
    b.run(OperationCode.UNIDIRECTIONAL_SEQUENCE_RNN, [x, *weights, state, *rest], [y])
    file.write(b.model(), tmp_path / "net.nnapi")
    nnconv.convert(tmp_path / "net.nnapi", tmp_path / "net.onnx")
    executable = nnconv.compile(tmp_path / "net.onnx", "onnxruntime:cpu")
    sequence = rng.uniform(-1, 1, (2, steps, 3)).astype(np.float16)
    hidden = np.zeros((2, 4), np.float16)
    given = [info.name for info in executable.inputs]
    (found,) = executable.run(dict(zip(given, [sequence, hidden], strict=True))).values()
    wide = [array.astype(np.float64) for array in arrays]
    for step in range(steps):
        now = sequence[:, step].astype(np.float64)
        hidden = np.tanh(now @ wide[0].T + hidden @ wide[1].T + wide[2])
        np.testing.assert_allclose(found[:, step], hidden, atol=5e-3)
