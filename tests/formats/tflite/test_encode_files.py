"""Whole .tflite files: real models written anew, weights behind the tables, memory, speed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nnconv.errors import InvalidModelError, UsageError
from nnconv.formats.tflite import build, encode, wire
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR, TensorType
from support.effort import calls_of
from support.flatbuffer_verifier import verify
from support.litert import RESOLVERS, LiteRtRunner, run_litert
from support.places import FIXTURES, find_shared_dir
from support.tflite_rebuild import describe, rebuild

SHARED = find_shared_dir()
FILES = sorted(
    [
        *FIXTURES.rglob("*.tflite"),
        *(() if SHARED is None else (SHARED / "models").rglob("*.tflite")),
    ]
)
SMALL = [path for path in FILES if path.stat().st_size < 200_000]


def add_matmul(size=40, **changes):
    """y = (x + b) @ w.T, with constants large and small, batch unknown."""
    weights = np.random.default_rng(0).normal(size=(size, 50)).astype(np.float32)
    bias = np.linspace(-1, 1, 50, dtype=np.float32)
    tensors = [
        build.Tensor("x", TensorType.FLOAT32, (1, 50), shape_signature=(-1, 50)),
        build.Tensor("b", TensorType.FLOAT32, (50,), data=bias),
        build.Tensor("s", TensorType.FLOAT32, (1, 50), shape_signature=(-1, 50)),
        build.Tensor("w", TensorType.FLOAT32, (size, 50), data=weights),
        build.Tensor("y", TensorType.FLOAT32, (1, size), shape_signature=(-1, size)),
    ]
    operators = [
        build.Operator(BUILTIN_OPERATOR["ADD"], (0, 1), (2,), ("AddOptions", {})),
        build.Operator(
            BUILTIN_OPERATOR["FULLY_CONNECTED"], (2, 3, -1), (4,), ("FullyConnectedOptions", {})
        ),
    ]
    return build.File(
        [build.Subgraph("main", tensors, (0,), (4,), operators)],
        signatures=[build.Signature("serving_default", 0, [("in", 0)], [("out", 4)])],
        **changes,
    )


def expected(file, image):
    tensors = file.subgraphs[0].tensors
    return (image + tensors[1].data) @ tensors[3].data.T


def chain(length):
    """A row of additions, each with a constant of its own."""
    tensors = [build.Tensor("x", TensorType.FLOAT32, (4,))]
    operators = []
    for index in range(length):
        last = len(tensors) - 1 if index else 0
        bias = np.full(4, index, np.float32)
        tensors += (
            build.Tensor(f"b{index}", TensorType.FLOAT32, (4,), data=bias),
            build.Tensor(f"y{index}", TensorType.FLOAT32, (4,)),
        )
        operators.append(
            build.Operator(0, (last, len(tensors) - 2), (len(tensors) - 1,), ("AddOptions", {}))
        )
    return build.File([build.Subgraph("main", tensors, (0,), (len(tensors) - 1,), operators)])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_real_model_keeps_its_content(path):
    file = wire.read(path)
    data = encode.encode(rebuild(file))
    verify(data)
    assert describe(wire.read(data)) == describe(file)
    assert data == encode.encode(rebuild(wire.read(data)))


@pytest.mark.parametrize("path", SMALL[:: max(1, len(SMALL) // 25)], ids=lambda path: path.stem)
def test_real_model_runs_as_before(path):
    try:
        runner = LiteRtRunner(path, "opt")
        details = runner.interpreter.get_input_details()
        rng = np.random.default_rng(1)
        inputs = [(rng.random(detail["shape"]) * 2).astype(detail["dtype"]) for detail in details]
        wanted = runner.run(inputs)
    except (RuntimeError, ValueError):
        pytest.skip("LiteRT can't run the file itself")
    file = rebuild(wire.read(path))
    whole = encode.encode(file)
    written = [whole]
    sizes = [one.data.nbytes for one in file.subgraphs[0].tensors if one.data is not None]
    if sum(size for size in sizes if size > 64) > 64 * (len(sizes) + 8):
        written.append(encode.encode(file, max_bytes=len(whole) - 1, behind_above=64))
    for data in written:
        got = LiteRtRunner(data, "opt").run(inputs)
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)


class TestBehind:
    """Constants behind the FlatBuffers part."""

    @pytest.mark.parametrize("resolver", RESOLVERS)
    @pytest.mark.parametrize("batch", [1, 3])
    def test_litert_runs_it(self, tmp_path, resolver, batch):
        file = add_matmul(metadata={"note": b"x" * 5000})
        path = encode.write(file, tmp_path / "m.tflite", max_bytes=9000)
        assert path == tmp_path / "m.tflite"
        data = path.read_bytes()
        assert len(verify(data).buffers) == 3
        image = np.random.default_rng(2).normal(size=(batch, 50)).astype(np.float32)
        for source in (path, data):
            (got,) = run_litert(source, [image], resolver)
            np.testing.assert_allclose(got, expected(file, image), rtol=1e-5, atol=1e-5)

    def test_metadata_stay_where_litert_reads_them(self):
        file = add_matmul(metadata={"note": b"x" * 5000, "empty": b""})
        data = encode.encode(file, max_bytes=9000)
        interpreter = LiteRtRunner(data).interpreter
        found = wire.read(data)
        assert bytes(found.metadata["note"]) == b"x" * 5000
        assert bytes(found.metadata["empty"]) == b""
        weights, small = (found.subgraphs[0].tensors[index] for index in (3, 1))
        root = found._reader.root("Model").tables("buffers")
        assert root[weights.buffer].scalar("offset") % 16 == 0
        assert root[weights.buffer].scalar("offset") + 8000 == len(data)
        assert not root[small.buffer].has("offset")
        assert [table.has("data") for table in root] == [False, True, False, True, False]
        assert interpreter.get_signature_list() == {
            "serving_default": {"inputs": ["in"], "outputs": ["out"]}
        }

    def test_content_is_the_same(self):
        file = add_matmul()
        inside, behind = encode.encode(file), encode.encode(file, max_bytes=2000)
        assert inside != behind
        assert describe(wire.read(inside)) == describe(wire.read(behind))

    def test_too_many_tables(self, tmp_path):
        target = tmp_path / "m.tflite"
        with pytest.raises(InvalidModelError, match="even without its weights; TFLite holds 600"):
            encode.write(add_matmul(), target, max_bytes=600)
        assert not list(tmp_path.iterdir())


class TestWrite:
    def test_replaces_the_file_behind_a_link(self, tmp_path):
        target, link = tmp_path / "real.tflite", tmp_path / "link.tflite"
        target.write_bytes(b"old")
        link.symlink_to(target)
        encode.write(add_matmul(), link)
        assert link.is_symlink()
        assert target.read_bytes() == encode.encode(add_matmul())

    def test_failure_leaves_what_was_there(self, tmp_path):
        target = tmp_path / "m.tflite"
        target.write_bytes(b"old")
        file = add_matmul()
        bad = np.full((200, 100), 9, np.int8)
        file.subgraphs[0].tensors.append(build.Tensor("q", TensorType.INT4, bad.shape, data=bad))
        with pytest.raises(Exception, match="TFLite tensor 'q': an element is outside -8 to 7"):
            encode.write(file, target)
        assert target.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [target]

    def test_no_folder(self, tmp_path):
        with pytest.raises(UsageError, match="there is no folder"):
            encode.write(add_matmul(), tmp_path / "none" / "m.tflite")

    def test_no_runtime_is_imported(self):
        code = (
            "import sys, nnconv.formats.tflite.encode\n"
            "print([m for m in ('flatbuffers', 'ai_edge_litert', 'onnx') if m in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]"


_MEMORY = """
import resource, sys
import numpy as np
from nnconv.formats.tflite import build, encode

path, source = sys.argv[1:]
mapped = np.memmap(source, np.float32, "r", shape=(64 << 20) // 4)
tensors = [
    build.Tensor("flat", build.TensorType.FLOAT32, (64 << 18,), data=mapped),
    build.Tensor(
        "turned", build.TensorType.FLOAT32, (4096, 4096), data=mapped.reshape(4096, 4096).T
    ),
    build.Tensor(
        "spread", build.TensorType.FLOAT32, (64, 1 << 18),
        data=np.broadcast_to(np.float32(1), (64, 1 << 18)),
    ),
]
file = build.File([build.Subgraph("main", tensors, (), (), ())])
encode.write(build.File([build.Subgraph("main", tensors[2:], (), (), ())]), path)
def private():
    status = open("/proc/self/status").read()
    return int(status.split("RssAnon:")[1].split()[0])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
import threading
peak, done = [0], threading.Event()
def watch():
    while not done.wait(0.005):
        peak[0] = max(peak[0], private())
watcher = threading.Thread(target=watch)
start = private()
watcher.start()
encode.write(file, path)
done.set()
watcher.join()
print(peak[0] - start)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's own numbers")
def test_weights_are_never_all_in_memory(tmp_path):
    source = tmp_path / "weights"
    with source.open("wb") as stream:
        stream.truncate(64 << 20)
    target = tmp_path / "m.tflite"
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(target), str(source)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert target.stat().st_size > 192 << 20
    assert int(done.stdout) < 24 << 10  # KiB


def test_cost_is_in_proportion_to_the_graph():
    def cost(length):
        file = chain(length)
        return calls_of(lambda: encode.encode(file))

    cost(10)  # what is made once
    assert cost(800) < 8.1 * cost(100)
