"""Of several RESHAPE in a row one is written, and tensors of nothing aren't."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnconv.formats.tflite import build
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR, TensorType
from nnconv.formats.tflite.reshapes import join_reshapes
from nnconv.ir import Builder, DType, Value
from nnconv.ops import elementwise as e
from nnconv.ops.shape import Reshape, Unsqueeze
from support.tflite_spine import TfliteCase, check_tflite, tflite_ops

FLOAT = TensorType.FLOAT32
X, SHAPE, A, B, Y = range(5)


def chain(
    *,
    last: tuple[int, ...] = (6,),
    outputs: tuple[int, ...] = (Y,),
    quant: build.Quantization | None = None,
) -> build.Subgraph:
    """NEG(RESHAPE(SQUEEZE(x)))."""
    tensors = [
        build.Tensor("x", FLOAT, (1, 2, 3), quant=quant),
        build.Tensor("shape", TensorType.INT32, (len(last),), data=b"\0" * 4 * len(last)),
        build.Tensor("a", FLOAT, (2, 3), quant=quant),
        build.Tensor("b", FLOAT, last, quant=quant),
        build.Tensor("y", FLOAT, last, quant=quant),
    ]
    operators = [
        build.Operator(BUILTIN_OPERATOR["SQUEEZE"], [X], [A]),
        build.Operator(BUILTIN_OPERATOR["RESHAPE"], [A, SHAPE], [B]),
        build.Operator(BUILTIN_OPERATOR["NEG"], [B], [Y]),
    ]
    return build.Subgraph("main", tensors, [X], list(outputs), operators)


def told(subgraph: build.Subgraph) -> list[tuple[str, list[str], list[str]]]:
    numbers = {number: name for name, number in BUILTIN_OPERATOR.items()}

    def names(indices: object) -> list[str]:
        assert isinstance(indices, list)
        return [subgraph.tensors[i].name for i in indices]

    return [
        (numbers[int(op.code)], names(op.inputs), names(op.outputs)) for op in subgraph.operators
    ]


def test_one_reshape_is_left() -> None:
    subgraph = chain()
    join_reshapes(subgraph)
    assert told(subgraph) == [("RESHAPE", ["x", "shape"], ["b"]), ("NEG", ["b"], ["y"])]
    assert [tensor.name for tensor in subgraph.tensors] == ["x", "shape", "b", "y"]
    assert subgraph.outputs == [3]


def test_none_is_left_where_the_shape_comes_back() -> None:
    subgraph = chain(last=(1, 2, 3))
    join_reshapes(subgraph)
    assert told(subgraph) == [("NEG", ["x"], ["y"])]
    assert [tensor.name for tensor in subgraph.tensors] == ["x", "y"]


@pytest.mark.parametrize("kept", [A, B])
def test_what_goes_out_stays(kept: int) -> None:
    subgraph = chain(last=(1, 2, 3), outputs=(Y, kept))
    join_reshapes(subgraph)
    names = {name for _, _, outputs in told(subgraph) for name in outputs}
    assert names == {"y", "ab"[kept - A]}
    assert [subgraph.tensors[i].name for i in subgraph.outputs] == ["y", "ab"[kept - A]]


def test_codes_keep_their_last_move() -> None:
    subgraph = chain(last=(1, 2, 3), quant=build.Quantization([0.5], [0]))
    join_reshapes(subgraph)
    assert [name for name, _, _ in told(subgraph)] == ["RESHAPE", "NEG"]


def test_variables_are_read_where_they_were() -> None:
    subgraph = chain()
    subgraph.tensors[X].is_variable = True
    before = told(subgraph)
    join_reshapes(subgraph)
    assert told(subgraph) == before


def test_moves_of_layers_that_are_done_by_others_are_joined(tmp_path: Path) -> None:
    def make(b: Builder) -> list[Value]:
        x = b.input("x", DType.FLOAT32, (2, 3))
        y = b.add(Unsqueeze(axes=(0,)), [b.add(e.Neg(), [x])])
        return [b.add(e.Abs(), [b.add(Reshape(shape=(6,)), [y])])]

    check_tflite(TfliteCase("moves", make), tmp_path)
    assert tflite_ops((tmp_path / "model.tflite").read_bytes())["RESHAPE"] == 1
