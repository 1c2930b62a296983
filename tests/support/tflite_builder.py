"""A small builder of .tflite files for tests.

A model is built as the file has it, op by op:

    b = TfliteBuilder()
    x = b.input("x", "int8", (1, 4, 5, 3), quant=(0.5, -3), signature=(-1, 4, 5, 3))
    w = b.const(weights, quant=Quant([0.1] * 8, 0, axis=0))
    y = b.op(
        "CONV_2D",
        [x, w, None],
        [("int8", (1, 4, 5, 8), (0.25, 4))],
        options=dict(stride_h=1, stride_w=1, padding="SAME", fused_activation_function="RELU6"),
        version=3,
    )
    b.output(y)
    b.signature("serving_default", {"x": x}, {"y": y})
    model: bytes = b.build()

- A tensor is a handle (`Tensor`); an operand that is left out is None.
- An output is a `Tensor` that exists already, or (dtype, shape), (dtype, shape, quant) or
  (dtype, shape, quant, name).
- A quantization is (scale, zero point) or `Quant`, which has per-channel and blockwise forms too.
- Types go by their lower-case TFLite name: float32, float16, bfloat16, int4, bool, resource, ...
- Options go by snake_case name, enum values by their own name; the options table is found from the
  op's name. An op name that the schema doesn't know is a custom op.
- A subgraph for IF, WHILE, CALL_ONCE or STABLEHLO_COMPOSITE comes from `TfliteBuilder.subgraph` and
  has the same methods; as an option's value (`then_subgraph_index=body`) it stands for its index.
- Nothing is checked or repaired: a test may build a file that no converter would write. For worse
  ones, change what `TfliteBuilder.to_object` gives and call `pack`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from support.tflite_data import TENSOR_TYPES, dtype_name, encode, encode_sparse
from support.tflite_options import make_options, op_code

_LOWEST_VERSION = {"BROADCAST_TO": 2}
"""Ops whose first version in LiteRT isn't 1."""

_BUFFER_ALIGNMENT = 16


@dataclass(frozen=True, eq=False)
class Tensor:
    """A handle on a tensor of one subgraph."""

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    subgraph: int
    buffer: int


class Quant:
    """Quantization parameters: per tensor, per channel, or per block.

    Args:
        scales: one scale, or one for each channel.
        zero_points: one for all, or one for each channel.
        axis: the channels' axis.
        minimum: recorded lower range (unused by runtimes), one or one for each channel.
        maximum: recorded upper range.
        block_scales: for blockwise quantization, the tensor that holds the scales; ``scales`` is
            then left out.
        block_zero_points: the tensor of zero points, if there is one.
        block_size: elements in a block.
    """

    def __init__(
        self,
        scales: float | Sequence[float] | np.ndarray = (),
        zero_points: int | Sequence[int] | np.ndarray = 0,
        axis: int = 0,
        *,
        minimum: float | Sequence[float] = (),
        maximum: float | Sequence[float] = (),
        block_scales: Tensor | None = None,
        block_zero_points: Tensor | None = None,
        block_size: int = 0,
    ) -> None:
        """Keep the parameters as lists of plain numbers."""
        self.scales = np.atleast_1d(np.asarray(scales, np.float32)).tolist()
        points = np.atleast_1d(np.asarray(zero_points, np.int64))
        self.zero_points = np.broadcast_to(points, (len(self.scales),)).tolist()
        self.axis = axis
        self.minimum = np.atleast_1d(np.asarray(minimum, np.float32)).tolist()
        self.maximum = np.atleast_1d(np.asarray(maximum, np.float32)).tolist()
        self.block_scales = block_scales
        self.block_zero_points = block_zero_points
        self.block_size = block_size

    def to_object(self) -> Any:
        """Give the schema's ``QuantizationParametersT``."""
        parameters = schema.QuantizationParametersT(
            min=self.minimum or None,
            max=self.maximum or None,
            scale=self.scales or None,
            zeroPoint=self.zero_points or None,
            quantizedDimension=self.axis,
        )
        if self.block_scales is not None:
            zero_points = self.block_zero_points
            parameters.detailsType = schema.QuantizationDetails.BlockwiseQuantization
            parameters.details = schema.BlockwiseQuantizationT(
                scales=self.block_scales.index,
                zeroPoints=-1 if zero_points is None else zero_points.index,
                blockSize=self.block_size,
            )
        return parameters


QuantLike = Quant | tuple[float, int] | None
OutputLike = (
    Tensor
    | tuple[str, Sequence[int]]
    | tuple[str, Sequence[int], QuantLike]
    | tuple[str, Sequence[int], QuantLike, str]
)


class Buffer(schema.BufferT):  # type: ignore[misc]  # the schema is generated without types
    """A buffer whose data is aligned as the schema asks (its Python code forgets to)."""

    def __init__(self, data: bytes | None = None, *, apart: bool = False) -> None:
        """Hold ``data``, in the flatbuffer or (``apart``) behind it, found by offset."""
        super().__init__()
        self.content = data
        self.apart = apart

    def Pack(self, builder: flatbuffers.Builder) -> int:  # noqa: N802  # the object API's name
        """Write the table, and the data in front of it."""
        data = None
        if self.content is not None and not self.apart:
            builder.StartVector(1, len(self.content), _BUFFER_ALIGNMENT)
            builder.head -= len(self.content)
            builder.Bytes[builder.head : builder.head + len(self.content)] = self.content
            data = builder.EndVector()
        schema.BufferStart(builder)
        if data is not None:
            schema.BufferAddData(builder, data)
        schema.BufferAddOffset(builder, self.offset)
        schema.BufferAddSize(builder, self.size)
        return int(schema.BufferEnd(builder))


class Subgraph:
    """One subgraph that is being built; `index` is its place in the model."""

    def __init__(self, model: TfliteBuilder, index: int, name: str) -> None:
        """Start an empty subgraph. Tests call `TfliteBuilder.subgraph` instead."""
        self._model = model
        self.index = index
        self._object = schema.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[], name=name)

    def tensor(
        self,
        dtype: str,
        shape: Sequence[int] | None,
        *,
        name: str | None = None,
        quant: QuantLike = None,
        signature: Sequence[int] | None = None,
        has_rank: bool = False,
        variable: bool = False,
        buffer: int = 0,
        sparsity: Any = None,
    ) -> Tensor:
        """Add a tensor of any kind.

        Args:
            dtype: TFLite's type by lower-case name.
            shape: extents in elements; None leaves the field out.
            name: kept as it is, duplicates included. The default is ``t`` and the index.
            quant: quantization parameters.
            signature: ``shape_signature``, -1 for an unknown extent.
            has_rank: the schema's flag that an empty shape means a scalar.
            variable: whether it is a variable tensor.
            buffer: index of its buffer; 0 is the empty one.
            sparsity: a ``SparsityParametersT``.
        """
        index = len(self._object.tensors)
        label = f"t{index}" if name is None else name
        parameters = Quant(*quant) if isinstance(quant, tuple) else quant
        self._object.tensors.append(
            schema.TensorT(
                shape=None if shape is None else [int(extent) for extent in shape],
                type=TENSOR_TYPES[dtype],
                buffer=buffer,
                name=label,
                quantization=None if parameters is None else parameters.to_object(),
                isVariable=variable,
                sparsity=sparsity,
                shapeSignature=None if signature is None else list(signature),
                hasRank=has_rank,
            )
        )
        return Tensor(index, label, dtype, tuple(shape or ()), self.index, buffer)

    def input(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        *,
        quant: QuantLike = None,
        signature: Sequence[int] | None = None,
    ) -> Tensor:
        """Add a tensor and make it the next input of the subgraph."""
        made = self.tensor(dtype, shape, name=name, quant=quant, signature=signature)
        self._object.inputs.append(made.index)
        return made

    def const(
        self,
        value: Any,
        *,
        dtype: str | None = None,
        quant: QuantLike = None,
        name: str | None = None,
        share: Tensor | None = None,
        apart: bool = False,
    ) -> Tensor:
        """Add a constant.

        Args:
            value: an array, or what numpy makes one of; its shape is the tensor's.
            dtype: the type to store it in; the default is the array's own. ``int4`` and its kind
                are packed, ``float16`` and ``bfloat16`` rounded.
            quant: quantization parameters of ``value``, which holds integers already.
            name: the tensor's name.
            share: use the buffer of this other constant; ``value`` gives type and shape only.
            apart: put the bytes behind the flatbuffer, where an offset finds them.
        """
        array = np.asarray(value)
        stored = dtype or dtype_name(array)
        buffer = share.buffer if share else self._model.buffer(encode(array, stored), apart=apart)
        return self.tensor(stored, array.shape, name=name, quant=quant, buffer=buffer)

    def sparse_const(
        self,
        dense: np.ndarray,
        formats: Sequence[str],
        *,
        block: dict[int, int] | None = None,
        traversal: Sequence[int] | None = None,
        index_type: str = "int32",
        dtype: str | None = None,
        quant: QuantLike = None,
        name: str | None = None,
    ) -> Tensor:
        """Add a sparse constant; the arguments are those of `support.tflite_data.encode_sparse`."""
        values, parameters = encode_sparse(
            dense, formats, block=block, traversal=traversal, index_type=index_type
        )
        stored = dtype or dtype_name(dense)
        buffer = self._model.buffer(encode(values, stored))
        return self.tensor(
            stored, dense.shape, name=name, quant=quant, buffer=buffer, sparsity=parameters
        )

    def variable(
        self, dtype: str, shape: Sequence[int], *, quant: QuantLike = None, name: str | None = None
    ) -> Tensor:
        """Add a variable tensor: zero at the start, kept from one invocation to the next."""
        return self.tensor(dtype, shape, name=name, quant=quant, variable=True)

    def op(
        self,
        name: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[OutputLike],
        *,
        options: Mapping[str, Any] | None = None,
        version: int | None = None,
        omit_options: bool = False,
        custom_options: bytes | None = None,
        custom_options_apart: bool = False,
        intermediates: Sequence[OutputLike] = (),
        mutating_inputs: Sequence[bool] | None = None,
    ) -> Any:
        """Add an op.

        Args:
            name: a builtin op such as ``CONV_2D``, or the code of a custom op.
            inputs: operands in TFLite's order; None for one that is left out.
            outputs: tensors or what to make them of (see the module's docstring).
            options: see `support.tflite_options.make_options`.
            version: the op's version; the default is its lowest.
            omit_options: write no options table (some old files have none).
            custom_options: a custom op's bytes, often from `flexbuffer`.
            custom_options_apart: put these bytes behind the flatbuffer.
            intermediates: tensors that recurrent kernels use between their steps.
            mutating_inputs: which inputs are variables that the op changes.

        Returns:
            The output `Tensor`, or a list where ``outputs`` hasn't exactly one.
        """
        code = op_code(name)
        results = [self._result(output) for output in outputs]
        between = [self._result(tensor).index for tensor in intermediates]
        operator = schema.OperatorT(
            opcodeIndex=self._model.operator_code(name, version or _LOWEST_VERSION.get(name, 1)),
            inputs=[-1 if tensor is None else tensor.index for tensor in inputs],
            outputs=[tensor.index for tensor in results],
            intermediates=between or None,
            mutatingVariableInputs=None if mutating_inputs is None else list(mutating_inputs),
        )
        if code is not None and not omit_options:
            table = make_options(name, options or {})
            if table is not None:
                union, kind, fields = table
                setattr(operator, union, fields)
                setattr(operator, f"{union}Type", kind)
        if custom_options is not None and custom_options_apart:
            self._model.place_custom_options(operator, custom_options)
        elif custom_options is not None:
            operator.customOptions = np.frombuffer(custom_options, np.uint8)
        self._object.operators.append(operator)
        return results[0] if len(results) == 1 else results

    def output(self, *tensors: Tensor) -> None:
        """Make ``tensors`` the next outputs of the subgraph."""
        self._object.outputs.extend(tensor.index for tensor in tensors)

    def _result(self, output: OutputLike) -> Tensor:
        if isinstance(output, Tensor):
            return output
        dtype, shape, *rest = output
        quant, name = (*rest, None, None)[:2]
        return self.tensor(dtype, shape, quant=quant, name=name)


class TfliteBuilder(Subgraph):
    """A model that is being built; as a `Subgraph` it is the model's first."""

    def __init__(self, name: str = "main", *, description: str = "made for tests") -> None:
        """Start a model whose first subgraph is called ``name``."""
        self._codes: dict[tuple[str, int], int] = {}
        self._signatures: list[Any] = []
        self._metadata: list[Any] = []
        self._buffers = [Buffer()]
        self._options_apart: list[tuple[Any, bytes]] = []
        self._description = description
        super().__init__(self, 0, name)
        self._subgraphs: list[Subgraph] = [self]

    def subgraph(self, name: str = "") -> Subgraph:
        """Add a subgraph, the body of an op or another entry point."""
        made = Subgraph(self, len(self._subgraphs), name or f"body{len(self._subgraphs)}")
        self._subgraphs.append(made)
        return made

    def signature(
        self, key: str, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
    ) -> None:
        """Add a signature (entry point) ``key`` over tensors of one subgraph, by their names."""
        places = {tensor.subgraph for tensor in (*inputs.values(), *outputs.values())}
        if len(places) != 1:
            raise ValueError(f"signature {key} mixes tensors of subgraphs {sorted(places)}")
        sides = [
            [
                schema.TensorMapT(name=name, tensorIndex=tensor.index)
                for name, tensor in side.items()
            ]
            for side in (inputs, outputs)
        ]
        self._signatures.append(
            schema.SignatureDefT(
                inputs=sides[0], outputs=sides[1], signatureKey=key, subgraphIndex=places.pop()
            )
        )

    def metadata(self, name: str, content: bytes) -> None:
        """Add a named blob of metadata."""
        self._metadata.append(schema.MetadataT(name=name, buffer=self.buffer(content)))

    def buffer(self, content: bytes, *, apart: bool = False) -> int:
        """Add a buffer, in the flatbuffer or behind it, and give its index."""
        self._buffers.append(Buffer(content, apart=apart))
        return len(self._buffers) - 1

    def operator_code(self, name: str, version: int) -> int:
        """Give the index of an operator code, made at its first use."""
        return self._codes.setdefault((name, version), len(self._codes))

    def place_custom_options(self, operator: Any, content: bytes) -> None:
        """Have ``content`` put behind the flatbuffer as the custom options of ``operator``."""
        self._options_apart.append((operator, content))

    def to_object(self) -> Any:
        """Give the schema's ``ModelT``, without what stands behind the flatbuffer."""
        codes = []
        for name, version in self._codes:
            code = op_code(name)
            number = schema.BuiltinOperator.CUSTOM if code is None else code
            codes.append(
                schema.OperatorCodeT(
                    # Numbers that don't fit the old byte field have this stand-in there.
                    deprecatedBuiltinCode=min(number, 127),
                    builtinCode=number,
                    customCode=name if code is None else None,
                    version=version,
                )
            )
        return schema.ModelT(
            version=3,
            operatorCodes=codes,
            subgraphs=[subgraph._object for subgraph in self._subgraphs],
            description=self._description,
            buffers=self._buffers,
            metadata=self._metadata or None,
            signatureDefs=self._signatures or None,
        )

    def build(self) -> bytes:
        """Give the file's bytes."""
        apart = [buffer for buffer in self._buffers if buffer.apart]
        if not apart and not self._options_apart:
            return pack(self.to_object())
        # The sizes of the tables don't depend on the offsets, as long as no offset is 0 (a default,
        # which isn't stored): pack once to learn where the flatbuffer ends, and once for good.
        tail = b""
        end = 1
        for _ in range(2):
            chunks: list[bytes] = []
            for buffer in apart:
                buffer.offset, buffer.size = _append(chunks, buffer.content or b"", end)
            for operator, content in self._options_apart:
                operator.largeCustomOptionsOffset, operator.largeCustomOptionsSize = _append(
                    chunks, content, end
                )
            head = pack(self.to_object())
            end = len(head)
            tail = b"".join(chunks)
        return head + tail


def _append(chunks: list[bytes], content: bytes, end: int) -> tuple[int, int]:
    """Add ``content`` to what follows byte ``end`` of the file; give its offset and size."""
    offset = end + sum(map(len, chunks))
    padding = -offset % _BUFFER_ALIGNMENT
    chunks += [bytes(padding), content]
    return offset + padding, len(content)


def pack(model: Any) -> bytes:
    """Write a ``ModelT`` of the schema as a .tflite file."""
    builder = flatbuffers.Builder(1 << 12)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def flexbuffer(value: Any) -> bytes:
    """Encode ``value`` (maps, lists, numbers, strings, bytes) as a flexbuffer."""
    return bytes(flexbuffers.Dumps(value))
