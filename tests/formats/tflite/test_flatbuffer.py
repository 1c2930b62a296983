"""The FlatBuffers reader finds what the schema's own reader finds, and refuses what isn't there."""

import operator
import struct
import tracemalloc

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as litert

from nnconv.errors import InvalidModelError
from nnconv.formats.tflite._gen.schema import TABLES, UNIONS
from nnconv.formats.tflite.flatbuffer import Reader, Table
from support.places import find_shared_dir
from support.tflite_builder import Quant, TfliteBuilder, pack

SHARED = find_shared_dir()
MODELS = sorted((SHARED / "models/tflite").rglob("*.tflite")) if SHARED else []


def small_model() -> bytes:
    b = TfliteBuilder("graph")
    x = b.input("x", "int8", (1, 4, 5, 3), quant=(0.5, -3), signature=(-1, 4, 5, 3))
    w = b.const(np.ones((8, 3, 3, 3), np.int8), quant=Quant([0.1] * 8, 0, axis=0))
    y = b.op(
        "CONV_2D",
        [x, w, None],
        [("int8", (1, 4, 5, 8), (0.25, 4))],
        options={"stride_h": 2, "stride_w": 3, "padding": "SAME"},
    )
    b.output(y)
    b.signature("serving", {"in": x}, {"out": y})
    b.metadata("note", b"hello")
    return b.build()


def root(data: bytes) -> Table:
    return Reader(memoryview(data), path="m.tflite").root("Model")


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def assert_same(table: Table, theirs: object) -> int:
    """Compare all fields of a table with an object of LiteRT's; give the number of tables."""
    seen = 1
    for name, (_, kind, type_name, _) in TABLES[table.name].items():
        value = getattr(theirs, camel(name))
        where = f"{table.where}: {name}"
        if kind == "scalar":
            assert type(table.scalar(name)) is type(value), where
            np.testing.assert_equal(table.scalar(name), value, err_msg=where)
        elif kind == "string":
            assert bytes(table.raw(name)) == (value or b""), where
            assert table.has(name) == (value is not None), where
        elif kind == "vector":
            assert table.has(name) == (value is not None), where
            wanted = np.asarray([] if value is None else value, type_name)
            np.testing.assert_array_equal(table.array(name), wanted, where, strict=True)
            if wanted.size < 1000:
                np.testing.assert_equal(table.values(name), tuple(wanted.tolist()), where)
        elif kind == "tables":
            members = table.tables(name)
            assert len(members) == len(value or ()), where
            seen += sum(map(assert_same, members, value or ()))
        else:
            member = table.union(name) if kind == "union" else table.table(name)
            assert (member is None) == (value is None), where
            if member is not None and value is not None:
                assert type(value).__name__ == f"{member.name}T", where
                seen += assert_same(member, value)
    return seen


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_field_of_real_models_is_litert_s(path):
    data = path.read_bytes()
    assert assert_same(root(data), litert.ModelT.InitFromPackedBuf(data, 0)) > 3


def test_every_field_of_a_built_model_is_litert_s():
    data = small_model()
    assert assert_same(root(data), litert.ModelT.InitFromPackedBuf(data, 0)) > 10


@pytest.mark.parametrize("name", sorted(set(UNIONS["BuiltinOptions2"].values())))
def test_every_field_of_each_second_options_table_is_litert_s(name):
    table = getattr(litert, f"{name}T")()
    for count, (field, (_, kind, type_name, _)) in enumerate(TABLES[name].items(), 1):
        vector = np.array([1, 0, 1], type_name) if kind == "vector" else None
        number = {"float32": 0.5, "bool": True}.get(type_name, count)
        value = {"scalar": number, "vector": vector, "string": f"text {count}"}[kind]
        setattr(table, camel(field), value)
    number = next(k for k, v in UNIONS["BuiltinOptions2"].items() if v == name)
    op = litert.OperatorT(builtinOptions2Type=number, builtinOptions2=table)
    model = litert.ModelT(subgraphs=[litert.SubGraphT(operators=[op])])
    data = pack(model)
    assert assert_same(root(data), litert.ModelT.InitFromPackedBuf(data, 0)) == 4


def test_name_that_is_no_utf8_is_readable_and_lossless():
    data = small_model()
    (subgraph,) = root(data.replace(b"graph", b"g\xffa\xe9h")).tables("subgraphs")
    assert subgraph.text("name") == r"g\xffa\xe9h"
    assert bytes(subgraph.raw("name")) == b"g\xffa\xe9h"


def test_unknown_field_is_a_key_error():
    with pytest.raises(KeyError):
        root(small_model()).scalar("colour")


def test_views_cost_no_copy_and_cannot_be_written():
    data = small_model()
    content = root(data).tables("buffers")[1].array("data")
    assert not content.flags.owndata
    assert not content.flags.writeable


# A hand-made file: root at 8, its vtable at 20 with slots version, operator_codes, subgraphs.
def tiny(*, vtable=(10, 12, 4, 0, 8), soffset=-12, vector=4, root_at=8, tail=b"") -> bytes:
    head = struct.pack("<I4s", root_at, b"TFL3")
    body = struct.pack("<iII", soffset, 7, vector)
    return head + body + struct.pack(f"<{len(vtable)}H", *vtable) + tail


def test_hand_made_file_reads():
    table = root(tiny(vector=16, tail=bytes(2) + struct.pack("<I", 0)))
    assert table.scalar("version") == 7
    assert table.tables("subgraphs") == []
    assert not table.has("operator_codes")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"root_at": 4000}, "lies outside"),
        ({"root_at": 0xFFFFFFF0}, "lies outside"),
        ({"soffset": 4000}, "vtable lies outside"),
        ({"soffset": -4000}, "vtable lies outside"),
        ({"soffset": -0x80000000}, "vtable lies outside"),
        ({"vtable": (2, 12, 4, 0, 8)}, "vtable's size, 2,"),
        ({"vtable": (11, 12, 4, 0, 8)}, "vtable's size, 11,"),
        ({"vtable": (4000, 12, 4, 0, 8)}, "vtable's size, 4000,"),
        ({"vtable": (10, 12, 4, 0, 6)}, "overlap"),
        ({"vtable": (10, 12, 2, 0, 8)}, "overlap"),
        ({"vtable": (10, 12, 4, 0, 60000)}, "lies outside"),
        ({"vector": 4000}, "subgraphs lies outside"),
        ({"vector": 0xFFFFFFFF}, "subgraphs lies outside"),
        ({"vector": 16, "tail": b"\0\0" + b"\xff\xff\xff\xff"}, "has 4294967295 items"),
        ({"vector": 16, "tail": b"\0\0" + b"\xff\xff\xff\x7f"}, "has 2147483647 items"),
        ({"vector": 16, "tail": b"\0\0" + struct.pack("<II", 1, 4000)}, "lies outside"),
        ({"vector": 16, "tail": b"\0\0" + struct.pack("<II", 1, 0)}, "vtable's size, 0"),
    ],
)
def test_what_points_outside_is_an_error_with_path_and_place(change, words):
    with pytest.raises(InvalidModelError) as caught:
        root(tiny(**change)).tables("subgraphs")
    text = str(caught.value)
    assert words in text
    assert text.startswith("m.tflite: ")
    assert "byte" in caught.value.where


@pytest.mark.parametrize("size", range(8))
def test_too_short_for_a_root_is_an_error(size):
    with pytest.raises(InvalidModelError, match="at least 8 bytes"):
        root(bytes(size))


def test_a_huge_count_allocates_nothing():
    table = root(tiny(vector=16, tail=b"\0\0" + b"\xff\xff\xff\x7f"))
    tracemalloc.start()
    try:
        for method in (table.tables, table.positions, table.raw):
            with pytest.raises(InvalidModelError, match="2147483647"):
                method("subgraphs")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def shared_parts(count: int, extents: int) -> bytes:
    """A subgraph of ``count`` tensors that are all the same table, with one shape."""
    vtable = struct.pack("<HHHxx", 6, 8, 4)
    subgraph = struct.pack("<iI", len(vtable), 4)
    start = 8 + len(vtable) + len(subgraph)
    tensor_at = start + 4 + 4 * count + len(vtable)
    places = [tensor_at - at for at in range(start + 4, start + 4 + 4 * count, 4)]
    vector = struct.pack(f"<{count + 1}I", count, *places)
    tensor = vtable + struct.pack("<iI", len(vtable), 4)
    shape = struct.pack("<I", extents) + bytes(4 * extents)
    return (
        struct.pack("<I4s", 8 + len(vtable), b"TFL3") + vtable + subgraph + vector + tensor + shape
    )


def test_a_part_may_be_named_more_than_once():
    tensors = Reader(memoryview(shared_parts(3, 2))).root("SubGraph").tables("tensors")
    assert [tensor.values("shape") for tensor in tensors] == [(0, 0)] * 3


@pytest.mark.parametrize(("count", "extents"), [(1_000_000, 0), (10_000, 10_000)])
def test_parts_named_again_and_again_exhaust_a_budget_not_the_memory(count, extents):
    subgraph = Reader(memoryview(shared_parts(count, extents))).root("SubGraph")
    with pytest.raises(InvalidModelError, match="again and again"):
        list(map(operator.methodcaller("values", "shape"), subgraph.tables("tensors")))
