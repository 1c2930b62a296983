"""Between the API's models and the graph that all formats share."""

import numpy as np
import pytest

import nnconv
from nnconv.errors import UnsupportedError, UsageError
from nnconv.formats.nnrt.reader import import_model
from nnconv.formats.tflite.reader import read
from nnconv.runtime import nnrt
from support.nnrt_ops import Given, graph_of
from support.nnrt_runtime import array, device_id, finished, run_by_calls
from support.places import ROOT
from support.tflite_builder import TfliteBuilder

FIXTURES = sorted((ROOT / "fixtures").glob("*/*.tflite"))


def feeds_of(model):
    """Arrays for a model's inputs."""
    rng = np.random.default_rng(3)
    found = {}
    for value in model.inputs:
        shape = tuple(extent if isinstance(extent, int) else 1 for extent in value.shape)
        dtype = value.dtype.numpy
        whole = rng.integers(0, 100, shape)
        found[value.name] = (whole / 100 if dtype.kind == "f" else whole).astype(dtype)
    return found


def test_there_and_back():
    ir = finished().to_ir()
    again = nnrt.Model.from_ir(ir)
    assert again.usable
    results = run_by_calls(again.graph, [array(), array()])
    assert np.array_equal(results[0], 2 * array())
    names = [again.graph.tensors[index].name for index in again.graph.inputs]
    assert names == [value.name for value in ir.inputs]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_files_of_another_format_become_models(path):
    model = nnconv.load(path)
    made = nnrt.Model.from_ir(model)
    feeds = feeds_of(model)
    with nnconv.compile(model, "reference") as executable:
        wanted = executable.run(feeds)
    results = run_by_calls(made.graph, list(feeds.values()))
    for result, want in zip(results, wanted.values(), strict=True):
        if want.dtype.kind == "f":
            np.testing.assert_allclose(result.reshape(want.shape), want, rtol=1e-4, atol=1e-5)
        else:
            apart = np.abs(result.astype(np.int64) - want.astype(np.int64))
            assert apart.max() <= 1


def one_op(name, dtype="float32"):
    """A model of one TFLite op on one input."""
    b = TfliteBuilder()
    x = b.input("x", dtype, (1, 3))
    inputs = [x, x] if name in ("ADD", "RIGHT_SHIFT") else [x]
    b.output(b.op(name, inputs, [(dtype, (1, 3))]))
    return read(b.build())


def test_the_version_bounds_the_model():
    x = np.ones((1, 3))
    model = import_model(graph_of("MOD", {"input1": x, "input2": x}, {}, [Given(x)]))
    assert nnrt.Model.from_ir(model).get_available_operations(device_id()) == [True]
    with pytest.raises(UnsupportedError, match="version 1 has no MOD"):
        nnrt.Model.from_ir(model, api=1)
    old = nnrt.Model.from_ir(one_op("ADD"), api=1)
    assert old.api == old.graph.api == 1
    values = np.array([[-1, 0, 2]], np.float32)
    assert np.array_equal(run_by_calls(old.graph, [values])[0], 2 * values)
    with pytest.raises(UsageError):
        nnrt.Model.from_ir(model, api=3)


def test_what_nnrt_lacks_is_listed():
    with pytest.raises(UnsupportedError, match="complex64, NNRt has no such type"):
        nnrt.Model.from_ir(one_op("ADD", "complex64"))


@pytest.mark.parametrize("other", [None, 3, "model.onnx", {}])
def test_only_models_are_taken(other):
    with pytest.raises(UsageError, match="must be a Model"):
        nnrt.Model.from_ir(other)
