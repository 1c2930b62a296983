"""ONNX's If, Loop and Scan on every route, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.onnx_routes import OnnxCase, check_routes, node

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name: str, kind: int = FLOAT, dims: Sequence[Any] | None = ()) -> Any:
    """A value of a body."""
    return helper.make_tensor_value_info(name, kind, dims)


def graph(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **constants: Any
) -> Any:
    """A body."""
    arrays = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    return helper.make_graph(list(nodes), "body", list(inputs), list(outputs), arrays)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Random floats."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def loop(
    id: str,
    nodes: Sequence[Any],
    *,
    carried: dict[str, Any],
    collected: Sequence[Any] = (),
    given: dict[str, np.ndarray] | None = None,
    limit: int | None = 3,
    limit_given: bool = False,
    condition: bool | None = None,
    again: str = "go",
    constants: dict[str, Any] | None = None,
    **options: Any,
) -> OnnxCase:
    """A Loop that carries ``carried`` (name: first value); a body names what follows name + "2"."""
    nodes = [*nodes, node("Identity", [again], ["go2"])]
    first = {k: np.asarray(v) for k, v in carried.items()}
    kinds = {k: helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in first.items()}
    body = graph(
        nodes,
        [info("i", INT), info("go", BOOL), *(info(k, kinds[k], None) for k in first)],
        [info("go2", BOOL), *(info(f"{k}2", kinds[k], None) for k in first), *collected],
        **(constants or {}),
    )
    feeds: dict[str, np.ndarray] = {f"{k}0": v for k, v in first.items()}
    feeds |= given or {}
    fixed: dict[str, np.ndarray] = {}
    names = ["", ""]
    if limit is not None:
        (feeds if limit_given else fixed)["limit"] = np.asarray(limit, np.int64)
        names[0] = "limit"
    if condition is not None:
        fixed["condition"] = np.asarray(condition)
        names[1] = "condition"
    inputs = [*names, *(f"{k}0" for k in first)]
    outputs = [*(f"{k}9" for k in first), *(f"{c.name}9" for c in collected)]
    return OnnxCase(id, node("Loop", inputs, outputs, body=body), feeds, constants=fixed, **options)


ADD = [node("Add", ["s", "x"], ["s2"])]
X = {"x": normal(2, 3, seed=1)}
S = {"s": normal(2, 3)}

LOOPS = [
    loop("sum", ADD, carried=S, given=X),
    loop("no turn", ADD, carried=S, given=X, limit=0),
    loop("run-time limit", ADD, carried=S, given=X, limit_given=True, limit=5),
    loop(
        "no turn at run time",
        ADD,
        carried=S,
        given=X,
        limit_given=True,
        limit=0,
    ),
    loop(
        "while below",
        [
            *ADD,
            node("ReduceSum", ["s2"], ["total"], keepdims=0),
            node("Less", ["total", "most"], ["more"]),
        ],
        carried={"s": np.zeros((2, 3), np.float32)},
        given={"x": np.abs(normal(2, 3))},
        limit=None,
        condition=True,
        again="more",
        constants={"most": np.float32(20)},
    ),
    loop(
        "both ends",
        [
            *ADD,
            node("ReduceSum", ["s2"], ["total"], keepdims=0),
            node("Less", ["total", "most"], ["more"]),
        ],
        carried={"s": np.zeros((2, 3), np.float32)},
        given={"x": np.abs(normal(2, 3))},
        limit=4,
        condition=True,
        again="more",
        constants={"most": np.float32(200)},
    ),
    loop("never begun", ADD, carried=S, given=X, limit=4, condition=False),
    loop(
        "counter",
        [node("Cast", ["i"], ["f"], to=FLOAT), node("Add", ["s", "f"], ["s2"])],
        carried=S,
    ),
    loop(
        "collects",
        [*ADD, node("Mul", ["s2", "x"], ["each"])],
        carried=S,
        given=X,
        collected=[info("each", FLOAT, [2, 3])],
    ),
    loop(
        "collects two",
        [*ADD, node("Mul", ["s2", "x"], ["each"]), node("ReduceSum", ["s2"], ["one"], keepdims=0)],
        carried=S,
        given=X,
        collected=[info("each", FLOAT, None), info("one", FLOAT, None)],
    ),
    loop(
        "collects at a run-time limit",
        [*ADD, node("Mul", ["s2", "x"], ["each"])],
        carried=S,
        given=X,
        limit=4,
        limit_given=True,
        collected=[info("each", FLOAT, [2, 3])],
    ),
    loop(
        "collects until",
        [
            *ADD,
            node("Mul", ["s2", "x"], ["each"]),
            node("ReduceSum", ["s2"], ["total"], keepdims=0),
            node("Less", ["total", "most"], ["more"]),
        ],
        carried={"s": np.zeros((2, 3), np.float32)},
        given={"x": np.abs(normal(2, 3))},
        limit=9,
        condition=True,
        again="more",
        constants={"most": np.float32(20)},
        collected=[info("each", FLOAT, [2, 3])],
    ),
    loop(
        "collects what it carries",
        [*ADD, node("Identity", ["s2"], ["each"])],
        carried=S,
        given=X,
        collected=[info("each", FLOAT, [2, 3])],
    ),
    loop(
        "collects integers",
        [node("Add", ["s", "i"], ["s2"]), node("Mul", ["s2", "s2"], ["each"])],
        carried={"s": np.asarray([2, 3], np.int64)},
        collected=[info("each", INT, [2])],
    ),
    loop(
        "grows",
        [node("Concat", ["s", "x"], ["s2"], axis=0)],
        carried=S,
        given=X,
        same_nodes=False,
        note="the extents are open inside",
    ),
    loop(
        "carries two",
        [node("Add", ["s", "p"], ["s2"]), node("Mul", ["p", "x"], ["p2"])],
        carried={"s": normal(3), "p": normal(3, seed=4)},
        given={"x": normal(3, seed=5)},
    ),
    loop(
        "swaps",
        [node("Identity", ["s"], ["p2"]), node("Identity", ["p"], ["s2"])],
        carried={"s": normal(3), "p": normal(3, seed=4)},
        same_nodes=False,
    ),
    loop("hands on", [node("Identity", ["s"], ["s2"])], carried=S, same_nodes=False),
]


def branch(op: str, result: str) -> Any:
    """A branch of one node."""
    return graph([node(op, ["x"], [result])], [], [info(result, FLOAT, None)])


def choice(id: str, flag: bool, then: Any, otherwise: Any, **options: Any) -> OnnxCase:
    """An If at run time, both ways."""
    feeds = {"flag": np.asarray(flag), "x": normal(2, 3)}
    return OnnxCase(
        id,
        node("If", ["flag"], ["y"], then_branch=then, else_branch=otherwise),
        feeds,
        [{"flag": np.asarray(not flag), "x": normal(2, 3, seed=8)}],
        **options,
    )


IFS = [
    choice("branches", True, branch("Abs", "a"), branch("Neg", "b")),
    choice("else first", False, branch("Abs", "a"), branch("Neg", "b")),
    choice(
        "constants",
        True,
        graph([node("Constant", [], ["c"], value_float=2.0)], [], [info("c", FLOAT, [])]),
        graph([node("Constant", [], ["d"], value_float=3.0)], [], [info("d", FLOAT, [])]),
        same_nodes=False,
    ),
    choice(
        "of other shapes",
        True,
        graph([node("Concat", ["x", "x"], ["c"], axis=0)], [], [info("c", FLOAT, [4, 3])]),
        branch("Neg", "b"),
    ),
    choice(
        "nested",
        True,
        graph(
            [
                node("ReduceSum", ["x"], ["total"], keepdims=0),
                node("Greater", ["total", "zero"], ["positive"]),
                node(
                    "If",
                    ["positive"],
                    ["c"],
                    then_branch=branch("Abs", "a2"),
                    else_branch=branch("Exp", "b2"),
                ),
            ],
            [],
            [info("c", FLOAT, None)],
            zero=np.float32(0),
        ),
        branch("Neg", "b"),
    ),
    OnnxCase(
        "a condition known beforehand",
        node("If", ["flag"], ["y"], then_branch=branch("Abs", "a"), else_branch=branch("Neg", "b")),
        {"x": normal(2, 3)},
        constants={"flag": np.asarray(False)},
        same_nodes=False,
    ),
]


def scan(id: str, nodes: Sequence[Any], feeds: dict[str, np.ndarray], **options: Any) -> OnnxCase:
    """A Scan of states ``s`` and inputs ``x``; its body gives s2 and each."""
    attributes = {key: options.pop(key) for key in [k for k in options if k.startswith("scan_")]}
    states = [n for n in feeds if n.startswith("s")]
    scanned = [n for n in feeds if n.startswith("x")]
    results = options.pop("results", ["each"])
    body = graph(
        nodes,
        [info(f"{n}_in", FLOAT, None) for n in (*states, *scanned)],
        [info(f"{n}_out", FLOAT, None) for n in (*states, *results)],
    )
    outputs = [f"{n}_all" for n in (*states, *results)]
    made = node(
        "Scan", [*states, *scanned], outputs, body=body, num_scan_inputs=len(scanned), **attributes
    )
    return OnnxCase(id, made, feeds, same_nodes=False, **options)


RUNNING = [
    node("Add", ["s_in", "x_in"], ["s_out"]),
    node("Mul", ["s_out", "x_in"], ["each_out"]),
]
PLAIN = {"s": normal(3), "x": normal(5, 3, seed=1)}

SCANS = [
    scan("plain", RUNNING, PLAIN),
    scan("backward", RUNNING, PLAIN, scan_input_directions=[1]),
    scan("given backward", RUNNING, PLAIN, scan_output_directions=[1]),
    scan("along another axis", RUNNING, {"s": normal(3), "x": normal(3, 5)}, scan_input_axes=[1]),
    scan("given along another axis", RUNNING, PLAIN, scan_output_axes=[1]),
    scan("negative axes", RUNNING, PLAIN, scan_input_axes=[-2], scan_output_axes=[-1]),
    scan("any length", RUNNING, PLAIN, open={"x": [0]}),
    scan("one step", RUNNING, {"s": normal(3), "x": normal(1, 3)}),
    scan("opset 9", RUNNING, PLAIN, opset=9),
    scan("opset 11", RUNNING, PLAIN, opset=11),
    scan(
        "without states",
        [node("Neg", ["x_in"], ["each_out"])],
        {"x": normal(5, 3)},
    ),
    scan(
        "two inputs",
        [
            node("Mul", ["x1_in", "x2_in"], ["each_out"]),
            node("Add", ["s_in", "each_out"], ["s_out"]),
        ],
        {"s": normal(3), "x1": normal(4, 3), "x2": normal(4, 3, seed=2)},
        scan_input_directions=[0, 1],
    ),
    scan(
        "two results",
        [*RUNNING, node("ReduceSum", ["s_out"], ["total_out"], keepdims=0)],
        PLAIN,
        results=["each", "total"],
        scan_output_directions=[0, 1],
    ),
]


@pytest.mark.parametrize("case", [*LOOPS, *IFS, *SCANS], ids=str)
def test_control(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
