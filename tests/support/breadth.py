"""One-op models by table: what an op's operands are, for each kind of element that it takes.

A kind is a type (``float32``), quantized where the type is 8 or 16 bits wide and signed or a byte;
``int8r`` is the same type without quantization parameters, its numbers stand for themselves.

    Recipe("MINIMUM", [x(2, 3, 4), x(4)], [x(2, 3, 4)], "float32 int8 int8r")

The recipe says what the op looks like; LiteRT decides, when a test runs, what the right result is.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from nnconv.formats.tflite.reader import read
from support.litert import run_litert
from support.spine import Case, case_inputs, model_bytes
from support.tflite_builder import Quant, Tensor, TfliteBuilder

PARAMETERS: dict[str, dict[str, tuple[float, int]]] = {
    "x": {"int8": (0.05, 3), "uint8": (0.05, 131), "int16": (0.001, 0)},
    "second": {"int8": (0.04, -9), "uint8": (0.04, 119), "int16": (0.0007, 0)},
    "y": {"int8": (0.07, -5), "uint8": (0.07, 120), "int16": (0.0015, 0)},
    "positive": {"int8": (0.05, -128), "uint8": (0.05, 0), "int16": (0.001, 0)},
    "low": {"int8": (0.02, -120), "uint8": (0.02, 8), "int16": (0.001, 0)},
    "wide": {"int8": (0.4, -5), "uint8": (0.4, 120), "int16": (0.004, 0)},
    "unit": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "symmetric": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
    "logs": {"int8": (16 / 256, 127), "uint8": (16 / 256, 255)},
}
"""Scale and zero point by name and type."""

NARROW = 256
"""How many codes an 8-bit type has: tensors of that many elements are given all of them."""

Values = Callable[[str, np.random.Generator], Any]
"""Makes a tensor's elements, given the type's name."""


@dataclass(frozen=True)
class Slot:
    """An operand or result.

    Attributes:
        shape: its extents.
        dtype: its type; None is the kind's.
        quant: the name of its parameters in `PARAMETERS`, or the parameters; used for kinds that
            are quantized.
        values: its elements, or what makes them; random when None.
        const: whether it is a constant.
    """

    shape: tuple[int, ...]
    dtype: str | None = None
    quant: Any = "x"
    values: Any = None
    const: bool = False

    def type_for(self, kind: str) -> str:
        """The type's name."""
        return self.dtype or kind.removesuffix("r")

    def parameters(self, kind: str) -> Any:
        """Scale and zero point, or None where the numbers stand for themselves."""
        if isinstance(self.quant, str):
            bare = kind.endswith("r") or self.dtype is not None
            return None if bare else PARAMETERS[self.quant].get(kind)
        return self.quant.get(kind) if isinstance(self.quant, dict) else self.quant

    def elements(self, kind: str, rng: np.random.Generator) -> np.ndarray:
        """Its elements."""
        dtype = self.type_for(kind)
        if self.values is None:
            made = random_elements(dtype, self.shape, rng, wide=self.parameters(kind) is not None)
            return np.asarray(made)
        made = self.values(kind, rng) if callable(self.values) else self.values
        return np.asarray(made).astype(dtype).reshape(self.shape)


def random_elements(
    dtype: str, shape: tuple[int, ...], rng: np.random.Generator, *, wide: bool = False
) -> np.ndarray:
    """Random numbers of a type.

    Narrow and quantized (``wide``) ones have any code, others are small.
    """
    numpy = np.dtype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if numpy.kind == "f":
        return (2 * rng.standard_normal(shape)).astype(dtype)
    if numpy.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if numpy.itemsize == 1 and np.prod(shape) == NARROW:
        return rng.permutation(NARROW).astype(np.uint8).view(dtype).reshape(shape)
    if numpy.itemsize == 1 or wide:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
    return rng.integers(-50 if numpy.kind == "i" else 0, 50, shape).astype(dtype)


def x(*shape: int, quant: Any = "x", values: Any = None, const: bool = False) -> Slot:
    """A tensor of the kind."""
    return Slot(shape, quant=quant, values=values, const=const)


def y(*shape: int, quant: Any = "y") -> Slot:
    """A result of the kind, with parameters of its own."""
    return Slot(shape, quant=quant)


def of(dtype: str, *shape: int, values: Any = None, const: bool = False, quant: Any = None) -> Slot:
    """A tensor whose type doesn't depend on the kind."""
    return Slot(shape, dtype, quant, values, const)


def ints(values: Any, dtype: str = "int32", *, const: bool = True) -> Slot:
    """An index operand: a constant, or an input."""
    array = np.asarray(values)
    return Slot(array.shape, dtype, None, array, const)


def number(value: Any, *, const: bool = True) -> Slot:
    """A scalar of the kind, given by its stored number."""
    return Slot((), None, "x", np.asarray(value), const)


@dataclass(frozen=True)
class Recipe:
    """An op with its operands, for all kinds that it takes.

    Attributes:
        op: TFLite's name.
        operands: None is one that is left out.
        results: as `operands`.
        kinds: names of kinds, between blanks.
        options: the op's.
        label: what tells it from other recipes of the op.
        variants: options of the case (`support.spine.Case`) by kind; ``""`` is for all.
        no_onnx: kinds that ONNX has no form for, with the reason.
    """

    op: str
    operands: Sequence[Slot | None]
    results: Sequence[Slot]
    kinds: str
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    no_onnx: Mapping[str, str] = field(default_factory=dict)

    def case(self, kind: str, *, version: int | None = None) -> Case:
        """The case of one kind."""
        name = "-".join(part for part in (self.op, kind, self.label) if part)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        arrays = [None if slot is None else slot.elements(kind, rng) for slot in self.operands]

        def build(b: TfliteBuilder) -> None:
            operands: list[Tensor | None] = []
            for index, (slot, array) in enumerate(zip(self.operands, arrays, strict=True)):
                if slot is None or array is None:
                    operands.append(None)
                elif slot.const:
                    operands.append(b.const(array, quant=slot.parameters(kind)))
                elif slot.type_for(kind) == "complex64":
                    operands.append(_fed_complex(b, f"x{index}", slot.shape))
                else:
                    dtype, quant = slot.type_for(kind), slot.parameters(kind)
                    operands.append(b.input(f"x{index}", dtype, slot.shape, quant=quant))
            outs = [(s.type_for(kind), s.shape, s.parameters(kind)) for s in self.results]
            made = b.op(self.op, operands, outs, options=self.options, version=version)
            for result in made if isinstance(made, list) else [made]:
                if result.dtype == "complex64":
                    parts = [("float32", result.shape)]
                    b.output(b.op("REAL", [result], parts), b.op("IMAG", [result], parts))
                else:
                    b.output(result)

        fed = [
            np.real(array)
            for slot, array in zip(self.operands, arrays, strict=True)
            if slot is not None and array is not None and not slot.const
        ]
        more = {**self.variants.get("", {}), **self.variants.get(kind, {})}
        if kind == "float16":
            more.setdefault("tolerance", 2e-3)
        case = Case(name, build, fed, resolver=None, onnx=kind not in self.no_onnx)
        return replace(case, **more)

    def cases(self) -> list[Case]:
        """The cases of all kinds."""
        return [self.case(kind) for kind in self.kinds.split()]


def _fed_complex(b: TfliteBuilder, name: str, shape: tuple[int, ...]) -> Tensor:
    """Complex numbers from outside: floats, as ONNX takes no others, turned in the plane."""
    real = b.input(name, "float32", shape)
    plain = b.op("CAST", [real], [("complex64", shape)])
    turn = b.const(np.asarray(0.6 + 0.8j, np.complex64))
    turned: Tensor = b.op("MUL", [plain, turn], [("complex64", shape)])
    return turned


ORDER = ("opt", "xnn", "ref")
"""The kernels that are asked, the first that take the model decide."""


def litert_result(case: Case) -> list[np.ndarray] | None:
    """What LiteRT makes of a case: the kernels named in it, or else the first that take it."""
    content = model_bytes(case)
    inputs = [np.asarray(array) for array in case.inputs or ()]
    for resolver in (case.resolver,) if case.resolver else ORDER:
        try:
            return run_litert(content, inputs, resolver=resolver)
        except (ValueError, RuntimeError):
            continue
    return None


def with_litert(case: Case) -> Case:
    """The case with LiteRT's results as what is expected; skips the test where LiteRT refuses."""
    if case.expected is not None:
        return case
    if case.inputs is None:
        case = replace(case, inputs=case_inputs(case, read(model_bytes(case), name=case.id)))
    found = litert_result(case)
    if found is None:
        pytest.skip("the installed LiteRT doesn't run it")
    return replace(case, expected=found)


__all__ = ["PARAMETERS", "Quant", "Recipe", "Slot", "ints", "number", "of", "with_litert", "x", "y"]
