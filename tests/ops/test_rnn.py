"""Recurrent ops: kind x gates x extras x activation x steps, with every dimension different."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.tflite.reader import read
from support.rnn_models import BATCH, CELLS, INPUTS, LstmShape, integer_lstm, sequence_lstm
from support.spine import Case, check, model_bytes, onnx_ops
from support.tflite_builder import TfliteBuilder, pack

SHAPES = {
    "plain": LstmShape(),
    "cifg": LstmShape(cifg=True),
    "peephole": LstmShape(peephole=True),
    "projection": LstmShape(projection=True),
    "projection-bias": LstmShape(projection=True, projection_bias=True),
    "norm": LstmShape(norm=True),
    "cifg-peephole": LstmShape(cifg=True, peephole=True),
    "cifg-peephole-norm": LstmShape(cifg=True, peephole=True, norm=True),
    "all": LstmShape(peephole=True, projection=True, projection_bias=True, norm=True),
}
HYBRID = {
    f"{storage}-{name}": LstmShape(**extras, storage=storage)
    for storage in ("int8", "uint8")
    for name, extras in (
        ("plain", {}),
        ("cifg", {"cifg": True}),
        ("all", {"peephole": True, "projection": True, "norm": True}),
    )
}
FLOAT_TOLERANCE = 2e-5
"""Sums in another order, and other approximations of tanh, through some steps of feedback."""

LSTM = [
    *(
        Case(f"{name}-{steps}", sequence_lstm(shape, steps), tolerance=FLOAT_TOLERANCE)
        for name, shape in SHAPES.items()
        for steps in (None, 1, 3, 7)
    ),
    *(
        Case(
            f"{name}-time-major",
            sequence_lstm(shape, 6, time_major=True),
            tolerance=FLOAT_TOLERANCE,
        )
        for name, shape in SHAPES.items()
    ),
    *(
        Case(
            f"{name}-{activation}-{steps}",
            sequence_lstm(shape, steps, fused_activation_function=activation),
            resolver=None if activation == "NONE" else "opt",
            tolerance=FLOAT_TOLERANCE,
            note="with NONE LiteRT reads a scratch buffer that it never wrote, instead of the cell",
        )
        for name, shape in (("plain", LstmShape()), ("norm", LstmShape(norm=True)))
        for activation in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
        for steps in (None, 2, 6)
    ),
    *(
        Case(
            f"{name}-clip-{steps}",
            sequence_lstm(shape, steps, cell_clip=0.3, proj_clip=0.2),
            tolerance=FLOAT_TOLERANCE,
        )
        for name, shape in SHAPES.items()
        for steps in (None, 2, 6)
    ),
    *(
        Case(
            f"plain-batch-{batch}-{steps}",
            sequence_lstm(LstmShape(), steps, batch=batch),
            tolerance=FLOAT_TOLERANCE,
        )
        for batch in (1, 2)
        for steps in (1, 7)
    ),
    *(
        Case(
            f"{name}-opset-{opset}",
            sequence_lstm(SHAPES[name], steps),
            options={"opset": opset},
            tolerance=FLOAT_TOLERANCE,
        )
        for name in ("plain", "all")
        for steps in (2, 6)
        for opset in (13, 17, 18, 24)
    ),
    *(
        Case(
            f"{name}-{steps}",
            sequence_lstm(shape, steps, cell_clip=clip),
            tolerance=0.05,
            onnx_tolerance=0.05,
            note="LiteRT quantizes the activations for each product, anew at each step",
        )
        for name, shape in HYBRID.items()
        for steps, clip in ((None, 0.0), (6, 0.0), (6, 10.0))
    ),
]


WEIGHTS = [
    *(
        Case(
            f"{storage}-{name}-{clip}",
            sequence_lstm(LstmShape(**extras, storage=storage), 6, cell_clip=clip),
            tolerance=FLOAT_TOLERANCE,
        )
        for storage in ("float16", "input")
        for name, extras in (
            ("plain", {}),
            ("cifg", {"cifg": True}),
            ("all", {"peephole": True, "projection": True, "norm": True}),
        )
        for clip in (0.0, 0.5, 10.0)
    ),
    *(
        Case(
            f"diagonal-{clip}",
            sequence_lstm(LstmShape(), 6, cell_clip=clip, diagonal_recurrent_tensors=True),
            tolerance=FLOAT_TOLERANCE,
        )
        for clip in (0.0, 0.5, 10.0)
    ),
    *(
        Case(
            f"flat-states-{name}-{steps}",
            sequence_lstm(SHAPES[name], steps, flat_states=True),
            tolerance=FLOAT_TOLERANCE,
        )
        for name in ("plain", "projection")
        for steps in (None, 6)
    ),
]

LOUD = (
    np.random.default_rng(5).normal(0, 4, (BATCH, 1, INPUTS))
    * np.repeat([1, -0.05], [8, 4])[:, np.newaxis]
).astype(np.float32)
"""Inputs that fill some cells, step by step, and then let them leak."""

GUARDED = [
    Case(
        f"{name}-clip-{clip}-{major}-opset-{opset}",
        sequence_lstm(shape, 12, cell_clip=clip, time_major=major),
        inputs=[np.ascontiguousarray(LOUD.swapaxes(0, 1)) if major else LOUD],
        options={"opset": opset},
        tolerance=tolerance,
    )
    for name, shape, tolerance in (
        ("plain", LstmShape(), FLOAT_TOLERANCE),
        ("cifg", LstmShape(cifg=True), FLOAT_TOLERANCE),
        ("int8", LstmShape(storage="int8"), 0.1),
    )
    for clip in (2.0, 3.0, 10.0)
    for major in (False, True)
    for opset in (13, 24)
]

DYNAMIC = [
    Case(
        f"{name}-{kind}",
        sequence_lstm(LstmShape(), 2, signature=signature, time_major=major, cell_clip=clip),
        tolerance=FLOAT_TOLERANCE,
    )
    for name, clip in (("native", 0.0), ("spelled-out", 0.5), ("guarded", 10.0))
    for kind, signature, major in (
        ("time", (BATCH, -1, INPUTS), False),
        ("time-major", (-1, BATCH, INPUTS), True),
    )
]

EMPTY = [
    Case(f"{name}-{steps}-{batch}", sequence_lstm(LstmShape(), steps, batch=batch, cell_clip=clip))
    for name, clip in (("native", 0.0), ("spelled-out", 0.5))
    for steps, batch in ((0, BATCH), (6, 0), (0, 0))
]

INTEGER_SHAPES = {
    "plain": LstmShape(),
    "cifg": LstmShape(cifg=True),
    "peephole": LstmShape(peephole=True),
    "projection": LstmShape(projection=True),
    "projection-bias": LstmShape(projection=True, projection_bias=True),
    "norm": LstmShape(norm=True),
    "norm-projection": LstmShape(norm=True, projection=True, projection_bias=True),
    "cifg-norm-peephole": LstmShape(cifg=True, norm=True, peephole=True),
    # with as many outputs as cells: else LiteRT multiplies the peephole of only so many cells
    "all": LstmShape(
        peephole=True, projection=True, projection_bias=True, norm=True, projected=CELLS
    ),
}

INTEGER = [
    *(
        Case(f"{name}-{steps}-{clip}", integer_lstm(shape, steps, cell_clip=clip))
        for name, shape in INTEGER_SHAPES.items()
        for steps in (None, 1, 3, 7)
        for clip in (0.0, 0.5)
    ),
    *(
        Case(
            f"projection-clip-{steps}",
            integer_lstm(LstmShape(projection=True), steps, proj_clip=0.3, output_point=0),
            note="LiteRT clips codes without regard to their zero point",
        )
        for steps in (None, 6)
    ),
    Case("cell-power", integer_lstm(LstmShape(), 6, cell_power=-13)),
    Case("opset-13", integer_lstm(LstmShape(), 6), options={"opset": 13}),
    Case("keep-int8", integer_lstm(LstmShape(), 6), options={"int8": "keep"}),
]


@pytest.mark.parametrize("case", LSTM, ids=str)
def test_lstm(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", WEIGHTS, ids=str)
def test_weights_and_states_of_other_forms(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", GUARDED, ids=str)
def test_clip_that_may_never_bite(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_loud_inputs_meet_the_clip() -> None:
    results = []
    for clip in (0.0, 2.0, 3.0, 10.0):
        model = read(model_bytes(Case("", sequence_lstm(LstmShape(), 12, cell_clip=clip))))
        states = [state.initial for state in model.states]
        results.append(run_graph(model.graph, [LOUD, *states])[0])
    free, *clipped = results
    assert [np.abs(result - free).max() > 0.01 for result in clipped] == [True, True, False]


@pytest.mark.parametrize("case", DYNAMIC, ids=str)
def test_lstm_over_any_number_of_steps(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", EMPTY, ids=str)
def test_lstm_without_steps_or_batch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", INTEGER, ids=str)
def test_integer_lstm(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_native_op_only_where_it_means_the_same(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for shape, options, expected in (
        (LstmShape(cifg=True, peephole=True), {}, "LSTM"),
        (LstmShape(), {"cell_clip": 1.0}, "Scan"),
        (LstmShape(peephole=True), {"cell_clip": 10.0}, "Scan"),
        (LstmShape(), {"cell_clip": 10.0}, "LSTM"),
        (LstmShape(projection=True), {}, "Scan"),
        (LstmShape(norm=True), {}, "Scan"),
        (LstmShape(), {"fused_activation_function": "RELU6"}, "Scan"),
    ):
        model = read(model_bytes(Case("", sequence_lstm(shape, 6, **options))))
        nnconv.save(model, path)
        assert {"LSTM", "Scan"} & set(onnx_ops(path)) == {expected}


def test_int8_weights_stay_small_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    nnconv.save(read(model_bytes(Case("", sequence_lstm(LstmShape(storage="int8"))))), path)
    kept = {i.data_type for i in onnx.load(str(path)).graph.initializer if len(i.dims) == 2}
    assert onnx.TensorProto.INT8 in kept


def test_inner_scales_of_another_kernel_are_refused() -> None:
    builder = TfliteBuilder()
    integer_lstm(LstmShape())(builder)
    content = builder.to_object()
    content.subgraphs[0].operators[0].intermediates = None
    with pytest.raises(UnsupportedError, match="5 inner scales"):
        read(pack(content))


def test_a_trained_model_verifies(shared_dir: Path, tmp_path: Path) -> None:
    source = next(shared_dir.glob("models/tflite/**/trained_lstm.tflite"))
    report = nnconv.convert(source, tmp_path / "model.onnx", verify=True)
    assert report.verified
    assert len(report.states) == 2
