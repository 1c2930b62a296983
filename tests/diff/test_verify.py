"""Source and result are run and compared; a runtime that fails is told of, and harms nobody."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from nnconv.cli import main
from onnx import helper

import nnconv
from nnconv.diff import verify, worker
from nnconv.errors import BackendError, ExitCode
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature, State
from nnconv.ops.elementwise import Add, Mul
from support.tflite_builder import TfliteBuilder, flexbuffer


def network(scale=2.0, *, quantized=False):
    """A one-layer net of dynamic batch; ``scale`` goes into the weights."""
    b = TfliteBuilder()
    if quantized:
        x = b.input("x", "int8", (1, 3), quant=(0.5, -3), signature=(-1, 3))
        y = b.op("RELU", [x], [("int8", (1, 3), (0.5 * scale, 4), "y")])
    else:
        x = b.input("x", "float32", (1, 3), signature=(-1, 3))
        weights = b.const(scale * np.eye(3, dtype=np.float32))
        y = b.op("FULLY_CONNECTED", [x, weights, None], [("float32", (1, 3), None, "y")])
    b.output(y)
    return b.build()


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.tflite"
    path.write_bytes(network())
    return path


def converted(source, **options):
    """A conversion's report and source model, to be verified by hand."""
    target = source.with_suffix(".onnx")
    report = nnconv.convert(source, target, **options)
    return report, nnconv.load(source)


@pytest.mark.parametrize("quantized", [False, True])
def test_conversion_that_is_right_passes(tmp_path, quantized):
    path = tmp_path / "a.tflite"
    path.write_bytes(network(quantized=quantized))
    report = nnconv.convert(path, tmp_path / "a.onnx", verify=True, seed=4)
    found = report.verification
    assert report.verified is found.passed is True
    assert (found.source_device, found.result_device) == ("litert:cpu", "onnxruntime:cpu")
    # The batch is open, so a second one is tried, on inputs of its own.
    assert (found.seeds, found.runs) == ([4, 5], 2)
    (check,) = found.outputs
    assert (check.name, check.tolerance_kind) == ("y", "steps" if quantized else "relative")
    assert (check.steps is None) == (not quantized)
    assert json.loads(json.dumps(report.as_dict()))["verification"]["outputs"][0]["passed"] is True


@pytest.mark.parametrize("quantized", [False, True])
def test_result_that_differs_fails(tmp_path, quantized):
    right, wrong = tmp_path / "a.tflite", tmp_path / "b.tflite"
    right.write_bytes(network(quantized=quantized))
    wrong.write_bytes(network(2.5, quantized=quantized))
    report, model = converted(right)
    nnconv.convert(wrong, report.target)
    found = verify.verify_conversion(report, model)
    assert not found.passed
    assert found.title.startswith("DIFFERS")
    assert found.rows()[0][-1] == "DIFFERS"
    assert found.outputs[0].max_abs > found.outputs[0].tolerance


def test_result_of_another_form_fails(source, tmp_path):
    report, model = converted(source)
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 3), signature=(-1, 3))
    shape = b.const(np.array([-1], np.int32))
    b.output(b.op("RESHAPE", [x, shape], [("float32", (3,))], options={"new_shape": [-1]}))
    other = tmp_path / "other.tflite"
    other.write_bytes(b.build())
    nnconv.convert(other, report.target)
    (check,) = verify.verify_conversion(report, model).outputs
    assert check.wrong_form == "float32[3], expected float32[1, 3]"
    assert check.row()[1:] == (check.wrong_form, "", "", "DIFFERS")


def test_moved_interface_is_compared_in_the_same_order(tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 4, 5, 3))
    weights = np.random.default_rng(0).standard_normal((2, 3, 3, 3)).astype(np.float32)
    bias = b.const(np.zeros(2, np.float32))
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
    b.output(
        b.op("CONV_2D", [x, b.const(weights), bias], [("float32", (1, 4, 5, 2))], options=options)
    )
    path = tmp_path / "conv.tflite"
    path.write_bytes(b.build())
    report = nnconv.convert(path, tmp_path / "conv.onnx", io_layout="nchw", verify=True)
    assert report.inputs[0][2] == [1, 3, 4, 5]
    assert report.verified


def test_source_that_litert_lacks_a_kernel_for_goes_to_the_reference(source, monkeypatch):
    report, model = converted(source)
    odd = source.with_name("odd.tflite")
    b = TfliteBuilder()
    b.output(b.op("Mystery", [b.input("x", "float32", (1, 3))], [("float32", (1, 3))]))
    odd.write_bytes(b.build())
    start = verify.Jobs.start

    def start_odd(jobs, path, device, rounds, **options):
        return start(jobs, odd if device == "litert:cpu" else path, device, rounds, **options)

    monkeypatch.setattr(verify.Jobs, "start", start_odd)
    found = verify.verify_conversion(report, model)
    assert found.passed
    assert found.source_device == "reference"
    assert "litert:cpu can't run the source" in found.notes[0]
    assert "reference" in found.title


def test_outputs_of_nothing_but_nan_are_not_compared(tmp_path):
    """Of a batch of one some norms give nothing else; the next batch tells."""
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 3), signature=(-1, 3))
    less = b.op("SUB", [x, x], [("float32", (1, 3))])
    b.output(b.op("DIV", [less, less], [("float32", (1, 3), None, "y")]))
    path = tmp_path / "a.tflite"
    path.write_bytes(b.build())
    report = nnconv.convert(path, tmp_path / "a.onnx", verify=True)
    assert report.verified
    assert report.verification.outputs == []
    assert report.verification.notes == ["the source gives nothing but nan in y: not compared"]


def run_code(monkeypatch, code):
    """Let workers run ``code`` in place of the worker."""
    popen = subprocess.Popen

    def start(command, **options):
        return popen([sys.executable, "-c", code, command[-1]], **options)

    monkeypatch.setattr(
        worker, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": start})
    )


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import os; os.abort()", "crashed (SIGABRT)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed (SIGSEGV)"),
        ("import sys; sys.exit('no good')", "ended its process with code 1: no good"),
        ("import os; os._exit(0)", "ended its process with code 0"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="deaths have other names there")
def test_runtime_that_crashes_is_a_backend_error(source, monkeypatch, code, text):
    report, model = converted(source)
    run_code(monkeypatch, code)
    with pytest.raises(BackendError) as caught:
        verify.verify_conversion(report, model)
    assert text in str(caught.value)
    assert "is written" in caught.value.hint


def test_runtime_that_hangs_is_ended(source, monkeypatch):
    report, model = converted(source)
    run_code(monkeypatch, "import time; time.sleep(600)")
    with pytest.raises(BackendError, match="didn't finish in time"):
        verify.verify_conversion(report, model, timeout=0.3)


def test_result_that_can_not_run_is_a_backend_error(source):
    report, model = converted(source)
    Path(report.target).write_bytes(b"no model")
    with pytest.raises(BackendError, match="can't be verified"):
        verify.verify_conversion(report, model)


def test_command_exits_1_and_says_where_results_differ(source, monkeypatch, capsys):
    target = source.with_suffix(".onnx")
    other = source.with_name("b.tflite")
    other.write_bytes(network(2.5))
    check = verify.verify_conversion

    def tampered(report, model, **options):
        nnconv.convert(other, report.target)
        return check(report, model, **options)

    monkeypatch.setattr(verify, "verify_conversion", tampered)
    assert main(["convert", str(source), str(target), "--verify"]) == ExitCode.DIFFERS
    shown = capsys.readouterr().out
    assert "DIFFERS: onnxruntime:cpu on the result against litert:cpu on the source" in shown
    assert "float: sums are taken in another order" in shown


def test_model_that_crashes_litert_is_converted_and_reported(shared_dir, tmp_path):
    found = sorted(shared_dir.rglob("keyword_scrambled_8bit.tflite"))
    if not found:
        pytest.skip("the model isn't there")
    target = tmp_path / "k.onnx"
    with pytest.raises(BackendError, match="litert:cpu crashed"):
        nnconv.convert(found[0], target, verify=True)
    assert target.exists()


@pytest.mark.parametrize("regular", [False, True])
def test_what_lies_behind_the_detections_is_no_spread(tmp_path, regular):
    """LiteRT leaves old memory there, which would allow any difference."""
    options = {
        "max_detections": 6,
        "max_classes_per_detection": 1,
        "detections_per_class": 5,
        "use_regular_nms": regular,
        "nms_score_threshold": 1.5,
        "nms_iou_threshold": 0.5,
        "num_classes": 4,
        **dict.fromkeys(("y_scale", "x_scale", "h_scale", "w_scale"), 5.0),
    }
    b = TfliteBuilder()
    x = b.input("boxes", "float32", (1, 30, 4))
    s = b.input("scores", "float32", (1, 30, 5))
    anchors = np.random.default_rng(0).random((30, 4)) + 0.5
    results = [("float32", shape) for shape in ((1, 6, 4), (1, 6), (1, 6), (1,))]
    b.output(
        *b.op(
            "TFLite_Detection_PostProcess",
            [x, s, b.const(anchors.astype(np.float32))],
            results,
            custom_options=flexbuffer(options),
        )
    )
    path = tmp_path / "a.tflite"
    path.write_bytes(b.build())
    report = nnconv.convert(path, tmp_path / "a.onnx", verify=True, seed=1)
    assert report.verified
    assert all(check.spread <= 1e-3 for check in report.verification.outputs)


def _drawing(shape):
    draw = helper.make_node("RandomNormal", [], ["drawn"], shape=shape)
    nodes = [
        draw,
        helper.make_node("Add", ["drawn", "x"], ["moved"]),
        helper.make_node("Greater", ["drawn", "x"], ["greater"]),
        helper.make_node("NonZero", ["greater"], ["places"]),
        helper.make_node("Neg", ["x"], ["y"]),
    ]
    x, moved, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
        for name, dims in (("x", [9]), ("moved", shape), ("y", [9]))
    )
    places = helper.make_tensor_value_info("places", onnx.TensorProto.INT64, [len(shape), None])
    graph = helper.make_graph(nodes, "g", [x], [moved, places, y])
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def test_what_depends_on_random_numbers_is_held_to_its_form(tmp_path):
    source, other = tmp_path / "x.onnx", tmp_path / "other.onnx"
    onnx.save(_drawing([2, 9]), source)
    onnx.save(_drawing([3, 9]), other)
    report = nnconv.convert(source, tmp_path / "x.tflite", verify=True)
    assert report.verified
    kinds = [check.tolerance_kind for check in report.verification.outputs]
    assert kinds == ["form", "form", "relative"]
    assert "depends on random numbers" in report.verification.rows()[0][3]
    model = nnconv.load(source)
    nnconv.convert(other, report.target)
    checks = verify.verify_conversion(report, model).outputs
    assert [check.passed for check in checks] == [False, True, True]
    assert checks[0].wrong_form == "float32[3, 9], expected float32[2, 9]"


@pytest.mark.parametrize("shape", [(2, 3), ()], ids=str)
@pytest.mark.parametrize("suffix", ["nnapi", "nnrt", "onnx"])
def test_states_that_became_inputs_are_handed_on(tmp_path, suffix, shape):
    graph = Graph("net")
    b = Builder(graph)
    x, state = (b.input(name, DType.FLOAT32, shape) for name in ("x", "state"))
    total = b.add(Add(), [x, state], name="total")
    graph.outputs = [b.add(Mul(), [total, x], name="y"), total]
    states = (State(state, total, np.full(shape, 0.5, np.float32), "state"),)
    path = tmp_path / "m.tflite"
    nnconv.save(Model([Signature("", graph, ("x",), ("y",), states)]), path)
    report = nnconv.convert(path, tmp_path / f"m.{suffix}", verify=True)
    assert report.verified
    assert report.verification.runs > 1


@pytest.mark.parametrize("suffix", ["nnapi", "nnrt", "onnx", "tflite"])
def test_ends_without_dimensions_are_compared_as_written(tmp_path, suffix):
    graph = Graph("net")
    b = Builder(graph)
    x, y = (b.input(name, DType.FLOAT32, ()) for name in ("x", "y"))
    graph.outputs = [b.add(Add(), [x, y], name="sum"), b.add(Mul(), [x, y], name="product")]
    path = tmp_path / "m.onnx"
    nnconv.save(Model([Signature("", graph, ("x", "y"), ("sum", "product"))]), path)
    report = nnconv.convert(path, tmp_path / f"written.{suffix}", verify=True)
    assert report.verified
    assert len(report.verification.outputs) == 2
    for end, value in zip(report.outputs, nnconv.load(report.target).outputs, strict=True):
        assert tuple(end[2]) == value.shape


def test_open_extents_are_tried_longer_too(tmp_path):
    kinds = [("x", ["n", 3, "w"]), ("y", ["n", 3, "v"])]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, dims) for n, dims in kinds)
    nodes = [helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[4])]
    graph = helper.make_graph(nodes, "g", [x], [y])
    opsets = [helper.make_opsetid("", 21)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    found = nnconv.convert(path, tmp_path / "m.nnapi", verify=True, seed=5).verification
    assert found.passed
    assert (found.seeds, found.runs) == ([7], 1)
    assert [note.split(":")[0] for note in found.notes] == [
        "with other extents the source itself fails"
    ] * 2


def test_weights_that_litert_reads_beside_floats_are_allowed_its_rounding_on_the_way_back(tmp_path):
    rng = np.random.default_rng(0)
    b = TfliteBuilder()
    codes = rng.integers(-127, 128, (64, 128), np.int8)
    x = b.input("x", "float32", (4, 128))
    weights = b.const(codes, quant=([0.01], [0]))
    y = b.op("FULLY_CONNECTED", [x, weights, None], [("float32", (4, 64))])
    b.output(b.op("ABS", [y], [("float32", (4, 64))]))
    source, there, back = (tmp_path / name for name in ("a.tflite", "a.onnx", "b.tflite"))
    source.write_bytes(b.build())
    nnconv.convert(source, there)
    verification = nnconv.convert(there, back, verify=True).verification
    assert verification.passed
    assert verification.outputs[0].max_abs > 0
    assert "rounds the activations" in verification.outputs[0].why
    again = nnconv.convert(there, tmp_path / "b.nnapi", verify=True).verification
    assert "rounds the activations" not in again.outputs[0].why


def with_a_past(tmp_path, length):
    """Steps now behind those of before, times a mask whose length is a sum: how it is named."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["all"], axis=1),
        helper.make_node("Mul", ["all", "mask"], ["y"]),
    ]
    shapes = {"x": ["b", "now"], "past": ["b", "before"], "mask": ["b", length], "y": ["b", "all"]}
    infos = {
        name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
        for name, dims in shapes.items()
    }
    graph = helper.make_graph(nodes, "g", [infos[n] for n in ("x", "past", "mask")], [infos["y"]])
    path = tmp_path / "past.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_extents_that_are_named_as_sums_fit_together(tmp_path):
    source = with_a_past(tmp_path, "before + now")
    found = nnconv.convert(source, tmp_path / "past.tflite", verify=True).verification
    assert found.passed
    assert found.runs == 3
    assert found.notes == []


def test_extents_that_do_not_fit_together_can_be_given(tmp_path):
    source, target = with_a_past(tmp_path, 5), tmp_path / "past.tflite"
    with pytest.raises(BackendError, match=r"the shape of `x`, `past`, `mask` \(--input-shape"):
        nnconv.convert(source, target, verify=True)
    shapes = {"x": (1, 2), "past": (1, 3), "mask": (1, 5)}
    assert nnconv.convert(source, target, verify=True, input_shapes=shapes).verified


@pytest.mark.parametrize(
    ("name", "through", "options", "suffixes"),
    [
        ("int8", "nnapi", {"feature_level": 3}, ("onnx", "tflite")),
        ("int16x8", "nnrt", {}, ("tflite",)),
    ],
)
def test_integers_that_stand_for_codes_are_given_their_steps(
    fixtures_dir, tmp_path, name, through, options, suffixes
):
    """Formats that lack the codes' type have integers in their place, without a scale."""
    between = tmp_path / f"m.{through}"
    nnconv.convert(fixtures_dir / "digits" / f"digits_{name}.tflite", between, **options)
    for suffix in suffixes:
        found = nnconv.convert(between, tmp_path / f"m.{suffix}", verify=True).verification
        (check,) = found.outputs
        assert check.passed
        assert 0 < check.max_abs <= check.tolerance < 10
        assert "that real numbers were rounded to" in check.why
