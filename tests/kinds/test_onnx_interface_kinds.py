"""Kinds of fault at the edges of ONNX models: names, order, types, shapes, files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter
from onnx import TensorProto, external_data_helper, helper

import nnconv
from nnconv.errors import InvalidModelError, UsageError
from support.litert import RESOLVERS
from support.onnx_routes import node, run_onnxruntime
from support.onnx_whole import check_against_onnxruntime, info, onnx_model, to_tflite
from support.whole import floats

FLOAT = "float32"


# ---------------------------------------------------------------- names and order

NAMES = [
    "scope/x:0", "with space", "größe 入力", "a;b;c", "..", "-", "'\"\\", "serving_default_x",
    "StatefulPartitionedCall:0", "x" * 300, "0", "None",
]  # fmt: skip


def test_onnx_names_stay_whatever_they_are_made_of(tmp_path: Path) -> None:
    """In the tensors, in their order, and in the signature."""
    results = [f"{name} out" for name in reversed(NAMES)]
    nodes = [node("Neg", [name], [f"{name} out"]) for name in NAMES]
    model = onnx_model(
        nodes, [info(n, FLOAT, [2]) for n in NAMES], [info(n, FLOAT, [2]) for n in results]
    )
    made = to_tflite(model, tmp_path)
    assert made.report.renamed == []
    feeds = [np.full(2, i, np.float32) for i in range(len(NAMES))]
    (wanted,) = check_against_onnxruntime(made, feeds)
    runner = Interpreter(model_content=made.content).get_signature_runner("serving_default")
    given = runner(**dict(zip(NAMES, feeds, strict=True)))
    assert {name: given[name][0] for name in results} == dict(
        zip(results, (array[0] for array in wanted), strict=True)
    )


def passed_on() -> onnx.ModelProto:
    """Outputs that are an input, a constant, the same twice over, or computed from constants."""
    nodes = [
        node("Relu", ["x"], ["y"]),
        node("Identity", ["x"], ["same"]),
        node("Identity", ["y"], ["again"]),
        node("Add", ["c", "c"], ["twice"]),
        node("Identity", ["c"], ["kept"]),
    ]
    inputs = [info("x", FLOAT, [3]), info("unused", "int64", [2, 2])]
    outputs = ["again", "x", "y", "same", "twice", "kept", "c"]
    return onnx_model(
        nodes, inputs, [info(n, FLOAT, [3]) for n in outputs], {"c": np.float32([1, 2, 3])}
    )


def test_outputs_that_no_node_makes_or_several_share(tmp_path: Path) -> None:
    """And an input that nobody reads. LiteRT wants a tensor of its own for each."""
    made = to_tflite(passed_on(), tmp_path)
    check_against_onnxruntime(
        made,
        [np.float32([-1, 0, 2]), np.zeros((2, 2), np.int64)],
        [np.float32([5, -7, np.inf]), np.ones((2, 2), np.int64)],
    )


def test_an_initializer_that_is_an_input_too_is_a_constant(tmp_path: Path) -> None:
    """Old exporters list all weights among the inputs."""
    w, x = floats(3, 2), floats(2, 3)
    inputs = [info("w", FLOAT, [3, 2]), info("x", FLOAT, [2, 3]), info("b", FLOAT, [2])]
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["y"])]
    constants = {"w": w, "b": np.float32([10, 20])}
    model = onnx_model(nodes, inputs, [info("y", FLOAT, [2, 2])], constants, ir_version=3, opset=8)
    made = to_tflite(model, tmp_path)
    assert [name for name, _, _ in made.report.inputs] == ["x"]
    check_against_onnxruntime(made, [x])


# ---------------------------------------------------------------- types and shapes

TYPES = [
    FLOAT, "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    "uint64", "bool",
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
def test_each_type_of_the_interface_stays(dtype: str, tmp_path: Path) -> None:
    """Whatever the op in between is done in."""
    nodes = [node("Concat", ["a", "b"], ["y"], axis=0)]
    inputs = [info("a", dtype, [2, 3]), info("b", dtype, [1, 3])]
    made = to_tflite(onnx_model(nodes, inputs, [info("y", dtype, [3, 3])]), tmp_path)
    values = np.array([[0, 1, 7], [100, 3, 1]])
    check_against_onnxruntime(made, [values.astype(dtype), np.array([[9, 0, 5]]).astype(dtype)])


SHAPES = [(), (1,), (5,), (2, 3), (2, 3, 4), (1, 3, 4, 2), (2, 3, 4, 1, 5), (1, 2, 1, 3, 1, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_shape_of_the_interface_stays(shape: tuple[int, ...], tmp_path: Path) -> None:
    nodes = [node("Neg", ["x"], ["z"]), node("Add", ["z", "z"], ["y"])]
    model = onnx_model(nodes, [info("x", FLOAT, shape)], [info("y", FLOAT, shape)])
    check_against_onnxruntime(to_tflite(model, tmp_path), [floats(*shape)])


def convs(rank: int) -> onnx.ModelProto:
    """Two convolutions with a rectifier between, over ``rank - 2`` dimensions, channels first."""
    kernel, sizes = [3] * (rank - 2), [7, 6, 5][: rank - 2]
    nodes = [
        node("Conv", ["x", "w", "b"], ["h"], kernel_shape=kernel, pads=[1] * 2 * (rank - 2)),
        node("Relu", ["h"], ["r"]),
        node("Conv", ["r", "v"], ["y"], kernel_shape=kernel),
    ]
    constants = {
        "w": floats(4, 3, *kernel) % 5 - 2,
        "b": np.float32([1, -2, 3, 4]),
        "v": floats(2, 4, *kernel) % 3 - 1,
    }
    inputs = [info("x", FLOAT, [2, 3, *sizes])]
    outputs = [info("y", FLOAT, [2, 2, *(size - 2 for size in sizes)])]
    return onnx_model(nodes, inputs, outputs, constants)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_channels_stay_first_at_the_edge(rank: int, tmp_path: Path) -> None:
    """However many dimensions the convolutions have, with no transpose but there."""
    made = to_tflite(convs(rank), tmp_path)
    assert made.ops.get("TRANSPOSE", 0) <= 2
    x = (floats(2, 3, *[7, 6, 5][: rank - 2]) % 11) - 5
    check_against_onnxruntime(made, [x])


def test_channels_go_last_at_the_edge_on_request(tmp_path: Path) -> None:
    """Which is told, and takes no transpose at all."""
    made = to_tflite(convs(4), tmp_path, io_layout="nhwc")
    assert "TRANSPOSE" not in made.ops
    assert len(made.report.moved_io) == 2
    x = (floats(2, 3, 7, 6) % 11) - 5
    (wanted,) = run_onnxruntime(str(made.source), {"x": x})
    for resolver in RESOLVERS:
        (got,) = made.run(x.transpose(0, 2, 3, 1), resolver=resolver)
        np.testing.assert_array_equal(got, wanted.transpose(0, 2, 3, 1))


# ---------------------------------------------------------------- open extents


def flattening(batch: str | int | None, target: str) -> onnx.ModelProto:
    """A convolution, a flattening and a layer; ``target`` is the way to the flat shape."""
    nodes = [node("Conv", ["x", "w"], ["h"], kernel_shape=[1, 1])]
    constants = {"w": np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1), "v": floats(24, 5)}
    if target == "Flatten":
        nodes += [node("Flatten", ["h"], ["f"], axis=1)]
    elif target == "-1":
        constants["s"] = np.int64([-1, 24])
        nodes += [node("Reshape", ["h", "s"], ["f"])]
    elif target == "0":
        constants["s"] = np.int64([0, -1])
        nodes += [node("Reshape", ["h", "s"], ["f"])]
    else:
        constants |= {"i": np.array(0, np.int64), "a": np.int64([0]), "r": np.int64([-1])}
        nodes += [
            node("Shape", ["h"], ["d"]),
            node("Gather", ["d", "i"], ["n"], axis=0),
            node("Unsqueeze", ["n", "a"], ["n1"]),
            node("Concat", ["n1", "r"], ["s"], axis=0),
            node("Reshape", ["h", "s"], ["f"]),
        ]
    nodes += [node("MatMul", ["f", "v"], ["y"])]
    return onnx_model(
        nodes, [info("x", FLOAT, [batch, 3, 2, 4])], [info("y", FLOAT, [batch, 5])], constants
    )


@pytest.mark.parametrize("target", ["Flatten", "-1", "0", "Shape"])
def test_an_open_onnx_batch_runs_at_any_size(target: str, tmp_path: Path) -> None:
    made = to_tflite(flattening("N", target), tmp_path)
    check_against_onnxruntime(made, *([floats(count, 3, 2, 4)] for count in (1, 5, 2)))


@pytest.mark.parametrize("target", ["Flatten", "-1", "0", "Shape"])
def test_an_onnx_batch_is_fixed_on_request(target: str, tmp_path: Path) -> None:
    """Nothing of the shape arithmetic is left then."""
    made = to_tflite(flattening("N", target), tmp_path, input_shapes={"x": (2, 3, 2, 4)})
    told = made.interface()
    assert told.inputs == [("x", FLOAT, (2, 3, 2, 4))]
    assert told.outputs == [("y", FLOAT, (2, 5))]
    assert not {"SHAPE", "GATHER", "CONCATENATION", "CAST", "STRIDED_SLICE"} & made.ops.keys()
    check_against_onnxruntime(made, [floats(2, 3, 2, 4)], interface=False)


@pytest.mark.parametrize("sizes", [("H", "W"), (None, None), ("S", "S"), (6, "W")], ids=str)
def test_open_sizes_of_images_run_at_any_size(sizes: Any, tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["h"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("MaxPool", ["h"], ["p"], kernel_shape=[2, 2], strides=[1, 1]),
        node("Relu", ["p"], ["r"]),
        node("GlobalAveragePool", ["r"], ["y"]),
    ]
    inputs = [info("x", FLOAT, [1, 2, *sizes])]
    model = onnx_model(
        nodes, inputs, [info("y", FLOAT, [1, 3, 1, 1])], {"w": floats(3, 2, 3, 3) % 5 - 2}
    )
    made = to_tflite(model, tmp_path)
    runs = [[floats(1, 2, 6, width) % 7] for width in ((6, 8, 9) if sizes[0] == 6 else (6, 6))]
    if sizes != ("S", "S") and sizes[0] != 6:
        runs += [[floats(1, 2, 9, 4) % 7]]
    elif sizes == ("S", "S"):
        runs += [[floats(1, 2, 8, 8) % 7]]
    check_against_onnxruntime(made, *runs)


@pytest.mark.parametrize(
    ("name", "shape"), [("x", (2, 3, 2, 5)), ("x", (2, 24)), ("nobody", (1, 3, 2, 4))]
)
def test_extents_that_an_onnx_model_cannot_take_are_a_usage_error(
    name: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=name):
        to_tflite(flattening("N", "Flatten"), tmp_path, input_shapes={name: shape})
    assert not (tmp_path / "model.tflite").exists()


# ---------------------------------------------------------------- files


def stored_outside(folder: Path, location: str = "weights.bin") -> Path:
    """A layer whose two constants lie in another file, one behind the other."""
    constants = {"w": floats(4, 3), "b": floats(3)}
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["y"])]
    model = onnx_model(nodes, [info("x", FLOAT, [2, 4])], [info("y", FLOAT, [2, 3])], constants)
    content = b"what stands before"
    for tensor in model.graph.initializer:
        raw = tensor.raw_data
        external_data_helper.set_external_data(
            tensor, location, offset=len(content), length=len(raw)
        )
        content += raw
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
    (folder / "weights.bin").write_bytes(content)
    path = folder / "outside.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_in_another_file_are_found_wherever_the_model_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside it, not beside whoever converts."""
    (tmp_path / "a").mkdir()
    made = to_tflite(stored_outside(tmp_path / "a"), tmp_path)
    check_against_onnxruntime(made, [floats(2, 4)])
    shutil.move(tmp_path / "a", tmp_path / "b")
    monkeypatch.chdir(tmp_path / "b")
    again = to_tflite(Path("outside.onnx"), tmp_path)
    assert again.content == made.content


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "nowhere.bin"])
def test_weights_are_read_from_nowhere_else(location: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError):
        to_tflite(stored_outside(tmp_path, location), tmp_path)
    assert not (tmp_path / "model.tflite").exists()


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


def test_an_onnx_source_is_never_written(tmp_path: Path) -> None:
    """Nor its external data, nor anything beside it: the folder may be read-only."""
    home = tmp_path / "home"
    home.mkdir()
    path = stored_outside(home)
    before = contents(home)
    home.chmod(0o555)
    try:
        for suffix in ("tflite", "onnx"):
            nnconv.convert(path, tmp_path / f"result.{suffix}", verify=True)
            assert {
                p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in home.iterdir()
            } == before
        with pytest.raises(UsageError, match="is the source"):
            nnconv.convert(path, path)
    finally:
        home.chmod(0o755)
    assert contents(home) == before


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_the_same_model_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    """In another folder and under another name as well."""
    contents = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        source = folder / f"{name}.onnx"
        source.write_bytes(convs(4).SerializeToString())
        os.utime(source, (1, 1))
        nnconv.convert(source, folder / f"out.{suffix}")
        contents.append((folder / f"out.{suffix}").read_bytes())
    assert contents[0] == contents[1]


def test_constants_are_read_from_each_field(tmp_path: Path) -> None:
    """Raw bytes, numbers of the type, or of a wider one; packed or not."""
    numbers = [0, 1, 2, 127]
    tensors, names = [], []
    for kind in ("FLOAT", "DOUBLE", "INT8", "UINT8", "INT16", "INT32", "INT64", "BOOL", "FLOAT16"):
        code = TensorProto.DataType.Value(kind)
        kept = [number % 2 for number in numbers] if kind == "BOOL" else numbers
        dtype = helper.tensor_dtype_to_np_dtype(code)
        raw = np.array(kept, dtype).tobytes()
        tensors += [helper.make_tensor(f"{kind} numbers", code, [4], kept)]
        tensors += [helper.make_tensor(f"{kind} raw", code, [4], raw, raw=True)]
        names += [f"{kind} numbers", f"{kind} raw"]
    nodes = [node("Cast", [name], [f"{name} out"], to=TensorProto.FLOAT) for name in names]
    outputs = [info(f"{name} out", FLOAT, [4]) for name in names]
    nodes += [node("Neg", ["x"], ["y"])]
    model = onnx_model(nodes, [info("x", FLOAT, [1])], [*outputs, info("y", FLOAT, [1])])
    model.graph.initializer.extend(tensors)
    check_against_onnxruntime(to_tflite(model, tmp_path), [np.float32([1])])


def test_a_scalar_comes_back_as_an_array(tmp_path: Path) -> None:
    """LiteRT's own interface gives a number of numpy's, which has no place to write to."""
    model = onnx_model([node("Neg", ["x"], ["y"])], [info("x", FLOAT, [])], [info("y", FLOAT, [])])
    made = to_tflite(model, tmp_path, verify=True)
    assert made.report.verified
    for device in ("litert:cpu", "reference"):
        (array,) = nnconv.compile(made.target, device).run({"x": np.array(3, np.float32)}).values()
        assert isinstance(array, np.ndarray)
        assert array.shape == ()
        assert array == -3


def test_onnx_names_that_cannot_stay_are_told(tmp_path: Path) -> None:
    """An output that is there twice, and an input without a name: signatures tell by names."""
    inputs = [info(name, FLOAT, [2]) for name in ("x", "", "y_1")]
    outputs = [info(name, FLOAT, [2]) for name in ("y", "y", "y_1", "y")]
    made = to_tflite(onnx_model([node("Neg", ["x"], ["y"])], inputs, outputs), tmp_path)
    told = made.interface()
    assert [name for name, _, _ in told.inputs] == ["x", "input_1", "y_1"]
    assert [name for name, _, _ in told.outputs] == ["y", "y_2", "y_1", "y_3"]
    assert made.report.renamed == [
        ("input", "", "input_1"),
        ("output", "y", "y_2"),
        ("output", "y", "y_3"),
    ]
    runner = Interpreter(model_content=made.content).get_signature_runner("serving_default")
    feeds = [np.float32([1, -2]), np.float32([0, 0]), np.float32([7, 8])]
    given = runner(**dict(zip(("x", "input_1", "y_1"), feeds, strict=True)))
    assert {name: array.tolist() for name, array in given.items()} == {
        "y": [-1, 2],
        "y_2": [-1, 2],
        "y_1": [7, 8],
        "y_3": [-1, 2],
    }
