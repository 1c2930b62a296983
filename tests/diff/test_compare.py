"""How far arrays are apart, and how far their types let them be."""

import numpy as np
import pytest

from nnconv.diff.compare import (
    DYNAMIC_TOLERANCE,
    FLOAT_TOLERANCE,
    HALF_STEP,
    HALF_TOLERANCE,
    MOST_ROUNDED,
    RESIZED_STEPS,
    Distance,
    Tolerance,
    distance,
    judge,
    tolerances_of,
)
from nnconv.formats.tflite.reader import read
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph
from nnconv.ir.op import Layout
from nnconv.ir.quant import Quant as IrQuant
from nnconv.ops.control import If, While
from nnconv.ops.detection import NonMaxSuppression
from nnconv.ops.elementwise import (
    Add,
    Clip,
    Div,
    Greater,
    Mul,
    Round,
    Sigmoid,
    Sub,
    Tanh,
)
from nnconv.ops.norm import Softmax
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, FakeQuant, Quantize
from nnconv.ops.reduce import ArgMax
from nnconv.ops.resize import ResizeBilinear
from nnconv.ops.shape import Reshape, Transpose
from support.tflite_builder import Quant, TfliteBuilder

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("actual", "expected", "gap", "largest"),
    [
        ([1.0, 2.5], [1.0, -2.0], 4.5, 2.0),
        ([NAN, INF, -INF, 1], [NAN, INF, -INF, 1], 0.0, 1.0),
        ([NAN], [0.0], INF, 0.0),
        ([0.0], [NAN], INF, 0.0),
        ([INF], [-INF], INF, 0.0),
        ([3e38], [INF], INF, 0.0),
        ([], [], 0.0, 0.0),
    ],
)
def test_distance_of_floats(actual, expected, gap, largest):
    found = distance(np.array(actual, np.float32), np.array(expected, np.float32))
    assert (found.max_abs, found.largest, found.wrong_form) == (gap, largest, "")


def test_distance_of_codes_does_not_wrap():
    found = distance(np.array([-128], np.int8), np.array([127], np.int8))
    assert found.max_abs == 255


def test_distance_of_other_kinds():
    assert distance(np.array([True]), np.array([False])).max_abs == 1
    assert distance(np.array([1j], np.complex64), np.array([0j], np.complex64)).max_abs == 1


def test_distance_of_strings_is_how_many_differ():
    texts = np.array([["a", "b"], ["", "é"]], object)
    assert distance(texts, texts.copy()) == Distance(0.0, 4.0)
    other = np.array([["a", "c"], [" ", "é"]], object)
    found = distance(other, texts)
    assert (found.max_abs, found.relative) == (2, 0.5)
    tolerance = Tolerance("strings", 0, "")
    assert not judge(found, tolerance, 0.0)[0]
    assert judge(distance(texts, texts.copy()), tolerance, 0.0)[0]
    assert distance(texts[0], texts).wrong_form
    assert distance(texts[:0], texts[:0]) == Distance()


def test_distance_of_a_type_that_numpy_lacks():
    numbers, others = (np.array([1, x], DType.BFLOAT16.numpy) for x in (2.0, 2.125))
    assert (distance(others, numbers).max_abs, distance(others, numbers).largest) == (0.125, 2)
    nothing = np.array([1, np.nan], DType.BFLOAT16.numpy)
    assert distance(nothing, nothing.copy()).max_abs == 0
    assert distance(numbers, nothing).max_abs == INF


@pytest.mark.parametrize(
    ("actual", "text"),
    [
        (np.zeros((2, 1), np.float32), "float32[2, 1], expected float32[2]"),
        (np.zeros(2, np.float64), "float64[2], expected float32[2]"),
    ],
)
def test_other_form_is_never_within_tolerance(actual, text):
    found = distance(actual, np.zeros(2, np.float32))
    assert found.wrong_form == text
    assert not judge(found, Tolerance("relative", 1.0, ""), 1e9)[0]


@pytest.mark.parametrize(
    ("tolerance", "largest", "spread", "bound"),
    [
        (Tolerance("relative", 1e-4, ""), 50.0, 0.0, 5e-3),
        (Tolerance("relative", 1e-4, ""), 0.0, 0.0, 1e-4),
        (Tolerance("relative", 1e-4, ""), 50.0, 0.5, 0.5),
        (Tolerance("steps", 1, ""), 100.0, 0.0, 1.0),
        (Tolerance("steps", 1, ""), 100.0, 3.0, 3.0),
        (Tolerance("absolute", 0.25, ""), 100.0, 0.0, 0.26),
        (Tolerance("exact", 0, ""), 100.0, 0.0, 0.0),
    ],
)
def test_bound_is_the_tolerance_or_the_spread_of_the_source(tolerance, largest, spread, bound):
    assert judge(Distance(bound, largest), tolerance, spread) == (True, pytest.approx(bound))
    assert not judge(Distance(bound + 1e-3, largest), tolerance, spread)[0]


def test_steps_of_codes_that_became_floats_are_rounded_too():
    """143 * 0.1 less 142 * 0.1 is above 0.1 in float32."""
    stored = np.asarray([142, 143], np.float32) * np.float32(0.1)
    found = distance(stored[1:], stored[:1])
    assert found.max_abs > 0.1
    assert judge(found, Tolerance("absolute", 0.1, ""), 0.0)[0]


def tolerance_of(graph, *, rounds_apart=False):
    return tolerances_of(graph.outputs, graph, rounds_apart=rounds_apart)[0]


def kind_of(build):
    b = TfliteBuilder()
    b.output(build(b))
    model = read(b.build())
    return tolerance_of(model.graph)


def test_floats_are_held_to_their_largest_value():
    found = kind_of(lambda b: b.op("ABS", [b.input("x", "float32", (2,))], [("float32", (2,))]))
    assert (found.kind, found.bound) == ("relative", FLOAT_TOLERANCE)


def test_half_floats_are_given_their_rounding():
    found = kind_of(lambda b: b.op("ABS", [b.input("x", "float16", (2,))], [("float16", (2,))]))
    assert (found.kind, found.bound) == ("relative", HALF_TOLERANCE)


def test_codes_are_held_to_a_step():
    quant = (0.5, 3)
    found = kind_of(
        lambda b: b.op("ABS", [b.input("x", "int8", (2,), quant=quant)], [("int8", (2,), quant)])
    )
    assert (found.kind, found.bound) == ("steps", 1)


def test_integers_and_booleans_are_exact():
    assert kind_of(lambda b: b.op("ABS", [b.input("x", "int32", (2,))], [("int32", (2,))]))[:2] == (
        "exact",
        0,
    )


def test_floats_behind_codes_are_held_to_their_step():
    found = kind_of(
        lambda b: b.op(
            "DEQUANTIZE", [b.input("x", "int8", (2,), quant=(0.25, 3))], [("float32", (2,))]
        )
    )
    assert (found.kind, found.bound) == ("absolute", 0.25)


def test_int8_weights_under_float_activations_are_dynamic():
    def build(b):
        weights = b.const(np.ones((4, 3), np.int8), quant=Quant([0.1], 0))
        x = b.input("x", "float32", (2, 3))
        y = b.op("FULLY_CONNECTED", [x, weights, None], [("float32", (2, 4))])
        return b.op("ABS", [y], [("float32", (2, 4))])

    found = kind_of(build)
    assert (found.kind, found.bound) == ("relative", DYNAMIC_TOLERANCE)
    assert "rounds the activations" in found.why


def test_float16_on_the_way_is_given_its_rounding():
    def build(b):
        half = b.op("CAST", [b.input("x", "float32", (2,))], [("float16", (2,))])
        return b.op("CAST", [half], [("float32", (2,))])

    found = kind_of(build)
    assert (found.kind, found.bound) == ("relative", HALF_TOLERANCE)


def halves_in_a_row(count):
    """So many float16 results computed in a row, and two that are moved."""
    graph = Graph("net")
    b = Builder(graph)
    value = b.input("x", DType.FLOAT16, (2, 3))
    for _ in range(count):
        value = b.add(Tanh(), [value])
    value = b.add(Reshape(shape=(6,)), [b.add(Transpose(perm=(1, 0)), [value])])
    graph.outputs = [b.add(Cast(dtype=DType.FLOAT32), [value])]
    return graph


def test_halves_in_a_row_that_one_runtime_rounds_are_given_each_rounding():
    graph = halves_in_a_row(40)
    assert tolerance_of(graph).bound == HALF_TOLERANCE
    found = tolerance_of(graph, rounds_apart=True)
    assert (found.kind, found.bound) == ("relative", 40 * HALF_STEP)
    assert "rounds every result" in found.why
    assert found.nudges == 4  # half the root of 40
    many = halves_in_a_row(5000)
    assert tolerance_of(many, rounds_apart=True).bound == MOST_ROUNDED
    few = halves_in_a_row(3)
    assert tolerance_of(few, rounds_apart=True).bound == HALF_TOLERANCE


def wide_codes(count, *, resized=False, as_floats=False):
    """So many results of 16 bits computed in a row, and one that is moved."""
    graph = Graph("net")
    b = Builder(graph)
    quant = IrQuant.per_tensor(0.25, 0)
    value = b.input("x", DType.INT16, (1, 2, 3, 1), quant=quant)
    for _ in range(count):
        value = b.add(Tanh(), [value], quant=quant)
    if resized:
        value = b.add(ResizeBilinear(layout=Layout.NHWC, size=(4, 6)), [value], quant=quant)
    value = b.add(Reshape(shape=(-1,)), [value], quant=quant)
    if as_floats:
        value = b.add(Dequantize(dtype=DType.FLOAT32), [value])
    graph.outputs = [value]
    return tolerance_of(graph)


def test_results_of_16_bits_in_a_row_are_given_a_step_each():
    assert wide_codes(1)[:2] == ("steps", 1)
    assert wide_codes(5)[:2] == ("steps", 5)
    assert wide_codes(5, as_floats=True)[:2] == ("absolute", 5 * 0.25)
    assert "step off in LiteRT" in wide_codes(5).why


@pytest.mark.parametrize(("count", "steps"), [(1, 1), (4, 1), (5, 2), (16, 2), (36, 3), (64, 4)])
def test_bytes_in_a_row_add_up_as_the_root_of_their_number(count, steps):
    graph = Graph("net")
    b = Builder(graph)
    quant = IrQuant.per_tensor(1 / 128, 0)
    value = b.input("x", DType.INT8, (2, 3), quant=quant)
    for _ in range(count):
        value = b.add(Tanh(), [value], quant=quant)
    graph.outputs = [value, b.add(Dequantize(dtype=DType.FLOAT32), [value])]
    codes, floats = tolerances_of(graph.outputs, graph)
    assert codes[:2] == ("steps", steps)
    assert floats[:2] == ("absolute", steps / 128)


def test_resized_images_of_16_bits_are_given_the_places_of_their_pixels():
    assert wide_codes(2, resized=True)[:2] == ("steps", RESIZED_STEPS)
    assert wide_codes(2, resized=True, as_floats=True)[:2] == ("absolute", RESIZED_STEPS * 0.25)


@pytest.mark.parametrize("coded", [False, True])
def test_boxes_of_equal_scores_are_held_to_their_form(coded):
    graph = Graph("net")
    b = Builder(graph)
    boxes = b.input("boxes", DType.FLOAT32, (9, 4))
    if coded:
        codes = b.input("scores", DType.INT8, (1, 9), quant=IrQuant.per_tensor(0.1, 0))
        scores = b.add(Dequantize(dtype=DType.FLOAT32), [codes])
    else:
        scores = b.input("scores", DType.FLOAT32, (1, 9))
    row = b.add(Reshape(shape=(9,)), [scores])
    half = b.const(np.float32(0.5))
    op = NonMaxSuppression(limit=3, with_scores=False)
    graph.outputs = [b.add_many(op, [boxes, row, None, half, half])[0]]
    found = tolerance_of(graph)
    assert found.kind == ("form" if coded else "exact")
    assert ("equal scores" in found.why) == coded


COARSE, FINE = IrQuant.per_tensor(0.25, 0), IrQuant.per_tensor(1 / 256, -128)


def logits(b):
    """Codes that a run rounds."""
    x = b.input("x", DType.FLOAT32, (1, 4))
    return b.add(Quantize(dtype=DType.INT8), [x], quant=COARSE)


def stored(b, value, dtype=DType.INT32):
    """Codes as the numbers that they are."""
    bare = b.add(Bitcast(dtype=value.dtype), [value])
    return b.add(Cast(dtype=dtype), [bare])


def spelled(b, value):
    """Floats, rounded to codes of 0.25 as formats without their type have it, and back."""
    value = b.add(Div(), [value, b.const(np.float32(0.25))])
    value = b.add(Clip(low=-128.0, high=127.0), [b.add(Round(), [value])])
    codes = b.add(Cast(dtype=DType.INT32), [value])
    return codes, b.add(Mul(), [b.add(Cast(dtype=DType.FLOAT32), [codes]), b.const(FOURTH)])


FOURTH = np.float32(0.25)


def kinds(build, **flags):
    """What the outputs that are built may be off by: kind and bound of each."""
    graph = Graph("net")
    graph.outputs = build(Builder(graph))
    return [found[:2] for found in tolerances_of(graph.outputs, graph, **flags)]


def test_integers_that_were_rounded_are_given_the_steps_of_codes():
    def build(b):
        codes = logits(b)
        moved = b.add(Add(), [stored(b, codes, DType.FLOAT32), b.const(np.float32(128))])
        tenfold = b.add(Mul(), [stored(b, codes), b.const(np.int32(10))])
        twice = b.add(Add(), [stored(b, codes), stored(b, codes)])
        floats = b.add(Tanh(), [b.input("y", DType.FLOAT32, (1, 4))])
        rounded, real = spelled(b, floats)
        shared = b.add(Reshape(shape=(2, 2)), [rounded])
        ends = [stored(b, codes), b.add(Cast(dtype=DType.INT32), [moved]), tenfold, twice]
        return [*ends, shared, real, b.add(Sigmoid(), [real])]

    units = [1, 1, 10, 2, 1, 0.25, 0.25]
    assert kinds(build) == [("absolute", unit) for unit in units]


def test_integers_of_integers_stay_exact():
    def build(b):
        x, y = (b.input(name, DType.FLOAT32, (1, 4)) for name in "xy")
        codes = b.input("codes", DType.INT8, (1, 4), quant=COARSE)
        whole = b.input("whole", DType.INT32, (1, 4))
        as_floats = b.add(Cast(dtype=DType.FLOAT32), [whole])
        computed = b.add(Tanh(), [x])
        scaled = b.add(Mul(), [b.add(Sub(), [x, y]), y])  # each runtime has the same product
        place = b.add(ArgMax(axis=1, keep_dims=False, dtype=DType.INT32), [computed])
        above = b.add(Greater(), [computed, y])
        last = b.add(Add(), [as_floats, b.const(np.float32(1))])
        return [
            stored(b, codes),
            b.add(Add(), [whole, whole]),
            b.add(Cast(dtype=DType.INT32), [last]),
            b.add(Cast(dtype=DType.INT32), [b.add(Round(), [scaled])]),
            place,
            b.add(Cast(dtype=DType.INT32), [above]),
        ]

    assert set(kinds(build)) == {("exact", 0)}


def test_integers_that_loops_and_branches_round_are_given_a_step():
    def body(rounds):
        graph = Graph("body")
        b = Builder(graph)
        x, count = b.input("x", DType.FLOAT32, (3,)), b.input("count", DType.INT32, (3,))
        computed = b.add(Tanh(), [x])
        added = b.add(Cast(dtype=DType.INT32), [computed if rounds else x])
        graph.outputs = [computed, b.add(Add(), [count, added])]
        return graph

    def condition():
        graph = Graph("condition")
        b = Builder(graph)
        b.input("x", DType.FLOAT32, (3,))
        b.input("count", DType.INT32, (3,))
        graph.outputs = [b.const(np.array(False))]
        return graph

    def build(b):
        x, count = b.input("x", DType.FLOAT32, (3,)), b.input("count", DType.INT32, (3,))
        given = b.input("given", DType.BOOL, ())
        types = [x.type, count.type]

        def run(op, given, *bodies):
            return b.add_typed(op, given, types, bodies=bodies)[1]

        exact = run(If(), [given, x, count], body(rounds=False), body(rounds=False))
        either = run(If(), [given, x, count], body(rounds=False), body(rounds=True))
        # What the second turn rounds the first one has computed.
        turns = run(While(), [x, count], condition(), body(rounds=False))
        return [exact, either, turns]

    assert kinds(build) == [("exact", 0), ("absolute", 1), ("absolute", 1)]


def test_rounded_integers_are_given_what_their_floats_are_off_by():
    graph = Graph("net")
    b = Builder(graph)
    value = b.add(Tanh(), [b.input("x", DType.FLOAT16, (2,))])
    graph.outputs = [b.add(Cast(dtype=DType.INT32), [value])]
    (found,) = tolerances_of(graph.outputs, graph)
    assert (found.kind, found.bound, found.share) == ("absolute", 1, HALF_TOLERANCE)
    assert judge(Distance(5.9, 1000.0), found, 0.0)[0]
    assert not judge(Distance(6.1, 1000.0), found, 0.0)[0]


def test_a_coarse_step_before_a_softmax_is_many_behind_it():
    def build(b):
        codes = b.add(Softmax(axis=1), [logits(b)], quant=FINE)
        back = b.add(Dequantize(dtype=DType.FLOAT32), [codes])
        return [codes, stored(b, codes), back]

    steps = 0.5 * 0.25 * 256
    wanted = [("steps", steps), ("absolute", steps), ("absolute", steps / 256)]
    assert kinds(build, curves=True) == wanted
    assert kinds(build) == [("steps", 1), ("absolute", 1), ("absolute", 1 / 256)]


def test_values_on_the_grid_of_fake_quantization_are_given_its_step():
    def build(b):
        x = b.add(Tanh(), [b.input("x", DType.FLOAT32, (2,))])
        return [b.add(FakeQuant(low=-1.0, high=1.0), [x])]

    ((kind, bound),) = kinds(build)
    assert (kind, bound) == ("absolute", pytest.approx(2 / 255))


def test_steps_that_are_quantized_once_more_do_not_count():
    def build(b):
        wide = b.op("DEQUANTIZE", [b.input("x", "int8", (2,), quant=(5.0, 3))], [("float32", (2,))])
        fine = b.op("QUANTIZE", [wide], [("int8", (2,), (0.25, 3))])
        real = b.op("DEQUANTIZE", [fine], [("float32", (2,))])
        return b.op("ABS", [real], [("float32", (2,))])

    found = kind_of(build)
    assert (found.kind, found.bound) == ("absolute", 0.25)
