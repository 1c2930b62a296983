"""Models of 16-bit codes as NNAPI, which has int32 for them, against LiteRT."""

import os
from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.diff.models import diff_models
from nnconv.diff.verify import fitted
from nnconv.errors import UnsupportedError
from nnconv.formats.tflite.reader import read
from nnconv.ir import Builder, DType, Model, Quant, Signature, State
from nnconv.lowering import to_nnapi
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.conv import Conv2D
from nnconv.ops.norm import Softmax
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.slices import Slice
from nnconv.ops.spatial import Padding
from ops.test_breadth import OWN_ORACLE, RECIPES
from ops.test_rnn import INTEGER
from ops.test_svdf import INTEGER_SVDF
from support.breadth import with_litert
from support.compare import assert_match
from support.nnapi_spine import NnapiCase, check_nnapi
from support.spine import Case, case_inputs, model_bytes
from support.tflite_spine import model_of

I16 = DType.INT16
WIDE = (DType.INT16, DType.UINT16)
DEVICES = ("reference", "onnxruntime:cpu")

# -------------------------------------------------------------------- every op that LiteRT runs

CASES = [
    *((case, True) for recipe in RECIPES for case in recipe.cases()),
    *((case, False) for case in OWN_ORACLE),
]
EACH = 1 if os.environ.get("NNCONV_ALL_TRIPS") == "1" else 4
"""Every so manieth case."""

SAMPLE = [entry for entry in CASES if "int16" in entry[0].id][::EACH]

LACKING = {
    *("BATCH_MATMUL", "BATCH_TO_SPACE_ND", "BROADCAST_TO", "FILL", "FLOOR_DIV", "FLOOR_MOD"),
    *("GATHER", "MATRIX_DIAG", "MATRIX_SET_DIAG", "MEAN", "PADV2", "REDUCE_MAX", "REDUCE_MIN"),
    *("REDUCE_PROD", "REDUCE_WINDOW", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "TOPK_V2"),
    "UNIQUE",
}
"""Of these some forms are refused, whatever the type: operands at run time, ranks, no operation."""


def run_nnapi(path: Path, device: str, feeds: list[np.ndarray]) -> list[np.ndarray]:
    """Run a file, with its inputs in the types and dimensions that it has them in."""
    executable = nnconv.compile(path, device)
    given = {
        info.name: array.astype(info.dtype.numpy).reshape(array.shape or (1,))
        for info, array in zip(executable.inputs, feeds, strict=True)
    }
    results = executable.run(given)
    executable.close()
    return [np.asarray(results[info.name]) for info in executable.outputs]


def check_devices(path: Path, case: Case, model: Model, feeds, expected) -> None:
    for device in DEVICES:
        found = run_nnapi(path, device, feeds)
        for value, seen, wanted in zip(model.outputs, found, expected, strict=False):
            coded = (value.quant is not None or case.rounded) and value.dtype.is_integer
            if value.dtype in WIDE:
                assert seen.dtype == np.int32
            assert_match(
                seen.astype(wanted.dtype).reshape(wanted.shape),
                wanted,
                quantized=coded,
                tol=max(case.tolerance, 1e-5),
                steps=case.steps,
                label=f"{device} {value.name}",
            )


@pytest.mark.parametrize(("case", "asked"), SAMPLE, ids=[case.id for case, _ in SAMPLE])
def test_ops_of_16_bit_codes_give_what_litert_gives(case, asked, tmp_path):
    case = with_litert(case) if asked else case
    content = model_bytes(case)
    model = read(content, name=case.id)
    feeds = case_inputs(case, model)
    expected = case.expected or run_graph(model.graph, feeds)
    path = tmp_path / "model.nnapi"
    try:
        nnconv.save(model, path)
    except UnsupportedError:
        if case.id.split("-")[0] not in LACKING:
            raise
        pytest.skip("NNAPI has no form of it")
    check_devices(path, case, model, feeds, expected)


# -------------------------------------------------------------------- what is written


def codes(b: Builder, name: str, shape, scale: float = 0.001, dtype: DType = I16, point: int = 0):
    return b.input(name, dtype, shape, quant=Quant.per_tensor(scale, point))


def cut(b: Builder):
    x = codes(b, "x", (2, 3, 4))
    y = b.add(
        Slice(starts=(0, 1, None), ends=(1, None, None), strides=(1, 1, 1)), [x], quant=x.quant
    )
    return b.add(s.Reshape(shape=(2, 4)), [y], quant=x.quant)


def rounded(b: Builder):
    x = b.input("x", DType.FLOAT32, (8,))
    return b.add(Quantize(dtype=I16), [x], quant=Quant.per_tensor(0.5))


def finer(b: Builder):
    x = codes(b, "x", (6,), 0.0005)
    return b.add(Quantize(dtype=DType.INT32), [x], quant=Quant.per_tensor(1.5e-7))


def layers(b: Builder):
    """Two layers and an activation, on 16-bit data and 8-bit weights, with codes between them."""
    rng = np.random.default_rng(4)
    x = codes(b, "x", (1, 7, 8, 3))
    for channels in (3, 4):
        w = b.const(rng.integers(-127, 128, (4, 3, 3, channels)).astype(np.int8), "w",
                    quant=Quant.per_channel(rng.uniform(0.01, 0.02, 4), axis=0))  # fmt: skip
        op = Conv2D(stride=(1, 1), dilation=(1, 1), padding=Padding.none(2))
        x = b.add(op, [x, w], quant=Quant.per_tensor(0.002 * channels), dtype=I16)
    return b.add(e.Clip(low=0.0, high=6.0), [x], quant=x.quant)


def beside_bytes(b: Builder):
    """Layers of bytes, whose last result alone has 16 bits."""
    x = codes(b, "x", (2, 8), 0.05, DType.INT8, 3)
    y = b.add(e.Add(), [x, x], quant=Quant.per_tensor(0.1, -4))
    return b.add(Softmax(axis=1), [y], quant=Quant.per_tensor(1 / 65536, -32768), dtype=I16)


def wide_inside(b: Builder):
    x = b.input("x", DType.FLOAT32, (2, 3))
    y = b.add(Quantize(dtype=I16), [x], quant=Quant.per_tensor(0.001))
    return b.add(e.Abs(), [b.add(Dequantize(dtype=DType.FLOAT32), [y])])


def wrapped(b: Builder):
    x = b.input("x", DType.INT32, (5,))
    return b.add(Cast(dtype=DType.INT32), [b.add(Cast(dtype=I16), [x])])


def signed_bytes(b: Builder):
    x = codes(b, "x", (2, 3), 0.05, DType.INT8, -7)
    y = b.add(e.Mul(), [x, b.const(np.int8([1, 2, 3]), quant=x.quant)], quant=Quant.per_tensor(0.1))
    return b.add(s.Reshape(shape=(6,)), [y], quant=y.quant)


HALVES = [np.float32([0.25, -0.25, 0.24, 0.75, -0.75, 2e4, -2e4, 1e9])]
AROUND = [np.int32([40000, -32769, 32767, -32768, 1 << 30])]
SATURATING = [np.float32([[0.5, -7, 40], [-33, 2e-4, 0]])]

FORMS = [
    NnapiCase("moves", cut, operations={"SLICE": 1, "RESHAPE": 1}),
    NnapiCase("moves-level-3", cut, operations={"SLICE": 1, "CAST": 2, "RESHAPE": 1}, level=3),
    NnapiCase("halves", rounded, HALVES, [np.int16([1, -1, 0, 2, -2, 32767, -32768, 32767])],
              steps=0),
    NnapiCase("finer-codes", finer, steps=1),
    NnapiCase("layers", layers, steps=1),
    NnapiCase("layers-level-3", layers, steps=1, level=3),
    NnapiCase("beside-bytes", beside_bytes, steps=1,
              operations={"ADD": 3, "DEQUANTIZE": 1, "SOFTMAX": 1, "DIV": 1, "MAXIMUM": 2,
                          "MINIMUM": 2, "CAST": 3}),
    NnapiCase("inside", wide_inside, SATURATING, tolerance=1e-3,
              operations={"DIV": 1, "MAXIMUM": 2, "MINIMUM": 2, "ADD": 1, "CAST": 2, "MUL": 1,
                          "ABS": 1}),
    NnapiCase("signed-bytes-level-3", signed_bytes, steps=1, level=3,
              operations={"CAST": 4, "ADD": 2, "MUL": 1, "RESHAPE": 1}),
    NnapiCase("wrapped", wrapped, AROUND, lambda x: x.astype(np.int16)),
]  # fmt: skip


@pytest.mark.parametrize("case", FORMS, ids=str)
def test_forms(case):
    check_nnapi(case)


# -------------------------------------------------------------------- what is told of it


def with_state() -> Model:
    """Sums of what came so far, in 16-bit codes."""
    model = model_of(total, format="tflite", source="m")
    graph = model.graph
    start = np.arange(4, dtype=np.int16)
    state = State(graph.inputs[1], graph.outputs[1], start, "so_far")
    return Model([Signature("main", graph, states=(state,))], format="tflite", source="m")


def total(b: Builder):
    x, so_far = codes(b, "x", (4,)), codes(b, "so_far", (4,), 0.003)
    y = b.add(e.Add(), [x, so_far], quant=so_far.quant, name="y")
    return y, b.add(s.Reshape(shape=(4,)), [y], quant=y.quant, name="then")


def test_a_conversion_tells_of_int32_and_is_verified(tmp_path):
    pytest.importorskip("ai_edge_litert")
    source, result = tmp_path / "m.tflite", tmp_path / "m.nnapi"
    nnconv.save(with_state(), source)
    report = nnconv.convert(source, result, verify=True)
    assert [kind for _, kind, _ in (*report.inputs, *report.outputs)] == ["int32"] * 4
    told = [note for note in report.notes if note.endswith("which NNAPI lacks: it becomes int32")]
    assert told[0].startswith("`x` is int16, real = 0.001")
    assert len(told) == 4
    assert report.verified
    assert report.feature_level == 3


def test_models_of_int16_and_of_int32_can_be_compared(tmp_path):
    pytest.importorskip("ai_edge_litert")
    source, result = tmp_path / "m.tflite", tmp_path / "m.nnapi"
    nnconv.save(model_of(layers, format="onnx", source="m"), source)
    nnconv.convert(source, result)
    assert diff_models(source, result).passed
    back = diff_models(result, source)
    assert back.passed
    assert back.outputs[0].tolerance_kind == "steps"


def test_zero_points_are_told():
    notes = to_nnapi(model_of(beside_bytes, format="tflite", source="m")).written.notes
    assert any("real = 1.52587891e-05 * (code + 32768)" in note for note in notes)


def test_numbers_that_int16_lacks_stay_as_they_are():
    large = np.int32([1 << 20])
    assert fitted(large, DType.INT16, (1,)) is large
    assert fitted(np.int32([7]), DType.INT16, (1,)).dtype == np.int16


@pytest.mark.parametrize(
    ("case", "level"), [(INTEGER[-1], 8), (INTEGER[0], 3), (INTEGER_SVDF[0], 3)], ids=str
)
def test_recurrent_ops_with_wide_states_are_verified(case, level, tmp_path):
    pytest.importorskip("ai_edge_litert")
    source = tmp_path / "m.tflite"
    source.write_bytes(model_bytes(case))
    report = nnconv.convert(source, tmp_path / "m.nnapi", verify=True, feature_level=level)
    told = [note for note in report.notes if "in the first run" in note]
    assert len(told) == len(report.states) > 0
    assert report.verified


@pytest.mark.parametrize("level", [1, 2])
def test_the_level_that_casts_need_is_told(level):
    model = model_of(wide_inside, format="tflite", source="m")
    to_nnapi(model, feature_level=3)
    with pytest.raises(UnsupportedError, match="feature level 3"):
        to_nnapi(model_of(rounded, format="tflite", source="m"), feature_level=level)


def test_what_goes_round_in_circles_ends():
    """int32 of five dimensions at level 3, where halves, casts and reshapes need one another."""

    def reshaped(b: Builder):
        x = b.input("x", DType.INT32, (2, 3, 4, 5))
        return b.add(s.Reshape(shape=(6, 4, 1, 1, 5)), [x])

    with pytest.raises(UnsupportedError) as caught:
        to_nnapi(model_of(reshaped, format="tflite", source="m"), feature_level=3)
    assert len(caught.value.items) < 40
