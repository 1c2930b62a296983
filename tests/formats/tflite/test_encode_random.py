"""Random files that the encoder writes say to the official reader what they were made of."""

import math
import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnconv.formats.tflite import build, encode
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR, TABLES, UNIONS, TensorType
from nnconv.formats.tflite.storage import STORAGE
from support.flatbuffer_verifier import verify
from support.tflite_official import plain, theirs

_RANGES = {"int8": 7, "uint8": 8, "int16": 15, "int32": 31, "int64": 63, "uint32": 32, "uint64": 64}


def numbers(type_name):
    if type_name == "bool":
        return st.booleans()
    if type_name == "float32":
        return st.floats(width=32, allow_nan=False)
    bits = _RANGES[type_name]
    low = 0 if type_name.startswith("u") else -(1 << bits)
    return st.integers(low, (1 << bits) - 1)


def field_values(kind, type_name):
    if kind == "scalar":
        return numbers(type_name)
    if kind == "string":
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    assert kind == "vector"
    return st.lists(numbers(type_name), max_size=4)


@st.composite
def options(draw, union):
    names = [name for name in UNIONS[union].values() if name in TABLES]
    name = draw(st.sampled_from(sorted(names)))
    fields = {
        field: draw(field_values(kind, type_name))
        for field, (_, kind, type_name, _) in TABLES[name].items()
        if draw(st.booleans())
    }
    return name, fields


@st.composite
def files(draw):
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
    subgraphs = []
    for _ in range(draw(st.integers(1, 3))):
        tensors = draw(st.lists(tensors_of(text), max_size=5))
        index = st.integers(-1, len(tensors) - 1)
        inner = st.lists(st.integers(0, len(tensors) - 1), max_size=3) if tensors else st.just([])
        operators = draw(
            st.lists(
                st.builds(
                    build.Operator,
                    st.one_of(st.sampled_from(sorted(BUILTIN_OPERATOR.values())), text),
                    st.lists(index, max_size=4),
                    inner,
                    st.one_of(st.none(), options("BuiltinOptions")),
                    options2=st.one_of(st.none(), options("BuiltinOptions2")),
                    version=st.integers(0, 99),
                    custom_options=st.binary(max_size=5),
                    intermediates=st.lists(index, max_size=2),
                    mutating_variable_inputs=st.lists(st.booleans(), max_size=3),
                ),
                max_size=5,
            )
        )
        subgraphs.append(build.Subgraph(draw(text), tensors, draw(inner), draw(inner), operators))
    signatures = [
        build.Signature(draw(text), number, [(draw(text), 0)] if one.tensors else [], [])
        for number, one in enumerate(subgraphs)
    ]
    metadata = draw(st.dictionaries(text, st.binary(max_size=40), max_size=3))
    return build.File(subgraphs, signatures=signatures, metadata=metadata, description=draw(text))


@st.composite
def tensors_of(draw, text):
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    code = draw(st.sampled_from([TensorType.INT8, TensorType.FLOAT32, TensorType.INT64]))
    data = None
    if draw(st.booleans()):
        data = np.arange(math.prod(shape)).reshape(shape).astype(STORAGE[code].dtype)
    quant = None
    if shape and draw(st.booleans()):
        axis = draw(st.integers(0, len(shape) - 1))
        quant = build.Quantization([0.5] * shape[axis], list(range(shape[axis])), axis=axis)
    signature = tuple(-1 for _ in shape) if draw(st.booleans()) else None
    return build.Tensor(draw(text), code, shape, shape_signature=signature, data=data, quant=quant)


def camel(name):
    return re.sub(r"_(\w)", lambda match: match.group(1).upper(), name)


class TestAgainstTheOfficialReader:
    """Random files say to LiteRT's own classes what they were made of."""

    @given(files())
    def test_random_file(self, file):
        data = encode.encode(file)
        verify(data)
        model = theirs(data)
        assert plain(model.description) == (file.description or ())
        assert [plain(one.name) for one in model.metadata or ()] == list(file.metadata)
        for one, stored_bytes in zip(model.metadata or (), file.metadata.values(), strict=True):
            assert bytes(plain(model.buffers[one.buffer].data)) == stored_bytes
        for one, wanted in zip(model.signatureDefs or (), file.signatures, strict=True):
            assert (plain(one.signatureKey), one.subgraphIndex) == (wanted.key, wanted.subgraph)
            assert [(plain(m.name), m.tensorIndex) for m in one.inputs] == list(wanted.inputs)
        for one, wanted in zip(model.subgraphs, file.subgraphs, strict=True):
            assert plain(one.name) == (wanted.name or ())
            assert plain(one.inputs) == tuple(wanted.inputs)
            assert plain(one.outputs) == tuple(wanted.outputs)
            for tensor_, wanted_tensor in zip(one.tensors, wanted.tensors, strict=True):
                self.compare_tensor(model, tensor_, wanted_tensor)
            for op, wanted_op in zip(one.operators, wanted.operators, strict=True):
                self.compare_operator(model, op, wanted_op)

    def compare_tensor(self, model, found, wanted):
        assert plain(found.name) == (wanted.name or ())
        assert (found.type, plain(found.shape)) == (wanted.type, wanted.shape)
        assert plain(found.shapeSignature) == (wanted.shape_signature or ())
        data = plain(model.buffers[found.buffer].data)
        assert bytes(data) == (b"" if wanted.data is None else wanted.data.tobytes())
        if wanted.quant is not None:
            assert plain(found.quantization.scale) == tuple(wanted.quant.scales)
            assert plain(found.quantization.zeroPoint) == tuple(wanted.quant.zero_points)
            assert found.quantization.quantizedDimension == wanted.quant.axis

    def compare_operator(self, model, found, wanted):
        code = model.operatorCodes[found.opcodeIndex]
        custom = isinstance(wanted.code, str)
        assert code.version == wanted.version
        assert code.builtinCode == (BUILTIN_OPERATOR["CUSTOM"] if custom else wanted.code)
        assert code.deprecatedBuiltinCode == min(code.builtinCode, 127)
        assert plain(code.customCode) == (wanted.code if custom else ())
        assert plain(found.inputs) == tuple(wanted.inputs)
        assert plain(found.outputs) == tuple(wanted.outputs)
        assert plain(found.intermediates) == tuple(wanted.intermediates)
        assert plain(found.mutatingVariableInputs) == tuple(wanted.mutating_variable_inputs)
        assert bytes(plain(found.customOptions)) == wanted.custom_options
        for union, table, given_options in (
            ("BuiltinOptions", found.builtinOptions, wanted.options),
            ("BuiltinOptions2", found.builtinOptions2, wanted.options2),
        ):
            if given_options is None:
                assert table is None
                continue
            name, fields = given_options
            assert type(table).__name__ == f"{name}T"
            assert name in UNIONS[union].values()
            for field, (_, kind, type_name, default) in TABLES[name].items():
                value = fields.get(field, default)
                got = plain(getattr(table, camel(field)))
                if kind == "vector":
                    assert got == tuple(value or ())
                elif kind == "string":
                    assert got == (() if value is None else value)
                else:
                    assert got == value
                    if type_name == "float32":
                        assert math.copysign(1, got) == math.copysign(1, value)
