"""Convolutions: kind of weights x form x padding, with every dimension different."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from support.spine import Case, check
from support.tflite_builder import Tensor, TfliteBuilder
from support.weighted import HYBRID, KINDS, X_QUANT, Y_QUANT, Kind, bias, weights

CONV_KINDS = [
    *KINDS,
    Kind("float32", "int8", tolerance=HYBRID),
    Kind("float32", "int8", channels=True, tolerance=HYBRID),
    Kind("float32", "int4", tolerance=HYBRID),
    Kind("float32", "int4", channels=True, tolerance=HYBRID),
    Kind("int8", "int4", channels=True, bias="int32"),
    Kind("int16", "int4", channels=True, bias="int64"),
]
DEPTHWISE_KINDS = [
    *KINDS,
    Kind("float32", "int8", channels=True, tolerance=HYBRID),
    Kind("int8", "int4", channels=True, bias="int32"),
]


@dataclass(frozen=True)
class Form:
    """One CONV_2D or DEPTHWISE_CONV_2D, without its types.

    Attributes:
        id: its name.
        x: shape of the data.
        filter: shape of the filter, in TFLite's order.
        stride, dilation, padding, activation: options.
        depthwise: which of the ops.
    """

    id: str
    x: tuple[int, int, int, int] = (2, 7, 6, 4)
    filter: tuple[int, int, int, int] = (5, 3, 2, 4)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: str = "SAME"
    activation: str = "NONE"
    depthwise: bool = False

    def __str__(self) -> str:
        return self.id

    @property
    def y(self) -> tuple[int, int, int, int]:
        count = self.filter[3] if self.depthwise else self.filter[0]
        extents = []
        for i in range(2):
            extent, reach = self.x[1 + i], (self.filter[1 + i] - 1) * self.dilation[i] + 1
            if self.padding == "VALID":
                extent -= reach - 1
            extents.append(-(-extent // self.stride[i]))
        return (self.x[0], extents[0], extents[1], count)


def add_conv(
    b: TfliteBuilder, form: Form, kind: Kind, *, signature: tuple[int, ...] | None = None
) -> Tensor:
    """Add an input and a convolution of a form and kind; ``signature`` is the input's."""
    x = b.input("x", kind.x, form.x, quant=X_QUANT[kind.x], signature=signature)
    w, scales = weights(b, kind, form.filter, axis=3 if form.depthwise else 0)
    options = {
        "padding": form.padding,
        "stride_h": form.stride[0],
        "stride_w": form.stride[1],
        "dilation_h_factor": form.dilation[0],
        "dilation_w_factor": form.dilation[1],
        "fused_activation_function": form.activation,
    }
    if form.depthwise:
        options["depth_multiplier"] = form.filter[3] // form.x[3]
    name = "DEPTHWISE_CONV_2D" if form.depthwise else "CONV_2D"
    offset = bias(b, kind, form.y[3], scales)
    result = (kind.x, form.y, Y_QUANT[kind.x])
    made = b.op(name, [x, w, offset], [result], options=options)
    assert isinstance(made, Tensor)
    return made


def build_conv(b: TfliteBuilder, form: Form, kind: Kind) -> None:
    """The model of a form and kind."""
    b.output(add_conv(b, form, kind))


def conv_case(form: Form, kind: Kind) -> Case:
    """The case of a form and kind."""
    return Case(f"{form}-{kind}", lambda b: build_conv(b, form, kind), tolerance=kind.tolerance)


PLAIN = Form("same")
FORMS = [
    PLAIN,
    Form("valid-stride", padding="VALID", stride=(2, 1)),
    Form("same-dilation", dilation=(2, 3), activation="RELU"),
    Form("groups", filter=(6, 3, 2, 2), stride=(1, 2), activation="RELU6"),
    Form("pointwise", filter=(5, 1, 1, 4), activation="RELU_N1_TO_1"),
]
DEPTHWISE = Form("depthwise", filter=(1, 3, 2, 4), depthwise=True)
DEPTHWISE_FORMS = [
    replace(DEPTHWISE, stride=(2, 2), padding="VALID", activation="RELU6"),
    replace(DEPTHWISE, id="depthwise-2", filter=(1, 3, 2, 8)),
    replace(DEPTHWISE, id="depthwise-3", filter=(1, 3, 2, 12), stride=(1, 2), activation="RELU"),
    replace(DEPTHWISE, id="depthwise-of-one", x=(2, 7, 6, 1), filter=(1, 3, 2, 5)),
    replace(DEPTHWISE, id="depthwise-1d", x=(2, 1, 9, 4), filter=(1, 1, 4, 4)),
]
GRID = [  # SAME of every stride, dilation and window; a window shorter than the stride leaves gaps
    Form(
        f"grid-{window}-{stride}-{dilation}-{extent}",
        x=(1, extent, extent + 1, 2),
        filter=(3, window, window, 2),
        stride=(stride, stride),
        dilation=(dilation, dilation),
    )
    for window in (1, 2, 3, 5)
    for stride, dilation in ((1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (1, 3), (2, 2))
    for extent in (7, 8)
]
CASES = [
    *(conv_case(form, kind) for form in FORMS for kind in CONV_KINDS if kind.tolerance != HYBRID),
    # LiteRT has no hybrid kernel for groups
    *(
        conv_case(form, kind)
        for form in FORMS[:3]
        for kind in CONV_KINDS
        if kind.tolerance == HYBRID
    ),
    *(conv_case(form, kind) for form in DEPTHWISE_FORMS for kind in DEPTHWISE_KINDS),
    *(conv_case(form, KINDS[0]) for form in GRID),
    *(conv_case(form, KINDS[2]) for form in GRID[::5]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_conv(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("opset", [13, 21, 24])
@pytest.mark.parametrize("int8", ["resign", "keep"])
@pytest.mark.parametrize("kind", CONV_KINDS, ids=str)
def test_opsets_and_signs(kind: Kind, int8: str, opset: int, tmp_path: Path) -> None:
    case = conv_case(PLAIN, kind)
    check(replace(case, options={"opset": opset, "int8": int8}), tmp_path)
