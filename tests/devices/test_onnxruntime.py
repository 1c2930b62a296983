"""What is ONNX Runtime's own: its files, its errors, its precision on older CPUs."""

import numpy as np
import onnx
import pytest
from nnconv.backends import compile as compile_for
from nnconv.backends import lending
from nnconv.backends import onnxruntime as backend
from onnx import TensorProto, helper

import nnconv
from nnconv.errors import BackendError, InvalidModelError, UsageError
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.protobuf import write
from nnconv.ir import Builder, DType, Graph, Model, Signature
from nnconv.ir.quant import Quant
from nnconv.lowering import one_entry, to_onnx
from nnconv.ops.elementwise import Add, Mul
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.recurrent import Function, GruLayer, LstmLayer, RnnLayer
from nnconv.ops.shape import Transpose
from support.tflite_builder import TfliteBuilder


def save(path, nodes, inputs, outputs, **metadata):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    for key, value in metadata.items():
        model.metadata_props.add(key=key.replace("_", "."), value=value)
    onnx.save(model, path)
    return path


def value(name, dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def add(path, **metadata):
    nodes = [helper.make_node("Add", ["a", "b"], ["c"])]
    inputs = [value("a", ["n", 2]), value("b", [2])]
    return save(path, nodes, inputs, [value("c", ["n", 2])], **metadata)


def test_file_runs_as_it_is(tmp_path):
    executable = compile_for(add(tmp_path / "add.onnx"))
    assert [(i.name, i.shape) for i in executable.inputs] == [("a", ("n", 2)), ("b", (2,))]
    a, b = np.ones((3, 2), np.float32), np.array([1, 2], np.float32)
    np.testing.assert_array_equal(executable.run({"a": a, "b": b})["c"], a + b)


def test_input_of_unknown_rank_takes_any(tmp_path):
    nodes = [helper.make_node("Add", ["a", "b"], ["c"])]
    path = tmp_path / "any.onnx"
    save(path, nodes, [value("a", None), value("b", [])], [value("c", None)])
    executable = compile_for(path)
    assert [i.shape for i in executable.inputs] == [None, ()]
    assert [o.shape for o in executable.outputs] == [None]
    b = np.asarray(2, np.float32)
    for a in (np.ones((), np.float32), np.ones((2, 3), np.float32)):
        np.testing.assert_array_equal(executable.run({"a": a, "b": b})["c"], a + b)
    with pytest.raises(UsageError, match=r"'b' has shape \[1\], must be \[\]"):
        executable.run({"a": b, "b": np.ones(1, np.float32)})


def test_an_output_that_is_listed_twice_is_there_twice(tmp_path):
    nodes = [helper.make_node("Neg", ["a"], ["c"])]
    path = save(tmp_path / "n.onnx", nodes, [value("a", [2])], [value("c", [2])] * 2)
    executable = compile_for(path)
    a = np.array([1, -2], np.float32)
    results = executable.run({"a": a})
    assert list(results) == ["c", "c_1"]
    assert all(np.array_equal(found, -a) for found in results.values())
    assert executable.bind([a], [np.zeros(2, np.float32)] * 2) is None
    for target in ("n.tflite", "again.onnx"):
        assert nnconv.convert(path, tmp_path / target, verify=True).verified


def test_file_that_runs_as_it_is_takes_no_other_interface(tmp_path):
    with pytest.raises(UsageError, match="must be left out"):
        compile_for(add(tmp_path / "add.onnx"), signature="f")
    with pytest.raises(UsageError, match=r"has shape \[2\] in the file, which \[3\] doesn't fit"):
        compile_for(add(tmp_path / "add.onnx"), input_shapes={"b": (3,)})
    with pytest.raises(UsageError, match="there is no input 'q'; the model's inputs are 'a', 'b'"):
        compile_for(add(tmp_path / "add.onnx"), input_shapes={"q": (2,)})


@pytest.mark.parametrize(
    "text",
    [
        *("not json", "[1]", "3", "[" * 100_000, "1" * 5000, '[["x", "y"]]', '["x"]', "[null]"),
        *('{"a": 1}', '{"a": "x"}', '{"a": [1]}', '{"inputs": 3}', '{"inputs": {"x": [1]}}'),
        '{"a": {"scale": [1], "zero_point": [1e999]}}',
        '[{"input": "a"}]',
        '[{"input": ["a"], "output": "c", "initial": 0}]',
        '[{"input": "a", "output": "c", "initial": {"x": 1}}]',
        '[{"input": "a", "output": "c", "initial": [1, 2, 3, 4, 5]}]',
    ],
)
def test_metadata_that_is_not_ours_is_left_alone(tmp_path, text):
    notes = dict.fromkeys(("nnconv_signature", "nnconv_quantization", "nnconv_states"), text)
    path = add(tmp_path / "add.onnx", **notes)
    assert [info.quant for info in compile_for(path).inputs] == [None, None]
    (signature,) = nnconv.load(path).signatures
    assert (len(signature.inputs), signature.states) == (2, ())


def test_quantization_of_the_interface_survives_in_the_file(tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "int8", (2, 3), quant=(0.5, -3))
    b.output(b.op("RELU", [x], [("int8", (2, 3), (0.25, -128))]))
    source, target = tmp_path / "q.tflite", tmp_path / "q.onnx"
    source.write_bytes(b.build())
    nnconv.convert(source, target)
    for path, device in ((source, "litert:cpu"), (target, "onnxruntime:cpu")):
        (info,) = compile_for(path, device).inputs
        assert (info.quant.scale, info.quant.zero_point) == ((0.5,), (-3,))


def test_file_that_is_no_onnx_is_a_bad_input(tmp_path):
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"this is no model at all")
    with pytest.raises(InvalidModelError, match=r"bad\.onnx"):
        compile_for(path)


def test_model_that_it_refuses_is_a_backend_error_of_one_line(tmp_path, capfd):
    nodes = [helper.make_node("NoSuchOp", ["a"], ["c"])]
    path = save(tmp_path / "odd.onnx", nodes, [value("a", [2])], [value("c", [2])])
    with pytest.raises(BackendError, match=r"can't load the model: .*NoSuchOp") as caught:
        compile_for(path)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_run_that_fails_is_a_backend_error(tmp_path, capfd):
    nodes = [helper.make_node("Gather", ["a", "i"], ["c"])]
    inputs = [value("a", [4]), value("i", [1], TensorProto.INT64)]
    path = save(tmp_path / "gather.onnx", nodes, inputs, [value("c", [1])])
    feeds = {"a": np.zeros(4, np.float32), "i": np.array([9])}
    with pytest.raises(BackendError, match=r"onnxruntime:cpu failed while running: .*Gather"):
        compile_for(path).run(feeds)
    assert capfd.readouterr().err == ""


def test_sequences_are_refused_by_name(tmp_path):
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    inputs = [helper.make_value_info("s", kind), value("i", [], TensorProto.INT64)]
    nodes = [helper.make_node("SequenceAt", ["s", "i"], ["c"])]
    path = save(tmp_path / "seq.onnx", nodes, inputs, [value("c", [2])])
    with pytest.raises(BackendError, match=r"`s` is a seq\(tensor\(float\)\)"):
        compile_for(path)


@pytest.mark.parametrize(
    ("flags", "exact"),
    [
        ("fpu avx2 avx512f avx512_vnni", True),
        ("fpu avx2 avx_vnni", True),
        ("fpu avx2", False),
        ("fpu avx2 avx512f avx512bw", False),
        ("", False),
    ],
)
def test_cpu_features_tell_whether_byte_sums_are_exact(flags, exact):
    assert backend.has_exact_byte_sums(flags) is exact


def test_exact_sums_are_asked_for_where_the_cpu_would_saturate(tmp_path, monkeypatch):
    asked = {}
    options = pytest.importorskip("onnxruntime").SessionOptions

    class Options(options):
        def add_session_config_entry(self, key, entry):
            asked[key] = entry
            super().add_session_config_entry(key, entry)

    monkeypatch.setattr("onnxruntime.SessionOptions", Options)
    path = add(tmp_path / "add.onnx")
    monkeypatch.setattr(backend, "has_exact_byte_sums", lambda: True)
    compile_for(path)
    assert "session.x64quantprecision" not in asked
    monkeypatch.setattr(backend, "has_exact_byte_sums", lambda: False)
    compile_for(path)
    assert asked["session.x64quantprecision"] == "1"


def test_model_too_large_for_one_message_goes_by_a_file(tmp_path, monkeypatch):
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 3))
    b.output(
        b.op("ADD", [x, b.const(np.ones((400, 2, 3), np.float32))], [("float32", (400, 2, 3))])
    )
    source = tmp_path / "m.tflite"
    source.write_bytes(b.build())
    monkeypatch.setattr("nnconv.formats.onnx.protobuf.MAX_BYTES", 2000)
    written = []
    write = nnconv.formats.onnx.protobuf.write

    def small_write(model, path):
        written.extend(write(model, path, max_bytes=2000))

    monkeypatch.setattr("nnconv.formats.onnx.protobuf.write", small_write)
    with compile_for(source) as executable:
        (result,) = executable.run({"x": np.ones((2, 3), np.float32)}).values()
        assert len(written) == 2
    assert result.shape == (400, 2, 3)
    assert (result == 2).all()
    assert not any(path.exists() for path in written)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
@pytest.mark.parametrize("turned", [False, True], ids=["straight", "turned"])
def test_large_constants_are_read_where_they_are(dtype, turned):
    rng = np.random.default_rng(0)
    data = rng.integers(-100, 100, (300, 400)).astype(dtype)
    data = data.T if turned else data
    data.flags.writeable = False
    graph = Graph()
    builder = Builder(graph)
    x = builder.input("x", DType(dtype), data.shape)
    graph.outputs = [builder.add(Add(), [x, builder.const(data)]), builder.const(data)]
    executable = compile_for(Model([Signature("", graph)]))
    assert len(executable._lent) == 2
    if not turned:
        assert all(np.shares_memory(lent, data) for lent in executable._lent.values())
    wanted = data.copy()
    del data, graph, builder
    ones = np.ones(x.shape, dtype)
    total, same = executable.run({"x": ones}).values()
    np.testing.assert_array_equal(total, wanted + ones)
    np.testing.assert_array_equal(same, wanted)


VIEWS = {
    "moved": lambda data: data.transpose(0, 3, 1, 2),
    "to the front": lambda data: data.transpose(3, 0, 1, 2),
    "part": lambda data: data[:, 1:].transpose(3, 0, 1, 2),
    "reversed": lambda data: data[:, ::-1].transpose(0, 3, 1, 2),
    "repeated": lambda data: np.broadcast_to(data[:1], data.shape),
    "other byte order": lambda data: data.astype(data.dtype.newbyteorder()).transpose(0, 3, 1, 2),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "uint16", "int64"])
def test_lent_constants_have_the_elements_of_their_views(dtype):
    runtime = pytest.importorskip("onnxruntime")
    data = np.random.default_rng(0).integers(0, 100, (160, 3, 3, 80)).astype(dtype)
    kind = {"float32": wire.DataType.FLOAT, "float64": wire.DataType.DOUBLE}.get(dtype)
    kind = wire.DataType[dtype.upper()] if kind is None else kind
    views = {name: view(data) for name, view in VIEWS.items()}
    tensors = [wire.Tensor(name, kind, view.shape, view) for name, view in views.items()]
    assert all(map(lending.is_lendable, tensors))
    for chosen in (tensors, tensors[:1]):
        for name, lent in lending.lend(chosen, runtime).items():
            assert lent.flags.c_contiguous
            assert lent.dtype == dtype
            np.testing.assert_array_equal(lent, views[name])


@pytest.mark.parametrize("op", [Add(), Mul()], ids=["Add", "Mul"])
def test_codes_of_no_elements_are_refused_beside_a_single_one(op):
    """Its fused kernels read the code that isn't there."""
    b, quant = Builder(Graph("sums")), Quant.per_tensor(0.5, 0)
    x = b.input("x", DType.UINT8, ("n", 1), quant=quant)
    one = b.const(np.array([[4]], np.uint8), quant=quant)
    b.graph.outputs.append(b.add(op, [x, one], quant=quant))
    executable = compile_for(Model([Signature("", b.graph)]), "onnxruntime:cpu")
    (some,) = executable.run({"x": np.array([[2], [6]], np.uint8)}).values()
    assert some.reshape(-1).tolist() == ([6, 10] if isinstance(op, Add) else [4, 12])
    with pytest.raises(BackendError, match="without elements"):
        executable.run({"x": np.zeros((0, 1), np.uint8)})


@pytest.mark.parametrize(
    "op",
    [
        RnnLayer(functions=(Function("Tanh"),)),
        GruLayer(functions=(Function("Sigmoid"), Function("Tanh"))),
        LstmLayer(functions=(Function("Sigmoid"), Function("Tanh"), Function("Tanh"))),
    ],
    ids=lambda op: op.name,
)
@pytest.mark.parametrize("dims", [("t", 2, 3), (2, "b", 3), ("t", "b", 3)], ids=str)
def test_recurrences_of_nothing_are_refused(op, dims):
    """They end the process, or forget the states."""
    b = Builder(Graph("steps"))
    x = b.input("x", DType.FLOAT32, dims)
    weights = [b.const(np.ones((1, 4 * op.gates, n), np.float32)) for n in (3, 4)]
    b.graph.outputs.append(b.add_many(op, [x, *weights])[0])
    executable = compile_for(Model([Signature("", b.graph)]), "onnxruntime:cpu")
    (some,) = executable.run({"x": np.ones((2, 2, 3), np.float32)}).values()
    assert some.shape == (2, 1, 2, 4)
    nothing = np.zeros([0 if isinstance(d, str) else d for d in dims], np.float32)
    with pytest.raises(BackendError, match="no recurrences without elements"):
        executable.run({"x": nothing})


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("op", [MatMul(), FullyConnected()], ids=["MatMul", "FullyConnected"])
@pytest.mark.parametrize("perm", [(1, 0, 2), (1, 2, 0), (1, 2, 3, 0)], ids=str)
def test_halves_that_are_transposed_for_a_product(perm, op, as_file, tmp_path):
    """As one operation, which onnxruntime would make of both, they would end the process."""
    b = Builder(Graph("turned"))
    numbers = np.arange(24, dtype=np.float16).reshape((2, 3, 4, 1)[: len(perm)])
    turned = b.add(Transpose(perm=perm), [b.input("x", DType.FLOAT16, numbers.shape)])
    weights = np.arange(turned.shape[-1] * 5, dtype=np.float16).reshape(-1, 5)
    filters = weights if isinstance(op, MatMul) else weights.T.copy()
    b.graph.outputs.append(b.add(op, [turned, b.const(filters)]))
    model = Model([Signature("", b.graph)])
    if as_file:
        write(to_onnx(one_entry(model, model.main)).model, tmp_path / "turned.onnx")
    executable = compile_for(tmp_path / "turned.onnx" if as_file else model, "onnxruntime:cpu")
    (found,) = executable.run({"x": numbers}).values()
    np.testing.assert_array_equal(found, numbers.transpose(perm) @ weights)
