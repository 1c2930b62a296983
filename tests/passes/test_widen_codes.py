"""Codes of fewer than 8 bits as codes of 8."""

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Quant
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.ops.shape import Concat, Reshape
from nnconv.passes.base import run_passes
from nnconv.passes.widen_codes import WidenCodesPass
from support.nnapi_spine import NnapiCase, check_nnapi
from support.tflite_spine import model_of

KINDS = {
    "int4": (DType.INT4, Quant.per_tensor(0.4, 0)),
    "uint4": (DType.UINT4, Quant.per_tensor(0.4, 7)),
    "int2": (DType.INT2, Quant.per_tensor(0.4, 0)),
}
EACH = pytest.mark.parametrize("kind", KINDS)


def table(b: Builder, kind, shape=(5, 4)):
    """A constant of all codes."""
    dtype, quant = KINDS[kind]
    low, high = dtype.int_range
    codes = np.resize(np.arange(low, high + 1), shape)
    carrier = np.uint8 if kind == "uint4" else np.int8
    return b.const(codes.astype(carrier), quant=quant, dtype=dtype)


def rows(kind):
    def build(b: Builder):
        places = b.input("places", DType.INT32, (3,))
        found = b.add(Gather(axis=0), [table(b, kind), places], quant=KINDS[kind][1])
        return b.add(Dequantize(dtype=DType.FLOAT32), [found])

    return build


@EACH
def test_rows_of_a_table(kind):
    feeds = [np.array([4, 0, 2], np.int32)]
    check_nnapi(NnapiCase(kind, rows(kind), feeds, operations={"GATHER": 1, "DEQUANTIZE": 1}))


def quantized(kind):
    def build(b: Builder):
        dtype, quant = KINDS[kind]
        x = b.input("x", DType.FLOAT32, (4, 8))
        codes = b.add(Quantize(dtype=dtype), [x], quant=quant)
        both = b.add(Concat(axis=0), [codes, table(b, kind, (1, 8))], quant=quant)
        moved = b.add(Reshape(shape=(8, 5)), [both], quant=quant)
        return b.add(Dequantize(dtype=DType.FLOAT32), [moved])

    return build


@EACH
def test_numbers_are_clamped_to_what_the_narrow_type_holds(kind):
    x = np.linspace(-9, 9, 32, dtype=np.float32).reshape(4, 8)
    check_nnapi(NnapiCase(kind, quantized(kind), [x]))


@EACH
def test_no_narrow_codes_are_left(kind):
    model = model_of(quantized(kind), format="tflite", source=kind)
    run_passes(model, [WidenCodesPass()], verify=True)
    values = [v for node in model.graph.nodes for v in (*node.inputs, *node.outputs) if v]
    assert min(v.dtype.bits for v in values) == 8
    assert any(isinstance(node.op, e.Clip) for node in model.graph.nodes)


def test_outputs_keep_their_type():
    def build(b: Builder):
        dtype, quant = KINDS["int4"]
        x = b.input("x", DType.FLOAT32, (4, 8))
        return b.add(Quantize(dtype=dtype), [x], quant=quant)

    model = model_of(build, format="tflite", source="output")
    run_passes(model, [WidenCodesPass()], verify=True)
    assert model.graph.outputs[0].dtype is DType.INT4
