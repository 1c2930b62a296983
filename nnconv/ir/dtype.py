"""Element types, the union of what the formats know, and how numpy stores each."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from nnconv.errors import UsageError


class DType(enum.Enum):
    """An element type. The value is its name; it is also how the type prints.

    Sub-byte integers are stored one element a byte in numpy (int4 in int8, uint4 in uint8); packing
    is the formats' business. bfloat16 is stored as ml_dtypes' type.
    """

    BOOL = "bool"
    INT2 = "int2"
    INT4 = "int4"
    UINT4 = "uint4"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"
    STRING = "string"

    __hash__ = object.__hash__  # members are singletons: identity is the cheapest right hash

    def __str__(self) -> str:
        return self.value

    @property
    def is_float(self) -> bool:
        """Whether it is a real floating-point type."""
        return self in FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type (bool is not)."""
        return self in INTEGERS

    @property
    def is_signed(self) -> bool:
        """Whether it is a signed integer type."""
        return self in _SIGNED

    @property
    def bits(self) -> int:
        """Bits of one element in a packed file; raises KeyError for strings."""
        return _BITS[self]

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype that stores it."""
        if self is DType.BFLOAT16:
            import ml_dtypes  # loaded only where a bfloat16 model needs it

            bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
        return _NUMPY[self]

    @property
    def int_range(self) -> tuple[int, int]:
        """Least and greatest value of an integer type, both included."""
        bits = self.bits
        if self in _SIGNED:
            return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return 0, (1 << bits) - 1

    @classmethod
    def of(cls, array_or_dtype: object) -> DType:
        """The type of a numpy array or dtype; raises KeyError when there is none."""
        source: Any = getattr(array_or_dtype, "dtype", array_or_dtype)
        dtype: np.dtype[Any] = np.dtype(source)
        if dtype.kind in "OUS":
            return cls.STRING
        found = _OF_NUMPY.get(dtype)
        if found is None:
            found = _OF_NUMPY[dtype] = cls(dtype.name)  # which numpy takes long to make up
        return found


_OF_NUMPY: dict[np.dtype[Any], DType] = {}


def of_type(array: np.ndarray, dtype: DType) -> np.ndarray:
    """An array as a model has it, where it comes from a .npy file: see ``as_stored``.

    Such a file has the one type that numpy lacks as plain bytes.
    """
    if dtype is DType.STRING and array.dtype.kind in "OUS":
        return as_texts(array)
    plain = dtype is DType.BFLOAT16 and array.dtype == "V2"
    return array.view(dtype.numpy) if plain else array


def as_texts(array: np.ndarray) -> np.ndarray:
    """Strings, as numpy, a user or a runtime has them, as objects of ``str``.

    Bytes are UTF-8; what isn't becomes surrogates, as in the names of files.
    """
    found = np.empty(array.shape, object)
    found.reshape(-1)[:] = [
        text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
        for text in array.reshape(-1).tolist()
    ]
    return found


def as_stored(array: np.ndarray) -> np.ndarray:
    """An array as a .npy file without pickles can hold it: strings in a type of numpy's."""
    return as_texts(array).astype(np.str_) if array.dtype == object else array


def given_as(name: str, data: np.ndarray, dtype: DType) -> np.ndarray:
    """What is given for the input ``name``, as an array of its dtype.

    Raises:
        UsageError: it is of another.
    """
    array = of_type(np.asarray(data), dtype)
    if array.dtype != dtype.numpy:
        raise UsageError(f"input {name!r} is {array.dtype}, must be {dtype}")
    if dtype is DType.STRING:
        for item in array.flat:
            if not isinstance(item, str):
                raise UsageError(f"input {name!r} has a {type(item).__name__} among its strings")
    return array


def overflow_notes(name: str, wide: np.ndarray, narrow: np.ndarray, format_name: str) -> list[str]:
    """What to tell of numbers that became infinite in a narrower type, if any did."""
    if not np.any(np.isinf(narrow) & np.isfinite(wide)):
        return []
    return [
        (
            f"`{name}` has numbers beyond {narrow.dtype}, in which {format_name} computes: they "
            "become infinite"
        )
    ]


FLOATS = frozenset({DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64})
_SIGNED = frozenset(
    {DType.INT2, DType.INT4, DType.INT8, DType.INT16, DType.INT32, DType.INT64},
)
_UNSIGNED = frozenset({DType.UINT4, DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64})
INTEGERS = _SIGNED | _UNSIGNED
BOOLS = frozenset({DType.BOOL})
EIGHT_BITS = frozenset({DType.INT8, DType.UINT8})
COMPLEXES = frozenset({DType.COMPLEX64, DType.COMPLEX128})
NUMBERS = FLOATS | INTEGERS
ANY = frozenset(DType)

_BITS = {
    DType.BOOL: 8,
    DType.INT2: 2,
    DType.INT4: 4,
    DType.UINT4: 4,
    DType.INT8: 8,
    DType.UINT8: 8,
    DType.INT16: 16,
    DType.UINT16: 16,
    DType.INT32: 32,
    DType.UINT32: 32,
    DType.INT64: 64,
    DType.UINT64: 64,
    DType.FLOAT16: 16,
    DType.BFLOAT16: 16,
    DType.FLOAT32: 32,
    DType.FLOAT64: 64,
    DType.COMPLEX64: 64,
    DType.COMPLEX128: 128,
}
_NUMPY = {
    dtype: np.dtype(dtype.value)
    for dtype in DType
    if dtype not in (DType.INT2, DType.INT4, DType.UINT4, DType.BFLOAT16, DType.STRING)
} | {
    DType.INT2: np.dtype(np.int8),
    DType.INT4: np.dtype(np.int8),
    DType.UINT4: np.dtype(np.uint8),
    DType.STRING: np.dtype(object),
}
