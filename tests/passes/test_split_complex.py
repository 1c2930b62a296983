"""Complex values as real and imaginary parts."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType
from nnconv.ir.clone import clone_model
from nnconv.lowering import to_nnrt
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, Reshape, Transpose
from nnconv.ops.signal import RFFT2D
from nnconv.passes.base import run_passes
from nnconv.passes.split_complex import SplitComplexPass
from support.nnapi_spine import NnapiCase, check_nnapi
from support.tflite_spine import model_of

READ = {
    "real": (e.Real(), np.real),
    "imaginary": (e.Imag(), np.imag),
    "size": (e.ComplexAbs(), np.abs),
    "cast": (Cast(dtype=DType.FLOAT32), np.real),
}
LENGTHS = {
    "rows": ((2, 1, 8), (1, 8)),
    "whole": ((2, 4, 8), (4, 8)),
    "cut": ((3, 5, 10), (4, 8)),
    "filled": ((3, 2), (4, 8)),
    "no-power": ((6, 10), (6, 10)),
}


def spectrum(shape, length, op):
    def build(b: Builder):
        return b.add(op, [b.add(RFFT2D(length=length), [b.input("x", DType.FLOAT32, shape)])])

    return build


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("name", LENGTHS)
def test_spectra(name, read):
    shape, length = LENGTHS[name]
    op, part = READ[read]
    expected = lambda x: part(np.fft.rfft2(x.astype(np.float64), s=length)).astype(np.float32)  # noqa: E731
    case = NnapiCase(name, spectrum(shape, length, op), expected=expected, tolerance=1e-5)
    check_nnapi(case)


def moved_and_joined(b: Builder):
    x = b.input("x", DType.FLOAT32, (2, 1, 8))
    found = b.add(RFFT2D(length=(1, 8)), [x])
    turned = b.add(Transpose(perm=(1, 0, 2)), [b.add(Reshape(shape=(2, 1, 5)), [found])])
    both = b.add(Concat(axis=0), [turned, turned])
    return [b.add(op, [both]) for op in (e.ComplexAbs(), e.Real(), e.Imag())]


def test_parts_are_moved_alike():
    check_nnapi(NnapiCase("moves", moved_and_joined))


def test_nothing_complex_is_left():
    model = model_of(moved_and_joined, format="tflite", source="moves")
    run_passes(model, [SplitComplexPass()], verify=True)
    read = {v for node in model.graph.nodes for v in node.inputs if v is not None}
    kinds = {v.dtype for v in read if v.producer is None or not isinstance(v.producer.op, RFFT2D)}
    assert DType.FLOAT32 in kinds
    assert not any(v.dtype is DType.COMPLEX64 for v in model.graph.outputs)


def test_what_reads_complex_numbers_otherwise_stays():
    def build(b: Builder):
        return b.add(RFFT2D(length=(1, 8)), [b.input("x", DType.FLOAT32, (2, 1, 8))])

    model = model_of(build, format="tflite", source="complex")
    run_passes(model, [SplitComplexPass()], verify=True)
    assert model.graph.outputs[0].dtype is DType.COMPLEX64


def test_nnrt_gets_parts_too():
    model = model_of(moved_and_joined, format="tflite", source="moves")
    x = np.random.default_rng(2).normal(size=(2, 1, 8)).astype(np.float32)
    wanted = run_graph(model.graph, [x])
    lowered = to_nnrt(clone_model(model))
    from nnconv.formats.nnrt.reader import import_model

    again = import_model(lowered.model)
    for seen, right in zip(run_graph(again.graph, [x]), wanted, strict=True):
        np.testing.assert_allclose(seen, right, rtol=1e-5, atol=1e-5)
