"""Data from JSON held against a JSON Schema: the part of the language that our schemas use.

Known are type, const, enum, properties, required, additionalProperties (false alone), items,
minItems, maxItems, minimum, maximum and references to ``#/$defs``; notes are passed over, anything
else is an error of the schema. A schema becomes a function once, so that large files take little.

JSON knows numbers alone, and in JSON Schema 1.0 is an integer as 1 is. Where a schema wants an
integer, such floats become one in the data, so that readers meet nothing else there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from nnconv.errors import plural

Built = TypeVar("Built")

Check: TypeAlias = "Callable[[Any], str]"
"""Gives the first fault of a value as ``.place: what`` (or ``: what``), or an empty text."""

NOTES = frozenset({"$schema", "$id", "$defs", "title", "description", "additionalProperties"})
"""What says nothing of a value by itself."""

_LONGEST = 60
"""So much of a value is shown."""


class JsonError(Exception):
    """A text isn't JSON, or not as the schema wants it."""


def parse_json(text: str | bytes) -> Any:
    """The data of a JSON text; names in an object must differ and numbers be finite.

    Raises:
        JsonError: it isn't such a text.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except RecursionError as error:
        raise JsonError("it is nested too deeply") from error
    except ValueError as error:  # bad syntax, bad UTF-8, numbers of thousands of digits
        raise JsonError(str(error)) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise JsonError("an object has two entries of one name")
    return result


def _constant(name: str) -> Any:
    raise JsonError(f"{name} is no number in JSON")


def each(entries: Iterable[Any], build: Callable[[Any], Built], place: str) -> list[Built]:
    """What is made of each entry of a list that stands at ``place``.

    Raises:
        JsonError: as ``build`` does, with the entry's place.
    """
    built = []
    for index, entry in enumerate(entries):
        try:
            built.append(build(entry))
        except JsonError as error:
            raise JsonError(f"{place}[{index}]: {error}") from error
    return built


def compile_schema(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    """A function that raises JsonError for data that a schema doesn't allow.

    Whole floats inside the data become integers where the schema wants these.
    """
    made: dict[str, Check] = {}
    check = _compile(schema, schema, made)

    def run(data: Any) -> None:
        if fault := check(data):
            raise JsonError(fault.lstrip(":. "))

    return run


def _compile(schema: Mapping[str, Any], root: Mapping[str, Any], made: dict[str, Check]) -> Check:
    if "$ref" in schema:
        return _reference(schema["$ref"], root, made)
    if schema.keys() == {"type", "minimum", "maximum"} and schema["type"] == "integer":
        return _integer(schema["minimum"], schema["maximum"])
    checks = [_keyword(key, schema, root, made) for key in schema if key not in NOTES]
    if len(checks) == 1:
        return checks[0]

    def run(value: Any) -> str:
        for check in checks:
            if fault := check(value):
                return fault
        return ""

    return run


def _keyword(
    key: str, schema: Mapping[str, Any], root: Mapping[str, Any], made: dict[str, Check]
) -> Check:
    value = schema[key]
    if key == "type":
        return _type(value)
    if key in ("const", "enum"):
        return _enum([value] if key == "const" else value)
    if key in ("minimum", "maximum", "minItems", "maxItems"):
        return _bound(key, value)
    if key == "items":
        return _items(_compile(value, root, made), whole=_wants_integer(value, root))
    if key == "required":
        return _required(tuple(value))
    if key == "properties":
        closed = schema.get("additionalProperties", True) is False
        members = {name: _compile(entry, root, made) for name, entry in value.items()}
        whole = frozenset(name for name, entry in value.items() if _wants_integer(entry, root))
        return _properties(members, whole, closed=closed)
    raise ValueError(f"the schema keyword {key!r} isn't known")


def _reference(target: str, root: Mapping[str, Any], made: dict[str, Check]) -> Check:
    name = target.removeprefix("#/$defs/")
    if name not in made:
        made[name] = lambda value: made[name](value)  # noqa: PLW0108 - it is another one then
        made[name] = _compile(root["$defs"][name], root, made)
    return made[name]


def _wants_integer(schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Whether a schema allows integers alone."""
    if "$ref" in schema:
        return _wants_integer(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return schema.get("type") == "integer" or (
        values is not None and all(type(value) is int for value in values)
    )


_KINDS: dict[str, Callable[[Any], bool]] = {
    "array": lambda v: isinstance(v, list),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool)) or _is_whole(v),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "string": lambda v: isinstance(v, str),
}


def _is_whole(value: Any) -> bool:
    """Whether a value is a float, but an integer all the same."""
    return type(value) is float and value.is_integer()


def _type(names: str | list[str]) -> Check:
    wanted = [names] if isinstance(names, str) else names
    tests = [_KINDS[name] for name in wanted]
    if len(tests) == 1:
        only = tests[0]
        return lambda value: "" if only(value) else f": {_shown(value)}, must be {wanted[0]}"

    def run(value: Any) -> str:
        if any(test(value) for test in tests):
            return ""
        return f": {_shown(value)}, must be {' or '.join(wanted)}"

    return run


def _integer(least: int, most: int) -> Check:
    """What files have the most of, in one step."""
    slow = (_type("integer"), _bound("minimum", least), _bound("maximum", most))

    def run(value: Any) -> str:
        if type(value) is int and least <= value <= most:
            return ""
        return next(filter(None, (check(value) for check in slow)), "")

    return run


def _enum(values: list[Any]) -> Check:
    known = {(isinstance(value, bool), value) for value in values}
    texts = {value for value in values if isinstance(value, str)}
    some = ", ".join(_shown(value) for value in values[:8])
    rest = ", ..." if len(values) > 8 else ""

    def run(value: Any) -> str:
        if type(value) is str:
            if value in texts:
                return ""
        elif not isinstance(value, list | dict) and (isinstance(value, bool), value) in known:
            return ""
        return f": {_shown(value)}, must be one of {some}{rest}"

    return run


def _bound(key: str, bound: float) -> Check:
    sign = 1 if key.startswith("min") else -1
    least = "at least" if sign > 0 else "at most"
    counts = key.endswith("Items")

    def run(value: Any) -> str:
        if counts:
            if isinstance(value, list) and (len(value) - bound) * sign < 0:
                return f": {plural(len(value), 'entry', 'entries')}, must be {least} {bound}"
        elif isinstance(value, int | float) and (value - bound) * sign < 0:
            return f": {_shown(value)}, must be {least} {bound}"
        return ""

    return run


def _items(check: Check, *, whole: bool) -> Check:
    def run(value: Any) -> str:
        if isinstance(value, list):
            if whole and float in map(type, value):
                value[:] = [int(entry) if _is_whole(entry) else entry for entry in value]
            for index, entry in enumerate(value):
                if fault := check(entry):
                    return f"[{index}]{fault}"
        return ""

    return run


def _required(names: tuple[str, ...]) -> Check:
    def run(value: Any) -> str:
        if isinstance(value, dict):
            for name in names:
                if name not in value:
                    return f": {name} is missing"
        return ""

    return run


def _properties(members: dict[str, Check], whole: frozenset[str], *, closed: bool) -> Check:
    def run(value: Any) -> str:
        if isinstance(value, dict):
            for name in whole & value.keys():
                if _is_whole(value[name]):
                    value[name] = int(value[name])
            for name, entry in value.items():
                check = members.get(name)
                if check is None:
                    if closed:
                        return f": {_shown(name)} isn't known"
                elif fault := check(entry):
                    return f".{name}{fault}"
        return ""

    return run


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
