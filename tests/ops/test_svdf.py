"""SVDF: rank x memory x bias x activation in floats; bit by bit in integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from support.litert import LiteRtRunner
from support.rnn_models import integer_svdf, svdf
from support.spine import Case, check, onnx_ops, onnx_session

TOLERANCE = 2e-5
HYBRID_TOLERANCE = 0.05
HYBRID_NOTE = "LiteRT quantizes the input for the product"

SVDF = [
    *(
        Case(
            f"rank-{rank}-memory-{memory}-{bias}-{activation}",
            svdf(rank=rank, memory=memory, bias=bias, activation=activation),
            tolerance=TOLERANCE,
        )
        for rank in (1, 2, 3)
        for memory in (1, 2, 5)
        for bias in (False, True)
        for activation in ("NONE", "RELU")
    ),
    *(
        Case(
            f"{storage}-rank-{rank}",
            svdf(rank=rank, storage=storage),
            tolerance=HYBRID_TOLERANCE,
            note=HYBRID_NOTE,
        )
        for storage in ("int8", "uint8")
        for rank in (1, 2)
    ),
    Case("batch-1", svdf(batch=1), tolerance=TOLERANCE),
]

INTEGER_SVDF = [
    *(
        Case(
            f"rank-{rank}-memory-{memory}-gain-{gain}-{int8}",
            integer_svdf(rank=rank, memory=memory, gain=gain),
            steps=0,
            seed=seed,
            options={"int8": int8},
        )
        for seed, rank in enumerate((1, 2, 3))
        for memory in (1, 2, 5)
        for gain in (0.02, 1.0, 30.0)
        for int8 in ("resign", "keep")
    ),
    Case("wide", integer_svdf(inputs=700, gain=0.02), steps=0, note="sums beyond 2**24"),
    Case("opset-13", integer_svdf(rank=2), steps=0, options={"opset": 13}),
    Case("batch-1", integer_svdf(batch=1), steps=0),
]

EMPTY = [
    Case(name, build, resolver=None, note="LiteRT's SVDF ends the process on an empty batch")
    for name, build in (
        ("float", svdf(batch=0, rank=2)),
        ("integer", integer_svdf(batch=0, rank=2)),
    )
]


@pytest.mark.parametrize("case", SVDF, ids=str)
def test_svdf(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", INTEGER_SVDF, ids=str)
def test_integer_svdf(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("opset", [13, 21])
def test_float64_takes_the_place_of_wide_integers(opset: int, tmp_path: Path) -> None:
    """Where that is exact; int16 states have no QuantizeLinear before opset 21."""
    check(Case("quick", integer_svdf(gain=0.05), steps=0, options={"opset": opset}), tmp_path)
    ops = onnx_ops(tmp_path / "model.onnx")
    assert ("Gemm" in ops, "Div" in ops) == (opset == 21, opset == 13)


@pytest.mark.parametrize("case", EMPTY, ids=str)
def test_empty_batch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(
    ("name", "runs_in_litert"), [("keyword_scrambled", True), ("keyword_scrambled_8bit", False)]
)
def test_keyword_models(name: str, runs_in_litert: bool, shared_dir: Path, tmp_path: Path) -> None:
    """Seven layers of SVDF. LiteRT crashes on the one whose states are int8: it never gets it."""
    source = next(shared_dir.glob(f"models/tflite/**/{name}.tflite"))
    path = tmp_path / "model.onnx"
    nnconv.convert(source, path)
    model = nnconv.load(source)
    session = onnx_session(path)
    names = [info.name for info in session.get_inputs()]
    litert = LiteRtRunner(source, "opt") if runs_in_litert else None
    rng = np.random.default_rng(0)
    reference = written = [None, *(state.initial for state in model.states)]
    for _ in range(8):
        x = rng.integers(-32768, 32768, (1, 96)).astype(np.int16)
        reference = run_graph(model.graph, [x, *reference[1:]])
        written = session.run(None, dict(zip(names, [x, *written[1:]], strict=True)))
        expected = reference[0] if litert is None else litert.run([x])[0]
        assert np.abs(reference[0].astype(np.int64) - expected).max() <= 1
        assert np.abs(written[0].astype(np.int64) - expected).max() <= 1
