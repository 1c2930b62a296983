"""Cases of one ONNX node with a window, on small integers: sums of products are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.onnx_routes import OnnxCase, node
from support.whole import floats

RNG = np.random.default_rng(0)


def whole_numbers(*shape: int) -> np.ndarray:
    """Small integers as float32: sums of products are exact."""
    return RNG.integers(-4, 5, shape).astype(np.float32)


def window(
    id: str, op: str, x: np.ndarray, w: np.ndarray | None = None, **attributes: Any
) -> OnnxCase:
    """One node with a window; the keywords of the case stand before the attributes."""
    case = {
        k: attributes.pop(k) for k in ("expected", "ops", "opset", "same_nodes") if k in attributes
    }
    constants = {} if w is None else {"w": w}
    made = node(op, ["x", *constants], ["y"], **attributes)
    return OnnxCase(id, made, {"x": x}, constants=constants, **case)


SIXTEEN = 1 + floats(1, 1, 4, 4)


def square(*numbers: float) -> list[np.ndarray]:
    """The expected result of one square channel."""
    side = int(len(numbers) ** 0.5)
    return [np.float32(numbers).reshape(1, 1, side, side)]
