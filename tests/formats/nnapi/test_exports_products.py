"""IR to NNAPI: products on codes whose operation takes less than the op does."""

import numpy as np
import pytest

from nnconv.ir import Activation, Builder, DType
from nnconv.ir.quant import Quant
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.shape import Reshape
from support.nnapi_spine import NnapiCase, check_nnapi

QUANTS = {DType.INT8: Quant.per_tensor(0.05, 3), DType.UINT8: Quant.per_tensor(0.05, 131)}


def layer(shape, dtype=DType.INT8, *, bias=False, **more):
    """A layer whose filters have scales of their own."""

    def build(b: Builder):
        rng = np.random.default_rng(1)
        x = b.input("x", dtype, shape, quant=QUANTS[dtype])
        scales = rng.uniform(0.01, 0.03, 4)
        codes = rng.integers(-127, 128, (4, 5)).astype(np.int8)
        operands = [x, b.const(codes, "w", quant=Quant.per_channel(scales, axis=0))]
        if bias:
            sums = Quant.per_channel(scales * 0.05, axis=0)
            operands.append(b.const(rng.integers(-900, 900, 4).astype(np.int32), quant=sums))
        result = Quant.per_tensor(0.2, QUANTS[dtype].zero_point[0])
        return b.add(FullyConnected(**more), operands, quant=result, dtype=dtype)

    return build


def product(a, c, dtype=DType.INT8, **more):
    """A product of two matrices of a run."""

    def build(b: Builder):
        quant = QUANTS[dtype]
        operands = [b.input(n, dtype, shape, quant=quant) for n, shape in (("a", a), ("b", c))]
        return b.add(MatMul(**more), operands, quant=Quant.per_tensor(0.2, quant.zero_point[0]))

    return build


PIXELS = {"CONV_2D": 1, "RESHAPE": 2}
ROWS = {"RESHAPE": 3, "SLICE": 4, "TRANSPOSE": 2, "FULLY_CONNECTED": 2, "CONCATENATION": 1}
CASES = [
    NnapiCase("layer", layer((3, 5)), operations=PIXELS, steps=1),
    NnapiCase("layer-bias", layer((3, 5), bias=True), operations=PIXELS, steps=1),
    NnapiCase("layer-u8", layer((3, 5), DType.UINT8), operations=PIXELS, steps=1),
    NnapiCase("layer-level-3", layer((3, 5), DType.UINT8), operations=PIXELS, steps=1, level=3),
    NnapiCase("layer-clamped", layer((3, 5), activation=Activation.RELU6), operations=PIXELS,
              steps=1),
    NnapiCase("layer-rank-3", layer((2, 3, 5)), operations=PIXELS, steps=1),
    NnapiCase("layer-rank-1", layer((5,)), operations=PIXELS, steps=1),
    NnapiCase("layer-level-2", layer((3, 5), DType.UINT8), level=2, refused="level 3"),
    NnapiCase("product-level-3", product((2, 3, 4), (2, 4, 5), DType.UINT8), steps=1, level=3,
              operations=ROWS),
    NnapiCase("product-turned-level-4", product((2, 4, 3), (2, 5, 4), transpose_a=True,
              transpose_b=True), steps=1, level=4,
              operations=ROWS),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_of_codes(case: NnapiCase) -> None:
    check_nnapi(case)


@pytest.mark.parametrize(
    ("a", "c"),
    [
        ((1, 4, 3, 2, 5), (1, 1, 3, 5, 6)),
        ((2, 1, 1, 2, 5), (2, 4, 3, 5, 6)),
        ((2, 4, 3, 2, 5), (3, 5, 6)),
        ((1, 2, 3, 4, 2, 5), (1, 1, 3, 4, 5, 6)),
    ],
)
def test_neighbouring_dimensions_that_one_operand_repeats_are_one(a, c):
    def build(b: Builder):
        rows = [b.input(n, DType.FLOAT32, (int(np.prod(d)),)) for n, d in (("a", a), ("b", c))]
        operands = [b.add(Reshape(shape=d), [row]) for d, row in zip((a, c), rows, strict=True)]
        return b.add(Reshape(shape=(-1,)), [b.add(MatMul(), operands)])

    check_nnapi(NnapiCase("product", build))
