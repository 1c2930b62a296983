"""Random inputs are of the kind that their types and uses call for."""

from typing import NamedTuple

import numpy as np
import pytest

from nnconv.diff.inputs import meanings_of, random_array, random_inputs
from nnconv.diff.meanings import Meaning, index
from nnconv.errors import UsageError
from nnconv.ir import DType, Quant
from support.gather_model import gather


class Input(NamedTuple):
    name: str
    dtype: DType
    shape: tuple[int | str | None, ...] | None
    quant: Quant | None = None


def draw(*inputs, **options):
    return random_inputs(inputs, **{"seed": 0, **options})


def test_floats_are_standard_normal():
    for dtype in (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64):
        x = draw(Input("x", dtype, (1000, 7)))["x"]
        assert (x.dtype, x.shape) == (dtype.numpy, (1000, 7))
        assert abs(float(x.mean())) < 0.05
        assert abs(float(x.std()) - 1) < 0.05


@pytest.mark.parametrize(
    "dtype", [DType.INT4, DType.UINT4, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16]
)
@pytest.mark.parametrize("quant", [None, Quant.per_tensor(0.5, 3)])
def test_codes_take_the_full_range(dtype, quant):
    q = draw(Input("q", dtype, (10_000,) if dtype.bits <= 8 else (1_000_000,), quant))["q"]
    assert q.dtype == dtype.numpy
    assert (q.min(), q.max()) == dtype.int_range


@pytest.mark.parametrize("dtype", [DType.INT32, DType.UINT32, DType.INT64, DType.UINT64])
def test_wide_integers_are_small_and_not_negative(dtype):
    i = draw(Input("i", dtype, (1000,)))["i"]
    assert (i.dtype, i.min(), i.max()) == (dtype.numpy, 0, 7)
    rng = np.random.default_rng(0)
    assert random_array(Input("i", dtype, (1000,)), rng, below=3).max() == 2
    for extent in (3, 1, 0):
        found = draw(Input("i", dtype, (1000,)), known={"i": Meaning(index, (extent, 9))})["i"]
        assert (found.dtype, found.max()) == (dtype.numpy, max(extent - 1, 0))


def test_booleans_and_complex_numbers():
    found = draw(Input("b", DType.BOOL, (100,)), Input("c", DType.COMPLEX64, (100,)))
    assert found["b"].dtype == np.bool_
    assert set(found["b"].tolist()) == {False, True}
    assert found["c"].dtype == np.complex64
    assert found["c"].imag.std() > 0.5


def test_open_extents_are_filled():
    found = draw(Input("x", DType.FLOAT32, (None, "n", 3)), Input("s", DType.FLOAT32, ()))
    assert (found["x"].shape, found["s"].shape) == ((1, 1, 3), ())
    assert draw(Input("x", DType.FLOAT32, (None, 3)), extent=4)["x"].shape == (4, 3)


def test_same_seed_gives_the_same_inputs():
    x = Input("x", DType.FLOAT32, (5,))
    np.testing.assert_array_equal(draw(x)["x"], draw(x)["x"])
    assert not np.array_equal(draw(x)["x"], draw(x, seed=1)["x"])


def test_strings_must_be_given():
    with pytest.raises(UsageError, match="strings of input `s`"):
        draw(Input("s", DType.STRING, (1,)))


def test_what_a_file_says_of_its_inputs_counts(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(gather(0))
    assert meanings_of(path) == {"i": Meaning(index, (5,))}
    path.write_bytes(gather(0)[:100])
    assert meanings_of(path) == {}
