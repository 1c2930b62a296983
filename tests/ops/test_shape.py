"""Ops that move, repeat and join: op x dtype, index operands known and at run time, odd shapes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.formats.tflite.reader import read
from support.moves import ALL, QUANT, ints, move, wide
from support.spine import Case, check, model_bytes, onnx_ops, onnx_session
from support.tflite_builder import TfliteBuilder

RESHAPE = [
    *(
        move("RESHAPE", (2, 3, 4), lambda x: x.reshape(6, 4), rest=[ints(6, 4)], dtype=d)
        for d in ALL
    ),
    *(
        move("RESHAPE", (2, 3, 4), lambda x: x.reshape(4, 6), rest=[ints(4, -1)], run_time=run)
        for run in (False, True)
    ),
    move("RESHAPE", (1, 1), lambda x: x.reshape(()), rest=[np.zeros(0, np.int32)], label="scalar"),
    move("RESHAPE", (), lambda x: x.reshape(1, 1), rest=[ints(1, 1)], label="from-scalar"),
    move(
        "RESHAPE", (2, 6), lambda x: x.reshape(3, 4), options={"new_shape": [3, 4]}, label="option"
    ),
    move(
        "RESHAPE",
        (2, 6),
        lambda x: x.reshape(3, 4),
        rest=[ints(3, 4).reshape(1, 2)],
        options={"new_shape": [3, 4]},
        label="rank-2-operand",
    ),
    move(
        "RESHAPE",
        (2, 6),
        lambda x: x.reshape(3, 4),
        rest=[ints(4, 3)],
        options={"new_shape": [4, 3]},
        label="both",
    ),
    move("RESHAPE", (0, 4), lambda x: x.reshape(2, 0), rest=[ints(2, 0)], label="empty"),
    move("RESHAPE", (0, 4), lambda x: x.reshape(0, 2), rest=[ints(-1, 2)], label="empty-open"),
    move(
        "RESHAPE",
        (0, 4),
        lambda x: x.reshape(2, 0),
        rest=[ints(2, 0)],
        label="empty-old",
        options={},
    ),
]

SMALL = [
    *(
        move("SQUEEZE", (1, 2, 1, 3), lambda x: x[0], options={"squeeze_dims": [0]}, dtype=d)
        for d in ALL
    ),
    move("SQUEEZE", (1, 2, 1, 3), np.squeeze, label="all"),
    move(
        "SQUEEZE", (1, 2, 1, 3), lambda x: x[:, :, 0], options={"squeeze_dims": [-2]}, label="back"
    ),
    move("SQUEEZE", (2, 3), lambda x: x, label="none"),
    *(move("EXPAND_DIMS", (2, 3), lambda x: x[:, None], rest=[np.int32(1)], dtype=d) for d in ALL),
    *(
        move(
            "EXPAND_DIMS",
            (2, 3),
            lambda x, a=axis: np.expand_dims(x, a),
            rest=[np.asarray([axis], dtype)],
            label=f"{axis}-{dtype}",
            run_time=run,
        )
        for axis in (-3, -1, 0, 2)
        for dtype in ("int32", "int64")
        for run in (False, True)
        if not (run and dtype == "int64")
    ),
    move("EXPAND_DIMS", (), lambda x: x[None], rest=[np.int32(0)], label="scalar"),
    *(
        move("TRANSPOSE", (2, 3, 4), lambda x: x.transpose(2, 0, 1), rest=[ints(2, 0, 1)], dtype=d)
        for d in ALL
    ),
    *(
        move(
            "TRANSPOSE",
            (2, 3, 4, 5)[: len(perm)],
            lambda x, p=perm: x.transpose(p),
            rest=[ints(*perm)],
            label="".join(map(str, perm)),
            run_time=run,
            dtype=dtype,
        )
        for perm in ((0,), (1, 0), (0, 2, 1), (3, 1, 0, 2), (0, 1, 2, 3))
        for run, dtype in ((False, "float32"), (True, "float32"), (True, "int8"))
    ),
    move("TRANSPOSE", (0, 3), lambda x: x.T, rest=[ints(1, 0)], label="empty"),
    move("TRANSPOSE", (2, 3), lambda x: x.T, rest=[ints(-1, -2)], label="negative"),
]

REPEAT = [
    *(
        move("TILE", (2, 3), lambda x: np.tile(x, (2, 3)), rest=[ints(2, 3)], dtype=d, run_time=run)
        for d in ALL
        for run in (False, True)
    ),
    move("TILE", (2, 3), lambda x: np.tile(x, (1, 2)), rest=[wide(1, 2)], label="int64"),
    move("TILE", (2, 3), lambda x: np.tile(x, (0, 2)), rest=[ints(0, 2)], label="empty"),
    *(
        move(
            "BROADCAST_TO",
            (3, 1),
            lambda x: np.broadcast_to(x, (2, 3, 4)),
            rest=[ints(2, 3, 4)],
            dtype=d,
            run_time=run,
        )
        for d in ALL
        for run in (False, True)
    ),
    move(
        "BROADCAST_TO",
        (),
        lambda x: np.broadcast_to(x, (2, 3)),
        rest=[wide(2, 3)],
        label="scalar-int64",
    ),
    *(
        move(
            "FILL",
            (),
            lambda x: np.broadcast_to(x, (2, 3)),
            first=[ints(2, 3)],
            dtype=d,
            run_time=run,
        )
        for d in ALL
        for run in (False, True)
    ),
    move("FILL", (), lambda x: x, first=[np.zeros(0, np.int32)], label="scalar"),
    move("FILL", (), (0, 2), first=[wide(0, 2)], label="empty-int64"),
]


def join(
    op: str,
    shapes: Sequence[Sequence[int]],
    out: Sequence[int],
    *,
    dtype: str = "float32",
    quants: Sequence[Any] | None = None,
    result: Any = None,
    options: dict[str, Any],
    constant: int | None = None,
    **case: Any,
) -> Case:
    """A case of an op that joins tensors; ``constant`` is the number of one that is no input."""
    parameters = quants or [QUANT.get(dtype)] * len(shapes)

    def build(b: TfliteBuilder) -> None:
        parts = []
        for i, (shape, quant) in enumerate(zip(shapes, parameters, strict=True)):
            if i == constant:
                data = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
                parts.append(b.const(data, quant=quant))
            else:
                parts.append(b.input(f"x{i}", dtype, shape, quant=quant))
        kind = (dtype, out, result or parameters[0])
        b.output(b.op(op, parts, [kind], options=options))

    label = case.pop("label", "x".join(map(str, out)))
    return Case(f"{op}-{dtype}-{label}", build, **case)


UNEQUAL = {
    "int8": [(0.05, 3), (0.1, -7), (0.02, 0)],
    "uint8": [(0.05, 131), (0.1, 7), (0.02, 0)],
}
JOIN = [
    *(
        join("CONCATENATION", [(2, 3), (2, 4)], (2, 7), dtype=d, options={"axis": 1})
        for d in (
            "float32",
            "float16",
            "int8",
            "uint8",
            "int16",
            "int32",
            "int64",
            "uint32",
            "bool",
        )
    ),
    *(
        join(
            "CONCATENATION",
            [(2, 3), (2, 4), (2, 1)],
            (2, 8),
            dtype=d,
            quants=UNEQUAL[d],
            result=(0.07, UNEQUAL[d][0][1]),
            options={"axis": -1},
            label="unequal",
            resolver="opt" if d == "uint8" else None,
            note="LiteRT takes int8 parts of equal parameters only",
        )
        for d in UNEQUAL
    ),
    join(
        "CONCATENATION",
        [(2, 3), (1, 3)],
        (3, 3),
        options={"axis": 0, "fused_activation_function": "RELU"},
        label="relu",
        resolver=None,
        note="LiteRT's own kernels refuse an activation, XNNPACK leaves it out",
    ),
    join(
        "CONCATENATION",
        [(2, 3), (1, 3)],
        (3, 3),
        dtype="int8",
        options={"axis": 0},
        constant=1,
        label="constant",
    ),
    join("CONCATENATION", [(0, 3), (2, 3)], (2, 3), options={"axis": 0}, label="empty"),
    join("CONCATENATION", [(2, 1)] * 40, (2, 40), options={"axis": 1}, label="many"),
    join("CONCATENATION", [(2, 3)], (2, 3), options={"axis": 1}, label="one"),
    *(
        join("PACK", [(2, 3)] * 3, (2, 3, 3), dtype=d, options={"axis": 1, "values_count": 3})
        for d in ("float32", "int8", "uint8", "int16", "int32", "int64", "uint32")
    ),
    join("PACK", [(2, 3)] * 2, (2, 3, 2), options={"axis": -1, "values_count": 2}, label="last"),
    join("PACK", [()] * 3, (3,), options={"axis": 0, "values_count": 3}, label="scalars"),
    join("PACK", [(2,)], (1, 2), options={"axis": 0, "values_count": 1}, label="one"),
]

PART = [
    *(
        move(
            "UNPACK",
            (2, 3, 4),
            lambda x: [x[:, i] for i in range(3)],
            dtype=d,
            options={"axis": 1, "num": 3},
        )
        for d in ("float32", "float16", "int8", "uint8", "int16", "int32", "bool")
    ),
    move("UNPACK", (3,), lambda x: [x[i] for i in range(3)], options={"axis": -1, "num": 3}),
    move("UNPACK", (1, 2), lambda x: [x[0]], options={"axis": 0, "num": 1}),
    *(
        move(
            "SPLIT",
            (2, 6),
            lambda x: np.split(x, 3, 1),
            first=[np.int32(axis)],
            dtype=d,
            options={"num_splits": 3},
            run_time=run,
            label=f"axis{axis}",
        )
        for d in ("float32", "int8", "uint8", "int16", "int32", "int64")
        for axis in (1, -1)
        for run in ((False, True) if d in ("float32", "int8") else (False,))
    ),
    move("SPLIT", (2, 3), lambda x: [x], first=[np.int32(0)], options={"num_splits": 1}),
    *(
        move(
            "SPLIT_V",
            (2, 6),
            lambda x: np.split(x, (1, 4), 1),
            rest=[ints(1, 3, 2), np.int32(1)],
            dtype=d,
            options={"num_splits": 3},
        )
        for d in ("float32", "int8", "uint8", "int16", "int32", "int64")
    ),
    *(
        move(
            "SPLIT_V",
            (2, 6),
            lambda x: np.split(x, (1, 4), 1),
            rest=[sizes, np.int32(-1)],
            options={"num_splits": 3},
            label=label,
        )
        for label, sizes in {"rest": ints(1, -1, 2), "int64": wide(1, 3, 2)}.items()
    ),
]


def about(op: str, shapes: Sequence[Sequence[int]], out: Sequence[int], **fields: Any) -> Case:
    """A case of an op that tells something of shapes."""
    dtype, kind = fields.pop("dtype", "float32"), fields.pop("kind", "int32")
    options = fields.pop("options", {})
    label = fields.pop("label", "")

    def build(b: TfliteBuilder) -> None:
        parts = [b.input(f"x{i}", dtype, shape) for i, shape in enumerate(shapes)]
        b.output(b.op(op, parts, [(kind, out)], options=options))

    return Case(f"{op}-{dtype}-{kind}-{label or len(shapes[0])}", build, **fields)


ABOUT = [
    *(
        about("SHAPE", [(2, 3, 4)], (3,), dtype=d, kind=k, options={"out_type": k.upper()})
        for d in ("float32", "int8", "bool", "int64")
        for k in ("int32", "int64")
    ),
    about(
        "SHAPE",
        [()],
        (0,),
        options={"out_type": "INT32"},
        expected=[np.zeros(0, np.int32)],
        note="LiteRT's Python interface can't read a result without elements",
    ),
    *(about("RANK", [(2, 3, 4)[:rank]], ()) for rank in range(4)),
    *(
        about(
            "BROADCAST_ARGS",
            [(len(a),), (len(b),)],
            (max(len(a), len(b)),),
            dtype=k,
            kind=k,
            inputs=[np.asarray(a, k), np.asarray(b, k)],
            label=f"{a}{b}",
        )
        for a, b in (((2, 1, 4), (3, 1)), ((1,), (5, 1, 3)), ((0, 3), (1, 1)), ((2,), (2,)))
        for k in ("int32", "int64")
    ),
    *(
        about(
            "RANGE",
            [(), (), ()],
            (0,),
            dtype=k,
            kind=k,
            inputs=[np.asarray(v, k) for v in (start, stop, step)],
            label=f"{start}-{stop}-{step}",
            expected=None if start != stop else [np.zeros(0, k)],
        )
        for start, stop, step in ((0, 5, 1), (2, 11, 3), (5, -4, -2), (3, 3, 1))
        for k in ("int32", "int64", "float32")
    ),
]


def constant_range(b: TfliteBuilder) -> None:
    """RANGE of constants, added to something."""
    x = b.input("x", "int32", (4,))
    bounds = [b.const(np.int32(v)) for v in (2, 14, 3)]
    made = b.op("RANGE", bounds, [("int32", (4,))])
    b.output(b.op("ADD", [x, made], [("int32", (4,))]))


def densify(b: TfliteBuilder) -> None:
    """A sparse constant."""
    x = b.input("x", "float32", (4, 4))
    dense = np.diag(np.arange(1, 5)).astype(np.float32)
    sparse = b.sparse_const(dense, ["dense", "sparse"])
    made = b.op("DENSIFY", [sparse], [("float32", (4, 4))])
    b.output(b.op("ADD", [x, made], [("float32", (4, 4))]))


def split_at_run_time(sizes: tuple[int, ...]) -> Case:
    """SPLIT_V by sizes that come in."""

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "int8", (2, 6, 3), quant=QUANT["int8"])
        counts = b.input("sizes", "int32", (3,))
        axis = b.const(np.int32(1))
        kinds = [("int8", (2, 2, 3), QUANT["int8"])] * 3
        made = b.op("SPLIT_V", [x, counts, axis], kinds, options={"num_splits": 3})
        b.output(*made)

    return Case(f"SPLIT_V-run-{sizes}", build, inputs=[None, ints(*sizes)])


def flatten(b: TfliteBuilder) -> None:
    """Keras's Flatten of a batch of any size: a shape made of the input's own."""
    x = b.input("x", "float32", (1, 4, 5, 3), signature=(-1, 4, 5, 3))
    pooled = b.op(
        "MAX_POOL_2D",
        [x],
        [("float32", (1, 2, 2, 3))],
        options={"stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
        | {"padding": "VALID"},
    )
    sizes = b.op("SHAPE", [pooled], [("int32", (4,))], options={"out_type": "INT32"})
    bounds = [b.const(ints(n)) for n in (0, 1, 1)]
    batch = b.op(
        "STRIDED_SLICE",
        [sizes, *bounds],
        [("int32", ())],
        options={"shrink_axis_mask": 1},
    )
    rest = b.const(np.int32(12))
    shape = b.op("PACK", [batch, rest], [("int32", (2,))], options={"values_count": 2, "axis": 0})
    b.output(b.op("RESHAPE", [pooled, shape], [("float32", (1, 12))]))


@pytest.mark.parametrize("batch", [1, 5])
def test_flatten_keeps_an_open_batch(batch: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((batch, 4, 5, 3)).astype(np.float32)
    content = model_bytes(Case("flatten", flatten))
    path = tmp_path / "model.onnx"
    nnconv.save(read(content), path)
    assert not {"Shape", "Concat", "Gather"} & set(onnx_ops(path))
    session = onnx_session(path)
    (result,) = session.run(None, {"x": x})
    pooled = x[:, :4, :4].reshape(batch, 2, 2, 2, 2, 3).max(axis=(2, 4))
    np.testing.assert_array_equal(result, pooled.reshape(batch, 12))


WHOLE = [
    *(split_at_run_time(sizes) for sizes in ((1, 3, 2), (2, -1, 1), (-1, 1, 3))),
    Case("RANGE-constant", constant_range),
    Case("DENSIFY", densify),
]


@pytest.mark.parametrize("case", [*RESHAPE, *SMALL, *REPEAT, *JOIN, *PART, *ABOUT, *WHOLE], ids=str)
def test_shape(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
