"""Ops on bytes."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph
from nnconv.backends.reference.hashing import fingerprint

from nnconv.errors import GraphError
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph
from nnconv.ops.hashing import LshProjection

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


def test_too_many_bits_are_refused():
    builder = Builder(Graph())
    seeds = builder.input("seeds", DType.FLOAT32, (1, 33))
    x = builder.input("x", DType.FLOAT32, (1,))
    with pytest.raises(GraphError, match="33 bits, at most 32"):
        builder.add(LshProjection(dense=True), [seeds, x])
