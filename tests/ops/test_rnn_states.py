"""Recurrent ops over several runs: what one run leaves behind is what the next one starts from."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.formats.tflite.reader import read
from support.compare import assert_match
from support.litert import LiteRtRunner
from support.rnn_models import (
    LstmShape,
    basic_lstm,
    bidirectional_lstm,
    bidirectional_rnn,
    integer_lstm,
    integer_svdf,
    rnn,
    sequence_lstm,
    svdf,
)
from support.spine import Case, model_bytes, onnx_session, random_array

RUNS = 4

CASES = [
    Case("lstm-step", sequence_lstm(LstmShape(), None), tolerance=2e-5),
    Case("lstm-sequence", sequence_lstm(LstmShape(), 6), tolerance=2e-5),
    Case(
        "lstm-all",
        sequence_lstm(LstmShape(peephole=True, projection=True, norm=True), 2, cell_clip=0.5),
        tolerance=2e-5,
    ),
    Case("lstm-guarded", sequence_lstm(LstmShape(), 6, cell_clip=10.0), tolerance=2e-5),
    Case("lstm-basic", basic_lstm(), tolerance=2e-5),
    Case("bidirectional-lstm", bidirectional_lstm(LstmShape()), tolerance=2e-5),
    Case("rnn-step", rnn(None), tolerance=2e-5),
    Case("rnn-sequence", rnn(6), tolerance=2e-5),
    Case("bidirectional-rnn", bidirectional_rnn(), tolerance=2e-5),
    Case("lstm-integer", integer_lstm(LstmShape(projection=True), 6)),
    Case(
        "lstm-basic-uint8",
        basic_lstm(quantized=True),
        steps=2,
        note="the uint8 outputs are within 1 step; int16 cells count in 1/2048",
    ),
    Case("svdf", svdf(rank=2), tolerance=2e-5),
    Case("svdf-integer", integer_svdf(rank=2), steps=0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_states_are_carried_from_run_to_run(case, tmp_path):
    content = model_bytes(case)
    model = read(content, name=case.id)
    path = tmp_path / "model.onnx"
    nnconv.save(model, path)
    session = onnx_session(path)
    names = [info.name for info in session.get_inputs()]
    litert = LiteRtRunner(content, "opt")
    rng = np.random.default_rng(1)
    inputs = [random_array(value, rng) for value in model.inputs]
    reference_states = [state.initial for state in model.states]
    onnx_states = list(reference_states)
    count = len(model.outputs)
    seen = []
    for _ in range(RUNS):
        expected = litert.run(inputs)
        reference = run_graph(model.graph, [*inputs, *reference_states])
        written = session.run(None, dict(zip(names, [*inputs, *onnx_states], strict=True)))
        reference_states, onnx_states = reference[count:], written[count:]
        for results, label in ((reference, "reference"), (written, "onnxruntime")):
            for value, actual, wanted in zip(model.outputs, results, expected, strict=False):
                quantized = value.quant is not None and value.dtype.is_integer
                assert_match(
                    actual,
                    wanted,
                    quantized=quantized,
                    tol=case.tolerance,
                    steps=case.steps,
                    label=label,
                )
        seen.append(expected[0])
    assert not np.array_equal(seen[0], seen[1]), "the second run must depend on the first"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_states_keep_name_shape_and_type_in_onnx(case, tmp_path):
    model = read(model_bytes(case), name=case.id)
    path = tmp_path / "model.onnx"
    nnconv.save(model, path)
    session = onnx_session(path)
    inputs = session.get_inputs()[len(model.inputs) :]
    outputs = session.get_outputs()[len(model.outputs) :]
    assert [i.name for i in inputs] == [state.name for state in model.states]
    assert [o.name for o in outputs] == [f"{state.name}_next" for state in model.states]
    for state, before, after in zip(model.states, inputs, outputs, strict=True):
        assert tuple(before.shape) == state.initial.shape
        assert before.type == after.type
