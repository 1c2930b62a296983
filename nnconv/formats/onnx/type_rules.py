"""Which ONNX ops take floats alone.

Runtimes load no model that gives them anything else. onnx's own schemas say so in every version
since opset 7.
"""

from __future__ import annotations

from nnconv.formats.onnx.importer import Source

_OPERANDS = {
    (0,): (
        "Acos Acosh AffineGrid Asin Asinh Atan Atanh AveragePool Bernoulli Ceil Celu Cos "
        "Cosh DFT Det DynamicQuantizeLinear Elu Exp Floor Gelu GlobalAveragePool "
        "GlobalLpPool GlobalMaxPool HardSigmoid HardSwish Hardmax LRN LeakyRelu Log "
        "LogSoftmax LpNormalization LpPool MaxUnpool MeanVarianceNormalization Mish "
        "Multinomial Reciprocal Round Selu Sigmoid Sin Sinh Softmax Softplus Softsign Sqrt "
        "Swish Tan Tanh ThresholdedRelu"
    ),
    (1,): "GridSample Upsample",
    (0, 1): "MaxRoiPool RMSNormalization RoiAlign",
    (0, 2): "STFT",
    (1, 2): "Resize",
    (3, 4): "MelWeightMatrix",
    (0, 1, 2): "Conv ConvTranspose GroupNormalization InstanceNormalization LayerNormalization",
    (1, 4, 6): "QLinearConv QLinearMatMul",
    (0, 1, 3, 4): "NonMaxSuppression",
    (0, 1, 2, 3, 4): "BatchNormalization DeformConv",
    (0, 1, 2, 3, 5): "GRU RNN",
    (0, 1, 2, 3, 5, 6, 7): "LSTM",
    (): "Mean Sum",
}

FLOATS_ALONE = {op: places for places, ops in _OPERANDS.items() for op in ops.split()}
"""The operands of an op that are floats in every version of it; none listed: all of them."""


def check_floats(src: Source) -> None:
    """See that a node of the standard operator set gets floats where it takes nothing else.

    Raises:
        InvalidModelError: it gets other numbers.
    """
    places = FLOATS_ALONE.get(src.name)
    if places is None:
        return
    for place in places or range(src.operand_count):
        value = src.optional(place)
        if value is not None and not value.dtype.is_float:
            raise src.fail(f"`{value.name}` is {value.dtype}, {src.name} takes floats alone")
