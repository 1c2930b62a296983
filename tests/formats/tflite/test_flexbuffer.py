"""The FlexBuffers reader: against the flatbuffers package's writer, and on broken bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from flatbuffers import flexbuffers

from nnconv.formats.tflite.flexbuffer import read_map
from support.tflite_builder import flexbuffer

MAPS: list[dict[str, Any]] = [
    {},
    {"a": 1},
    {"a": -1, "b": 200, "c": -70000, "d": 1 << 40},
    {"yes": True, "no": False, "none": None},
    {"half": 0.5, "third": 1 / 3, "text": "häuser", "long": "x" * 300},
    {f"key{i}": i * i * i * i - 1000 for i in range(300)},
    {"mixed": 1, "width": 1 << 60, "float": 1.5},
]


@pytest.mark.parametrize("entries", MAPS, ids=lambda m: f"{len(m)} entries")
def test_entries_are_those_written(entries: dict[str, Any]) -> None:
    assert read_map(flexbuffer(entries)) == entries


def test_entries_of_other_kinds_are_left_out() -> None:
    assert read_map(flexbuffer({"list": [1, 2], "map": {"a": 1}, "n": 3, "b": b"xy"})) == {"n": 3}


def test_indirect_numbers_are_read() -> None:
    writer = flexbuffers.Builder()
    with writer.Map():
        writer.Key("a")
        writer.IndirectInt(-(1 << 40))
        writer.Key("b")
        writer.IndirectFloat(2.5)
        writer.Key("c")
        writer.IndirectUInt(7)
    assert read_map(bytes(writer.Finish())) == {"a": -(1 << 40), "b": 2.5, "c": 7}


@pytest.mark.parametrize("value", [1, "text", [1, 2], None], ids=str)
def test_what_is_no_map_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="no map"):
        read_map(flexbuffer(value))


def test_broken_bytes_give_a_result_or_a_value_error() -> None:
    rng = random.Random(0)
    good = [flexbuffer(entries) for entries in MAPS]
    refused = 0
    for _ in range(3000):
        data = bytearray(rng.choice(good))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        cut = bytes(data[rng.randrange(len(data)) :] if rng.random() < 0.2 else data)
        try:
            read_map(cut)
        except ValueError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize("size", range(6))
def test_short_buffers_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=r"short|map|byte"):
        read_map(b"\xff" * size)
