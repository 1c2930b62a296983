"""The part of JSON Schema that our schemas use."""

import json

import pytest

from nnconv.formats.json_schema import JsonError, compile_schema, parse_json
from nnconv.formats.nnapi import file as nnapi
from nnconv.formats.nnrt import file as nnrt
from support import nnapi_models, nnrt_models

TREE = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string"},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "good", "bad", "message"),
    [
        (
            {"type": "integer"},
            [0, -1, 1 << 80, 1.0, -0.0],
            [1.5, True, "1", None],
            "must be integer",
        ),
        ({"type": "number"}, [0, 1.5], [True, "1", []], "must be number"),
        ({"type": ["array", "boolean"]}, [[], True], [1, {}], "must be array or boolean"),
        ({"const": 1}, [1, 1.0], [True, 1.5, "1", [1]], "must be one of 1"),
        ({"type": "integer"}, [], [float("inf"), "1.0"], "must be integer"),
        ({"enum": ["a", "b"]}, ["a"], ["c", {}], 'must be one of "a", "b"'),
        ({"minimum": 2, "maximum": 3}, [2, 3, 2.5, "x"], [1], "1, must be at least 2"),
        ({"minItems": 1, "maxItems": 2}, [[1], [1, 2], 5], [[]], "0 entries, must be at least 1"),
        ({"items": {"type": "string"}}, [["a"], 3], [["a", 1]], "[1]: 1, must be string"),
        (
            {"items": {"type": "integer", "minimum": 2, "maximum": 3}},
            [[], [2, 3], [3.0, 2]],
            [[2, 1, 3], [2, 4, 2], [3, True], [2, 2.5], [2, "2"], [2, float("inf")]],
            "[1]: ",
        ),
        ({"items": {"type": "number"}}, [[1, 0.5]], [[1, True], [1.0, "x"]], "must be number"),
        (
            {"items": {"type": ["number", "boolean"]}},
            [[True, 1, 0.5]],
            [[1, None], [True, []]],
            "[1]: ",
        ),
        (TREE, [{"name": "a", "parts": [{"name": "b"}]}], [{}], "name is missing"),
        (TREE, [], [{"name": "a", "parts": [{}]}], "parts[0]: name is missing"),
        (TREE, [], [{"name": "a", "x" * 99: 1}], "isn't known"),
    ],
)
def test_schema(schema, good, bad, message):
    read = compile_schema(schema)
    for value in good:
        assert read(value) == value
    for value in bad:
        with pytest.raises(JsonError) as caught:
            read(value)
        assert message in str(caught.value)
        assert len(str(caught.value)) < 200


def test_whole_floats_are_read_as_the_integers_that_are_wanted():
    schema = {
        "properties": {
            "version": {"const": 1},
            "level": {"enum": [1, 2]},
            "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
            "scale": {"type": "number"},
        },
        "$defs": {"place": {"type": "integer", "minimum": -9, "maximum": 9}},
    }
    read = compile_schema(schema)
    data = {"version": 1.0, "level": 2.0, "places": [1.0, -0.0, 3, -9.0], "scale": -0.0}
    before = repr(data)
    wanted = "{'version': 1, 'level': 2, 'places': [1, 0, 3, -9], 'scale': -0.0}"
    assert repr(read(data)) == wanted
    assert repr(data) == before
    for wrong in ({"version": 1.5}, {"level": 3.0}, {"places": [0.5]}, {"places": [1e300]}):
        with pytest.raises(JsonError):
            read(wrong)


def as_floats(plain):
    """The same JSON data with a point in each number; of zeros, with a sign too."""
    if isinstance(plain, dict | list):
        pairs = plain.items() if isinstance(plain, dict) else enumerate(plain)
        made = {key: as_floats(entry) for key, entry in pairs}
        return made if isinstance(plain, dict) else list(made.values())
    return float(plain) or -0.0 if type(plain) is int else plain


@pytest.mark.parametrize(
    ("file", "make"), [(nnapi, nnapi_models.add_model), (nnrt, nnrt_models.add_model)]
)
def test_numbers_of_a_twin_may_have_a_point(file, make):
    """JSON and its schemas make no difference between 1 and 1.0."""
    text = file.to_json(make())
    pointed = json.dumps(as_floats(json.loads(text)))
    assert '"version": 1.0' in pointed
    assert "-0.0" in pointed
    assert file.to_json(file.from_json(pointed)) == text


def test_a_schema_that_says_more_is_an_error():
    with pytest.raises(ValueError, match="'oneOf' isn't known"):
        compile_schema({"oneOf": []})


@pytest.mark.parametrize(
    "text", [b"\xff", "{", '{"a":1,"a":1}', "NaN", "[" * 100_000, "1" * 10_000, "[1,]", ""]
)
def test_a_text_that_is_no_json_is_refused(text):
    with pytest.raises(JsonError):
        parse_json(text)
