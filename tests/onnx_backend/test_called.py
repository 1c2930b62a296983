"""onnx's own node tests as NNAPI and NNRt models: right results, or a refusal that says why.

The models go through their files, NNAPI's or NNRt's rules, and the reference backend. A sample of
the tests; with ``NNCONV_ALL_TRIPS=1`` all of them.
"""

import os

import numpy as np
import pytest

import nnconv
from nnconv.errors import UnsupportedError
from support.onnx_backend import cases, compare, onnx_version, scope, to_carrier

SCOPE = scope()
EACH = 1 if os.environ.get("NNCONV_ALL_TRIPS") == "1" else 6
"""Every so manieth test."""

NAMES = SCOPE.inside[::EACH]
MOST_REFUSED = 0.25
"""The part of the tests that may be refused: most of them are of types that the formats lack."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["nnapi", "nnrt"])
def test_a_node_test_gives_its_results_or_is_refused(name, kind, tmp_path):
    case = cases().get(name)
    if case is None:
        pytest.skip(f"onnx {onnx_version()} has no such test")
    source, target = tmp_path / "case.onnx", tmp_path / f"case.{kind}"
    source.write_bytes(case.model)
    refusal = None
    try:
        nnconv.save(nnconv.load(source), target, kind)
    except UnsupportedError as error:
        refusal = error
    if refusal is not None:
        assert refusal.items, "it is refused without a reason"
        return
    runnable = nnconv.compile(nnconv.load(target, kind), device="reference")
    for given, wanted in case.data_sets:
        feeds = {
            info.name: narrowed(to_carrier(array, array.dtype), info)
            for info, array in zip(runnable.inputs, given, strict=True)
        }
        results = list(runnable.run(feeds).values())
        seen = [alike(have, want) for have, want in zip(results, wanted, strict=True)]
        sizes = [np.abs(w[np.isfinite(w)]).max(initial=0) for w in wanted if w.dtype.kind == "f"]
        loose = max(case.atol, 1e-6 * max(sizes, default=0))
        compare(case._replace(atol=loose), wanted, seen)


def narrowed(array, info):
    """An input as the model takes it: of rank 1 for 0, and of the types that its format has."""
    shape = array.shape if len(info.shape) == array.ndim else (1,)
    return np.asarray(array).astype(info.dtype.numpy).reshape(shape)


def alike(array, wanted):
    """A result as the test expects it, where rank 0, int64, int16 and float64 became others."""
    array = np.asarray(array)
    if array.dtype == np.float32 and wanted.dtype == np.float64:
        array = array.astype(wanted.dtype)
    if array.dtype == np.int32 and wanted.dtype.kind in "iu":
        narrow = array.astype(wanted.dtype)
        assert (narrow == array).all(), "it is no number of the type that is expected"
        array = narrow
    return array.reshape(()) if wanted.shape == () and array.shape == (1,) else array


@pytest.mark.parametrize("kind", ["nnapi", "nnrt"])
def test_few_node_tests_are_refused(kind, tmp_path):
    names = [name for name in SCOPE.inside[:: 4 * EACH] if name in cases()]
    count = 0
    for name in names:
        source = tmp_path / "case.onnx"
        source.write_bytes(cases()[name].model)
        count += bool(nnconv.check(source, kind).obstacles)
    assert count <= MOST_REFUSED * len(names)
