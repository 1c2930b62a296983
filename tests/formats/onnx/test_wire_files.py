"""Files: real models that checkers and runtimes accept, external data, and memory."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from nnconv.errors import GraphError, InvalidModelError, UsageError
from nnconv.formats.onnx import external, protobuf
from nnconv.formats.onnx.wire import DataType, Graph, Model, Node, Tensor, ValueInfo


def run(path, **feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def random(shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def small_cnn(opset=21):
    """Convolution with transposed weights, pooling and a fully connected layer, batch unknown."""
    kernel = random((5, 3, 3, 2), 0).transpose(0, 3, 1, 2)
    dense = random((5, 300), 1)
    nodes = [
        Node("Conv", ["image", "kernel"], ["c"], {"pads": [1, 1, 1, 1], "strides": (2, 2)}),
        Node("Relu", ["c"], ["r"], name="relu"),
        Node("GlobalAveragePool", ["r"], ["p"]),
        Node("Flatten", ["p"], ["f"], {"axis": 1}),
        Node("Gemm", ["f", "dense"], ["scores"], {"alpha": 0.5}),
    ]
    graph = Graph(
        "cnn",
        nodes,
        [ValueInfo("image", DataType.FLOAT, ("batch", 2, 8, 6))],
        [ValueInfo("scores", DataType.FLOAT, ("batch", 300))],
        [Tensor.from_array("kernel", kernel), Tensor.from_array("dense", dense)],
        value_info=[ValueInfo("c", DataType.FLOAT, ("batch", 5, 4, 3))],
    )
    return Model(graph, opset, producer_version="1")


def expected_scores(image):
    kernel, dense = (tensor.data for tensor in small_cnn().graph.initializers)
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    pooled = np.maximum(np.einsum("bchwyx,ocyx->bohw", windows, kernel), 0).mean((2, 3))
    return 0.5 * pooled @ dense


def branches():
    """An If whose branches hold constants of their own and take a value from outside."""

    def branch(name, factor):
        return Graph(
            name,
            [Node("Mul", ["x", f"{name}_factor"], [f"{name}_y"])],
            [],
            [ValueInfo(f"{name}_y", DataType.FLOAT, (600,))],
            [Tensor.from_array(f"{name}_factor", np.full(600, factor, np.float32))],
        )

    node = Node(
        "If", ["c"], ["y"], {"then_branch": branch("up", 2), "else_branch": branch("down", -1)}
    )
    graph = Graph(
        "branches",
        [node],
        [ValueInfo("c", DataType.BOOL, ()), ValueInfo("x", DataType.FLOAT, (600,))],
        [ValueInfo("y", DataType.FLOAT, (600,))],
    )
    return Model(graph, 21)


START = np.linspace(0, 1, 300, dtype=np.float32)
STEP = np.arange(300, dtype=np.float32) / 4


def counting_loop():
    """A Loop that adds a constant to its state ``count`` times."""
    body = Graph(
        "body",
        [Node("Identity", ["going"], ["go_on"]), Node("Add", ["state", "step"], ["next"])],
        [
            ValueInfo("i", DataType.INT64, ()),
            ValueInfo("going", DataType.BOOL, ()),
            ValueInfo("state", DataType.FLOAT, (300,)),
        ],
        [ValueInfo("go_on", DataType.BOOL, ()), ValueInfo("next", DataType.FLOAT, (300,))],
        [Tensor.from_array("step", STEP)],
    )
    graph = Graph(
        "loop",
        [Node("Loop", ["count", "", "start"], ["end"], {"body": body})],
        [ValueInfo("count", DataType.INT64, ())],
        [ValueInfo("end", DataType.FLOAT, (300,))],
        [Tensor.from_array("start", START)],
    )
    return Model(graph, 21)


FOUR_BIT = np.random.default_rng(4).integers(-8, 8, (2, 1201), dtype=np.int8)


def four_bit_weights():
    node = Node("DequantizeLinear", ["w", "scale"], ["f"])
    graph = Graph(
        "int4",
        [node, Node("MatMul", ["x", "f"], ["y"])],
        [ValueInfo("x", DataType.FLOAT, ("n", 2))],
        [ValueInfo("y", DataType.FLOAT, ("n", 1201))],
        [
            Tensor("w", DataType.INT4, FOUR_BIT.shape, FOUR_BIT),
            Tensor.from_array("scale", np.array(0.5, np.float32)),
        ],
    )
    return Model(graph, 21)


MODELS = {
    "cnn": small_cnn,
    "branches": branches,
    "loop": counting_loop,
    "int4": four_bit_weights,
}


@pytest.fixture(params=["inline", "external"])
def write(request):
    """Write a model, with its weights in it or all of them beside it."""

    def write(model, path):
        if request.param == "inline":
            assert protobuf.write(model, path) == (path,)
        else:
            assert len(protobuf.write(model, path, max_bytes=1200, external_above=100)) == 2

    return write


@pytest.mark.parametrize("name", MODELS)
def test_real_models_pass_the_full_checker(tmp_path, name, write):
    path = tmp_path / "model.onnx"
    write(MODELS[name](), path)
    onnx.checker.check_model(str(path), full_check=True)


@pytest.mark.parametrize("opset", [13, 17, 21, 25])
def test_network_computes_the_same_in_onnxruntime(tmp_path, opset, write):
    path = tmp_path / "model.onnx"
    write(small_cnn(opset), path)
    image = random((3, 2, 8, 6), 2)
    (scores,) = run(path, image=image)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected_scores(image), rtol=0, atol=1e-5)


def test_subgraphs_compute_the_same_in_onnxruntime(tmp_path, write):
    x = random((600,), 3)
    write(branches(), tmp_path / "if.onnx")
    for condition, factor in ((True, 2), (False, -1)):
        (y,) = run(tmp_path / "if.onnx", c=np.array(condition), x=x)
        np.testing.assert_array_equal(y, x * np.float32(factor))
    write(counting_loop(), tmp_path / "loop.onnx")
    (end,) = run(tmp_path / "loop.onnx", count=np.array(3, np.int64))
    np.testing.assert_allclose(end, START + 3 * STEP, rtol=1e-6)


def test_four_bit_weights_mean_the_same_to_onnxruntime(tmp_path, write):
    write(four_bit_weights(), tmp_path / "int4.onnx")
    (y,) = run(tmp_path / "int4.onnx", x=np.eye(2, dtype=np.float32))
    np.testing.assert_array_equal(y, FOUR_BIT * np.float32(0.5))


# External data.


def tensors_model(*tensors):
    """A graph that hands out each of its constants."""
    nodes = [Node("Identity", [t.name], [f"{t.name}_out"]) for t in tensors]
    outputs = [ValueInfo(f"{t.name}_out", t.dtype, tuple(t.dims)) for t in tensors]
    return Model(Graph("tensors", nodes, [], outputs, tensors), 21)


def mixed_tensors():
    return [
        Tensor.from_array("large", random((70, 30), 4)),
        Tensor.from_array("small", random((256,), 5)),
        Tensor.from_array("over", np.arange(257, dtype=np.int32)),
        Tensor.from_array("turned", random((33, 65), 6).T),
        Tensor("empty", DataType.FLOAT, (0, 4), None),
    ]


def external_entries(path):
    message = onnx.load(path, load_external_data=False)
    return {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in message.graph.initializer
        if tensor.data_location == TensorProto.EXTERNAL
    }


def test_models_over_the_limit_keep_large_weights_beside_them(tmp_path):
    path = tmp_path / "m.onnx"
    tensors = mixed_tensors()
    written = protobuf.write(tensors_model(*tensors), path, max_bytes=5000)
    assert written == (path, tmp_path / "m.onnx.data")
    assert sorted(tmp_path.iterdir()) == sorted(written)
    entries = external_entries(path)
    assert list(entries) == ["large", "over", "turned"]
    assert [entry["location"] for entry in entries.values()] == ["m.onnx.data"] * 3
    offsets = [int(entry["offset"]) for entry in entries.values()]
    lengths = [int(entry["length"]) for entry in entries.values()]
    assert lengths == [70 * 30 * 4, 257 * 4, 33 * 65 * 4]
    assert all(offset % 4096 == 0 for offset in offsets)
    assert (tmp_path / "m.onnx.data").stat().st_size == offsets[-1] + lengths[-1]
    back = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    for tensor, result in zip(tensors, run(path), strict=True):
        expected = np.zeros((0, 4), np.float32) if tensor.data is None else tensor.data
        assert (back[tensor.name].dtype, back[tensor.name].shape) == (
            expected.dtype,
            expected.shape,
        )
        np.testing.assert_array_equal(back[tensor.name], expected)
        np.testing.assert_array_equal(result, expected)


def test_model_of_exactly_the_limit_stays_in_one_file(tmp_path):
    model = tensors_model(*mixed_tensors())
    _, size = protobuf.encode(model)
    assert protobuf.write(model, tmp_path / "a.onnx", max_bytes=size) == (tmp_path / "a.onnx",)
    assert (tmp_path / "a.onnx").stat().st_size == size
    assert len(protobuf.write(model, tmp_path / "b.onnx", max_bytes=size - 1)) == 2


def test_limit_is_below_what_onnxruntime_reads():
    """One byte more than 2 GiB less 17 is refused by protobuf's C++ reader."""
    assert protobuf.MAX_BYTES <= 2**31 - 17


def test_one_tensor_used_twice_is_stored_once():
    shared = Tensor.from_array("w", random((1000,), 7))
    inner = Graph("inner", [Node("Identity", ["w"], ["v"])], [], [], [shared])
    model = Model(Graph("outer", [Node("Op", [], ["y"], {"g": inner})], [], [], [shared]), 21)
    assert external.external_tensors(model) == [(shared, 0)]


def test_attribute_tensors_stay_in_the_model(tmp_path):
    array = random((1000,), 8)
    node = Node("Constant", [], ["y"], {"value": Tensor.from_array("", array)})
    weights = Tensor.from_array("w", random((2000,), 9))
    graph = Graph("g", [node], [], [ValueInfo("y", DataType.FLOAT, (1000,))], [weights])
    protobuf.write(Model(graph, 21), tmp_path / "m.onnx", max_bytes=5000)
    assert list(external_entries(tmp_path / "m.onnx")) == ["w"]
    (y,) = run(tmp_path / "m.onnx")
    np.testing.assert_array_equal(y, array)


def test_models_too_large_even_so_are_refused(tmp_path):
    with pytest.raises(InvalidModelError, match=r"m\.onnx: .* without its weights; ONNX holds 99"):
        protobuf.write(tensors_model(*mixed_tensors()), tmp_path / "m.onnx", max_bytes=99)
    assert not list(tmp_path.iterdir())


def test_bytes_do_not_depend_on_the_run(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        protobuf.write(tensors_model(*mixed_tensors()), tmp_path / name / "m", max_bytes=5000)
    for file in ("m", "m.data"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


# Whole or not at all.


@pytest.mark.parametrize("max_bytes", [protobuf.MAX_BYTES, 500])
def test_errors_found_while_writing_leave_all_as_it_was(tmp_path, max_bytes):
    """Elements of four bits are checked when they are packed, in the midst of the file."""
    path = tmp_path / "m.onnx"
    old = protobuf.write(tensors_model(*mixed_tensors()), path, max_bytes=5000)
    before = [file.read_bytes() for file in old]
    outlier = np.zeros(20_000, np.int8)
    outlier[-1] = 9
    bad = [
        Tensor.from_array("good", random((5000,), 1)),
        Tensor("w", DataType.INT4, (20_000,), outlier),
    ]
    with pytest.raises(GraphError, match="outside -8 to 7"):
        protobuf.write(tensors_model(*bad), path, max_bytes=max_bytes)
    assert sorted(tmp_path.iterdir()) == sorted(old)
    assert [file.read_bytes() for file in old] == before


def test_a_model_can_replace_the_file_that_its_weights_are_mapped_from(tmp_path):
    path = tmp_path / "m.onnx"
    weights = random((50_000,), 2)
    weights.tofile(path)
    mapped = np.memmap(path, np.float32, mode="r")
    protobuf.write(tensors_model(Tensor.from_array("w", mapped)), path)
    (back,) = onnx.load(path).graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(back), weights)


def test_unwritable_targets_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"no such/m\.onnx can't be written: there is no folder"):
        protobuf.write(small_cnn(), tmp_path / "no such" / "m.onnx")
    with pytest.raises(UsageError, match="can't be written: it is a folder"):
        protobuf.write(small_cnn(), tmp_path)
    (tmp_path / "m.onnx.data").mkdir()
    with pytest.raises(UsageError, match=r"m\.onnx\.data can't be written: it is a folder"):
        protobuf.write(small_cnn(), tmp_path / "m.onnx", max_bytes=1200, external_above=100)
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx.data"]


# Memory and start-up.

_MEMORY_SCRIPT = """
import resource, sys
import numpy as np
from nnconv.formats.onnx import protobuf
from nnconv.formats.onnx.wire import DataType, Graph, Model, Tensor
kind, target, max_bytes, megabytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
shape = (megabytes, 1 << 9, 1 << 9)
array = {
    "broadcast": lambda: np.broadcast_to(np.float32(1), shape),
    "turned": lambda: np.broadcast_to(np.float32([[1]] * 512), shape).transpose(2, 0, 1),
    "mapped": lambda: np.memmap(target + ".raw", np.float32, mode="r", shape=shape),
}[kind]()
tensor = Tensor("w", DataType.FLOAT, array.shape, array)
protobuf.write(Model(Graph("g", [], [], [], []), 21), target)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
protobuf.write(Model(Graph("g", [], [], [], [tensor]), 21), target, max_bytes=max_bytes)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def measure_growth(tmp_path, kind, *, max_bytes, megabytes):
    """Give the bytes by which writing a tensor of so many megabytes raises the peak."""
    target = tmp_path / "m.onnx"
    command = [sys.executable, "-c", _MEMORY_SCRIPT, kind, target, max_bytes, megabytes]
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=True
    )
    return int(result.stdout) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
@pytest.mark.parametrize("kind", ["broadcast", "turned", "mapped"])
@pytest.mark.parametrize("max_bytes", [protobuf.MAX_BYTES, 10_000], ids=["inline", "external"])
def test_writing_takes_no_memory_for_weights(tmp_path, kind, max_bytes):
    """Mapped pages count while they are in memory, at most once."""
    megabytes = 100
    if kind == "mapped":
        with (tmp_path / "m.onnx.raw").open("wb") as file:
            file.truncate(megabytes << 20)
    growth = measure_growth(tmp_path, kind, max_bytes=max_bytes, megabytes=megabytes)
    allowed = 30 << 20
    if kind == "mapped":
        allowed += megabytes << 20
    assert growth < allowed


def test_importing_the_writer_loads_no_other_library():
    script = (
        "import sys, nnconv.formats.onnx.protobuf;"
        "print(sorted({name.partition('.')[0] for name in sys.modules}"
        " & {'onnx', 'google', 'onnxruntime', 'ml_dtypes', 'tempfile'}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
