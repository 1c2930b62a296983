"""Broken ONNX files end in clean errors that say where: none crashes, hangs or fills the memory."""

import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from nnconv.errors import InvalidModelError
from nnconv.formats.onnx import protobuf
from nnconv.formats.onnx.decode import read
from nnconv.formats.onnx.decode_type import MAX_DEPTH
from support.effort import calls_of
from support.fuzzer import ONNX_FUZZER, load_fuzzer

HEAD = b"\x08\x08"


def field(number, content):
    return protobuf.delimited(protobuf.varint(number << 3 | 2), content)


def model(graph):
    return HEAD + field(7, graph)


def small():
    """A model with a bit of everything, for changes at each of its bytes."""
    tensor = numpy_helper.from_array(np.float32([1, 2]), "w")
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "g", [], [])
    ints = TensorProto(name="i", data_type=7, dims=[3], int64_data=[1, -1, 300])
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.float32([1]), "s"), numpy_helper.from_array(np.array([1])), [2]
    )
    nodes = [
        helper.make_node("If", ["x"], ["y"], "if", then_branch=inner, k=1, f=[0.5], s="ab"),
        helper.make_node("Constant", [], ["c"], value=tensor, domain="a.b"),
    ]
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", 1, [1, "n"])],
        [helper.make_value_info("y", helper.make_sequence_type_proto(onnx.TypeProto()))],
        [tensor, ints],
    )
    graph.sparse_initializer.append(sparse)
    function = helper.make_function(
        "a.b", "F", ["a"], ["b"], [helper.make_node("Elu", ["a"], ["b"])], [], ["alpha"]
    )
    return helper.make_model(graph, functions=[function], producer_name="p").SerializeToString()


SMALL = small()


def read_all(data):
    """Read a model and its tensors; nothing but nnconv's own errors may come of it."""
    try:
        read_graph(read(data, "a file").graph)
    except InvalidModelError as error:
        assert error.path == "a file"  # noqa: PT017
        return error
    return None


def read_graph(graph):
    for tensor in graph.initializers:
        tensor.array()
    for node in graph.nodes:
        for attribute in node.attributes.values():
            if attribute.type == AttributeProto.TENSOR:
                attribute.value.array()


def test_a_file_may_end_anywhere():
    whole = [stop for stop in range(len(SMALL)) if read_all(SMALL[:stop]) is None]
    # A message may end after any of its fields; of those, the graph must be one.
    assert len(whole) < 10
    assert read_all(SMALL) is None


@pytest.mark.parametrize("byte", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_each_byte_may_be_another(byte):
    for at in range(len(SMALL)):
        read_all(SMALL[:at] + bytes([byte]) + SMALL[at + 1 :])


@settings(max_examples=300)
@given(st.data())
def test_bits_may_be_flipped(data):
    broken = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 5))):
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    read_all(bytes(broken))


@given(st.binary(max_size=200))
def test_bytes_may_be_anything(data):
    read_all(data)
    read_all(model(data))
    read_all(model(field(1, data)))
    read_all(model(field(5, data)))


# ------------------------------------------------------------------------- what the errors say


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (b"", "it has no graph", ""),
        (HEAD, "it has no graph", ""),
        (b"a text", "ends within a field", ""),
        (b"\0\0\0\0", "field number 0 is impossible", ""),
        (b"version https://git-lfs.github.com/spec/v1\n", "impossible wire type", "git lfs pull"),
        (b"\x1c\0\0\0TFL3", "impossible wire type", "TensorFlow Lite"),
        (b"\x3a\x7fabc", "field 7 has 127 bytes, there is room for 3", ""),
        (b"\x08", "ends within a field", ""),
        (b"\x08\x80", "ends within a number", ""),
        (b"\x08" + b"\xff" * 11, "more than ten bytes", ""),
        (b"\x15\0\0", "ends within a field", ""),
        (b"\x3a", "ends within a field", ""),
        (b"\xff" * 9 + b"\x01\0", "is impossible", ""),
        (field(7, b""), "its IR version is missing", ""),
        (b"\x08" + protobuf.varint(-3) + field(7, b""), "its IR version is -3", ""),
    ],
)
def test_files_that_are_no_models(data, message, hint):
    with pytest.raises(InvalidModelError, match=re.escape(message)) as caught:
        read(data, "a file")
    assert caught.value.message.startswith("a file: it is no ONNX model, or a damaged one: ")
    assert hint in caught.value.hint


def attribute(content, name=b"k"):
    return field(1, field(5, field(1, name) + content) + field(4, b"Op"))


@pytest.mark.parametrize(
    ("graph", "where", "message"),
    [
        (field(1, b""), "node #0", "no op type"),
        (field(1, field(4, b"A")) + field(1, b"\x0a\x05"), "node #1", "room for 0"),
        (attribute(b""), "node #0, attribute `k`", "its kind is missing"),
        (attribute(b"\xa0\x01\x63"), "node #0, attribute `k`", "its kind is 99"),
        (attribute(b"\xa0\x01\x04"), "node #0, attribute `k`", "it has no value"),
        (attribute(b"\xa0\x01\x05"), "node #0, attribute `k`", "it has no value"),
        (attribute(b"\x3a\x03abc\xa0\x01\x06"), "node #0, attribute `k`", "within a number"),
        (attribute(b"\x42\x01\x80\xa0\x01\x07"), "node #0, attribute `k`", "within a number"),
        (attribute(b"\x18\x01", b""), "node #0", "an attribute has no name"),
        (
            field(1, field(5, b"\x0a\x01k\x18\x01") * 2 + field(4, b"Op")),
            "node #0",
            "attribute `k` is given twice",
        ),
        (
            attribute(field(6, field(1, field(4, b"A")) + field(1, b"")) + b"\xa0\x01\x05"),
            "node #0, attribute `k`, node #1",
            "no op type",
        ),
        (
            attribute(field(10, b"\x10\x01\x4a\x04abcd") + field(10, b"") + b"\xa0\x01\x09"),
            "node #0, attribute `k`, #1",
            "no element type",
        ),
        (field(11, b"\x0a\x01x\x12\x03\x0a\x01\x08"), "input #0, `x`", "ends within"),
        (field(12, b"\x0a\x01x\x12\x04\x0a\x02\x08\x63"), "output #0, `x`", "99 is unknown"),
        (field(13, b"\x0a\x09"), "value_info #0", "room for 0"),
        (
            field(11, b"\x0a\x01x" + field(2, field(1, field(2, b"\x0a\x00" * 65)))),
            "input #0, `x`",
            "it has 65 axes, allowed are 64",
        ),
    ],
)
def test_errors_say_where(graph, where, message):
    with pytest.raises(InvalidModelError, match=re.escape(message)) as caught:
        read(model(graph), "a file")
    assert caught.value.where == where
    assert caught.value.message.startswith(f"a file: {where}: ")


@pytest.mark.parametrize(
    ("content", "where", "message"),
    [
        (field(25, b""), "function #0", "it has no name"),
        (field(25, field(1, b"f") + field(7, b"")), "function #0, node #0", "no op type"),
        (field(8, b"\x10\x01") + field(8, b"\x10\x02"), "operator sets", "versions 1 and 2"),
        (field(14, b"\x0a"), "metadata", "ends within"),
    ],
)
def test_errors_outside_of_the_graph(content, where, message):
    with pytest.raises(InvalidModelError, match=re.escape(message)) as caught:
        read(model(b"") + content, "a file")
    assert caught.value.where == where


@pytest.mark.parametrize("source", ["missing.onnx", ".", "a\0b"])
def test_paths_that_are_no_files(source, tmp_path):
    with pytest.raises(InvalidModelError) as caught:
        read(tmp_path / source)
    assert str(tmp_path) in caught.value.path


def test_an_empty_file(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"")
    with pytest.raises(InvalidModelError, match="no graph"):
        read(tmp_path / "m.onnx")


# --------------------------------------------------------------------------------- depth, cost


def nested_graphs(depth):
    graph = b""
    for _ in range(depth):
        graph = attribute(field(6, graph) + b"\xa0\x01\x05")
    return model(graph)


def test_graphs_nest_only_so_deep():
    read(nested_graphs(MAX_DEPTH))
    for depth in (MAX_DEPTH + 1, 2_000):
        with pytest.raises(InvalidModelError, match="nest more than"):
            read(nested_graphs(depth))


def test_types_nest_only_so_deep():
    def typed(depth):
        kind = b""
        for _ in range(depth):
            kind = field(4, field(1, kind))
        return model(field(11, field(2, kind)))

    assert read(typed(MAX_DEPTH)).graph.inputs[0].other.count("seq(") == MAX_DEPTH
    for depth in (MAX_DEPTH + 1, 2_000):
        with pytest.raises(InvalidModelError, match="nest more than"):
            read(typed(depth))


def test_what_is_merged_at_each_depth_costs_time_in_proportion():
    graph = bytes(100_000)
    graph = field(2, graph)
    for _ in range(MAX_DEPTH):
        twice = field(6, graph) + field(6, b"")
        graph = attribute(twice + b"\xa0\x01\x05")
    data = model(graph)
    assert calls_of(lambda: read(data)) < 1000 * MAX_DEPTH


CHILD = """
import re, sys
from pathlib import Path
from nnconv.formats.onnx.decode import read
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
data = sys.stdin.buffer.read()
before = peak()
model = read(data)
for tensor in model.graph.initializers:
    tensor.array()
print(peak() - before)
"""

MANY = 300_000


def many(content, count):
    return model(content * count)


CROWDS = [
    lambda n: many(field(1, b"\x22\x01A"), n // 3),
    lambda n: many(field(1, b"\x0a\x00\x22\x01A\x2a\x08\x0a\x01k\x3d\0\0\0\0"), n // 3),
    lambda n: many(field(13, b""), n // 3),
    lambda n: many(field(5, b"\x10\x01\x4a\x04abcd"), n // 3),
    lambda n: model(field(1, b"\x0a\x00" * n + b"\x22\x01A")),
    lambda n: model(attribute(b"\x40\x00" * n + b"\xa0\x01\x07")),
    lambda n: model(attribute(b"\x4a\x00" * n + b"\xa0\x01\x08")),
    lambda n: model(field(5, b"\x10\x07\x08" + protobuf.varint(n) + field(7, bytes(n)))),
    lambda n: model(field(5, b"\x10\x07\x08" + protobuf.varint(n) + b"\x38\x00" * n)),
    lambda n: model(field(5, b"\x10\x01\x08" + protobuf.varint(n) + b"\x25abcd" * n)),
    lambda n: model(field(5, b"\x10\x08\x08" + protobuf.varint(n) + b"\x32\x00" * n)),
    lambda n: many(field(11, field(2, field(1, field(2, b"\x0a\x00" * 64)))), n // 60),
    lambda n: model(attribute(field(11, b"") * n + b"\xa0\x01\x0a")),
    lambda n: model(attribute(field(15, b"") * n + b"\xa0\x01\x0e")),
    lambda n: model(attribute(field(6, b"") * n + b"\xa0\x01\x05")),
    lambda n: b"\x08\x08" * n + field(7, b""),
    lambda n: (HEAD + field(7, b"")) * (n // 3),
]
"""Files of very many of one thing each."""


@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells no peak of memory")
def test_memory_is_in_proportion_to_the_file(crowd):
    data = crowd(MANY)
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=data, capture_output=True, check=True, timeout=600
    )
    assert int(done.stdout) < 64 * len(data) + (16 << 20)


@pytest.mark.parametrize("crowd", CROWDS)
def test_cost_is_in_proportion_to_the_file(crowd):
    def cost(count):
        data = crowd(count)

        def everything():
            for tensor in read(data).graph.initializers:
                tensor.array()

        return calls_of(everything)

    assert cost(MANY // 100) < 11 * cost(MANY // 1000)


# ---------------------------------------------------------------------------------- the fuzzer

pytest.importorskip("resource", reason="the fuzzer needs POSIX")

fuzzer = load_fuzzer(ONNX_FUZZER)


@pytest.mark.parametrize("changes", ["bytes", "fields"])
@pytest.mark.parametrize("block", range(2))
def test_a_sample_of_the_fuzzer(tmp_path, changes, block):
    path = tmp_path / "case.onnx"
    find, change = fuzzer.FUZZER.changes[changes]
    places = find(SMALL)
    ends = []
    for number in range(250):
        path.write_bytes(change(SMALL, places, random.Random(f"{block}:{number}")))
        ends.append(fuzzer.fuzzing.run_case(fuzzer.read_all, path))
    assert [text for status, text in ends if status == "failed"] == []
    assert len({status for status, _ in ends}) == 2


def test_the_fuzzer_takes_files_apart_and_puts_them_together():
    assert fuzzer.joined(fuzzer.find_fields(SMALL)[0]) == SMALL
    assert min(map(len, fuzzer.find_places(SMALL).groups())) > 20


def test_the_fuzzer_leaves_the_sound_file_as_it_is():
    found = fuzzer.find_fields(SMALL)
    for number in range(100):
        fuzzer.change(SMALL, found, random.Random(number))
    assert fuzzer.joined(found[0]) == SMALL
