"""Data from JSON read by a JSON Schema: the part of the language that our schemas use.

Known are type, const, enum, properties, required, additionalProperties (false alone), items,
minItems, maxItems, minimum, maximum and references to ``#/$defs``; notes are passed over, anything
else is an error of the schema. A schema becomes a function once, so that large files take little.

JSON knows numbers alone, and in JSON Schema 1.0 is an integer as 1 is. Where a schema wants an
integer, such floats are read as one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from nnconv.errors import plural

Built = TypeVar("Built")

Read: TypeAlias = "Callable[[Any], Any]"
"""Gives a value as its schema has it; raises ``_FaultError`` where it breaks that."""

NOTES = frozenset({"$schema", "$id", "$defs", "title", "description", "additionalProperties"})
"""What says nothing of a value by itself."""

_LONGEST = 60
"""So much of a value is shown."""


class JsonError(Exception):
    """A text isn't JSON, or not as the schema wants it."""


class _FaultError(Exception):
    """The first fault of a value as ``.place: what`` (or ``: what``)."""


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


def compile_schema(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    """A function that gives data as a schema has them, or raises JsonError where they break it.

    It leaves the data that it gets as they are.
    """
    read = _compile(schema, schema, {})

    def run(data: Any) -> Any:
        try:
            return read(data)
        except _FaultError as fault:
            raise JsonError(str(fault).lstrip(":. ")) from None

    return run


def _compile(schema: Mapping[str, Any], root: Mapping[str, Any], made: dict[str, Read]) -> Read:
    if "$ref" in schema:
        return _reference(schema["$ref"], root, made)
    if schema.keys() == {"type", "minimum", "maximum"} and schema["type"] == "integer":
        return _integer(schema["minimum"], schema["maximum"])
    steps = [_keyword(key, schema, root, made) for key in schema if key not in NOTES]
    if len(steps) == 1:
        return steps[0]

    def run(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return run


def _keyword(
    key: str, schema: Mapping[str, Any], root: Mapping[str, Any], made: dict[str, Read]
) -> Read:
    value = schema[key]
    if key == "type":
        return _type(value)
    if key in ("const", "enum"):
        return _enum([value] if key == "const" else value)
    if key in ("minimum", "maximum", "minItems", "maxItems"):
        return _bound(key, value)
    if key == "items":
        return _items(_compile(value, root, made), _numbers(value, root))
    if key == "required":
        return _required(tuple(value))
    if key == "properties":
        closed = schema.get("additionalProperties", True) is False
        members = {name: _compile(entry, root, made) for name, entry in value.items()}
        return _properties(members, closed=closed)
    raise ValueError(f"the schema keyword {key!r} isn't known")


def _reference(target: str, root: Mapping[str, Any], made: dict[str, Read]) -> Read:
    name = target.removeprefix("#/$defs/")
    if name not in made:
        made[name] = lambda value: made[name](value)  # noqa: PLW0108 - it is another one then
        made[name] = _compile(root["$defs"][name], root, made)
    return made[name]


_KINDS: dict[str, Callable[[Any], bool]] = {
    "array": lambda v: isinstance(v, list),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "string": lambda v: isinstance(v, str),
}


def _type(names: str | list[str]) -> Read:
    wanted = [names] if isinstance(names, str) else names
    tests = [_KINDS[name] for name in wanted]
    fits = tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)
    has_integers = "integer" in wanted

    def run(value: Any) -> Any:
        if fits(value):
            return value
        if has_integers and type(value) is float and value.is_integer():
            return int(value)
        raise _FaultError(f": {_shown(value)}, must be {' or '.join(wanted)}")

    return run


def _integer(least: int, most: int) -> Read:
    """What files have the most of, in one step."""
    integer, low, high = _type("integer"), _bound("minimum", least), _bound("maximum", most)

    def run(value: Any) -> Any:
        if type(value) is int and least <= value <= most:
            return value
        return high(low(integer(value)))

    return run


def _enum(values: list[Any]) -> Read:
    known = {(isinstance(value, bool), value): value for value in values}
    texts = {value for value in values if isinstance(value, str)}
    some = ", ".join(_shown(value) for value in values[:8])
    rest = ", ..." if len(values) > 8 else ""

    def run(value: Any) -> Any:
        if type(value) is str:
            if value in texts:
                return value
        elif not isinstance(value, list | dict) and (isinstance(value, bool), value) in known:
            return known[isinstance(value, bool), value]
        raise _FaultError(f": {_shown(value)}, must be one of {some}{rest}")

    return run


def _bound(key: str, bound: float) -> Read:
    sign = 1 if key.startswith("min") else -1
    least = "at least" if sign > 0 else "at most"
    counts = key.endswith("Items")

    def run(value: Any) -> Any:
        if counts:
            if isinstance(value, list) and (len(value) - bound) * sign < 0:
                count = plural(len(value), "entry", "entries")
                raise _FaultError(f": {count}, must be {least} {bound}")
        elif isinstance(value, int | float) and (value - bound) * sign < 0:
            raise _FaultError(f": {_shown(value)}, must be {least} {bound}")
        return value

    return run


_NUMBERS: dict[str, set[type]] = {"boolean": {bool}, "integer": {int}, "number": {int, float}}


def _numbers(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Callable[[list[Any]], bool]:
    """Whether all entries of a list are as a schema of numbers has them, seen at once.

    False where that takes a look at each: for any other schema, and for floats that are integers.
    """
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    names = schema.get("type", ())
    wanted = [names] if isinstance(names, str) else names
    known = schema.keys() - NOTES <= {"type", "minimum", "maximum"} and {*wanted} <= {*_NUMBERS}
    kinds = {kind for name in wanted for kind in _NUMBERS[name]} if known else set()
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)

    def fit(values: list[Any]) -> bool:
        if not kinds.issuperset(map(type, values)):
            return False
        return not values or (least <= min(values) and max(values) <= most)

    return fit


def _items(read: Read, fit: Callable[[list[Any]], bool]) -> Read:
    def run(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        if fit(value):
            return list(value)
        made: list[Any] = []
        try:
            for entry in value:
                made.append(read(entry))  # noqa: PERF401 - how many there are tells the place
        except _FaultError as fault:
            raise _FaultError(f"[{len(made)}]{fault}") from None
        return made

    return run


def _required(names: tuple[str, ...]) -> Read:
    def run(value: Any) -> Any:
        if isinstance(value, dict):
            for name in names:
                if name not in value:
                    raise _FaultError(f": {name} is missing")
        return value

    return run


def _properties(members: dict[str, Read], *, closed: bool) -> Read:
    def run(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        made = {}
        for name, entry in value.items():
            read = members.get(name)
            if read is None and closed:
                raise _FaultError(f": {_shown(name)} isn't known")
            try:
                made[name] = entry if read is None else read(entry)
            except _FaultError as fault:
                raise _FaultError(f".{name}{fault}") from None
        return made

    return run


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
