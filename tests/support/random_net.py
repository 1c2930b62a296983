"""A random TFLite graph under construction, with an example of every tensor's content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from nnconv.backends.reference.executor import run_graph

from nnconv.formats.tflite.reader import read
from nnconv.ir import DType, TensorType, Value
from nnconv.ir import Quant as RealQuant
from support.random_core import Example, RandomNet, UnfitError
from support.spine import random_array
from support.tflite_builder import Quant, Tensor, TfliteBuilder

BITS = {"int8": 8, "uint8": 8, "int16": 16}
MOST_ELEMENTS = 3000

QuantPair = tuple[float, int]


@dataclass(eq=False)
class Slot(Example):
    """A tensor of a net: its handle, its type, an example of its content.

    ``fixed``: whether it is a constant. ``known``: whether it follows from the file alone.
    """

    tensor: Tensor
    dtype: str
    data: np.ndarray
    quant: QuantPair | Quant | None = None
    fixed: bool = False
    known: bool = False

    @property
    def quantized(self) -> bool:
        return self.quant is not None

    @property
    def real(self) -> np.ndarray:
        """The example as real numbers."""
        if self.quant is None:
            return self.data
        if isinstance(self.quant, Quant):
            shape = [1] * self.rank
            if len(self.quant.scales) > 1:
                shape[self.quant.axis] = -1
            scale = np.asarray(self.quant.scales).reshape(shape)
            point = np.asarray(self.quant.zero_points).reshape(shape)
        else:
            scale, point = np.asarray(self.quant[0]), np.asarray(self.quant[1])
        return ((self.data.astype(np.float64) - point) * scale).astype(np.float32)


class Net(RandomNet):
    """A random graph under construction.

    Attributes:
        dtype: the type of most of its data.
        dynamic: whether the first extent of every tensor with a state of its own is unknown.
        slots: tensors made so far, constants left out.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.b = TfliteBuilder()
        self.dtype = self.one(["float32", "float32", "int8", "int8", "uint8", "int16"])
        self.dynamic = self.chance(0.15)
        self.batch = 1 if self.dynamic else int(self.rng.integers(1, 3))
        self.slots: list[Slot] = []
        self.inputs: list[Slot] = []
        self.shared: dict[object, Slot] = {}
        self.used: set[int] = set()

    # ------------------------------------------------------------------------- choices

    @property
    def traits(self) -> str:
        return f"{self.dtype}{', dynamic' if self.dynamic else ''}"

    def pick(
        self,
        *dtypes: str,
        ranks: Sequence[int] = (1, 2, 3, 4, 5),
        where: Any = None,
        small: int = MOST_ELEMENTS,
    ) -> Slot:
        """A tensor of one of the types and ranks; late ones more often."""
        fit = [
            s
            for s in self.slots
            if s.dtype in dtypes
            and (s.quantized or s.dtype not in BITS)
            and s.rank in ranks
            and 0 < s.data.size <= small
            and (where is None or where(s))
        ]
        return self.late(fit)

    # ------------------------------------------------------------------------- parts

    def add_input(self, dtype: str, shape: tuple[int, ...]) -> Slot:
        quant: QuantPair | None = None
        if dtype in BITS:
            bits = BITS[dtype]
            scale = float(np.float32(self.rng.uniform(0.5, 8) / 2**bits))
            low = 0 if dtype == "uint8" else -(1 << (bits - 1))
            point = 0 if dtype == "int16" else low + self.number(60, 200)
            quant = (scale, point)
        signature = (-1, *shape[1:]) if self.dynamic else None
        tensor = self.b.input(
            f"x{len(self.inputs)}", dtype, shape, quant=quant, signature=signature
        )
        value = Value("", TensorType(DType(dtype), shape, to_quant(quant)))
        slot = Slot(tensor, dtype, random_array(value, self.rng), quant)
        self.slots.append(slot)
        self.inputs.append(slot)
        return slot

    def const(self, data: Any, dtype: str | None = None, quant: Any = None) -> Slot:
        array = np.asarray(data, dtype)
        tensor = self.b.const(array, quant=quant)
        return Slot(tensor, array.dtype.name, array, quant, fixed=True)

    def ints(self, *values: int) -> Slot:
        return self.const(np.asarray(values, np.int32))

    def like(self, slot: Slot, shape: Sequence[int]) -> Slot:
        """A random constant of another tensor's type and parameters; now and then a used one."""
        key = (slot.dtype, slot.quant, tuple(shape))
        if key in self.shared and self.chance(0.3):
            return self.shared[key]
        self.shared[key] = self._random_const(slot, shape)
        return self.shared[key]

    def _random_const(self, slot: Slot, shape: Sequence[int]) -> Slot:
        if slot.quant is not None:
            low, high = np.iinfo(slot.dtype).min, np.iinfo(slot.dtype).max
            codes = self.rng.integers(low, high, shape, endpoint=True)
            return self.const(codes.astype(slot.dtype), quant=slot.quant)
        if slot.dtype == "bool":
            return self.const(self.rng.integers(0, 2, shape).astype(bool))
        if slot.dtype.startswith("float"):
            return self.const(self.rng.standard_normal(shape).astype(slot.dtype))
        return self.const(self.rng.integers(-9, 9, shape).astype(slot.dtype))

    def quant_for(self, real: np.ndarray, dtype: str) -> QuantPair:
        """Parameters for a range of values, now and then a little too narrow or too wide."""
        finite = real[np.isfinite(real)]
        slack = self.one([0.7, 1.0, 1.0, 1.3])
        low = min(0.0, float(finite.min(initial=0)) * slack)
        high = max(0.0, float(finite.max(initial=0)) * slack)
        if high - low < 1e-2:
            high = 1.0
        if dtype == "int16":
            return float(np.float32(max(-low, high) / 32767)), 0
        scale = float(np.float32((high - low) / 255))
        least = 0 if dtype == "uint8" else -128
        return scale, int(np.clip(round(least - low / scale), least, least + 255))

    def add(
        self,
        op: str,
        operands: Sequence[Slot | None],
        dtypes: Sequence[str | None] = (None,),
        *,
        real: bool = False,
        quant: QuantPair | None = None,
        version: int | None = None,
        **options: Any,
    ) -> list[Slot]:
        """Add an op.

        Args:
            op: its name.
            operands: its operands.
            dtypes: types of its results; None is that of the first operand.
            real: whether it computes real numbers: the results' parameters then suit them.
            quant: the results' parameters where they are known. By default they are the first
                operand's.
            version: of the op.
            options: of the op.
        """
        first = next(s for s in operands if s is not None)
        types = [first.dtype if dtype is None else dtype for dtype in dtypes]
        copied = first.quant if isinstance(first.quant, tuple) else None
        stated = [None if dtype not in BITS or real else (quant or copied) for dtype in types]
        found = simulate(op, operands, types, stated, version=version, options=options, real=real)
        if sum(a.size for a in found) > MOST_ELEMENTS or any(a.ndim > 5 for a in found):
            raise UnfitError
        if real:
            stated = [
                quant or self.quant_for(array, dtype) if dtype in BITS else None
                for dtype, array in zip(types, found, strict=True)
            ]
        results = []
        for dtype, array, params in zip(types, found, stated, strict=True):
            signature = (-1, *array.shape[1:]) if self.dynamic and array.ndim else None
            tensor = self.b.tensor(dtype, array.shape, quant=params, signature=signature)
            data = array
            if real and params is not None:
                limits = np.iinfo(dtype)
                codes = np.round(np.nan_to_num(array) / params[0]) + params[1]
                data = np.clip(codes, limits.min, limits.max).astype(dtype)
            known = op == "SHAPE" or all(s is None or s.fixed or s.known for s in operands)
            results.append(Slot(tensor, dtype, data, params, known=known))
        tensors = [None if s is None else s.tensor for s in operands]
        self.b.op(op, tensors, [s.tensor for s in results], options=options, version=version)
        self.used.update(t.index for t in tensors if t is not None)
        names = ", ".join(
            "-" if s is None else f"{s.tensor.name}{list(s.shape)}{'c' if s.fixed else ''}"
            for s in operands
        )
        made = ", ".join(f"{s.tensor.name}:{s.dtype}{list(s.shape)}" for s in results)
        self.log.append(f"{made} = {op}({names}) {options or ''}")
        self.slots += results
        return results

    def finish(self) -> bytes:
        """Choose the outputs (all that nothing reads, and some others) and give the file."""
        inner = [s for s in self.slots if s not in self.inputs]
        if all(s.known for s in inner):  # onnxruntime loads no graph of constants alone
            x = self.inputs[0]
            inner += self.add("SLICE", [x, self.ints(*[0] * x.rank), self.ints(*[1] * x.rank)])
        for slot in inner:
            if slot.tensor.index not in self.used or self.chance(0.2):
                self.b.output(slot.tensor)
        return self.b.build()


def to_quant(quant: QuantPair | None) -> RealQuant | None:
    return None if quant is None else RealQuant.per_tensor(*quant)


def simulate(
    op: str,
    operands: Sequence[Slot | None],
    types: Sequence[str],
    quants: Sequence[QuantPair | None],
    *,
    real: bool,
    version: int | None,
    options: Mapping[str, Any],
) -> list[np.ndarray]:
    """What an op gives for the examples: real numbers with ``real``, else codes."""
    b = TfliteBuilder()
    tensors: list[Tensor | None] = []
    feeds: list[np.ndarray] = []
    for index, slot in enumerate(operands):
        if slot is None:
            tensors.append(None)
            continue
        data = slot.real if real else slot.data
        quant = None if real else slot.quant
        if slot.fixed:
            tensors.append(b.const(data, quant=quant))
        else:
            tensors.append(b.input(f"x{index}", data.dtype.name, data.shape, quant=quant))
            feeds.append(data)
    results: list[Any] = []
    for dtype, quant in zip(types, quants, strict=True):
        results.append(("float32" if real and dtype in BITS else dtype, (), quant))
    made = b.op(op, tensors, results, options=options, version=version)
    b.output(*(made if isinstance(made, list) else [made]))
    return run_graph(read(b.build(), name="part").main.graph, feeds)
