"""NNRt operations that move, pick, cut or count elements, in all of their types, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from nnconv.formats.nnrt.table import spec_of
from nnconv.formats.nnrt.types import NUMPY, DataType, OperationType
from support.nnrt_ops import Given, check_op, codes, const, quantized

I32, I64, F32 = np.int32, np.int64, np.float32


class Move(NamedTuple):
    """An operation on data of any type.

    Attributes:
        op: the operation.
        shape: of the data.
        inputs: what else it takes, or a function of the data that gives all of its inputs.
        params: its parameters.
        expected: what numpy makes of the data.
        api: the version of the API.
        data: the input that the data are.
    """

    op: str
    shape: tuple[int, ...]
    inputs: Any
    params: dict[str, Any]
    expected: Callable[[np.ndarray], Any]
    api: int = 2
    data: str = "input"


def _strided(*bounds: Any) -> dict[str, Given]:
    return {
        name: const(bound, I32)
        for name, bound in zip(("begin", "end", "strides"), bounds, strict=True)
    }


MOVES = {
    "reshape": Move(
        "RESHAPE", (3, 4), {"InputShape": const([2, 6], I32)}, {}, lambda x: x.reshape(2, 6)
    ),
    "reshape open": Move(
        "RESHAPE", (3, 4), {"InputShape": const([-1, 2], I64)}, {}, lambda x: x.reshape(6, 2)
    ),
    "squeeze all": Move("SQUEEZE", (1, 3, 1), {}, {}, np.squeeze),
    "squeeze": Move("SQUEEZE", (1, 3, 1), {}, {"axis": [-1]}, lambda x: x[:, :, 0]),
    "unsqueeze": Move("UNSQUEEZE", (3, 2), {}, {"axis": -1}, lambda x: x[..., None]),
    "expand dims": Move("EXPAND_DIMS", (3, 2), {"axis": const([1], I32)}, {}, lambda x: x[:, None]),
    "flatten": Move("FLATTEN", (2, 3, 4), {}, {}, lambda x: x.reshape(2, 12)),
    "flatten 0": Move("FLATTEN", (2, 3, 4), {}, {"axis": 0}, lambda x: x.reshape(1, 24)),
    "flatten -1": Move("FLATTEN", (2, 3, 4), {}, {"axis": -1}, lambda x: x.reshape(6, 4)),
    "transpose": Move(
        "TRANSPOSE",
        (2, 3, 4),
        {"permutation": const([2, 0, 1], I32)},
        {},
        lambda x: x.transpose(2, 0, 1),
    ),
    "concat": Move(
        "CONCAT",
        (2, 3),
        lambda x: {"input": [x, x[:1], x]},
        {},
        lambda x: np.concatenate([x, x[:1], x]),
    ),
    "concat -1": Move(
        "CONCAT",
        (2, 3),
        lambda x: {"input": [x, x[:, :1]]},
        {"axis": -1},
        lambda x: np.concatenate([x, x[:, :1]], 1),
    ),
    "stack": Move(
        "STACK", (2, 3), lambda x: {"input": [x, x]}, {"axis": -1}, lambda x: np.stack([x, x], -1)
    ),
    "stack 0": Move("STACK", (2, 3), lambda x: {"input": [x, x]}, {}, lambda x: np.stack([x, x])),
    "unstack": Move("UNSTACK", (2, 3), {}, {"axis": 1}, lambda x: [x[:, 0], x[:, 1], x[:, 2]]),
    "split": Move("SPLIT", (4, 3), {}, {"outputNum": 2}, lambda x: [x[:2], x[2:]]),
    "split sizes": Move(
        "SPLIT",
        (2, 5),
        {},
        {"outputNum": 2, "sizeSplits": [4, 1], "axis": -1},
        lambda x: [x[:, :4], x[:, 4:]],
    ),
    "tile": Move(
        "TILE", (2, 3), {"multiples": const([2, 1], I32)}, {}, lambda x: np.tile(x, (2, 1))
    ),
    "tile more": Move(
        "TILE",
        (2, 3),
        {"multiples": const([2, 1, 2], I64)},
        {"dims": [2, 1, 2]},
        lambda x: np.tile(x, (2, 1, 2)),
    ),
    "tile v1": Move(
        "TILE", (2, 3), {"multiples": const([1, 2], I32)}, {}, lambda x: np.tile(x, (1, 2)), 1
    ),
    "broadcast to": Move(
        "BROADCAST_TO",
        (2, 1),
        {},
        {"shape": [3, 2, 4]},
        lambda x: np.broadcast_to(x, (3, 2, 4)).copy(),
    ),
    "shape": Move("SHAPE", (2, 3, 4), {}, {}, lambda x: np.asarray(x.shape, I32)),
    "rank": Move("RANK", (2, 3, 4), {}, {}, lambda x: np.asarray([x.ndim], I32)),
    "fill": Move(
        "FILL", (), {"shape": const([2, 3], I32)}, {}, lambda x: np.full((2, 3), x), data="value"
    ),
    "gather": Move(
        "GATHER",
        (4, 3),
        {"inputIndices": const([[3, 0]], I32), "axis": const(0, I32)},
        {},
        lambda x: x[[[3, 0]]],
    ),
    "gather -1": Move(
        "GATHER",
        (2, 4),
        {"inputIndices": np.asarray([3, 0, 3], I64), "axis": const(-1, I32)},
        {},
        lambda x: x[:, [3, 0, 3]],
    ),
    "gather nd": Move(
        "GATHER_ND",
        (3, 4, 2),
        {"indices": const([[2, 1], [0, 3]], I32)},
        {},
        lambda x: np.stack([x[2, 1], x[0, 3]]),
    ),
    "scatter nd": Move(
        "SCATTER_ND",
        (2, 3),
        {"indices": const([[3], [1]], I32), "shape": const([4, 3], I32)},
        {},
        lambda x: np.stack([0 * x[0], x[1], 0 * x[0], x[0]]).astype(x.dtype),
        data="updates",
    ),
    "sparse to dense": Move(
        "SPARSE_TO_DENSE",
        (2,),
        {"indices": const([[0, 1], [1, 2]], I32), "sparseShape": const([2, 3], I32)},
        {},
        lambda x: np.asarray([[0, x[0], 0], [0, 0, x[1]]]).astype(x.dtype),
        data="values",
    ),
    "slice": Move(
        "SLICE",
        (3, 4),
        {"begin": const([1, 0], I32), "size": const([2, 3], I32)},
        {},
        lambda x: x[1:, :3],
    ),
    "slice to the end": Move(
        "SLICE",
        (3, 4),
        {"begin": const([1, 0], I64), "size": const([-1, 3], I64)},
        {},
        lambda x: x[1:, :3],
    ),
    "slice axes": Move(
        "SLICE",
        (3, 4),
        {"begin": const([1], I32), "size": const([2], I32)},
        {"axes": [1]},
        lambda x: x[:, 1:3],
    ),
    "slice v1": Move(
        "SLICE",
        (3, 4),
        {"begin": const([1, 0], I32), "size": const([1, 3], I32)},
        {},
        lambda x: x[1:2, :3],
        1,
    ),
    "strided slice": Move(
        "STRIDED_SLICE", (4, 5), _strided([1, 0], [4, 5], [2, 3]), {}, lambda x: x[1:4:2, ::3]
    ),
    "strided slice back": Move(
        "STRIDED_SLICE", (4, 5), _strided([3, 0], [0, 5], [-1, 1]), {}, lambda x: x[3:0:-1]
    ),
    "strided slice masks": Move(
        "STRIDED_SLICE",
        (4, 5),
        _strided([1, 1], [3, 3], [1, 1]),
        {"beginMask": 1, "endMask": 2},
        lambda x: x[:3, 1:],
    ),
    "strided slice shrink": Move(
        "STRIDED_SLICE",
        (4, 5),
        _strided([-1, 1], [0, 3], [1, 1]),
        {"shrinkAxisMask": 1},
        lambda x: x[-1, 1:3],
    ),
    "strided slice new": Move(
        "STRIDED_SLICE",
        (4, 5),
        _strided([0, 0, 1], [4, 1, 3], [1, 1, 1]),
        {"newAxisMask": 2},
        lambda x: x[:, None, 1:3],
    ),
    "strided slice ellipsis": Move(
        "STRIDED_SLICE",
        (2, 3, 4),
        _strided([0, 0, 1], [1, 0, 3], [1, 1, 1]),
        {"ellipsisMask": 2},
        lambda x: x[:1, ..., 1:3],
    ),
    "strided slice mixed": Move(
        "STRIDED_SLICE",
        (2, 3, 4),
        _strided([0, 1, 0, 2], [0, 2, 0, 4], [1, 1, 1, 1]),
        {"ellipsisMask": 1, "newAxisMask": 4, "shrinkAxisMask": 2},
        lambda x: x[..., 1, None, 2:4],
    ),
    "crop": Move(
        "CROP",
        (2, 5, 6),
        lambda x: {"shape": x[:, :3, :4]},
        {"axis": 1, "offset": [1, 2]},
        lambda x: x[:, 1:4, 2:6],
    ),
    "crop one offset": Move(
        "CROP",
        (2, 5, 6),
        lambda x: {"shape": x[:, :3, :4]},
        {"axis": 1, "offset": [2]},
        lambda x: x[:, 2:5, 2:6],
    ),
    "pad": Move(
        "PAD",
        (2, 3),
        {"paddings": const([[1, 0], [0, 2]], I32)},
        {},
        lambda x: np.pad(x, [(1, 0), (0, 2)]),
        data="inputX",
    ),
    "pad reflect": Move(
        "PAD",
        (2, 3),
        {"paddings": const([[1, 0], [2, 1]], I64)},
        {"paddingMode": 1},
        lambda x: np.pad(x, [(1, 0), (2, 1)], "reflect"),
        data="inputX",
    ),
    "pad symmetric": Move(
        "PAD",
        (2, 3),
        {"paddings": const([[1, 2], [0, 3]], I32)},
        {"paddingMode": 2},
        lambda x: np.pad(x, [(1, 2), (0, 3)], "symmetric"),
        data="inputX",
    ),
    "pad v1": Move(
        "PAD",
        (2, 3),
        {"paddings": const([[1, 0], [0, 2]], I32)},
        {},
        lambda x: np.pad(x, [(1, 0), (0, 2)]),
        1,
        "inputX",
    ),
    "one hot": Move(
        "ONE_HOT",
        (2,),
        lambda x: {
            "indices": np.asarray([[1, 0, 3]], I32),
            "depth": const(3, I32),
            "onValue": x[:1],
            "offValue": x[1:],
        },
        {},
        lambda x: np.where(np.asarray([[1, 0, 3]])[..., None] == np.arange(3), x[0], x[1]),
        data="onValue",
    ),
    "one hot 0": Move(
        "ONE_HOT",
        (2,),
        lambda x: {
            "indices": np.asarray([1, 0, 3], I64),
            "depth": const([4], I32),
            "onValue": x[:1],
            "offValue": x[1:],
        },
        {"axis": 0},
        lambda x: np.where(np.arange(4)[:, None] == np.asarray([1, 0, 3]), x[0], x[1]),
        data="onValue",
    ),
    "depth to space": Move(
        "DEPTH_TO_SPACE",
        (1, 2, 3, 8),
        {},
        {"blockSize": 2, "mode": 0},
        lambda x: x.reshape(1, 2, 3, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 4, 6, 2),
    ),
    "depth to space crd": Move(
        "DEPTH_TO_SPACE",
        (1, 2, 3, 8),
        {},
        {"blockSize": 2, "mode": 1},
        lambda x: x.reshape(1, 2, 3, 2, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(1, 4, 6, 2),
    ),
    "space to depth": Move(
        "SPACE_TO_DEPTH",
        (1, 4, 6, 2),
        {},
        {"blocksize": 2},
        lambda x: x.reshape(1, 2, 2, 3, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 8),
    ),
    "space to batch": Move(
        "SPACE_TO_BATCH_ND",
        (1, 3, 5, 2),
        {},
        {"blockShape": [2, 2], "paddings": [[1, 0], [1, 0]]},
        lambda x: (
            np.pad(x, [(0, 0), (1, 0), (1, 0), (0, 0)])
            .reshape(1, 2, 2, 3, 2, 2)
            .transpose(2, 4, 0, 1, 3, 5)
            .reshape(4, 2, 3, 2)
        ),
    ),
    "batch to space": Move(
        "BATCH_TO_SPACE_ND",
        (4, 2, 3, 2),
        {},
        {"blockSize": [2, 2], "crops": [[1, 0], [0, 2]]},
        lambda x: (
            x.reshape(2, 2, 1, 2, 3, 2).transpose(2, 3, 0, 4, 1, 5).reshape(1, 4, 6, 2)[:, 1:, :4]
        ),
    ),
}


def _cases() -> list[Any]:
    cases = []
    for name, move in MOVES.items():
        spec = next(s for s in spec_of(OperationType[move.op]).inputs if s.name == move.data)
        cases += [pytest.param(name, kind, id=f"{name}-{kind.name}") for kind in spec.types]
    return cases


@pytest.mark.parametrize(("name", "kind"), _cases())
def test_moves(name: str, kind: DataType) -> None:
    move = MOVES[name]
    dtype = np.dtype(bool) if kind is DataType.BOOL else NUMPY[kind]
    rng = np.random.default_rng(sum(map(ord, name)))
    x = rng.integers(0, 2 if kind is DataType.BOOL else 100, move.shape).astype(dtype)
    spec = next(s for s in spec_of(OperationType[move.op]).inputs if s.name == move.data)
    wanted = move.expected(x)
    if kind is DataType.INT8 and DataType.UINT8 not in spec.types:  # of real numbers alone
        given = {move.data: codes(x, 0.5), **_others(move, x)}
        wanted = codes(wanted, 0.5)
    else:
        given = {move.data: x, **_others(move, x)}
    check_op(move.op, given, move.params, wanted, api=move.api)


def _others(move: Move, x: np.ndarray) -> dict[str, Any]:
    inputs: dict[str, Any] = move.inputs(x) if callable(move.inputs) else move.inputs
    return inputs


def test_codes_are_moved_with_their_parameters() -> None:
    x = np.asarray([[-128, 5, 127]])
    check_op(
        "TRANSPOSE", {"input": codes(x, 0.5, 3), "permutation": const([1, 0], I32)}, {},
        codes(x.T, 0.5, 3),
    )  # fmt: skip


def _computed() -> list[str]:
    """Moves of one input, of operations that the runtime takes for quantized."""
    moves = {name: move for name, move in MOVES.items() if not callable(move.inputs)}
    return [name for name, move in moves.items() if spec_of(OperationType[move.op]).quantized]


@pytest.mark.parametrize("name", _computed())
def test_moved_codes_get_the_parameters_of_the_output(name: str) -> None:
    move = MOVES[name]
    x = np.random.default_rng(3).integers(-100, 100, move.shape).astype(np.int8)
    moved = move.expected(x)
    parts = moved if isinstance(moved, list) else [moved]
    given = {move.data: codes(x, 0.5), **_others(move, x)}
    wanted = [quantized(np.asarray(part) * 0.5, 0.75, -5) for part in parts]
    check_op(move.op, given, move.params, wanted, api=move.api, steps=1)


def test_padding_of_codes_is_a_real_number() -> None:
    x = np.asarray([[-10, 20]])
    check_op(
        "PAD", {"inputX": codes(x, 0.5, 3), "paddings": const([[0, 0], [1, 1]], I32)},
        {"constantValue": 2.0}, codes([[7, -10, 20, 7]], 0.5, 3),
    )  # fmt: skip


def test_padding_has_a_value() -> None:
    x = np.ones((1, 2), F32)
    expected = np.asarray([[7.5, 1, 1]], F32)
    inputs = {"inputX": x, "paddings": const([[0, 0], [1, 0]], I32)}
    check_op("PAD", inputs, {"constantValue": 7.5}, expected)


@pytest.mark.parametrize(
    ("bounds", "dtype", "expected"),
    [((0, 5, 1), I32, [0, 1, 2, 3, 4]), ((5, 0, -2), I64, [5, 3, 1]), ((1, 6, 2), F32, [1, 3, 5])],
)
def test_range(bounds: tuple[int, int, int], dtype: Any, expected: list[int]) -> None:
    params = dict(zip(("start", "limit", "delta"), bounds, strict=True))
    check_op("RANGE", {"input": np.zeros(1, dtype)}, params, np.asarray(expected, dtype))


@pytest.mark.parametrize("kind", [kind for kind in DataType if kind], ids=lambda kind: kind.name)
def test_constant_of_shape(kind: DataType) -> None:
    dtype = np.dtype(bool) if kind is DataType.BOOL else NUMPY[kind]
    inputs, params = {"input": const([2, 3], I32)}, {"dataType": int(kind), "value": [1.0]}
    check_op("CONSTANT_OF_SHAPE", inputs, params, np.full((2, 3), 1, dtype))
