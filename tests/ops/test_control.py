"""Control flow: branches, loops, calls; shapes that differ, constants, quantized values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError
from nnconv.formats.tflite.reader import read
from support.spine import Case, check
from support.tflite_builder import Subgraph, Tensor, TfliteBuilder, flexbuffer

FLOAT, INT, BOOL = "float32", "int32", "bool"


def countdown(
    b: TfliteBuilder,
    limit: int,
    state: Callable[[Subgraph], Tensor],
    turn: Callable[[Subgraph, Tensor], Tensor],
    start: Tensor,
    result: tuple[object, ...],
) -> Tensor:
    """A WHILE i < limit around ``turn``; i begins with 0."""
    cond, body = b.subgraph("cond"), b.subgraph("body")
    i = cond.input("i", INT, ())
    state(cond)
    cond.output(cond.op("LESS", [i, cond.const(np.int32(limit))], [(BOOL, ())]))
    i = body.input("i", INT, ())
    x = state(body)
    body.output(body.op("ADD", [i, body.const(np.int32(1))], [(INT, ())]), turn(body, x))
    outputs = b.op(
        "WHILE",
        [b.const(np.int32(0)), start],
        [(INT, ()), result],
        options={"cond_subgraph_index": cond, "body_subgraph_index": body},
    )
    return outputs[1]


def doubling(b: TfliteBuilder, limit: int = 3) -> None:
    x = b.input("x", FLOAT, (2, 3))
    y = countdown(
        b,
        limit,
        lambda s: s.input("x", FLOAT, (2, 3)),
        lambda s, x: s.op("ADD", [x, x], [(FLOAT, (2, 3))]),
        x,
        (FLOAT, (2, 3)),
    )
    b.output(y)


def growing(b: TfliteBuilder) -> None:
    x = b.input("x", FLOAT, (1, 3))
    y = countdown(
        b,
        3,
        lambda s: s.input("x", FLOAT, (1, 3), signature=(-1, 3)),
        lambda s, x: s.op("CONCATENATION", [x, x], [(FLOAT, (2, 3))], options={"axis": 0}),
        x,
        (FLOAT, (1, 3)),
    )
    b.output(y)


def quantized_loop(b: TfliteBuilder) -> None:
    quant = (0.5, 3)
    x = b.input("x", "int8", (2, 3), quant=quant)
    y = countdown(
        b,
        2,
        lambda s: s.input("x", "int8", (2, 3), quant=quant),
        lambda s, x: s.op("MAXIMUM", [x, x], [("int8", (2, 3), quant)]),
        x,
        ("int8", (2, 3), quant),
    )
    b.output(y)


def requantized_loop(b: TfliteBuilder) -> None:
    """The turn's input has no parameters: the codes cross the border as they are."""
    x = b.input("x", "int8", (2, 3), quant=(0.5, 3))
    y = countdown(
        b,
        2,
        lambda s: s.input("x", "int8", (2, 3)),
        lambda s, x: s.op("MAXIMUM", [x, x], [("int8", (2, 3))]),
        x,
        ("int8", (2, 3), (0.5, 3)),
    )
    b.output(y)


def kept_weights(b: TfliteBuilder) -> None:
    """A constant filter that the loop hands on unchanged; the convolution needs it constant."""
    rng = np.random.default_rng(3)
    x = b.input("x", FLOAT, (1, 4, 5, 3))
    w = b.const(rng.standard_normal((3, 3, 3, 3)).astype(np.float32) / 4)
    cond, body = b.subgraph("cond"), b.subgraph("body")
    for s in (cond, body):
        s.input("i", INT, ())
        s.input("x", FLOAT, (1, 4, 5, 3))
        s.input("w", FLOAT, (3, 3, 3, 3))
    i, xs, ws = (Tensor(k, "", "", (), body.index, 0) for k in range(3))
    i0 = Tensor(0, "", "", (), cond.index, 0)
    cond.output(cond.op("LESS", [i0, cond.const(np.int32(2))], [(BOOL, ())]))
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    y = body.op(
        "CONV_2D",
        [xs, ws, body.const(np.float32([1, 2, 3]))],
        [(FLOAT, (1, 4, 5, 3))],
        options=options,
    )
    body.output(body.op("ADD", [i, body.const(np.int32(1))], [(INT, ())]), y, ws)
    outputs = b.op(
        "WHILE",
        [b.const(np.int32(0)), x, w],
        [(INT, ()), (FLOAT, (1, 4, 5, 3)), (FLOAT, (3, 3, 3, 3))],
        options={"cond_subgraph_index": cond, "body_subgraph_index": body},
    )
    b.output(outputs[1], outputs[2], outputs[0])


def swapping(b: TfliteBuilder) -> None:
    """Two carried values change places."""
    x, y = b.input("x", FLOAT, (2,)), b.input("y", FLOAT, (2,))
    cond, body = b.subgraph("cond"), b.subgraph("body")
    for s in (cond, body):
        s.input("x", FLOAT, (2,))
        s.input("y", FLOAT, (2,))
        s.input("i", INT, (1,))
    xs, ys, i = (Tensor(k, "", "", (), body.index, 0) for k in range(3))
    cond.output(
        cond.op("LESS", [Tensor(2, "", "", (), 1, 0), cond.const(np.int32([3]))], [(BOOL, (1,))])
    )
    body.output(ys, xs, body.op("ADD", [i, body.const(np.int32([1]))], [(INT, (1,))]))
    outputs = b.op(
        "WHILE",
        [x, y, b.const(np.int32([0]))],
        [(FLOAT, (2,)), (FLOAT, (2,)), (INT, (1,))],
        options={"cond_subgraph_index": cond, "body_subgraph_index": body},
    )
    b.output(outputs[0], outputs[1])


def branches(
    b: TfliteBuilder,
    *,
    condition: Tensor | None = None,
    quant: tuple[float, int] | None = None,
    shape: tuple[int, ...] = (),
) -> None:
    """IF: one branch doubles the rows, the other hands its input on."""
    dtype = FLOAT if quant is None else "int8"
    flag = condition or b.input("flag", BOOL, shape)
    x = b.input("x", dtype, (2, 3), quant=quant)
    then, otherwise = b.subgraph("then"), b.subgraph("else")
    a = then.input("a", dtype, (2, 3), quant=quant)
    then.output(then.op("CONCATENATION", [a, a], [(dtype, (4, 3), quant)], options={"axis": 0}))
    otherwise.output(otherwise.input("a", dtype, (2, 3), quant=quant))
    y = b.op(
        "IF",
        [flag, x],
        [(dtype, (2, 3), quant)],
        options={"then_subgraph_index": then, "else_subgraph_index": otherwise},
    )
    b.output(y)


def constant_branch(b: TfliteBuilder) -> None:
    branches(b, condition=b.const(np.array(False)))


def constant_results(b: TfliteBuilder) -> None:
    """Branches that give constants, the same one twice."""
    flag = b.input("flag", BOOL, ())
    then, otherwise = b.subgraph("then"), b.subgraph("else")
    one = then.const(np.float32([1, 2]))
    then.output(one, one)
    two = otherwise.const(np.float32([3, 4]))
    otherwise.output(two, otherwise.op("NEG", [two], [(FLOAT, (2,))]))
    outputs = b.op(
        "IF",
        [flag],
        [(FLOAT, (2,)), (FLOAT, (2,))],
        options={"then_subgraph_index": then, "else_subgraph_index": otherwise},
    )
    b.output(*outputs)


def nested(b: TfliteBuilder) -> None:
    """A WHILE whose body is an IF whose branch is a WHILE."""
    x = b.input("x", FLOAT, (2, 3))

    def turn(s: Subgraph, x: Tensor) -> Tensor:
        then, otherwise = b.subgraph("then"), b.subgraph("else")
        a = then.input("a", FLOAT, (2, 3))
        cond, body = b.subgraph("cond2"), b.subgraph("body2")
        c = cond.input("c", FLOAT, (2, 3))
        top = cond.op("REDUCE_MAX", [c, cond.const(np.int32([0, 1]))], [(FLOAT, ())])
        cond.output(cond.op("LESS", [top, cond.const(np.float32(50))], [(BOOL, ())]))
        c = body.input("c", FLOAT, (2, 3))
        twice = body.op("MUL", [c, body.const(np.float32(2))], [(FLOAT, (2, 3))])
        body.output(body.op("ADD", [twice, body.const(np.float32(1))], [(FLOAT, (2, 3))]))
        options = {"cond_subgraph_index": cond, "body_subgraph_index": body}
        then.output(then.op("WHILE", [a], [(FLOAT, (2, 3))], options=options))
        a = otherwise.input("a", FLOAT, (2, 3))
        otherwise.output(otherwise.op("NEG", [a], [(FLOAT, (2, 3))]))
        first = s.op("REDUCE_MAX", [x, s.const(np.int32([0, 1]))], [(FLOAT, ())])
        flag = s.op("GREATER", [first, s.const(np.float32(0))], [(BOOL, ())])
        options = {"then_subgraph_index": then, "else_subgraph_index": otherwise}
        inner = s.op("IF", [flag, x], [(FLOAT, (2, 3))], options=options)
        return s.op("SUB", [inner, s.const(np.float32(60))], [(FLOAT, (2, 3))])

    y = countdown(b, 3, lambda s: s.input("x", FLOAT, (2, 3)), turn, x, (FLOAT, (2, 3)))
    b.output(y)


def called(b: TfliteBuilder) -> None:
    x = b.input("x", FLOAT, (2, 3))
    inner, outer = b.subgraph("inner"), b.subgraph("outer")
    a = inner.input("a", FLOAT, (2, 3))
    inner.output(inner.op("ADD", [a, a], [(FLOAT, (2, 3))]))
    a = outer.input("a", FLOAT, (2, 3))
    twice = outer.op("CALL", [a], [(FLOAT, (2, 3))], options={"subgraph": inner})
    outer.output(outer.op("CALL", [twice], [(FLOAT, (2, 3))], options={"subgraph": inner}))
    b.output(b.op("CALL", [x], [(FLOAT, (2, 3))], options={"subgraph": outer}))


def composite(b: TfliteBuilder) -> None:
    x = b.input("x", FLOAT, (2, 3))
    inner, outer = b.subgraph("inner"), b.subgraph("outer")
    for s, op in ((inner, None), (outer, inner)):
        a = s.input("a", FLOAT, (2, 3))
        if op is None:
            s.output(s.op("ADD", [a, a], [(FLOAT, (2, 3))]))
        else:
            s.output(_composite(s, a, op))
    b.output(_composite(b, x, outer))


def _composite(s: Subgraph, x: Tensor, decomposition: Subgraph) -> Tensor:
    options = {
        "name": "test.double",
        "decomposition_subgraph_index": decomposition,
        "composite_attributes": flexbuffer({}),
    }
    return s.op("STABLEHLO_COMPOSITE", [x], [(FLOAT, (2, 3))], options=options)


def flagged(b: TfliteBuilder) -> None:
    """The condition is a carried value itself; the turn's result goes out, and on, and is asked."""
    flag, x = b.input("flag", BOOL, ()), b.input("x", FLOAT, (2,))
    cond, body = b.subgraph("cond"), b.subgraph("body")
    cond.output(cond.input("flag", BOOL, ()))
    cond.input("x", FLOAT, (2,))
    body.input("flag", BOOL, ())
    a = body.input("x", FLOAT, (2,))
    twice = body.op("ADD", [a, a], [(FLOAT, (2,))])
    top = body.op("REDUCE_MAX", [twice, body.const(np.int32([0]))], [(FLOAT, ())])
    small = body.op("LESS", [top, body.const(np.float32(9))], [(BOOL, ())])
    body.output(small, twice)
    options = {"cond_subgraph_index": cond, "body_subgraph_index": body}
    b.output(*b.op("WHILE", [flag, x], [(BOOL, ()), (FLOAT, (2,))], options=options))


def never(b: TfliteBuilder) -> None:
    """The condition is a constant."""
    x = b.input("x", FLOAT, (2,))
    cond, body = b.subgraph("cond"), b.subgraph("body")
    cond.input("x", FLOAT, (2,))
    cond.output(cond.const(np.array(False)))
    a = body.input("x", FLOAT, (2,))
    body.output(body.op("ADD", [a, a], [(FLOAT, (2,))]))
    options = {"cond_subgraph_index": cond, "body_subgraph_index": body}
    b.output(b.op("WHILE", [x], [(FLOAT, (2,))], options=options))


def spatial_branches(b: TfliteBuilder) -> None:
    """Branches of convolutions and pools, over a batch that is known at run time."""
    flag = b.input("flag", BOOL, ())
    x = b.input("x", FLOAT, (1, 5, 6, 3), signature=(-1, 5, 6, 3))
    rng = np.random.default_rng(1)
    then, otherwise = b.subgraph("then"), b.subgraph("else")
    a = then.input("a", FLOAT, (1, 5, 6, 3))
    filters = then.const(rng.standard_normal((3, 2, 2, 3)).astype(np.float32))
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    inputs = [a, filters, then.const(np.float32([1, 2, 3]))]
    then.output(then.op("CONV_2D", inputs, [(FLOAT, (1, 5, 6, 3))], options=options))
    a = otherwise.input("a", FLOAT, (1, 5, 6, 3))
    options = {**options, "filter_height": 2, "filter_width": 2}
    otherwise.output(otherwise.op("MAX_POOL_2D", [a], [(FLOAT, (1, 5, 6, 3))], options=options))
    options = {"then_subgraph_index": then, "else_subgraph_index": otherwise}
    b.output(b.op("IF", [flag, x], [(FLOAT, (1, 5, 6, 3))], options=options))


X2 = np.float32([1, 2])
X23 = np.arange(6, dtype=np.float32).reshape(2, 3)
TRUE, FALSE = np.array(True), np.array(False)

CASES = [
    Case("while", doubling),
    Case("while-opset-13", doubling, options={"opset": 13}),
    Case("while-never", lambda b: doubling(b, 0)),
    Case("while-growing", growing),
    Case("while-int8", quantized_loop),
    Case("while-int8-kept", quantized_loop, options={"int8": "keep"}),
    Case("while-int8-reread", requantized_loop),
    Case("while-constant-filter", kept_weights),
    Case(
        "while-swapping",
        swapping,
        [X2, -X2],
        expected=[-X2, X2],
        note="LiteRT copies the results to the operands one by one, and loses x",
    ),
    Case("while-flag", flagged, [TRUE, X2]),
    Case("while-flag-false", flagged, [FALSE, X2]),
    Case("while-constant-condition", never),
    Case("if-spatial", spatial_branches, [TRUE, None]),
    Case("if-spatial-else", spatial_branches, [FALSE, None]),
    Case(
        "if-batch-of-4",
        spatial_branches,
        [TRUE, np.random.default_rng(2).random((4, 5, 6, 3), np.float32)],
    ),
    Case("nested", nested, inputs=[X23]),
    *(
        Case(f"nested-opset-{opset}", nested, inputs=[X23], options={"opset": opset})
        for opset in (13, 18, 24)
    ),
    *(
        Case(
            f"if-{flag}-{quant is not None}", lambda b, q=quant: branches(b, quant=q), [flag, None]
        )
        for flag in (TRUE, FALSE)
        for quant in (None, (0.5, 3))
    ),
    Case("if-shape-1", lambda b: branches(b, shape=(1,)), [np.array([True]), None]),
    Case("if-opset-13", branches, [TRUE, None], options={"opset": 13}),
    Case("if-constant", constant_branch),
    Case("if-constant-results", constant_results, [TRUE]),
    Case("if-constant-results-else", constant_results, [FALSE]),
    Case("call", called, [X23], expected=[4 * X23], note="LiteRT has no kernel for CALL"),
    Case("composite", composite),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_control(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_results_of_branches_that_differ_in_shape_are_open() -> None:
    b = TfliteBuilder()
    branches(b)
    assert read(b.build()).outputs[0].shape == (None, 3)


def test_a_growing_value_is_open_inside_the_loop() -> None:
    b = TfliteBuilder()
    growing(b)
    model = read(b.build())
    (node,) = model.graph.nodes
    assert [v.shape for v in node.bodies[1].inputs] == [(), (None, 3)]


def test_a_loop_carries_only_what_changes(tmp_path: Path) -> None:
    b = TfliteBuilder()
    kept_weights(b)
    path = tmp_path / "model.onnx"
    nnconv.save(read(b.build()), path)
    (loop,) = (n for n in onnx.load(str(path)).graph.node if n.op_type == "Loop")
    assert len(loop.output) == 2
    (body,) = (a.g for a in loop.attribute if a.name == "body")
    (conv,) = (n for n in body.node if n.op_type == "Conv")
    assert conv.input[1] in {t.name for t in body.initializer}


def test_names_are_unique_in_the_whole_model(tmp_path: Path) -> None:
    b = TfliteBuilder()
    nested(b)
    path = tmp_path / "model.onnx"
    nnconv.save(read(b.build()), path)
    made: list[str] = []

    def collect(graph: onnx.GraphProto) -> None:
        made.extend(i.name for i in graph.input)
        made.extend(t.name for t in graph.initializer)
        for node in graph.node:
            made.extend(node.output)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    collect(attribute.g)

    collect(onnx.load(str(path)).graph)
    assert len(made) == len(set(made))


def test_a_subgraph_that_runs_itself_is_invalid() -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2,))
    f, g = b.subgraph("f"), b.subgraph("g")
    for s, other in ((f, g), (g, f)):
        a = s.input("a", FLOAT, (2,))
        s.output(s.op("CALL", [a], [(FLOAT, (2,))], options={"subgraph": other}))
    b.output(b.op("CALL", [x], [(FLOAT, (2,))], options={"subgraph": f}))
    with pytest.raises(InvalidModelError, match="runs itself"):
        read(b.build())


def test_calls_that_branch_out_without_end_are_invalid() -> None:
    """Thirty subgraphs, each of which calls the next one twice."""
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2,))
    called = None
    for index in range(30):
        s = b.subgraph(f"s{index}")
        a = s.input("a", FLOAT, (2,))
        for _ in range(2 if called is not None else 0):
            a = s.op("CALL", [a], [(FLOAT, (2,))], options={"subgraph": called})
        s.output(a)
        called = s
    b.output(b.op("CALL", [x], [(FLOAT, (2,))], options={"subgraph": called}))
    with pytest.raises(InvalidModelError, match="branch out"):
        read(b.build())


def test_nodes_of_bodies_that_cannot_be_converted_are_all_listed(tmp_path: Path) -> None:
    """Three unknown ops of two kinds, one in each branch and one outside (nothing is written)."""
    b = TfliteBuilder()
    flag, x = b.input("flag", BOOL, ()), b.input("x", FLOAT, (2,))
    then, otherwise = b.subgraph("then"), b.subgraph("else")
    for s, name in ((then, "First"), (otherwise, "Second")):
        a = s.input("a", FLOAT, (2,))
        s.output(s.op(name, [a], [(FLOAT, (2,))]))
    options = {"then_subgraph_index": then, "else_subgraph_index": otherwise}
    y = b.op("IF", [flag, x], [(FLOAT, (2,))], options=options)
    b.output(b.op("First", [y], [(FLOAT, (2,))]))
    source, target = tmp_path / "model.tflite", tmp_path / "model.onnx"
    source.write_bytes(b.build())
    with pytest.raises(UnsupportedError) as caught:
        nnconv.convert(source, target)
    assert [item.op for item in caught.value.items] == ["First", "Second", "First"]
    assert caught.value.exit_code == 4
    assert not target.exists()


def test_nodes_of_bodies_that_onnx_cannot_hold_are_all_listed(tmp_path: Path) -> None:
    """ONNX can't reread floats as integers before opset 26."""
    b = TfliteBuilder()
    flag, x = b.input("flag", BOOL, ()), b.input("x", FLOAT, (2,))
    then, otherwise = b.subgraph("then"), b.subgraph("else")
    for s in (then, otherwise):
        a = s.input("a", FLOAT, (2,))
        s.output(s.op("BITCAST", [a], [(INT, (2,))]))
    options = {"then_subgraph_index": then, "else_subgraph_index": otherwise}
    b.output(b.op("IF", [flag, x], [(INT, (2,))], options=options))
    with pytest.raises(UnsupportedError) as caught:
        nnconv.save(read(b.build()), tmp_path / "model.onnx", opset=21)
    assert [item.op for item in caught.value.items] == ["Bitcast", "Bitcast"]
    assert not (tmp_path / "model.onnx").exists()


def test_calls_that_are_too_deep_are_invalid() -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2,))
    called = None
    for index in range(2000):
        s = b.subgraph(f"s{index}")
        a = s.input("a", FLOAT, (2,))
        if called is not None:
            a = s.op("CALL", [a], [(FLOAT, (2,))], options={"subgraph": called})
        s.output(a)
        called = s
    b.output(b.op("CALL", [x], [(FLOAT, (2,))], options={"subgraph": called}))
    with pytest.raises(InvalidModelError, match="deep"):
        read(b.build())


def test_a_body_of_other_dtypes_is_invalid() -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2,))
    cond, body = b.subgraph("cond"), b.subgraph("body")
    cond.input("x", FLOAT, (2,))
    cond.output(cond.const(np.array(False)))
    a = body.input("x", FLOAT, (2,))
    body.output(body.op("CAST", [a], [(INT, (2,))]))
    options = {"cond_subgraph_index": cond, "body_subgraph_index": body}
    b.output(b.op("WHILE", [x], [(FLOAT, (2,))], options=options))
    with pytest.raises(InvalidModelError, match="now float32, now int32"):
        read(b.build())
