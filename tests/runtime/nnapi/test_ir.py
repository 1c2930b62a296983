"""Between the API's models and the graph that all formats share."""

import numpy as np
import pytest

import nnconv
from nnconv.errors import UnsupportedError, UsageError
from nnconv.formats.nnapi.check import least_level
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi.replay import replay
from support.nnapi_models import add_model, conv_model
from support.tflite_builder import TfliteBuilder

MODELS = {"add": add_model, "conv": lambda: conv_model(per_channel=True, nchw=False)}


def run(model, array, shape, dtype):
    """The only output of a model of the API for its only input."""
    compilation = nnapi.Compilation(model)
    compilation.finish()
    execution = nnapi.Execution(compilation)
    out = np.zeros(shape, dtype)
    execution.set_input(0, array)
    execution.set_output(0, out)
    execution.compute()
    return out


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back(name):
    model = replay(MODELS[name]())
    ir = model.to_ir()
    again = nnapi.Model.from_ir(ir)
    assert again.finished
    (value,), (result,) = ir.inputs, ir.outputs
    array = np.arange(np.prod(value.shape)).reshape(value.shape).astype(value.dtype.numpy)
    seen, wanted = (run(m, array, result.shape, result.dtype.numpy) for m in (again, model))
    np.testing.assert_array_equal(seen, wanted)
    operand = again.graph.operands[again.graph.inputs[0]]
    assert operand.name == value.name


def test_a_file_of_another_format_becomes_a_model(tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 3))
    b.output(b.op("MUL", [x, b.const(np.array([1, 2, 3], np.float32))], [("float32", (1, 3))]))
    path = tmp_path / "m.tflite"
    path.write_bytes(b.build())
    model = nnapi.Model.from_ir(nnconv.load(path))
    out = run(model, np.ones((1, 3), np.float32), (1, 3), np.float32)
    np.testing.assert_array_equal(out, [[1, 2, 3]])


def test_the_level_bounds_the_model():
    ir = replay(conv_model(nchw=False)).to_ir()
    assert least_level(nnapi.Model.from_ir(ir, feature_level=2).wire) <= 2
    with pytest.raises(UsageError, match="feature level 9"):
        nnapi.Model.from_ir(ir, feature_level=9)


def test_what_nnapi_lacks_is_listed(tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "complex64", (2,))
    b.output(b.op("COMPLEX_ABS", [x], [("float32", (2,))]))
    path = tmp_path / "m.tflite"
    path.write_bytes(b.build())
    with pytest.raises(UnsupportedError, match="complex64"):
        nnapi.Model.from_ir(nnconv.load(path))


@pytest.mark.parametrize("other", [None, 3, "model.onnx", {}])
def test_only_models_are_taken(other):
    with pytest.raises(UsageError, match="must be a Model"):
        nnapi.Model.from_ir(other)
