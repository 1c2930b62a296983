"""Recurrent ops from TFLite to TFLite: the same results, run after run, in the same operators."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.formats.tflite import wire
from nnconv.formats.tflite.reader import read
from ops.test_rnn import DYNAMIC, GUARDED, INTEGER, LSTM, WEIGHTS
from ops.test_rnn_kinds import BASIC, BIDIRECTIONAL, RNN
from ops.test_svdf import INTEGER_SVDF, SVDF
from support.compare import assert_match
from support.litert_worker import worker
from support.rnn_models import LstmShape, rnn, sequence_lstm, svdf
from support.spine import Case, case_inputs, model_bytes
from support.tflite_spine import tflite_ops

HYBRID = [
    Case(
        f"{kind} quantizes around {'a zero point' if asymmetric else '0'}",
        build(asymmetric_quantize_inputs=asymmetric),
    )
    for asymmetric in (False, True)
    for kind, build in {
        "lstm": partial(sequence_lstm, LstmShape(storage="int8"), 6),
        "lstm step": partial(sequence_lstm, LstmShape(storage="int8"), None),
        "rnn": partial(rnn, 6, storage="int8"),
        "svdf": partial(svdf, rank=2, storage="int8"),
    }.items()
]

SOME = [
    *HYBRID,
    *LSTM[::3],
    *GUARDED[::7],
    *WEIGHTS,
    *DYNAMIC,
    *INTEGER,
    *RNN[::2],
    *SVDF,
    *INTEGER_SVDF,
]
NATIVE = [case for case in SOME if case.resolver is not None or case.expected is None]
BOTH = [case for case in BIDIRECTIONAL if case.resolver is not None]

RUNS = 3


def again(case: Case, folder: Path) -> tuple[bytes, bytes]:
    """The case's file, and what is written of it."""
    source, target = folder / "a.tflite", folder / "b.tflite"
    source.write_bytes(model_bytes(case))
    nnconv.save(nnconv.load(source), target)
    return source.read_bytes(), target.read_bytes()


def check_runs(case: Case, before: bytes, after: bytes, *, steps: int = 1) -> None:
    """Hold runs of one file, the states living on, to those of the other."""
    model = read(before, name=case.id)
    rng = np.random.default_rng(5)
    first = case_inputs(case, model)
    runs = [first] + [
        [rng.permutation(a.reshape(-1)).reshape(a.shape) for a in first] for _ in range(RUNS - 1)
    ]
    wanted_interface, wanted = worker().run(before, runs, "opt")
    interface, seen = worker().run(after, runs, "opt")
    assert interface.inputs == wanted_interface.inputs
    for ours, theirs in zip(interface.outputs, wanted_interface.outputs, strict=True):
        assert ours[:2] == theirs[:2]
    for number, (have, want) in enumerate(zip(seen, wanted, strict=True)):
        for value, a, b in zip(model.outputs, have, want, strict=True):
            assert_match(
                a,
                b,
                quantized=b.dtype.kind in "iu",
                tol=2e-5,
                steps=steps,
                label=f"run {number}, {value.name}",
            )


@pytest.mark.parametrize("case", NATIVE, ids=str)
def test_the_same_operator(case: Case, tmp_path: Path) -> None:
    before, after = again(case, tmp_path)
    assert tflite_ops(after) == tflite_ops(before)
    check_runs(case, before, after)
    variables = [t for t in wire.read(after).subgraphs[0].tensors if t.is_variable]
    assert variables


@pytest.mark.parametrize("case", BOTH, ids=str)
def test_an_operator_each_way(case: Case, tmp_path: Path) -> None:
    before, after = again(case, tmp_path)
    kind = next(iter(tflite_ops(before))).removeprefix("BI")
    counts = tflite_ops(after)
    assert counts[f"UNI{kind}"] == 2
    assert counts["REVERSE_V2"] == 2
    check_runs(case, before, after)


@pytest.mark.parametrize("case", BASIC, ids=str)
def test_states_that_go_out_are_resources(case: Case, tmp_path: Path) -> None:
    before, after = again(case, tmp_path)
    assert "LSTM" not in tflite_ops(after)
    # the basic kernel's fixed point leaves a few of the 65536 steps of its cell state
    check_runs(case, before, after, steps=12)
