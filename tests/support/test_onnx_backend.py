import ml_dtypes
import numpy as np
import pytest

from support.onnx_backend import (
    Case,
    MismatchError,
    cases,
    compare,
    to_carrier,
    with_plain_interface,
)
from support.onnx_backend_worker import Worker

BFLOAT16 = ml_dtypes.bfloat16
INT4 = ml_dtypes.int4
FLOAT8 = ml_dtypes.float8_e4m3fn


def case(*outputs):
    return Case("test_x", "X", ("X",), b"", (), outputs, [], 1e-3, 1e-7)


def array(values, dtype=np.float32):
    return np.array(values, np.float32).astype(dtype)


@pytest.mark.parametrize(
    ("want", "have"),
    [
        pytest.param(array([1, np.nan]), array([1.0009, np.nan]), id="within rtol"),
        pytest.param(array([[]]), array([[]]), id="empty"),
        pytest.param(array(2), np.float32(2), id="scalar"),
        pytest.param(array([1], BFLOAT16), array([1.0078125], BFLOAT16), id="bfloat16 step"),
        pytest.param(array([1, -2], INT4), array([1, -2], np.int8), id="int4 in int8"),
        pytest.param(array([1.5], FLOAT8), array([1.5], FLOAT8).view(np.uint8), id="float8 bits"),
        pytest.param(np.array(["a"], object), np.array([b"a"], object), id="strings"),
    ],
)
def test_equal_enough(want, have):
    compare(case("y"), [want], [have])


@pytest.mark.parametrize(
    ("want", "have", "said"),
    [
        pytest.param(array([1]), array([1.002]), "tolerance", id="value"),
        pytest.param(array([1]), array([np.nan]), "tolerance", id="nan"),
        pytest.param(array([1]), array([[1]]), "shape", id="shape"),
        pytest.param(array([1]), array([1], np.float64), "float64, expected float32", id="type"),
        pytest.param(array([1], INT4), array([1], np.int16), "int16, expected int4", id="carrier"),
        pytest.param(array([1], INT4), array([2], np.int8), "tolerance", id="int4"),
        pytest.param(array([1.5], FLOAT8), array([1.0], FLOAT8), "tolerance", id="float8"),
        pytest.param(np.array(["a"], object), np.array(["b"], object), "expected", id="strings"),
        pytest.param([array(1)], [array(1)], "list", id="sequence"),
    ],
)
def test_different(want, have, said):
    with pytest.raises(MismatchError, match=said):
        compare(case("y"), [want], [have])


def test_a_missing_output():
    with pytest.raises(MismatchError, match="1 outputs, 2 expected"):
        compare(case("y", "z"), [array(1), array(1)], [array(1)])


def test_carriers():
    assert to_carrier(array([1], INT4), np.dtype(np.int8)).dtype == np.int8
    assert to_carrier(array([1], BFLOAT16), np.dtype(BFLOAT16)).dtype == BFLOAT16
    assert to_carrier(array([1], FLOAT8), np.dtype(np.uint8)).tolist() == [0x38]
    with pytest.raises(MismatchError, match="an input is int32, expected int64"):
        to_carrier(np.array([1]), np.dtype(np.int32))


def test_a_model_of_types_that_onnxruntime_cannot_pass_gets_casts():
    import onnx

    model = onnx.load_from_string(with_plain_interface(cases()["test_cast_INT4_to_INT8"].model))
    assert [node.op_type for node in model.graph.node] == ["Cast", "Cast"]
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.INT8
    onnx.checker.check_model(model, full_check=True)


def test_a_case_has_what_onnx_says():
    relu = cases()["test_relu"]
    assert (relu.family, relu.inputs, relu.outputs) == ("Relu", ("x",), ("y",))
    ((x,), (y,)) = relu.data_sets[0]
    assert np.array_equal(np.clip(x, 0, np.inf), y)
    assert cases()["test_relu_expanded_ver18"].family == "Relu"


def test_a_crash_costs_only_its_own_case():
    with Worker() as worker:
        assert worker.run("test_relu", "original").passed
        worker._process.kill()
        crashed = worker.run("test_relu", "original")
        assert crashed.crashed
        assert "SIGKILL" in crashed.error
        assert worker.run("test_relu", "original").passed


def test_a_case_that_takes_too_long_is_ended():
    with Worker(seconds=0) as worker:
        outcome = worker.run("test_relu", "original")
        assert (outcome.error, outcome.crashed) == ("it didn't finish in time", True)


def test_an_error_is_told():
    with Worker() as worker:
        outcome = worker.run("test_nothing", "original")
        assert (outcome.error, outcome.crashed) == ("KeyError: 'test_nothing'", False)
