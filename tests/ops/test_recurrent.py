"""ONNX's RNN, GRU and LSTM on every route, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, node, run_onnxruntime
from support.tflite_spine import tflite_ops

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
BATCH, DEPTH, SIZE = 2, 5, 3
STATES = {"h": (BATCH, SIZE), "c": (BATCH, SIZE), "p": (3 * SIZE,)}


def layer(
    id: str,
    op: str,
    *,
    steps: int = 4,
    both: bool = False,
    given: Sequence[str] = ("b",),
    lengths: Sequence[int] | None = None,
    results: Sequence[int] = (0, 1, 2),
    run_time_weights: bool = False,
    scale: float = 1.0,
    open_dims: Sequence[int] = (),
    opset: int = 21,
    ops: dict[str, int] | None = None,
    tolerance: float = 1e-5,
    routes: Sequence[str] = ("reference", "onnx", "tflite"),
    **attributes: Any,
) -> OnnxCase:
    """A layer with random weights; ``given`` of b(ias), h, c, p(eepholes)."""
    rng = np.random.default_rng(len(id) + steps)
    gates, sides = GATES[op], 2 if both else 1

    def random(*shape: int) -> np.ndarray:
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    weights = {
        "w": random(sides, gates * SIZE, DEPTH),
        "r": random(sides, gates * SIZE, SIZE),
    }
    if "b" in given:
        weights["b"] = random(sides, 2 * gates * SIZE)
    feeds = {"x": random(steps, BATCH, DEPTH)}
    more = {"x": random(steps, BATCH, DEPTH)}
    constants = {} if run_time_weights else dict(weights)
    if run_time_weights:
        feeds |= weights
        more |= weights
    for name in "hcp":
        if name not in given:
            continue
        value = random(sides, *STATES[name])
        if name == "p":
            constants[name] = value
        else:
            feeds[name] = value
            more[name] = random(*value.shape)
    if lengths is not None:
        feeds["lengths"] = np.asarray(lengths, np.int32)
        more["lengths"] = feeds["lengths"][::-1].copy()
    known = {*feeds, *constants, "lengths" if lengths is not None else ""}
    inputs = [n if n in known else "" for n in ("x", "w", "r", "b", "lengths", "h", "c", "p")]
    inputs = inputs[: 8 if op == "LSTM" else 6]
    outputs = ["y", "y_h", "y_c"][: 3 if op == "LSTM" else 2]
    names = [n if i in results else "" for i, n in enumerate(outputs)]
    while not inputs[-1]:
        inputs.pop()
    if both:
        attributes["direction"] = "bidirectional"
    return OnnxCase(
        id,
        node(op, inputs, names, hidden_size=SIZE, **attributes),
        feeds,
        [more],
        constants,
        [n for n in names if n],
        open={"x": open_dims},
        opset=opset,
        ops=ops,
        tolerance=tolerance,
        routes=routes,
    )


ONE = ["Relu", "Sigmoid", "Softsign", "Softplus", "LeakyRelu", "HardSigmoid", "Elu"]
"""Activations for whose parameters onnxruntime has the standard's defaults."""

PARAMETERS: dict[str, tuple[float, ...]] = {
    "Affine": (0.7, 0.1),
    "LeakyRelu": (0.3,),
    "ThresholdedRelu": (0.3,),
    "ScaledTanh": (0.8, 0.6),
    "HardSigmoid": (0.3, 0.4),
    "Elu": (0.5,),
}


def with_parameters(op: str, names: Sequence[str]) -> OnnxCase:
    """A layer whose activations all have what parameters they can."""
    alphas = [PARAMETERS[n][0] for n in names if n in PARAMETERS]
    betas = [PARAMETERS[n][1] for n in names if len(PARAMETERS.get(n, ())) > 1]
    return layer(
        f"{op} {' '.join(names)}",
        op,
        activations=names,
        activation_alpha=alphas,
        activation_beta=betas or None,
        scale=0.4,
    )


CASES = [
    *(layer(f"plain {op}", op) for op in GATES),
    *(layer(f"one step {op}", op, steps=1) for op in GATES),
    *(layer(f"bare {op}", op, given=()) for op in GATES),
    *(layer(f"reverse {op}", op, direction="reverse", given="bhc") for op in GATES),
    *(layer(f"both {op}", op, both=True, given="bhc") for op in GATES),
    *(layer(f"long {op}", op, steps=40, both=True, scale=0.4) for op in GATES),
    *(
        layer(f"chunks, {steps}, {op}", op, steps=steps, both=True, given="bhc", scale=0.3)
        for op in GATES
        for steps in (64, 75)
    ),
    *(
        layer(f"chunks, lengths, {op}", op, steps=70, both=True, lengths=(64, 31), scale=0.3)
        for op in GATES
    ),
    *(
        layer(f"chunks of any length, {op}", op, steps=70, both=True, open_dims=(0,), scale=0.3)
        for op in GATES
    ),
    *(
        layer(f"chunks, run-time weights, {op}", op, steps=70, run_time_weights=True, scale=0.3)
        for op in GATES
    ),
    *(layer(f"long with states {op}", op, steps=40, given="bhc", scale=0.4) for op in GATES),
    *(layer(f"lengths {op}", op, steps=5, lengths=(3, 5), given="bhc") for op in GATES),
    *(layer(f"no length {op}", op, steps=5, lengths=(0, 2)) for op in GATES),
    *(
        layer(f"lengths, both, {op}", op, steps=5, lengths=(4, 2), both=True, given="bhc")
        for op in GATES
    ),
    *(
        layer(f"lengths, long, {op}", op, steps=40, lengths=(40, 9), both=True, scale=0.4)
        for op in GATES
    ),
    *(layer(f"last state {op}", op, results=(1,)) for op in GATES),
    *(layer(f"last state, long, {op}", op, steps=40, results=(1,), scale=0.4) for op in GATES),
    *(layer(f"sequence alone {op}", op, results=(0,)) for op in GATES),
    *(layer(f"clip {op}", op, clip=0.6) for op in GATES),
    *(layer(f"run-time weights {op}", op, run_time_weights=True) for op in GATES),
    *(
        layer(f"run-time weights, long, {op}", op, steps=40, run_time_weights=True, scale=0.4)
        for op in GATES
    ),
    *(layer(f"any batch {op}", op, open_dims=(1,)) for op in GATES),
    *(layer(f"any length {op}", op, open_dims=(0,)) for op in GATES),
    *(layer(f"any length and batch {op}", op, open_dims=(0, 1), both=True) for op in GATES),
    *(layer(f"opset {n} {op}", op, opset=n) for op in GATES for n in (7, 14, 22)),
    layer("cell alone", "LSTM", results=(2,)),
    layer("peepholes", "LSTM", given="bp"),
    layer("peepholes, both", "LSTM", given="bhcp", both=True),
    layer("peepholes, clip", "LSTM", given="bp", clip=0.5),
    layer("peepholes, long", "LSTM", steps=40, given="bhcp", scale=0.4),
    layer("coupled", "LSTM", input_forget=1),
    layer("coupled, peepholes", "LSTM", input_forget=1, given="bp"),
    layer("reset after", "GRU", linear_before_reset=1, given="bh"),
    layer("reset after, both", "GRU", linear_before_reset=1, given="bh", both=True),
    layer("reset after, bare", "GRU", linear_before_reset=1, given=()),
    layer("reset after, long", "GRU", steps=40, linear_before_reset=1, scale=0.4),
    layer("clip, reset after", "GRU", clip=0.5, linear_before_reset=1),
    *(layer(f"RNN {f}", "RNN", activations=[f], scale=0.4) for f in ONE),
    *(layer(f"GRU {f}", "GRU", activations=[f, "Tanh"], scale=0.4) for f in ONE),
    *(layer(f"LSTM {f}", "LSTM", activations=["Sigmoid", f, f], scale=0.4) for f in ONE),
    *(with_parameters("RNN", [f]) for f in PARAMETERS),
    *(with_parameters("GRU", [f, "Tanh"]) for f in PARAMETERS),
    *(with_parameters("GRU", ["Sigmoid", f]) for f in PARAMETERS),
    *(with_parameters("LSTM", ["Sigmoid", f, f]) for f in PARAMETERS),
    layer(
        "parameters in order",
        "LSTM",
        activations=["HardSigmoid", "Tanh", "ScaledTanh"],
        activation_alpha=[0.25, 1.5],
        activation_beta=[0.4, 0.5],
    ),
    layer(
        "parameters of both",
        "GRU",
        both=True,
        activations=["Sigmoid", "LeakyRelu", "HardSigmoid", "Tanh"],
        activation_alpha=[0.3, 0.25],
        activation_beta=[0.4],
    ),
    layer("small letters", "GRU", activations=["hardsigmoid", "tanh"]),
]


def quantized(
    id: str, *, both: bool = False, columns: bool = False, dtype: str = "int8", steps: int = 6
) -> OnnxCase:
    """DynamicQuantizeLSTM: weights in 8 bits with a scale a direction, or a column."""
    rng = np.random.default_rng(3)
    sides = 2 if both else 1
    constants = {}
    for name, rows in (("w", DEPTH), ("r", SIZE)):
        real = rng.standard_normal((sides, rows, 4 * SIZE)) * 0.5
        scale = np.abs(real).max(axis=1 if columns else (1, 2)) / 127
        spread = scale[:, np.newaxis] if columns else scale[:, np.newaxis, np.newaxis]
        shift = 0 if dtype == "int8" else 128
        constants[name] = (np.rint(real / spread) + shift).astype(dtype)
        constants[f"{name}s"] = scale.astype(np.float32)
        constants[f"{name}p"] = np.full(scale.shape, shift, dtype)
    constants["b"] = (0.3 * rng.standard_normal((sides, 8 * SIZE))).astype(np.float32)
    made = node(
        "DynamicQuantizeLSTM",
        ["x", "w", "r", "b", "", "", "", "", "ws", "wp", "rs", "rp"],
        ["y", "y_h", "y_c"],
        hidden_size=SIZE,
        domain="com.microsoft",
        direction="bidirectional" if both else "forward",
    )
    return OnnxCase(
        id,
        made,
        {"x": rng.standard_normal((steps, BATCH, DEPTH)).astype(np.float32)},
        constants=constants,
        results=["float32"] * 3,
        domains={"com.microsoft": 1},
        same_nodes=False,
        tolerance=0.03,
        note="onnxruntime quantizes the data of each product as well",
    )


QUANTIZED = [
    quantized("int8"),
    quantized("uint8", dtype="uint8"),
    quantized("both", both=True),
    quantized("columns", columns=True),
    quantized("both, columns", both=True, columns=True),
    quantized("long", steps=40),
]


def of_type(case: OnnxCase, dtype: str) -> OnnxCase:
    """The case in another float type, which onnxruntime has no kernels for."""

    def typed(arrays: Mapping[str, np.ndarray], kind: str = dtype) -> dict[str, np.ndarray]:
        return {k: a.astype(dtype).astype(kind) for k, a in arrays.items()}

    feeds, constants = typed(case.feeds, "float32"), typed(case.constants, "float32")
    same = replace(case, feeds=feeds, constants=constants)
    wanted = run_onnxruntime(same.model().SerializeToString(), feeds)

    return replace(
        case,
        id=f"{case.id}, {dtype}",
        feeds=typed(case.feeds),
        more=(),
        constants=typed(case.constants),
        expected=[a.astype(dtype) for a in wanted],
        same_nodes=False,
        tolerance=3e-3 if dtype == "float16" else 1e-5,
    )


TYPED = [
    of_type(
        layer(f"typed {op}, {steps}", op, steps=steps, given="bhc", both=True, scale=0.4), dtype
    )
    for op in GATES
    for steps in (3, 40)
    for dtype in ("float16", "float64")
]


@pytest.mark.parametrize("case", [*CASES, *QUANTIZED, *TYPED], ids=str)
def test_recurrent(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


@pytest.mark.parametrize("op", GATES)
def test_full_lengths_cost_nothing(op: str, tmp_path: Path) -> None:
    plain = layer(f"whole {op}", op, lengths=(4, 4))
    feeds = {name: array for name, array in plain.feeds.items() if name != "lengths"}
    case = replace(
        plain,
        feeds=feeds,
        more=(),
        constants={**plain.constants, "lengths": plain.feeds["lengths"]},
    )
    check_routes(case, tmp_path)
    assert "SELECT_V2" not in tflite_ops((tmp_path / "case.tflite").read_bytes())


@pytest.mark.parametrize("open_dims", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("op", GATES)
def test_no_steps(op: str, open_dims: Sequence[int], tmp_path: Path) -> None:
    plain = layer(f"no steps {op}", op, both=True, given="bhc", steps=0)
    batches = {name: (1,) for name in "hc" if name in plain.feeds and 1 in open_dims}
    plain = replace(plain, open={"x": open_dims, **batches})
    states = [plain.feeds[name] for name in "hc" if name in plain.feeds]
    wanted = [np.zeros((0, 2, BATCH, SIZE), np.float32), *states]
    count = 3 if op == "LSTM" else 2
    # onnxruntime may end the process on nothing
    case = replace(plain, more=(), expected=wanted[:count], routes=("reference", "tflite"))
    check_routes(case, tmp_path)


def pytorch_like(open_dims: Sequence[int]) -> OnnxCase:
    """A layer behind a transpose, its states zeros of a shape that is computed; then a head."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((2, 4 * SIZE, DEPTH)).astype(np.float32),
        "r": rng.standard_normal((2, 4 * SIZE, SIZE)).astype(np.float32),
        "b": rng.standard_normal((2, 8 * SIZE)).astype(np.float32),
        "head": rng.standard_normal((2 * SIZE, 4)).astype(np.float32),
        "zero": np.zeros(1, np.int64),
        "two": np.asarray([2], np.int64),
        "size": np.asarray([SIZE], np.int64),
        "nothing": np.zeros((1, 1, 1), np.float32),
        "flat": np.asarray([0, 0, -1], np.int64),
    }
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"]),
        node("Concat", ["two", "batch", "size"], ["dims"], axis=0),
        node("Expand", ["nothing", "dims"], ["h"]),
        node(
            "LSTM",
            ["t", "w", "r", "b", "", "h", "h"],
            ["y"],
            hidden_size=SIZE,
            direction="bidirectional",
        ),
        node("Transpose", ["y"], ["turned"], perm=[0, 2, 1, 3]),
        node("Reshape", ["turned", "flat"], ["joined"]),
        node("Transpose", ["joined"], ["back"], perm=[1, 0, 2]),
        node("MatMul", ["back", "head"], ["z"]),
    ]
    feeds = [{"x": rng.standard_normal((BATCH, 6, DEPTH)).astype(np.float32)} for _ in range(2)]
    name = f"as PyTorch writes it, {len(open_dims)} open"
    return OnnxCase(
        name, nodes, feeds[0], feeds[1:], constants, open={"x": open_dims}, same_nodes=False
    )


@pytest.mark.parametrize("dims", [(), (0,), (1,), (0, 1)])
def test_a_whole_layer(dims: Sequence[int], tmp_path: Path) -> None:
    check_routes(pytorch_like(dims), tmp_path)
