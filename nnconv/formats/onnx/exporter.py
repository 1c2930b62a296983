"""From the IR to ONNX nodes: the context that the op exporters work in.

An exporter (``nnconv.formats.onnx.exports.<family>``) gets the node and one ``Target``; it reads
operands in the view that it needs and gives each result in the view that it has:

    def export_max_pool(node: Node, t: Target) -> None:
        x, y = node.inputs[0], node.outputs[0]
        t.set_codes(y, t.node("MaxPool", [t.codes(x)], kernel_shape=...))

    EXPORTERS = {MaxPool2D: export_max_pool}

Views of a value:

- ``real``: its real values, a float tensor. For a quantized value this is a DequantizeLinear of its
  codes.
- ``codes``: its integers as the file holds them inside: uint8 where int8 activations are re-signed
  (``Target.inner_type``), else the stored ones. For values that aren't quantized: the tensor
  itself.
- ``stored``: the numbers in the value's own dtype.
- ``pairs``: complex numbers, which no runtime's kernels take, as floats with a last dimension
  (real, imaginary).

Giving a quantized value by ``set_real`` adds the QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from nnconv.errors import Reason, UnsupportedItem
from nnconv.formats.onnx.graph_parts import GraphParts, Names
from nnconv.formats.onnx.types import CODE_TYPES, LEAST_OPSET
from nnconv.formats.refusals import NotExportable
from nnconv.ir.dtype import COMPLEXES, DType
from nnconv.ir.families import entry_of
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Op, QuantRule
from nnconv.ir.quant import Quant, quantize, real_values
from nnconv.ir.types import Shape, static_shape

Exporter: TypeAlias = "Callable[[Node, Target], None]"

_RESIGN = 128

MOST_DEPTH = 32
"""Graphs inside of one another, the main one included: with more, a file has messages that lie
deeper than the 100 that protobuf's readers go down to."""

_SPELLED_WITH_BODIES = frozenset({"nnconv.ops.rnn", "nnconv.ops.detection", "nnconv.ops.proposals"})
"""Where the ops are whose exporters spell loops and branches."""

_MOVES = frozenset({"Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""What onnxruntime takes to the other side of a DequantizeLinear."""

_NO_COMPLEX = "ONNX runtimes take complex numbers neither here nor at a graph's edge"


def exporter_of(op: type[Op]) -> Exporter | None:
    """The exporter of an op: it stands in the file of the op's own stem."""
    found: Exporter | None = entry_of(op, "nnconv.formats.onnx.exports", "EXPORTERS")
    return found


class Target(GraphParts):
    """An ONNX graph under construction, as exporters see it: its nodes, and views of IR values.

    Attributes:
        resign: whether int8 activations are kept as uint8 inside.
        plain: whether an op that ONNX has is written as that one node, as the source had it, even
            where another spelling is quicker.
        hybrids: constants of codes that TFLite's kernels read beside floats.
    """

    def __init__(self, *, opset: int, resign: bool, names: Names, plain: bool = False) -> None:
        super().__init__(opset=opset, names=names)
        self.resign = resign
        self.plain = plain
        self.hybrids: list[str] = []
        self._depth = 1
        self._codes: dict[Value, str] = {}
        self._real: dict[Value, str] = {}
        self._stored: dict[Value, str] = {}
        self._parameter_names: dict[tuple[Quant, DType, Shape], tuple[str, str]] = {}
        self._zeros: dict[tuple[DType, Shape], str] = {}
        self._numbers: dict[tuple[str, DType], str] = {}
        self._nests: bool | None = None
        self._of_bytes: set[str] = set()
        """Names of real values that a DequantizeLinear makes of int8."""

    def inner(self) -> Target:
        """An empty graph for a body inside this one, made for the same IR node.

        Raises:
            NotExportable: graphs would be too deep inside each other.
        """
        if self._depth == MOST_DEPTH:
            why = f"more than {MOST_DEPTH} graphs would be inside of one another"
            hint = "Readers of ONNX, which use protobuf, don't go deeper."
            raise self.unsupported(why, reason=Reason.IMPOSSIBLE, hint=hint)
        body = Target(opset=self.opset, resign=self.resign, names=self.names, plain=self.plain)
        body.current = self.current
        body._depth = self._depth + 1
        return body

    # ---------------------------------------------------------------- views of operands

    @staticmethod
    def is_quantized(value: Value) -> bool:
        """Whether the value has codes that stand for real values."""
        return value.quant is not None and value.dtype in CODE_TYPES

    def is_resigned(self, value: Value) -> bool:
        """Whether an int8 value is kept as uint8 inside."""
        return (
            self.resign
            and value.dtype is DType.INT8
            and value.quant is not None
            and value.quant.is_per_tensor
        )

    def inner_type(self, value: Value) -> DType:
        """The dtype of the value's ``codes``."""
        return DType.UINT8 if self.is_resigned(value) else value.dtype

    def inner_quant(self, value: Value) -> Quant:
        """The parameters of the value's ``codes``; the value must be quantized."""
        assert value.quant is not None, f"{value!r} isn't quantized"
        return value.quant.shifted(_RESIGN) if self.is_resigned(value) else value.quant

    def real_type(self, value: Value) -> DType:
        """The dtype of the value's ``real``."""
        return DType.FLOAT32 if value.quant is not None else value.dtype

    def floats(self, value: float | np.ndarray, like: Value) -> str:
        """A float constant of the float type in which ``like``'s real values are computed."""
        kind = self.real_type(like)
        if not isinstance(value, float):
            return self._floats(value, kind)
        key = value.hex(), kind  # zeros of both signs are equal, but not the same
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._floats(value, kind)
        return found

    def _floats(self, value: float | np.ndarray, kind: DType) -> str:
        with np.errstate(over="ignore"):  # beyond float16 lies infinity, as in every kernel
            return self.const(np.asarray(value, kind.numpy))

    def real(self, value: Value | None) -> str:
        """The name of the value's real values; "" for an absent operand."""
        if value is None:
            return ""
        if not self.is_quantized(value):
            return self._wide_real(value) if value.quant is not None else self.codes(value)
        found = self._real.get(value)
        if found is None:
            codes = self.codes(value)
            quant, dtype = self.inner_quant(value), self.inner_type(value)
            found = self.dequantize(codes, quant, dtype, value.shape)
            self._real[value] = found
            if self.opset >= 21 and self.inner_type(value) is DType.INT8:
                self._of_bytes.add(found)
        return found

    def nodes_of(
        self, op_type: str, inputs: Sequence[str], count: int, **attributes: Any
    ) -> list[str]:
        """See the base; moves that arithmetic is spelled with stay behind a DequantizeLinear.

        onnxruntime would take them to the int8 codes, and then not load the file.
        """
        if (
            op_type in _MOVES
            and inputs[0] in self._of_bytes
            and self.current is not None
            and self.current.op.quant_rule is QuantRule.REAL
        ):
            from nnconv.formats.onnx.weights import LOWEST

            held = super().nodes_of("Max", [inputs[0], self.const(LOWEST)], 1)
            inputs = [*held, *inputs[1:]]
        return super().nodes_of(op_type, inputs, count, **attributes)

    def _wide_real(self, value: Value) -> str:
        """The real values of int64 codes, such as the bias of 16-bit activations."""
        found = self._real.get(value)
        if found is None:
            assert value.quant is not None
            if value.data is not None:
                real = real_values(value.data, value.quant, DType.FLOAT32, wide=np.float64)
                found = self.initializer(real, DType.FLOAT32, value.name)
            else:
                found = self._wide_product(self.codes(value), value.quant, value.type.rank or 0)
            self._real[value] = found
        return found

    def _wide_product(self, codes: str, quant: Quant, rank: int) -> str:
        """int64 codes times their scale, in float64: no DequantizeLinear takes them."""
        scale, zero_point = quant.broadcast((1,) * rank)
        wide = self.cast(codes, DType.FLOAT64)
        if np.any(zero_point):
            wide = self.node("Sub", [wide, self.const(zero_point.astype(np.float64))])
        real = self.node("Mul", [wide, self.const(scale.astype(np.float64))])
        return self.cast(real, DType.FLOAT32)

    def codes(self, value: Value | None) -> str:
        """The name of the value's integers inside; for an unquantized value its only form."""
        if value is None:
            return ""
        if value.dtype in COMPLEXES:
            raise self.unsupported(_NO_COMPLEX, reason=Reason.IMPOSSIBLE)
        found = self._codes.get(value)
        if found is None:
            if value.data is None:
                stored = self._stored.get(value)
                assert stored is not None, f"{value!r} was never produced"
                found = self.resigned(stored) if self.is_resigned(value) else stored
            else:
                data = value.data
                if self.is_resigned(value):
                    data = data.view(np.uint8) ^ np.uint8(_RESIGN)
                found = self.initializer(data, self.inner_type(value), value.name)
            self._codes[value] = found
        return found

    def stored(self, value: Value | None) -> str:
        """The name of the value's numbers in its own dtype."""
        if value is None:
            return ""
        if not self.is_resigned(value):
            return self.codes(value)
        found = self._stored.get(value)
        if found is None:
            if value.data is not None:
                found = self.initializer(value.data, value.dtype, value.name)
            else:
                found = self.unsigned_to_signed(self.codes(value))
            self._stored[value] = found
        return found

    def pairs(self, value: Value) -> str:
        """The name of complex numbers as floats of shape [..., 2]: real and imaginary parts."""
        found = self._codes.get(value)
        if found is None:
            assert value.data is not None, f"{value!r} was never produced"
            part = DType.FLOAT32 if value.dtype is DType.COMPLEX64 else DType.FLOAT64
            data = np.stack([value.data.real, value.data.imag], axis=-1)
            found = self._codes[value] = self.initializer(data, part, value.name)
        return found

    def int64(self, value: Value | None) -> str:
        """An index operand as int64, whatever integer type it has."""
        if value is None:
            return ""
        if value.data is not None:
            return self.const(value.data.astype(np.int64))
        name = self.stored(value)
        return name if value.dtype is DType.INT64 else self.cast(name, DType.INT64)

    def resigned(self, name: str) -> str:
        """int8 codes as uint8: 128 more; Cast and Add wrap.

        DequantizeLinear, QuantizeLinear would take four times as long.
        """
        return self._turned(self.cast(name, DType.UINT8))

    def unsigned_to_signed(self, name: str) -> str:
        """uint8 codes as int8: 128 less."""
        return self.cast(self._turned(name), DType.INT8)

    def _turned(self, name: str) -> str:
        """uint8 numbers with their highest bit turned."""
        if self.opset >= 14:
            return self.node("Add", [name, self.const(np.uint8(_RESIGN))])
        wide = self.node("Add", [self.cast(name, DType.INT32), self.const(np.int32(_RESIGN))])
        low = self.node("Mod", [wide, self.const(np.int32(2 * _RESIGN))])
        return self.cast(low, DType.UINT8)

    def dequantize(self, name: str, quant: Quant, dtype: DType, shape: Shape = None) -> str:
        """A DequantizeLinear node.

        Before opset 21, which brought the 16-bit ones, their arithmetic. Parameters of blocks need
        the codes' ``shape``.
        """
        if self._lacks_16_bits(dtype) and quant.axis is None:
            moved = self.cast(name, DType.FLOAT32)
            if quant.zero_point[0]:
                moved = self.node("Sub", [moved, self.const(float(quant.zero_point[0]))])
            return self.node("Mul", [moved, self.const(np.float32(quant.scale[0]))])
        self._check_quantizable(dtype, quant)
        inputs = [name, *self._parameters(quant, dtype, shape)]
        block = quant.block or None
        return self.node("DequantizeLinear", inputs, axis=quant.axis, block_size=block)

    def quantize(self, name: str, quant: Quant, dtype: DType, shape: Shape = None) -> str:
        """A QuantizeLinear node.

        For types that it doesn't make (int32; int16 before opset 21) its arithmetic. Parameters of
        blocks need the codes' ``shape``.
        """
        if dtype in (DType.INT32, DType.INT64) or self._lacks_16_bits(dtype):
            return self._quantize_wide(name, quant, dtype)
        self._check_quantizable(dtype, quant)
        inputs = [name, *self._parameters(quant, dtype, shape)]
        block = quant.block or None
        codes = self.node("QuantizeLinear", inputs, axis=quant.axis, block_size=block)
        held = self.held_type(dtype)
        if held is dtype:
            return codes
        limits = [self.const(np.asarray(limit, held.numpy)) for limit in dtype.int_range]
        return self.node("Clip", [codes, *limits])

    def _lacks_16_bits(self, dtype: DType) -> bool:
        return dtype in (DType.INT16, DType.UINT16) and self.opset < 21

    def _check_quantizable(self, dtype: DType, quant: Quant) -> None:
        if dtype in (DType.INT16, DType.UINT16):
            self.require_opset(21, f"{dtype} quantization")
        if quant.block:
            self.require_opset(21, "blockwise quantization")

    def _parameters(self, quant: Quant, dtype: DType, shape: Shape) -> tuple[str, str]:
        extents = static_shape(shape)
        if quant.block and extents is None:
            raise self.unsupported("the number of blocks isn't known")
        grid = quant.grid(extents or ())
        found = self._parameter_names.get((quant, dtype, grid))
        if found is None:
            found = self.const(quant.scales.reshape(grid)), self._zero_points(quant, dtype, grid)
            self._parameter_names[quant, dtype, grid] = found
        return found

    def _zero_points(self, quant: Quant, dtype: DType, grid: tuple[int, ...]) -> str:
        """Those of a quantization; zeros are shared, however many they are."""
        if not quant.is_symmetric:
            return self.const(quant.zero_points.astype(dtype.numpy).reshape(grid), dtype)
        found = self._zeros.get((dtype, grid))
        if found is None:
            found = self._zeros[dtype, grid] = self.const(np.zeros(grid, dtype.numpy), dtype)
        return found

    def _quantize_wide(self, name: str, quant: Quant, dtype: DType) -> str:
        low, high = dtype.int_range
        scaled = self.node(
            "Div", [self.cast(name, DType.FLOAT64), self.const(np.float64(quant.scale[0]))]
        )
        moved = self.node(
            "Add", [self.node("Round", [scaled]), self.const(np.float64(quant.zero_point[0]))]
        )
        bounds = [self.const(np.float64(low)), self.const(np.float64(high))]
        return self.cast(self.node("Clip", [moved, *bounds]), dtype)

    # ---------------------------------------------------------------- results

    def set_codes(self, value: Value, name: str) -> None:
        """Give a result by its integers inside; for an unquantized value its only form."""
        self._codes[value] = name

    def set_pairs(self, value: Value, name: str) -> None:
        """Give a complex result by floats of shape [..., 2]."""
        self._codes[value] = name

    def set_stored(self, value: Value, name: str) -> None:
        """Give a result by its numbers in its own dtype."""
        if self.is_resigned(value):
            self._stored[value] = name
        else:
            self._codes[value] = name

    def set_real(self, value: Value, name: str, activation: Activation = Activation.NONE) -> None:
        """Give a result by its real values, before its activation.

        Quantized ones get a QuantizeLinear.

        On codes the activation is a Clip behind the QuantizeLinear, and nothing where the range
        implies it: any other op between a convolution and its QuantizeLinear would cost the integer
        kernel.
        """
        if not self.is_quantized(value):
            self._codes[value] = self.activate(name, activation, value)
            return
        dtype, quant = self.inner_type(value), self.inner_quant(value)
        if activation.bounds is None or dtype not in (DType.INT8, DType.UINT8):
            name = self.activate(name, activation, value)
            self._codes[value] = self.quantize(name, quant, dtype, value.shape)
            return
        self._codes[value] = self.clip_codes(
            self.quantize(name, quant, dtype), quant, dtype, activation.bounds
        )

    def set_plain_real(self, value: Value, name: str) -> None:
        """``set_real`` for an op that has no integer kernel: what only goes out keeps its type.

        An Add and a Cast less than by re-signed codes.
        """
        if not self.is_resigned(value) or value.use_count:
            self.set_real(value, name)
        else:
            assert value.quant is not None
            self._stored[value] = self.quantize(name, value.quant, value.dtype)

    def clip_codes(
        self, codes: str, quant: Quant, dtype: DType, bounds: tuple[float, float]
    ) -> str:
        """Codes (8 bits) clamped to real ``bounds``; the codes themselves if no code is outside."""
        limits = quantize(np.asarray(bounds, np.float64), quant, dtype)
        if tuple(limits.tolist()) == dtype.int_range:
            return codes
        return self.node("Clip", [codes, self.const(limits[0]), self.const(limits[1])])

    def activate(self, name: str, activation: Activation, like: Value) -> str:
        """A float result behind its activation."""
        if activation is Activation.NONE:
            return name
        if activation is Activation.RELU:
            return self.node("Relu", [name])
        if activation is Activation.TANH:
            return self.node("Tanh", [name])
        if activation is Activation.SIGMOID:
            return self.node("Sigmoid", [name])
        assert activation.bounds is not None
        low, high = (self.floats(b, like) for b in activation.bounds)
        return self.node("Clip", [name, low, high])

    # ---------------------------------------------------------------- whole graphs

    def _edge_refusals(self, value: Value) -> Sequence[UnsupportedItem]:
        """Why a value can't go in or out of a graph, if it can't."""
        try:
            if value.dtype is DType.STRING and value.data is not None:
                raise self.strings(f"`{value.name}`: ")
            if value.dtype in COMPLEXES:
                raise self.unsupported(f"`{value.name}`: {_NO_COMPLEX}", reason=Reason.IMPOSSIBLE)
            least = LEAST_OPSET.get(value.dtype, 0)
            self.require_opset(least, f"`{value.name}`: {value.dtype} inputs and outputs")
        except NotExportable as refusal:
            return refusal.items
        return ()

    def nests(self, graph: Graph) -> bool:
        """Whether ``graph``, the one being exported, takes nodes with bodies."""
        if self._nests is None:
            self._nests = any(
                node.bodies or type(node.op).__module__ in _SPELLED_WITH_BODIES
                for node in graph.nodes
            )
        return self._nests

    def run(self, graph: Graph) -> list[UnsupportedItem]:
        """Export every node of a graph whose inputs have been given.

        Returns what couldn't be exported.
        """
        refused = [
            item for value in (*graph.inputs, *graph.outputs) for item in self._edge_refusals(value)
        ]
        for node in graph.nodes:
            self.current = node
            try:
                exporter = exporter_of(type(node.op))
                if exporter is None:
                    raise self.unsupported("no ONNX form is known")
                values = (*node.inputs, *node.outputs)
                if any(v is not None and v.dtype in COMPLEXES for v in values):
                    from nnconv.formats.onnx.parts import by_parts

                    exporter = by_parts(exporter, node)
                exporter(node, self)
            except NotExportable as refusal:
                refused += refusal.items
            if refused:
                for value in node.outputs:
                    self._codes.setdefault(value, "")
                    self._stored.setdefault(value, "")
        self.current = None
        return refused
