"""All conversions between the four formats, of the project's own models, each on two devices.

The digits are a convolutional network in every kind of numbers; the nets have recurrence, control
flow, attention, a detector's pyramid and convolutions of one dimension.
"""

from itertools import permutations, product

import numpy as np
import pytest

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats import FORMATS
from nnconv.ir import Builder, DType, Graph, Model, Signature
from nnconv.ops.shape import Tile
from support.nets import NETS, feeds_of
from support.places import FIXTURES

MODELS = [*sorted((FIXTURES / "digits").glob("*.tflite")), *sorted(NETS.glob("*.onnx"))]

DEVICES = ("reference", "onnxruntime:cpu")
"""Where a result runs; a .tflite runs on LiteRT instead of onnxruntime."""

REFUSED = {
    ("nnrt", "search"): "NNRt has no While",
}
"""Models that a format can't hold, and why: by the format and the model."""

WIDENED = {("nnapi", DType.INT16): DType.INT32}
"""Types of inputs and outputs that a format lacks, and what it has instead."""

DIRECTIONS = [*permutations(FORMATS, 2), *((kind, kind) for kind in FORMATS)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Each model in each format, by model and format."""
    folder = tmp_path_factory.mktemp("formats")
    made = {}
    for model, kind in product(MODELS, FORMATS):
        if (kind, model.stem) in REFUSED:
            continue
        made[model.stem, kind] = folder / f"{model.stem}.{kind}"
        nnconv.convert(model, made[model.stem, kind])
    return made


@pytest.fixture(scope="module")
def images():
    with np.load(FIXTURES / "digits" / "heldout.npz") as data:
        return data[data.files[0]][:1]


def extents_of(value):
    """The extents, None for those that are open: what they are called is a matter of formats."""
    return [extent if isinstance(extent, int) else None for extent in value.shape]


def feeds_of_digits(model, images):
    (value,) = model.inputs
    x = images.reshape([extent or 1 for extent in extents_of(value)]).astype(np.float32)
    if value.dtype.value == "float32":
        return {value.name: x}
    scale = 2.0**-15 if value.quant is None else value.quant.scale[0]  # it was of 16 bits
    point = 0 if value.quant is None else value.quant.zero_point[0]
    kind = value.dtype.numpy
    codes = np.round(x / x.max() / scale) + point
    return {value.name: np.clip(codes, np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)}


def results(path, device, feeds):
    if path.suffix == ".tflite" and device != "reference":
        device = "litert:cpu"
    executable = nnconv.compile(path, device)
    found = executable.run(feeds)
    executable.close()
    return found


def assert_alike(seen, wanted, *, model, hybrid):
    assert seen.shape == wanted.shape
    if wanted.dtype.kind == "f":
        # LiteRT quantizes the data of layers whose weights alone are codes.
        np.testing.assert_allclose(seen, wanted, rtol=1e-3, atol=5e-3 if hybrid else 1e-4)
    else:
        # Kernels of 16 bits round each product: a thousandth of the range.
        steps = 64 if model == "digits_int16x8" else 1
        assert np.abs(seen.astype(int) - wanted.astype(int)).max(initial=0) <= steps


@pytest.mark.parametrize("model", [path.stem for path in MODELS])
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_results_stay_the_same(source, target, model, files, images, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    result = tmp_path / f"again.{target}"
    if (source, model) in REFUSED:
        pytest.skip(REFUSED[source, model])
    path = files[model, source]
    if (target, model) in REFUSED:
        with pytest.raises(UnsupportedError, match=REFUSED[target, model]):
            nnconv.convert(path, result)
        assert not result.exists()
        return
    nnconv.convert(path, result)
    before, after = nnconv.load(path), nnconv.load(result)
    for mine, its in zip(
        (*before.inputs, *before.outputs), (*after.inputs, *after.outputs), strict=True
    ):
        kind = WIDENED.get((target, mine.dtype), mine.dtype)
        assert (mine.name, extents_of(mine), kind) == (its.name, extents_of(its), its.dtype)
    is_digits = model.startswith("digits")
    feeds = feeds_of_digits(before, images) if is_digits else feeds_of(before)
    wanted = results(path, "reference", feeds)
    given = {value.name: feeds[value.name].astype(value.dtype.numpy) for value in after.inputs}
    for device in DEVICES:
        seen = results(result, device, given)
        assert list(seen) == list(wanted)
        for name, want in wanted.items():
            hybrid = model == "digits_dynamic" and result.suffix == ".tflite"
            assert_alike(seen[name], want, model=model, hybrid=hybrid)


@pytest.mark.parametrize(("kind", "model"), REFUSED)
def test_what_a_format_refuses_is_all_that_it_lacks(kind, model, tmp_path):
    """Whatever is listed as refused must be: else the table hides a conversion that works."""
    (path,) = (path for path in MODELS if path.stem == model)
    with pytest.raises(UnsupportedError, match=REFUSED[kind, model]):
        nnconv.convert(path, tmp_path / f"model.{kind}")


@pytest.mark.parametrize("target", ["nnapi", "nnrt"])
@pytest.mark.parametrize("extent", [(1 << 31) - 1, 1 << 33])
def test_tensors_beyond_a_format_are_refused_and_nothing_is_written(tmp_path, target, extent):
    builder = Builder(Graph("g"))
    x = builder.input("x", DType.FLOAT32, (1, 1))
    builder.graph.outputs = [builder.add(Tile(repeats=(extent, 1)), [x], name="y")]
    model = Model([Signature("", builder.graph)])
    with pytest.raises(UnsupportedError, match=r"bytes|int32"):
        nnconv.save(model, tmp_path / f"out.{target}")
    assert not list(tmp_path.iterdir())
