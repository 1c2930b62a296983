"""Constants in JSON: their elements as numbers where few, or where else their bytes are."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from nnconv.errors import plural
from nnconv.formats.json_schema import JsonError

MOST_INLINE = 16
"""Constants of so many elements stand in the JSON, so that a person can read the graph."""

Array: TypeAlias = "np.ndarray[Any, Any]"

Place: TypeAlias = Callable[[Array, str], dict[str, Any]]
"""Puts a larger constant somewhere, by its elements and what a safetensors file calls their type,
and gives the entries that tell where."""

Tensors: TypeAlias = Mapping[str, tuple[str, Array]]
"""The tensors that constants may lie in: name to (element type, elements)."""

ENTRIES = ("value", "base64", "tensor")
"""What may hold a constant."""


def shortest(number: np.floating[Any]) -> float:
    """The decimal number of the fewest digits that is ``number`` once it is rounded."""
    short = float(str(number))
    return short if type(number)(short) == number else float(number)


def plain_constant(data: Array, code: str, place: Place, *, scalar: bool) -> dict[str, Any]:
    """The entries that hold a constant.

    Args:
        data: its elements.
        code: what a safetensors file calls their type.
        place: takes those that are too many for JSON, or that it can't say exactly.
        scalar: whether one element stands alone rather than in a list.
    """
    values = _plain_values(data, is_bool=code == "BOOL") if data.size <= MOST_INLINE else None
    if values is None:
        return place(data, code)
    return {"value": values[0] if scalar and len(values) == 1 else values}


def _plain_values(data: Array, *, is_bool: bool) -> list[Any] | None:
    flat = data.reshape(-1)
    if is_bool:
        return [bool(v) if v in (0, 1) else int(v) for v in flat.tolist()]
    if data.dtype.kind != "f":
        found: list[Any] = flat.tolist()
        return found
    return [shortest(v) for v in flat] if np.isfinite(data).all() else None


def in_base64(data: Array, _: str) -> dict[str, Any]:
    """A place for constants in files that are all JSON."""
    return {"base64": base64.b64encode(np.ascontiguousarray(data).tobytes()).decode("ascii")}


def read_constant(
    plain: Mapping[str, Any],
    dtype: np.dtype[Any],
    shape: Sequence[int],
    tensors: Tensors,
    *,
    kind: str,
) -> Array:
    """The elements of a constant, from the entries that hold it.

    Args:
        plain: the entries, one of ``ENTRIES`` among them.
        dtype: the type that the elements must have.
        shape: the shape that they must have.
        tensors: what the entry ``tensor`` names.
        kind: what messages call the type.

    Raises:
        JsonError: the entries don't hold such elements.
    """
    wanted = tuple(shape)
    if "tensor" in plain:
        return _tensor(plain["tensor"], dtype, wanted, tensors, kind=kind)
    data = _inline(plain["value"], dtype) if "value" in plain else _decoded(plain["base64"], dtype)
    count = 1
    for extent in wanted:
        count *= extent
    if data.size != count or min(wanted, default=1) < 0:
        raise JsonError(f"{plural(data.size, 'element')} for {kind} {list(wanted)}")
    return data.reshape(wanted)


def _tensor(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], tensors: Tensors, *, kind: str
) -> Array:
    if name not in tensors:
        raise JsonError(f"there is no tensor {name!r}")
    code, data = tensors[name]
    if data.dtype != dtype:
        raise JsonError(f"tensor {name!r} has elements of {code}, must be {kind}")
    if data.shape != shape:
        raise JsonError(
            f"tensor {name!r} has the shape {list(data.shape)}, must have {list(shape)}"
        )
    return data


def _decoded(text: str, dtype: np.dtype[Any]) -> Array:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise JsonError(f"its base64 is broken: {error}") from error
    if len(raw) % dtype.itemsize:
        raise JsonError(f"{plural(len(raw), 'byte')} can't be a whole number of elements")
    return np.frombuffer(raw, dtype)


def _inline(value: Any, dtype: np.dtype[Any]) -> Array:
    values = value if isinstance(value, list) else [value]
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        for entry in values:
            is_fraction = isinstance(entry, float) and not entry.is_integer()
            if is_fraction or not info.min <= entry <= info.max:
                raise JsonError(f"an element is no {dtype.name}")
        return np.array(values, dtype)
    most = 1e39 if dtype.itemsize < 8 else float(np.finfo(dtype).max)
    if any(isinstance(entry, bool) or abs(entry) > most for entry in values):
        raise JsonError(f"an element is no {dtype.name}")
    with np.errstate(over="ignore"):
        data = np.array(values, np.float64).astype(dtype)
    if not np.isfinite(data).all():
        raise JsonError(f"an element is no {dtype.name}")
    return data
