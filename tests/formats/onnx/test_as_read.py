"""What stands between a QuantizeLinear and a DequantizeLinear sees codes as plain integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from support.onnx_routes import OnnxCase, check_routes, node

X = np.random.default_rng(0).uniform(-3, 3, (1, 2, 4, 5)).astype(np.float32)
TYPES = (np.uint8, np.int8)
ZERO = {np.uint8: 128, np.int8: 3}


def case(
    name: str, kind: Any, *inner: NodeProto, plain: bool = False, **constants: Any
) -> OnnxCase:
    """Codes q of x, inner nodes that make r of them, and the real numbers of r if not ``plain``."""
    nodes = [node("QuantizeLinear", ["x", "scale", "zero"], ["q"]), *inner]
    if not plain:
        nodes.append(node("DequantizeLinear", ["r", "scale", "zero"], ["y"]))
    given = {"scale": np.float32(0.05), "zero": kind(ZERO[kind])}
    return OnnxCase(
        f"{name}, {np.dtype(kind)}",
        nodes,
        {"x": X},
        constants=given | {key: np.asarray(value) for key, value in constants.items()},
        outputs=["r" if plain else "y"],
        same_nodes=False,
        note="which nodes are written depends on what else stands for the parameters",
    )


def cases(kind: Any) -> list[OnnxCase]:
    """All that are made for one type of codes."""
    pads = np.array([0, 0, 1, 0, 0, 0, 0, 2])
    seven = kind(7)
    second = {"scale2": np.float32(0.5), "zero2": seven}
    return [
        case("pad", kind, node("Pad", ["q", "pads", "c"], ["r"]), pads=pads, c=seven),
        case("pad with code 0", kind, node("Pad", ["q", "pads"], ["r"]), pads=pads),
        case("least of code and number", kind, node("Min", ["q", "c"], ["r"]), c=kind(100)),
        case("sum wraps", kind, node("Add", ["q", "c"], ["r"]), c=seven),
        case("difference", kind, node("Sub", ["c", "q"], ["r"]), c=seven),
        case(
            "joined with numbers",
            kind,
            node("Concat", ["q", "c"], ["r"], axis=3),
            c=np.arange(8, dtype=kind).reshape(1, 2, 4, 1),
        ),
        case(
            "joined with codes of other parameters",
            kind,
            node("QuantizeLinear", ["x", "scale2", "zero2"], ["p"]),
            node("Concat", ["q", "p"], ["r"], axis=1),
            **second,
        ),
        case("compared", kind, node("Less", ["q", "c"], ["r"]), c=kind(100), plain=True),
        case("counted", kind, node("Cast", ["q"], ["r"], to=6), plain=True),
        case("largest place", kind, node("ArgMax", ["q"], ["r"], axis=1), plain=True),
        case("moved", kind, node("Transpose", ["q"], ["r"], perm=[0, 2, 3, 1])),
        case("largest", kind, node("ReduceMax", ["q", "axes"], ["r"]), axes=np.array([2])),
        case("chosen", kind, node("Where", ["b", "q", "c"], ["r"]), b=X > 0, c=seven),
        case(
            "clipped", kind, node("Clip", ["q", "low", "high"], ["r"]), low=kind(20), high=kind(99)
        ),
    ]


@pytest.mark.parametrize("case", [c for kind in TYPES for c in cases(kind)], ids=str)
def test_codes_are_integers_to_what_stands_between(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
