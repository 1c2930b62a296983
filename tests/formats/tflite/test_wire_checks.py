"""Structural faults of a .tflite file are refused, each with its place."""

import pytest

from nnconv.errors import InvalidModelError
from nnconv.formats.tflite import wire
from support.tflite_builder import TfliteBuilder, pack
from support.tflite_conv import changed_model, conv_model


def set_field(path, value):
    """A change of one field of the model object, named by a path of attributes and indices."""

    def change(model):
        target = model
        *steps, last = path.split(".")
        for step in steps:
            target = target[int(step)] if step.isdigit() else getattr(target, step)
        if last.isdigit():
            target[int(last)] = value
        else:
            setattr(target, last, value)

    return change


FAULTS = {
    "no subgraph": ("subgraphs", [], "no subgraph"),
    "op code": ("subgraphs.0.operators.0.opcodeIndex", 3, "operator code 3, the file has 1"),
    "input": ("subgraphs.0.operators.0.inputs.0", 9, "tensor 9 of its inputs doesn't exist"),
    "input -2": ("subgraphs.0.operators.0.inputs.0", -2, "tensor -2 of its inputs"),
    "output": ("subgraphs.0.operators.0.outputs.0", 3, "tensor 3 of its outputs doesn't exist"),
    "output -1": ("subgraphs.0.operators.0.outputs.0", -1, "tensor -1 of its outputs"),
    "graph input": ("subgraphs.0.inputs.0", -1, "tensor -1 of its inputs doesn't exist"),
    "graph output": ("subgraphs.0.outputs.0", 77, "tensor 77 of its outputs doesn't exist"),
    "buffer": ("subgraphs.0.tensors.1.buffer", 2, "its buffer 2 doesn't exist: the file has 2"),
    "type": ("subgraphs.0.tensors.0.type", 99, "tensor type 99 is unknown"),
    "shape": ("subgraphs.0.tensors.0.shape", [1, -4], "negative extent"),
    "signature": ("subgraphs.0.tensors.0.shapeSignature", [1, 2], "differ in rank"),
    "signature -2": ("subgraphs.0.tensors.0.shapeSignature", [-2, 4, 5, 3], "is impossible"),
    "no producer": ("subgraphs.0.tensors.1.buffer", 0, "tensor #1 (`t1`) has no content"),
    "writes an input": ("subgraphs.0.operators.0.outputs.0", 0, "writes tensor #0 (`x`)"),
    "unmade output": ("subgraphs.0.operators", [], "tensor #2 (`t2`) has no content"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_named_with_its_place(fault):
    path, value, words = FAULTS[fault]
    with pytest.raises(InvalidModelError) as caught:
        wire.read(changed_model(set_field(path, value)), "m.tflite")
    assert words in str(caught.value)
    assert str(caught.value).startswith("m.tflite: ")
    assert fault == "no subgraph" or caught.value.where.startswith("subgraph 0")


def test_operator_that_reads_what_a_later_one_makes():
    b = TfliteBuilder()
    x = b.input("x", "float32", (2,))
    late = b.tensor("float32", (2,))
    b.output(b.op("ADD", [x, late], [("float32", (2,))]))
    b.op("RELU", [x], [late])
    with pytest.raises(InvalidModelError, match=r"op #0 \(ADD\): tensor #1 .* when it is read"):
        wire.read(b.build())


def test_two_operators_that_make_one_tensor():
    b = TfliteBuilder()
    x = b.input("x", "float32", (2,))
    y = b.op("RELU", [x], [("float32", (2,))])
    b.op("RELU", [x], [y])
    with pytest.raises(InvalidModelError, match=r"op #1 \(RELU\): it writes tensor #1"):
        wire.read(b.build())


def test_variables_empty_tensors_and_scratch_of_custom_ops_need_no_producer():
    b = TfliteBuilder()
    x = b.input("x", "float32", (2,))
    b.op("SVDF", [x, b.variable("float32", (2,))], [("float32", (2,))])
    b.op("RESHAPE", [x, b.tensor("int32", (0,))], [("float32", (2,))])
    b.op("Scratchy", [x, b.tensor("float32", (4,))], [("float32", (2,))])
    assert len(wire.read(b.build()).subgraphs[0].operators) == 3


SIGNATURE_FAULTS = {
    "subgraph": ("signatureDefs.0.subgraphIndex", 5, "subgraph 5 doesn't exist: the file has 1"),
    "input": ("signatureDefs.0.inputs.0.tensorIndex", 40, "`a` is tensor 40, which doesn't exist"),
    "output": ("signatureDefs.0.outputs.0.tensorIndex", 3, "`b` is tensor 3, which doesn't exist"),
}


@pytest.mark.parametrize("fault", SIGNATURE_FAULTS)
def test_signatures_name_what_exists(fault):
    path, value, words = SIGNATURE_FAULTS[fault]
    with pytest.raises(InvalidModelError, match=words) as caught:
        wire.read(changed_model(set_field(path, value)))
    assert caught.value.where == "signature `main`"


def test_metadata_names_a_buffer_that_exists():
    b = conv_model()
    b.metadata("note", b"x")
    model = b.to_object()
    model.metadata[0].buffer = 9
    with pytest.raises(InvalidModelError, match="buffer 9 doesn't exist"):
        wire.read(pack(model))


class TestCalls:
    def build(self, cond=1, body=2):
        b = TfliteBuilder()
        x = b.input("x", "float32", (2,))
        for dtype in ("bool", "float32"):
            graph = b.subgraph()
            z = graph.input("z", "float32", (2,))
            graph.output(graph.op("CAST", [z], [(dtype, (2,))]))
        options = {"cond_subgraph_index": cond, "body_subgraph_index": body}
        b.output(b.op("WHILE", [x], [("float32", (2,))], options=options))
        return b.build()

    def test_fine(self):
        (op,) = wire.read(self.build()).subgraphs[0].operators
        assert op.calls == (1, 2)

    def test_missing_subgraph(self):
        with pytest.raises(
            InvalidModelError, match=r"\(WHILE\): it runs subgraph 3, which doesn't"
        ):
            wire.read(self.build(body=3))

    def test_negative_subgraph(self):
        with pytest.raises(InvalidModelError, match="runs subgraph -1"):
            wire.read(self.build(cond=-1))

    def test_subgraph_that_runs_itself(self):
        with pytest.raises(InvalidModelError, match="subgraph 0: it runs itself"):
            wire.read(self.build(body=0))

    def test_circle_of_two(self):
        b = TfliteBuilder()
        b.output(b.input("x", "float32", (2,)))
        first, second = b.subgraph(), b.subgraph()
        for caller, callee in ((first, 2), (second, 1)):
            z = caller.input("z", "float32", (2,))
            options = {"subgraph": callee}
            caller.output(caller.op("CALL", [z], [("float32", (2,))], options=options))
        with pytest.raises(InvalidModelError, match="subgraph 1: it runs itself"):
            wire.read(b.build())
