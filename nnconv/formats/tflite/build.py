"""TFLite models as plain objects, ready to be written: the writer's counterpart of `wire`.

The classes hold what a .tflite file holds, in its own terms, and know nothing of the IR. They are
slotted and made without decorators, since a model has tens of thousands of them and each conversion
imports them. They check nothing when made; :mod:`nnconv.formats.tflite.encode` does when it encodes
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from nnconv.formats.tflite._gen.schema import TensorType
from nnconv.formats.tflite.wire_quant import Blockwise

__all__ = [
    "Blockwise",
    "File",
    "Operator",
    "Quantization",
    "Signature",
    "Subgraph",
    "Tensor",
    "TensorType",
]

OptionsTable: TypeAlias = "tuple[str, Mapping[str, Any]]"
"""A table's name in the schema, and its fields: numbers, bools, texts, sequences of numbers."""

TensorData: TypeAlias = "np.ndarray[Any, Any] | bytes | memoryview | None"
"""What a constant holds; see :class:`Tensor`."""


class Quantization:
    """Quantization parameters of a tensor: real value = (stored value - zero point) * scale.

    Attributes:
        scales: one, or one per index of ``axis``; ``()`` where ``blockwise`` says it all.
        zero_points: as many as there are scales, or one for all, or none for zeros.
        axis: the axis that scales and zero points belong to, where there are several.
        blockwise: the tensors that hold the parameters of a tensor quantized in blocks.
    """

    __slots__ = ("axis", "blockwise", "scales", "zero_points")

    def __init__(
        self,
        scales: Sequence[float] | np.ndarray[Any, Any],
        zero_points: Sequence[int] | np.ndarray[Any, Any],
        *,
        axis: int = 0,
        blockwise: Blockwise | None = None,
    ) -> None:
        self.scales = scales
        self.zero_points = zero_points
        self.axis = axis
        self.blockwise = blockwise

    def __repr__(self) -> str:
        if self.blockwise is not None:
            return f"Quantization({self.blockwise})"
        return f"Quantization({len(self.scales)} scales, axis {self.axis})"


class Tensor:
    """A tensor of a subgraph.

    Attributes:
        name: its name, which need not be unique; `""` is allowed.
        type: the element type.
        shape: the extents; where ``shape_signature`` says -1, placeholders (1, usually).
        shape_signature: the extents with -1 for those that may change; None where none may.
        data: the content in one of three forms. An array whose shape is ``shape`` and whose numpy
            type is the storage type of ``type`` (any strides and byte order; ``uint16`` for
            ``BFLOAT16``, ``uint8`` for 8-bit floats, one ``int8``/``uint8`` per element for the
            types under 8 bits). Or the bytes as the file will hold them: C order, little endian,
            types under 8 bits packed, first element in the lowest bits. Or None: not a constant.
            It is kept, not copied, so it must not change before the file is written. Tensors whose
            data are the same memory, read the same way, share one buffer in the file.
        quant: the quantization parameters, if the elements are quantized.
        is_variable: whether the content survives from run to run.
        has_rank: whether the shape says the rank; False for tensors of unknown rank alone.
    """

    __slots__ = (
        "data",
        "has_rank",
        "is_variable",
        "name",
        "quant",
        "shape",
        "shape_signature",
        "type",
    )

    def __init__(
        self,
        name: str,
        type: TensorType,
        shape: tuple[int, ...],
        *,
        shape_signature: tuple[int, ...] | None = None,
        data: TensorData = None,
        quant: Quantization | None = None,
        is_variable: bool = False,
        has_rank: bool = True,
    ) -> None:
        self.name = name
        self.type = type
        self.shape = shape
        self.shape_signature = shape_signature
        self.data = data
        self.quant = quant
        self.is_variable = is_variable
        self.has_rank = has_rank

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.type.name}, {self.shape})"


class Operator:
    """An operator of a subgraph.

    Attributes:
        code: the builtin's number (a value of ``BUILTIN_OPERATOR``), or the name of a custom op.
        inputs: tensor indices; -1 where an optional operand is left out.
        outputs: tensor indices.
        options: the ``builtin_options``; fields left out have the schema's defaults.
        options2: the ``builtin_options_2``, which newer builtins have in their stead.
        version: the op's version, which says what its options and operands may be.
        custom_options: the options of a custom op, as the op reads them.
        intermediates: indices of the tensors that hold parameters of the op's inner values.
        mutating_variable_inputs: for each input whether the op changes it; ``()`` to say nothing.
    """

    __slots__ = (
        "code",
        "custom_options",
        "inputs",
        "intermediates",
        "mutating_variable_inputs",
        "options",
        "options2",
        "outputs",
        "version",
    )

    def __init__(
        self,
        code: int | str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: OptionsTable | None = None,
        *,
        options2: OptionsTable | None = None,
        version: int = 1,
        custom_options: bytes = b"",
        intermediates: Sequence[int] = (),
        mutating_variable_inputs: Sequence[bool] = (),
    ) -> None:
        self.code = code
        self.inputs = inputs
        self.outputs = outputs
        self.options = options
        self.options2 = options2
        self.version = version
        self.custom_options = custom_options
        self.intermediates = intermediates
        self.mutating_variable_inputs = mutating_variable_inputs

    def __repr__(self) -> str:
        return f"Operator({self.code!r}, {list(self.inputs)} -> {list(self.outputs)})"


class Subgraph:
    """A subgraph: tensors, and operators in the order of execution.

    Attributes:
        name: its name.
        tensors: all tensors, constants among them.
        inputs: tensor indices.
        outputs: tensor indices.
        operators: each after the ones whose outputs it takes.
    """

    __slots__ = ("inputs", "name", "operators", "outputs", "tensors")

    def __init__(
        self,
        name: str,
        tensors: Sequence[Tensor],
        inputs: Sequence[int],
        outputs: Sequence[int],
        operators: Sequence[Operator],
    ) -> None:
        self.name = name
        self.tensors = tensors
        self.inputs = inputs
        self.outputs = outputs
        self.operators = operators

    def __repr__(self) -> str:
        return f"Subgraph({self.name!r}, {len(self.operators)} operators)"


class Signature:
    """A named entry point.

    Attributes:
        key: its name.
        subgraph: index of the subgraph that it runs.
        inputs: (name, tensor index) pairs.
        outputs: (name, tensor index) pairs.
    """

    __slots__ = ("inputs", "key", "outputs", "subgraph")

    def __init__(
        self,
        key: str,
        subgraph: int,
        inputs: Sequence[tuple[str, int]],
        outputs: Sequence[tuple[str, int]],
    ) -> None:
        self.key = key
        self.subgraph = subgraph
        self.inputs = inputs
        self.outputs = outputs

    def __repr__(self) -> str:
        return f"Signature({self.key!r}, subgraph {self.subgraph})"


class File:
    """A .tflite file.

    Attributes:
        subgraphs: all subgraphs, the main one first.
        signatures: all entry points.
        metadata: bytes by name, written in this order.
        description: free text, what made the file.
    """

    __slots__ = ("description", "metadata", "signatures", "subgraphs")

    def __init__(
        self,
        subgraphs: Sequence[Subgraph],
        *,
        signatures: Sequence[Signature] = (),
        metadata: Mapping[str, bytes] | None = None,
        description: str = "",
    ) -> None:
        self.subgraphs = subgraphs
        self.signatures = signatures
        self.metadata: Mapping[str, bytes] = {} if metadata is None else metadata
        self.description = description

    def __repr__(self) -> str:
        return f"File({len(self.subgraphs)} subgraphs, {len(self.signatures)} signatures)"
