"""Ops of onnxruntime's optimizers: onnxruntime itself says what they give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnconv
from nnconv.errors import UnsupportedError
from support.onnx_routes import OnnxCase, check_routes, node

RNG = np.random.default_rng(5)
BATCH, LENGTH, WIDTH, HEADS = 2, 5, 12, 3
SIZE = WIDTH // HEADS


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


X, SKIP = floats(BATCH, LENGTH, WIDTH), floats(BATCH, LENGTH, WIDTH)
ROW = floats(WIDTH)
MASK = np.int32([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def fused(
    id: str,
    op_type: str,
    feeds: dict[str, np.ndarray],
    constants: dict[str, np.ndarray] | None = None,
    *,
    inputs: str = "",
    outputs: str = "y",
    results: list[str] | None = None,
    domain: str = "com.microsoft",
    open_: dict[str, tuple[int, ...]] | None = None,
    more: list[dict[str, np.ndarray]] | None = None,
    opset: int = 17,
    **attributes: Any,
) -> OnnxCase:
    """A node whose inputs are all feeds and constants in that order, or those named (- is none)."""
    constants = constants or {}
    names = inputs.split() or [*feeds, *constants]
    given = ["" if name == "-" else name for name in names]
    made = ["" if name == "-" else name for name in outputs.split()]
    return OnnxCase(
        f"{op_type} {id}".strip(),
        node(op_type, given, made, domain=domain, **attributes),
        feeds,
        constants=constants,
        results=results or ["float32"] * len([name for name in made if name]),
        domains={"com.microsoft": 1},
        open=open_ or {},
        more=more or (),
        same_nodes=False,
        opset=opset,
    )


ACTIVATIONS = [
    fused("", "Gelu", {"x": X}),
    fused("", "BiasGelu", {"x": X}, {"b": ROW}),
    fused("", "FastGelu", {"x": X}),
    fused("and a bias", "FastGelu", {"x": X}, {"b": ROW}),
    fused("", "QuickGelu", {"x": X}),
    fused("of another slope", "QuickGelu", {"x": X}, alpha=0.5),
]

NORMS = [
    fused("", "SimplifiedLayerNormalization", {"x": X}, {"s": ROW}, domain="", epsilon=1e-3),
    fused("", "SkipLayerNormalization", {"x": X, "z": SKIP}, {"s": ROW, "b": floats(WIDTH)}),
    fused(
        "of all operands",
        "SkipLayerNormalization",
        {"x": X, "z": SKIP},
        {"s": ROW, "b": floats(WIDTH), "c": floats(WIDTH)},
        outputs="y - - sum",
        epsilon=0.01,
    ),
    fused("before opset 17", "SkipLayerNormalization", {"x": X, "z": SKIP}, {"s": ROW}, opset=13),
    fused(
        "of any length",
        "SkipLayerNormalization",
        {"x": X, "z": SKIP},
        {"s": ROW},
        open_={"x": (0, 1), "z": (0, 1)},
        more=[{"x": X[:1, :3], "z": SKIP[:1, :3]}],
    ),
    fused("", "SkipSimplifiedLayerNormalization", {"x": X, "z": SKIP}, {"s": ROW}, epsilon=1e-5),
    fused(
        "of all operands",
        "SkipSimplifiedLayerNormalization",
        {"x": X, "z": SKIP},
        {"s": ROW, "c": floats(WIDTH)},
        outputs="y - - sum",
    ),
]

IDS = np.int32([[3, 1, 4, 1, 5], [2, 7, 1, 0, 6]])
TABLES = {"words": floats(8, WIDTH), "places": floats(9, WIDTH), "kinds": floats(2, WIDTH)}
NORM = {"s": ROW, "b": floats(WIDTH)}
EMBEDDINGS = [
    fused(
        "of all operands",
        "EmbedLayerNormalization",
        {"ids": IDS, "segments": IDS % 2, "mask": MASK, "at": IDS[::-1].copy()},
        TABLES | NORM,
        inputs="ids segments words places kinds s b mask at",
        outputs="y counts sum",
        results=["float32", "int32", "float32"],
    ),
    fused(
        "of words",
        "EmbedLayerNormalization",
        {"ids": IDS},
        TABLES | NORM,
        inputs="ids - words places - s b",
        outputs="y counts",
        results=["float32", "int32"],
        open_={"ids": (0, 1)},
        more=[{"ids": IDS[:1, :2]}],
    ),
]

A, B = floats(2, 3, 4), floats(2, 4, 5)
IMAGE, FILTERS = floats(1, 2, 6, 6), floats(3, 2, 3, 3)
PRODUCTS = [
    fused("", "FusedMatMul", {"a": A, "b": B}),
    fused(
        "turned", "FusedMatMul",
        {"a": floats(2, 4, 3), "b": floats(2, 5, 4)}, transA=1, transB=1, alpha=0.25,
    ),
    fused(
        "", "FusedGemm",
        {"a": floats(4, 3)}, {"b": floats(5, 4), "c": floats(5)},
        transA=1, transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.1,
    ),
    fused("", "FusedConv", {"x": IMAGE}, {"w": FILTERS, "b": floats(3)}, activation="Relu"),
    fused(
        "and what skips it", "FusedConv",
        {"x": IMAGE, "z": floats(1, 3, 6, 6)}, {"w": FILTERS, "b": floats(3)},
        inputs="x w b z", activation="Relu", pads=[1, 1, 1, 1],
    ),
    fused(
        "within bounds", "FusedConv",
        {"x": IMAGE}, {"w": FILTERS},
        activation="Clip", activation_params=[-0.5, 1.5], strides=[2, 2], auto_pad="SAME_UPPER",
    ),
    fused(
        "bent", "FusedConv",
        {"x": IMAGE}, {"w": FILTERS}, activation="LeakyRelu", activation_params=[0.2],
    ),
]  # fmt: skip

MATRIX, BIAS = floats(WIDTH, 3 * WIDTH) / 3, floats(3 * WIDTH)
PAST = floats(2, BATCH, HEADS, 4, SIZE)
OF_ONE = {"w": MATRIX, "b": BIAS}
ATTENTIONS = [
    fused("", "Attention", {"x": X}, OF_ONE, num_heads=HEADS),
    fused("without a bias", "Attention", {"x": X}, {"w": MATRIX}, num_heads=HEADS),
    fused(
        "that leaves keys out", "Attention",
        {"x": X, "m": MASK}, OF_ONE, inputs="x w b m", num_heads=HEADS, mask_filter_value=-50.0,
    ),
    fused(
        "of keys of each place", "Attention",
        {"x": X, "m": (RNG.random((BATCH, LENGTH, LENGTH)) > 0.4).astype(np.int32)}, OF_ONE,
        inputs="x w b m", num_heads=HEADS,
    ),
    fused(
        "of so many keys", "Attention",
        {"x": X, "m": np.int32([5, 2])}, OF_ONE, inputs="x w b m", num_heads=HEADS,
    ),
    fused(
        "that looks back", "Attention",
        {"x": X}, OF_ONE, num_heads=HEADS, unidirectional=1, scale=0.3,
    ),
    fused(
        "with a past", "Attention",
        {"x": X, "p": PAST}, OF_ONE,
        inputs="x w b - p", outputs="y now", num_heads=HEADS, unidirectional=1,
    ),
    fused(
        "with a bias of scores", "Attention",
        {"x": X, "s": floats(BATCH, HEADS, LENGTH, LENGTH)}, OF_ONE,
        inputs="x w b - - s", num_heads=HEADS,
    ),
    fused(
        "of widths of its own", "Attention",
        {"x": X}, {"w": floats(WIDTH, 18), "b": floats(18)},
        num_heads=HEADS, qkv_hidden_sizes=[6, 6, 6],
    ),
    fused(
        "of any length", "Attention",
        {"x": X, "m": MASK}, OF_ONE,
        inputs="x w b m", num_heads=HEADS, open_={"x": (0, 1), "m": (0, 1)},
        more=[{"x": X[:1, :3], "m": np.int32([[1, 0, 1]])}],
    ),
]  # fmt: skip

Q, K, V = floats(BATCH, 4, WIDTH), floats(BATCH, LENGTH, WIDTH), floats(BATCH, LENGTH, WIDTH)
EACH = {"q": Q, "k": K, "v": V}
SEVERAL = [
    fused("", "MultiHeadAttention", EACH, num_heads=HEADS),
    fused("with a bias", "MultiHeadAttention", EACH, {"b": BIAS}, num_heads=HEADS),
    fused(
        "that leaves keys out", "MultiHeadAttention",
        {**EACH, "m": MASK}, inputs="q k v - m", num_heads=HEADS,
    ),
    fused(
        "with a bias of scores", "MultiHeadAttention",
        {**EACH, "s": floats(1, HEADS, 4, LENGTH)},
        inputs="q k v - - s", num_heads=HEADS, scale=0.7,
    ),
    fused(
        "of heads", "MultiHeadAttention",
        {"q": Q, "k": floats(BATCH, HEADS, 6, SIZE), "v": floats(BATCH, HEADS, 6, SIZE)},
        num_heads=HEADS,
    ),
    fused(
        "with a past", "MultiHeadAttention",
        {"q": X, "k": K, "v": V, "pk": PAST[0], "pv": PAST[1]},
        inputs="q k v - - - pk pv", outputs="y keys values", num_heads=HEADS,
    ),
]  # fmt: skip

COS, SIN = floats(16, SIZE // 2), floats(16, SIZE // 2)
TURNS = {"cos": COS, "sin": SIN}
ROTATIONS = [
    fused("", "RotaryEmbedding", {"x": X, "at": IDS.astype(np.int64)}, TURNS),
    fused(
        "of pairs", "RotaryEmbedding",
        {"x": X, "at": IDS.astype(np.int64)}, TURNS, interleaved=1,
    ),
    fused(
        "of heads", "RotaryEmbedding",
        {"x": floats(BATCH, HEADS, LENGTH, SIZE), "at": IDS.astype(np.int64)}, TURNS,
    ),
    fused("from a place on", "RotaryEmbedding", {"x": X, "at": np.int64([3])}, TURNS),
    fused(
        "of a part", "RotaryEmbedding",
        {"x": X, "at": IDS.astype(np.int64)}, {"cos": floats(16, 1), "sin": floats(16, 1)},
        num_heads=HEADS, rotary_embedding_dim=2,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [*ACTIVATIONS, *NORMS, *EMBEDDINGS, *PRODUCTS, *ATTENTIONS, *SEVERAL, *ROTATIONS],
    ids=str,
)
def test_fused_ops(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


REFUSED = {
    "a past in a buffer": fused(
        "", "Attention",
        {"x": X, "p": PAST, "n": np.int32([4])}, OF_ONE,
        inputs="x w b - p - n", num_heads=HEADS, past_present_share_buffer=1,
    ),
    "in one tensor": fused(
        "", "MultiHeadAttention", {"q": floats(BATCH, LENGTH, HEADS, 3, SIZE)}, num_heads=HEADS,
    ),
    "batches that are turned": fused("", "FusedMatMul", {"a": A, "b": A}, transBatchA=1),
    "activation Softplus": fused(
        "", "FusedConv", {"x": IMAGE}, {"w": FILTERS}, activation="Softplus"
    ),
    "before onnxruntime optimized it": fused("", "GroupQueryAttention", EACH, num_heads=HEADS),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_fused_ops_have_no_form_of_is_told(why: str, tmp_path: Path) -> None:
    path = tmp_path / "case.onnx"
    onnx.save(REFUSED[why].model(), path)
    with pytest.raises(UnsupportedError, match=why):
        nnconv.load(path)
