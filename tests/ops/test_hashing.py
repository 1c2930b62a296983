"""Ops on bytes, and on tables of keys."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph
from nnconv.backends.reference.hashing import fingerprint

import nnconv
from nnconv.errors import GraphError, UnsupportedError
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph
from nnconv.ir.quant import Quant
from nnconv.ops.hashing import HashtableLookup, LshProjection
from support.onnx_spine import IrCase, check_ir, on_litert
from support.spine import Case, check
from support.tflite_spine import check_tflite

FINGERPRINTS = {
    0: 0x9AE16A3B2F90404F,
    1: 0xBE6056EDF5E94B54,
    3: 0x94A13D22E9EBA49A,
    4: 0x82BFFD898958E540,
    7: 0xA2E0BFF20DB0A6A1,
    8: 0xAD5A13E1E8E93B98,
    16: 0x0EFD25A0A34156D4,
    17: 0xBBB6A6F8F20D1F1C,
    32: 0x1A9D8199972CDF49,
    33: 0xE8756EC1CB75524E,
    64: 0xF58504BB53DECC4B,
    65: 0xC6A3282C3E793DBE,
    128: 0x1C484C95F0EA5DD3,
    129: 0xCE8BA3741121083E,
    200: 0x74C7FCC26D66FB3,
}
"""What FarmHash's own library gives for the bytes 0, 1, 2, ... of each length."""


@pytest.mark.parametrize("size", FINGERPRINTS)
def test_fingerprint(size):
    assert fingerprint(bytes(range(size))) == FINGERPRINTS[size]


def run(op, *arrays):
    """The result of an op."""
    graph = Graph()
    builder = Builder(graph)
    values = [builder.input(f"x{i}", DType.of(a), a.shape) for i, a in enumerate(arrays)]
    graph.outputs = list(builder.add_many(op, values))
    return run_graph(graph, arrays)[0]


def signed(data):
    """The fingerprint as a signed number."""
    value = fingerprint(data)
    return value - (1 << 64) if value >> 63 else value


def bits_of(seeds, rows):
    """The bits, from the definition."""
    return [
        [int(sum(signed(seed.tobytes() + row.tobytes()) for row in rows) > 0) for seed in line]
        for line in seeds
    ]


def test_projections_are_the_bits_the_numbers_and_the_numbers_apart():
    seeds = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    rows = np.arange(8, dtype=np.int32).reshape(2, 4)
    bits = np.asarray(bits_of(seeds, rows))
    assert 0 < bits.sum() < bits.size
    numbers = bits @ [4, 2, 1]
    assert run(LshProjection(dense=True), seeds, rows).tolist() == bits.reshape(-1).tolist()
    assert run(LshProjection(dense=False), seeds, rows).tolist() == numbers.tolist()
    apart = run(LshProjection(dense=False, apart=True), seeds, rows)
    assert apart.tolist() == (numbers + 8 * np.arange(4)).tolist()
    one = np.asarray([0, 1], np.float32)
    weighted = run(LshProjection(dense=True), seeds, rows, one)
    assert weighted.tolist() == np.ravel(bits_of(seeds, rows[1:])).tolist()


def test_a_scalar_has_no_rows():
    builder = Builder(Graph())
    seeds = builder.input("seeds", DType.FLOAT32, (1, 3))
    with pytest.raises(GraphError, match="must have rows"):
        builder.add(LshProjection(dense=True), [seeds, builder.input("x", DType.FLOAT32, ())])


def test_too_many_bits_are_refused():
    builder = Builder(Graph())
    seeds = builder.input("seeds", DType.FLOAT32, (1, 33))
    x = builder.input("x", DType.FLOAT32, (1,))
    with pytest.raises(GraphError, match="33 bits, at most 32"):
        builder.add(LshProjection(dense=True), [seeds, x])


# -------------------------------------------------------------------- in other formats


def projection(name, op, data, *, weights=None, constant=True, seeds=np.float32):
    """A case; the seeds are a constant or an input."""
    table = np.random.default_rng(4).standard_normal((4, 3)).astype(seeds)
    table[0, 0] = -0.0
    table[1] = [1e-40, np.inf, -3e38] if seeds is np.float32 else [6e-8, np.inf, -6e4]
    given = [] if weights is None else [np.asarray(weights, np.float32)]

    def build(b):
        values = [b.input("x", DType.of(data), data.shape)]
        values += [b.input("weights", DType.FLOAT32, a.shape) for a in given]
        kind = DType.of(table)
        first = b.const(table) if constant else b.input("seeds", kind, table.shape)
        return b.add(op, [first, *values])

    feeds = [data, *given, *([] if constant else [table])]
    return IrCase(
        name, build, feeds, opsets=(18, 21), refused_at=(13,), nodes_at=21, evaluated=False
    )


DENSE, PLAIN = LshProjection(dense=True), LshProjection(dense=False)
APART = LshProjection(dense=False, apart=True)
ROWS = np.random.default_rng(2).integers(-100, 100, (3, 150)).astype(np.int8)
FLOATS = np.random.default_rng(3).standard_normal((3, 2, 2)) * 1e3


def lookup_case(name, table, *, quant=None):
    lookups, keys = np.int32([7, 3, 5, 7, 2]), np.int32([2, 5, 6, 7])
    rows = [table[3], 0 * table[0], table[1], table[3], table[0]]

    def build(b):
        values = [b.input("lookups", DType.INT32, (5,)), b.input("keys", DType.INT32, (4,))]
        values.append(b.input("rows", DType.of(table), table.shape, quant=quant))
        return b.add_many(HashtableLookup(), values)

    return IrCase(
        f"lookup-{name}",
        build,
        [lookups, keys, table],
        expected=[np.stack(rows), np.uint8([1, 0, 1, 1, 1])],
    )


IR_CASES = [
    lookup_case("floats", np.float32([[1, 2], [3, 4], [5, 6], [7, 8]])),
    lookup_case("numbers", np.int32([1, 3, 5, 7])),
    lookup_case(
        "codes", np.uint8([[1, 2], [3, 4], [5, 6], [7, 8]]), quant=Quant.per_tensor(0.5, 3)
    ),
    *(projection(f"bytes_{size}", DENSE, ROWS[:, :size]) for size in (1, 3, 4, 9, 20, 40, 70, 150)),
    projection("numbers", PLAIN, ROWS[:, :6].astype(np.int16)),
    projection("apart", APART, ROWS[:, :6].astype(np.int64)),
    projection("truth", APART, ROWS[:, :6] > 0),
    projection("weights", DENSE, ROWS[:, :6].astype(np.int32), weights=[0.5, -1, 2]),
    projection("weighted_numbers", APART, ROWS[:, :6], weights=[0.5, -1, 2]),
    projection("floats", DENSE, FLOATS.astype(np.float32)),
    projection("half_floats", DENSE, FLOATS.astype(np.float16)),
    projection("seeds", DENSE, ROWS[:, :5], constant=False),
    projection("half_seeds", APART, ROWS[:, :5], constant=False, seeds=np.float16),
]


@pytest.mark.parametrize("case", IR_CASES, ids=str)
def test_onnx(case, tmp_path):
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(IR_CASES), ids=str)
def test_tflite(case, tmp_path):
    check_tflite(case, tmp_path)


def from_tflite(kind, *, weights=False):
    def build(b):
        seeds = b.const(np.random.default_rng(4).standard_normal((4, 3)).astype(np.float32))
        operands = [seeds, b.input("x", "int32", (3, 5))]
        if weights:
            operands.append(b.input("weights", "float32", (3,)))
        shape = (12,) if kind == 2 else (4,)
        b.output(b.op("LSH_PROJECTION", operands, [("int32", shape)], options={"type": kind}))

    return build


CASES = [
    Case("sparse", from_tflite(1)),
    Case("dense", from_tflite(2)),
    Case("dense_weights", from_tflite(2, weights=True)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_lsh_projection(case, tmp_path):
    check(case, tmp_path)


def test_long_rows_would_take_too_many_nodes(tmp_path):
    case = projection("long", DENSE, np.zeros((1, 1025), np.int8))
    with pytest.raises(UnsupportedError, match="data of the shape"):
        nnconv.save(case.model(), tmp_path / "y.onnx")
    assert not (tmp_path / "y.onnx").exists()
