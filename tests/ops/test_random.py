"""Random draws: each runtime has its own, so forms, ranges and frequencies are compared."""

import numpy as np
import onnx
import onnxruntime
import pytest
from nnconv.backends.reference.executor import run_graph
from onnx import TensorProto

import nnconv
from nnconv.errors import GraphError, InvalidModelError, UnsupportedError
from nnconv.formats.onnx.reader import read as read_onnx
from nnconv.formats.tflite.reader import read as read_tflite
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.ir.verifier import verify_model
from nnconv.ops.random import Bernoulli, Multinomial, RandomNormal, RandomUniform
from support.litert import LiteRtRunner
from support.onnx_routes import OnnxCase, node
from support.spine import Case, model_bytes
from support.tflite_builder import TfliteBuilder
from support.tflite_spine import tflite_ops

COUNT = 20_000
LIKE = np.zeros((4, 5000), np.float32)
CHANCES = np.tile(np.float32([0.1, 0.5, 0.9, 1.0]), (5000, 1))
LOGITS = np.log(np.asarray([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], np.float32))


def moments(mean, deviation):
    def check(array):
        assert array.mean() == pytest.approx(mean, abs=0.05 * deviation)
        assert array.std() == pytest.approx(deviation, rel=0.05)

    return check


def uniform(low, high):
    def check(array):
        assert low <= array.min() < array.max() <= high
        moments((low + high) / 2, (high - low) / 12**0.5)(array)

    return check


def often(chances):
    def check(array):
        assert set(np.unique(array).tolist()) <= {0, 1}
        assert array.astype(float).mean(axis=0) == pytest.approx(chances, abs=0.03)

    return check


def classes(array):
    for row, chances in zip(array, np.exp(LOGITS), strict=True):
        assert np.bincount(row, minlength=3) / COUNT == pytest.approx(chances, abs=0.02)


FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE

CASES = [
    (OnnxCase("uniform", node("RandomUniform", [], ["y"], shape=[4, 5000]), {}), uniform(0, 1)),
    (
        OnnxCase(
            "uniform_range",
            node("RandomUniform", [], ["y"], shape=[4, 5000], low=-2.0, high=4.0, seed=1.5),
            {},
        ),
        uniform(-2, 4),
    ),
    (
        OnnxCase("normal", node("RandomNormal", [], ["y"], shape=[COUNT], seed=3.0), {}),
        moments(0, 1),
    ),
    (
        OnnxCase(
            "normal_float64",
            node("RandomNormal", [], ["y"], shape=[COUNT], mean=3.0, scale=2.0, dtype=DOUBLE),
            {},
        ),
        moments(3, 2),
    ),
    (
        OnnxCase("uniform_like", node("RandomUniformLike", ["x"], ["y"]), {"x": LIKE}),
        uniform(0, 1),
    ),
    (
        OnnxCase(
            "uniform_like_integers",
            node("RandomUniformLike", ["x"], ["y"], dtype=FLOAT, high=2.0),
            {"x": LIKE.astype(np.int32)},
            open={"x": (0,)},
        ),
        uniform(0, 2),
    ),
    (
        OnnxCase(
            "normal_like",
            node("RandomNormalLike", ["x"], ["y"], mean=-1.0, seed=7.0),
            {"x": LIKE},
            open={"x": (0, 1)},
        ),
        moments(-1, 1),
    ),
    (
        OnnxCase(
            "multinomial",
            node("Multinomial", ["x"], ["y"], sample_size=COUNT, seed=2.0, dtype=TensorProto.INT64),
            {"x": LOGITS},
        ),
        classes,
    ),
]


@pytest.mark.parametrize(("case", "check"), CASES, ids=[case.id for case, _ in CASES])
def test_onnx_routes(case, check, tmp_path):
    content = case.model().SerializeToString()
    model = read_onnx(content, name=case.id)
    verify_model(model)
    feeds = list(case.feeds.values())
    form = onnxruntime.InferenceSession(content).run(None, dict(case.feeds))[0]

    def agrees(array):
        assert (array.shape, array.dtype) == (form.shape, form.dtype)
        check(array)

    agrees(form)
    agrees(run_graph(model.graph, feeds)[0])
    again, lite = tmp_path / "again.onnx", tmp_path / "y.tflite"
    nnconv.save(model, again)
    (before,), (after,) = onnx.load_from_string(content).graph.node, onnx.load(again).graph.node
    assert (before.op_type, len(before.input)) == (after.op_type, len(after.input))
    told = {a.name: a for a in after.attribute}
    assert all(told[a.name] == a for a in before.attribute)
    agrees(onnxruntime.InferenceSession(again).run(None, dict(case.feeds))[0])
    nnconv.save(model, lite)
    agrees(LiteRtRunner(lite).run(feeds)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [FLOAT, TensorProto.BOOL, TensorProto.INT32])
def test_bernoulli(dtype, kind, tmp_path):
    """Not on onnxruntime: it gives 0 with the probability of 1."""
    case = OnnxCase(
        "bernoulli", node("Bernoulli", ["x"], ["y"], dtype=kind), {"x": CHANCES.astype(dtype)}
    )
    model = read_onnx(case.model().SerializeToString(), name=case.id)
    verify_model(model)
    check = often(CHANCES[0])
    (result,) = run_graph(model.graph, list(case.feeds.values()))
    check(result)
    path = tmp_path / "y.tflite"
    nnconv.save(model, path)
    assert tflite_ops(path.read_bytes())["RANDOM_UNIFORM"] == 1
    (seen,) = LiteRtRunner(path).run([CHANCES.astype(dtype)])
    assert seen.dtype == result.dtype
    check(seen)
    again = tmp_path / "y.onnx"
    nnconv.save(model, again)
    assert [n.op_type for n in onnx.load(again).graph.node] == ["Bernoulli"]


def test_what_is_below_a_probability_isnt_worked_out_beforehand(tmp_path):
    builder = Builder(graph := Graph("main"))
    x = builder.const(CHANCES)
    graph.outputs = [builder.add(Bernoulli(dtype=DType.INT32), [x], name="y")]
    model = Model([Signature("", graph)], format="onnx")
    path = tmp_path / "y.tflite"
    nnconv.save(model, path)
    assert tflite_ops(path.read_bytes())["RANDOM_UNIFORM"] == 1
    runner = LiteRtRunner(path)
    first, second = runner.run([])[0], runner.run([])[0]
    assert not np.array_equal(first, second)


# -------------------------------------------------------------------- from TFLite


def draw(name, *, dynamic=False, seeds=(0, 0)):
    def build(b):
        operand = np.asarray([4, 5000], np.int32)
        shape = b.input("shape", "int32", (2,)) if dynamic else b.const(operand)
        kind = ("float32", (4, 5000))
        options = {"seed": seeds[0], "seed2": seeds[1]}
        b.output(b.op(name, [shape], [kind], options=options))

    return build


def multinomial(kind):
    def build(b):
        x = b.input("x", "float32", (2, 3))
        count = b.const(np.asarray(COUNT, np.int32))
        options = {"seed": 5, "seed2": 1 << 40}
        b.output(b.op("MULTINOMIAL", [x, count], [(kind, (2, COUNT))], options=options))

    return build


SIZES = np.asarray([4, 5000], np.int32)
TFLITE = [
    (Case("uniform", draw("RANDOM_UNIFORM"), []), uniform(0, 1)),
    (Case("uniform_seeds", draw("RANDOM_UNIFORM", seeds=(7, 9)), []), uniform(0, 1)),
    (Case("uniform_open", draw("RANDOM_UNIFORM", dynamic=True), [SIZES]), uniform(0, 1)),
    (Case("normal", draw("RANDOM_STANDARD_NORMAL", seeds=(0, -3)), []), moments(0, 1)),
    (Case("multinomial_int32", multinomial("int32"), [LOGITS]), classes),
    (Case("multinomial_int64", multinomial("int64"), [LOGITS]), classes),
]


@pytest.mark.parametrize(("case", "check"), TFLITE, ids=[case.id for case, _ in TFLITE])
def test_tflite_routes(case, check, tmp_path):
    content = model_bytes(case)
    model = read_tflite(content, name=case.id)
    verify_model(model)
    feeds = [np.asarray(a) for a in case.inputs]
    source, again, other = (tmp_path / n for n in ("x.tflite", "y.tflite", "y.onnx"))
    source.write_bytes(content)
    (form,) = LiteRtRunner(source).run(feeds)
    (own,) = run_graph(model.graph, feeds)
    nnconv.save(model, again)
    (same,) = LiteRtRunner(again).run(feeds)
    nnconv.save(model, other)
    session = onnxruntime.InferenceSession(other)
    names = [value.name for value in session.get_inputs()]
    (drawn,) = session.run(None, dict(zip(names, feeds, strict=True)))
    for array in (form, own, same, drawn):
        assert (array.shape, array.dtype) == (form.shape, form.dtype)
        check(array)
    assert tflite_ops(again.read_bytes()) == tflite_ops(content)
    if next(iter(model.graph.nodes)).op.seeds is not None:
        assert np.array_equal(form, same), "its seeds are others"


def test_a_number_of_samples_must_be_one():
    b = TfliteBuilder()
    x, counts = b.input("x", "float32", (2, 3)), b.const(np.asarray([3, 4], np.int32))
    b.output(b.op("MULTINOMIAL", [x, counts], [("int32", (2, 3))], options={"seed": 1}))
    with pytest.raises(InvalidModelError, match="2 numbers of samples"):
        read_tflite(b.build())


# -------------------------------------------------------------------- the ops themselves


def run(op, *arrays):
    """The result of an op."""
    builder = Builder(graph := Graph())
    values = [builder.input(f"x{i}", DType.of(a), a.shape) for i, a in enumerate(arrays)]
    graph.outputs = [builder.add(op, values)]
    return run_graph(graph, arrays)[0]


@pytest.mark.parametrize(
    "op", [RandomUniform(shape=(9,)), RandomNormal(shape=(9,)), Multinomial(samples=9)], ids=str
)
def test_seeds_decide_what_the_reference_draws(op):
    arrays = [LOGITS] if isinstance(op, Multinomial) else []
    seeded = op.replace(seeds=(1, 2))
    assert np.array_equal(run(seeded, *arrays), run(seeded, *arrays))
    drawn = [run(o, *arrays) for o in (seeded, op, op, op.replace(seeds=(1, 3)))]
    assert len({array.tobytes() for array in drawn}) == 4


def test_seeds_of_run_time(tmp_path):
    """No attribute holds them."""
    op = Multinomial(samples=COUNT)
    classes(run(op, LOGITS, np.asarray([1, 2], np.int32)))
    builder = Builder(graph := Graph("main"))
    values = [builder.input("x", DType.FLOAT32, (2, 3)), builder.input("seeds", DType.INT32, (2,))]
    graph.outputs = [builder.add(op, values, name="y")]
    model = Model([Signature("", graph)])
    for name in ("y.onnx", "y.tflite"):
        with pytest.raises(UnsupportedError, match="seeds are computed at run time"):
            nnconv.save(model, tmp_path / name)


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (RandomUniform(shape=(2, -1)), "shape is"),
        (RandomUniform(shape=(2,), dtype=DType.INT32), "must be floats"),
        (RandomNormal(shape=None), "operand 0 is missing"),
    ],
    ids=str,
)
def test_draws_that_cannot_be(op, reason):
    with pytest.raises(GraphError, match=reason):
        Builder(Graph()).add(op, [])


# -------------------------------------------------------------------- NNAPI


@pytest.mark.parametrize("known", [True, False])
def test_nnapi_draws_what_the_seeds_say(known, tmp_path):
    seeds = np.asarray([4, -5], np.int32)
    builder = Builder(graph := Graph("main"))
    values = [builder.input("x", DType.FLOAT32, (2, 3))]
    values.append(builder.const(seeds) if known else builder.input("seeds", DType.INT32, (2,)))
    op = Multinomial(samples=COUNT)
    graph.outputs = [builder.add(op, values, name="y")]
    path = tmp_path / "y.nnapi"
    nnconv.save(Model([Signature("", graph)]), path)
    again = nnconv.load(path)
    verify_model(again)
    (node,) = again.graph.nodes
    assert node.op == (op.replace(seeds=(4, -5)) if known else op)
    (drawn,) = run_graph(again.graph, [LOGITS, seeds][: len(again.inputs)])
    classes(drawn)
    assert np.array_equal(drawn, run(op, LOGITS, seeds))


def test_nnapi_has_two_whole_seeds(tmp_path):
    for seeds, wanted in ((None, None), ((7.0,), (7, 0)), ((0.5, 2.0), (0x3F000000, 2))):
        builder = Builder(graph := Graph("main"))
        x = builder.input("x", DType.FLOAT32, (2, 3))
        graph.outputs = [builder.add(Multinomial(samples=3, seeds=seeds), [x], name="y")]
        nnconv.save(Model([Signature("", graph)]), tmp_path / "y.nnapi")
        (node,) = nnconv.load(tmp_path / "y.nnapi").graph.nodes
        assert node.op.seeds == wanted


@pytest.mark.parametrize("known", [True, False])
def test_two_zeros_are_no_seeds_for_nnapi(known, tmp_path):
    """ "If both provided seeds are 0, both will be randomly generated": each run draws anew."""
    zeros = np.zeros(2, np.int32)
    builder = Builder(graph := Graph("main"))
    values = [builder.input("x", DType.FLOAT32, (2, 3))]
    values.append(builder.const(zeros) if known else builder.input("seeds", DType.INT32, (2,)))
    graph.outputs = [builder.add(Multinomial(samples=COUNT), values, name="y")]
    nnconv.save(Model([Signature("", graph)]), tmp_path / "y.nnapi")
    again = nnconv.load(tmp_path / "y.nnapi")
    feeds = [LOGITS, zeros][: len(again.inputs)]
    runs = [run_graph(again.graph, feeds)[0] for _ in range(3)]
    assert not all(np.array_equal(runs[0], each) for each in runs[1:])
    classes(runs[0])
