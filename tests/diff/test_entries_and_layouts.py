"""nnconv diff: which entry points are compared, and images whose layout was moved."""

import numpy as np
import pytest
from nnconv.cli import main

import nnconv
from nnconv.diff.layouts import layout_between, relaid, was_moved
from nnconv.diff.models import diff_models
from nnconv.errors import ExitCode, UsageError
from support.tflite_builder import TfliteBuilder

RNG = np.random.default_rng(5)
KEYS = ("serve", "train/step")


@pytest.fixture
def entries(tmp_path):
    """A file of two entry points, which take their inputs the other way round from each other."""
    b = TfliteBuilder()
    for s, key, op in ((b, KEYS[0], "NEG"), (b.subgraph("second"), KEYS[1], "ABS")):
        x, z = s.input("x:0", "float32", (2,)), s.input("z:0", "float32", (2,))
        first, second = (x, z) if key == KEYS[0] else (z, x)
        turned = s.op(op, [first], [("float32", (2,))])
        y = s.op("SUB", [turned, second], [("float32", (2,), None, "y:0")])
        s.output(y)
        b.signature(key, {"first": first, "second": second}, {"score": y})
    path = tmp_path / "two.tflite"
    path.write_bytes(b.build())
    return path


@pytest.mark.parametrize("suffix", ["onnx", "nnapi"])
@pytest.mark.parametrize("key", KEYS)
def test_entry_points_are_compared_by_their_key(entries, tmp_path, key, suffix):
    """A file with one entry point, whether or not it keeps the key, is taken as it is."""
    alone = tmp_path / f"one.{suffix}"
    nnconv.convert(entries, alone, signature=key)
    other = next(k for k in KEYS if k != key)
    for a, b in ((entries, alone), (alone, entries)):
        assert diff_models(a, b, signature=key).passed
        assert not diff_models(a, b, signature=other).passed
        assert diff_models(a, b).passed == (key == KEYS[0])


@pytest.mark.parametrize("devices", ["litert:cpu", "onnxruntime:cpu", "onnxruntime:cpu,reference"])
def test_the_entry_points_of_both_files_are_chosen(entries, devices):
    found = diff_models(entries, entries, signature=KEYS[1], device_a=devices, device_b="reference")
    assert found.passed
    assert not found.notes


def test_entry_points_of_other_names_are_told(entries, tmp_path):
    alone = tmp_path / "one.onnx"
    nnconv.convert(entries, alone, signature=KEYS[1])
    (note,) = diff_models(entries, alone).notes
    assert note == "the entry point 'serve' of the first is compared with 'train/step'"


def test_inputs_and_shapes_go_by_the_chosen_entry_points_names(tmp_path):
    b = TfliteBuilder()
    for s, key, name in ((b, "first", "x"), (b.subgraph("second"), "second", "z")):
        x = s.input(name, "float32", (1, 3), signature=(-1, 3))
        y = s.op("ABS", [x], [("float32", (1, 3), None, "y")])
        s.output(y)
        b.signature(key, {f"{name}_in": x}, {"y_out": y})
    path, alone = tmp_path / "m.tflite", tmp_path / "m.onnx"
    path.write_bytes(b.build())
    nnconv.convert(path, alone, signature="second")
    for name in ("z", "z_in"):
        given = {name: np.ones((4, 3), np.float32)}
        assert diff_models(path, alone, signature="second", inputs=given).runs == 1
        found = diff_models(path, alone, signature="second", input_shapes={name: (4, 3)})
        assert (found.passed, found.runs) == (True, 1)
        with pytest.raises(UsageError, match=f"no input {name}; inputs are x"):
            diff_models(path, path, inputs=given)
    np.save(tmp_path / "z.npy", np.ones((4, 3), np.float32))
    words = ["diff", str(path), str(alone), "--input", f"z_in={tmp_path / 'z.npy'}"]
    assert main([*words, "--signature", "second"]) == ExitCode.OK
    assert main([*words, "--signature", "first"]) == ExitCode.USAGE


def test_a_key_that_neither_file_has_is_told_as_convert_tells_it(entries, tmp_path, capsys):
    alone, plain = tmp_path / "one.onnx", tmp_path / "plain.nnapi"
    nnconv.convert(entries, alone)
    nnconv.convert(entries, plain)
    assert main(["convert", str(entries), str(tmp_path / "o.onnx"), "--signature", "no"]) == 2
    said = capsys.readouterr().err
    assert said == "error: no signature 'no'; the model has 'serve', 'train/step'\n"
    assert main(["diff", str(entries), str(alone), "--signature", "no"]) == ExitCode.USAGE
    assert capsys.readouterr().err == said
    for files in ((alone, alone), (plain, alone), (alone, plain)):
        with pytest.raises(UsageError, match=r"no signature 'no'; the model has 'serve'$"):
            diff_models(*files, signature="no")
    with pytest.raises(UsageError, match="signature is 3, must be a string or None"):
        diff_models(alone, alone, signature=3)


# ---------------------------------------------------------------- layouts


def convolved(path, extents=(2, 4, 5, 3), filters=6, *, open_batch=False):
    """A convolution of images, and what is summed of them besides; x and y are images."""
    b = TfliteBuilder()
    signature = (-1, *extents[1:]) if open_batch else None
    x = b.input("x", "float32", extents, signature=signature)
    scale = b.input("scale", "float32", (1, filters))
    weights = b.const(RNG.standard_normal((filters, 3, 3, extents[3])).astype(np.float32))
    shape = (*extents[:3], filters)
    bias = b.const(np.zeros(filters, np.float32))
    options = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
    y = b.op("CONV_2D", [x, weights, bias], [("float32", shape)], options=options)
    y = b.op("MUL", [y, scale], [("float32", shape, None, "y")])
    mean = b.op(
        "MEAN",
        [y, b.const(np.array([1, 2], np.int32))],
        [("float32", (extents[0], filters), None, "mean")],
    )
    b.output(y, mean)
    path.write_bytes(b.build())
    return path


@pytest.mark.parametrize(
    ("extents", "filters"),
    [((2, 4, 5, 3), 6), ((1, 4, 4, 4), 4), ((1, 4, 4, 4), 3)],
    ids=["shapes tell", "shapes are the same in both", "the output's tells"],
)
def test_images_that_were_moved_are_compared(tmp_path, extents, filters):
    a, b = convolved(tmp_path / "a.tflite", extents, filters), tmp_path / "b.onnx"
    report = nnconv.convert(a, b, io_layout="nchw")
    assert report.moved_io == ["x", "y"]
    for files, layout in (((a, b), "nchw"), ((b, a), "nhwc")):
        found = diff_models(*files, io_layout=layout)
        assert found.passed
        assert [check.name for check in found.outputs] == ["y", "mean"]
    if len({*extents[1:], filters}) == 1:  # which would run as it is
        assert not diff_models(a, b).passed


@pytest.mark.parametrize("suffix", ["tflite", "nnapi", "nnrt"])
def test_images_moved_to_the_other_formats_layout(tmp_path, suffix):
    first, a = convolved(tmp_path / "first.tflite"), tmp_path / "a.onnx"
    b = tmp_path / f"b.{suffix}"
    nnconv.convert(first, a, io_layout="nchw")
    assert nnconv.convert(a, b, io_layout="nhwc").moved_io == ["x", "y"]
    assert diff_models(a, b, io_layout="nhwc").passed
    assert diff_models(first, b).passed  # whose layout is the same again


def test_given_images_and_shapes_are_moved(tmp_path):
    a, b = convolved(tmp_path / "a.tflite", open_batch=True), tmp_path / "b.onnx"
    nnconv.convert(a, b, io_layout="nchw")
    assert diff_models(a, b, io_layout="nchw").runs == 2  # two batches
    images = RNG.standard_normal((3, 4, 5, 3)).astype(np.float32)
    found = diff_models(a, b, io_layout="nchw", inputs={"x": images})
    assert (found.passed, found.runs) == (True, 1)
    found = diff_models(a, b, io_layout="nchw", input_shapes={"x": (3, 4, 5, 3)})
    assert (found.passed, found.runs) == (True, 1)
    with pytest.raises(UsageError, match="'x' has shape"):
        diff_models(a, b, io_layout="nchw", inputs={"x": images[0, 0]})


def test_a_layout_that_was_not_named_is_hinted_at(tmp_path, capsys):
    a, b = convolved(tmp_path / "a.tflite"), tmp_path / "b.onnx"
    nnconv.convert(a, b, io_layout="nchw")
    for files, layout in (((a, b), "nchw"), ((b, a), "nhwc")):
        words = ["diff", *map(str, files)]
        assert main(words) == ExitCode.USAGE
        assert f"they are compared with io-layout {layout}.\n" in capsys.readouterr().err
        assert main([*words, "--io-layout", layout]) == ExitCode.OK
        capsys.readouterr()
    with pytest.raises(UsageError, match="io_layout 'nwhc'; allowed are keep, nhwc, nchw"):
        diff_models(a, b, io_layout="nwhc")
    with pytest.raises(UsageError, match="io_layout is None, must be a string"):
        diff_models(a, b, io_layout=None)


def test_an_output_of_another_layout_is_hinted_at(tmp_path):
    files = []
    for name, perm in (("a", (0, 1, 2, 3)), ("b", (0, 3, 1, 2))):
        b = TfliteBuilder()
        x = b.input("x", "float32", (2, 60))
        y = b.op("RESHAPE", [x, b.const(np.int32([2, 4, 5, 3]))], [("float32", (2, 4, 5, 3))])
        shape = tuple((2, 4, 5, 3)[i] for i in perm)
        out = [("float32", shape, None, "y")]
        b.output(b.op("TRANSPOSE", [y, b.const(np.int32(perm))], out))
        files.append(tmp_path / f"{name}.tflite")
        files[-1].write_bytes(b.build())
    found = diff_models(*files)
    assert not found.passed
    assert "compared with io-layout nchw" in found.notes[0]
    assert diff_models(*files, io_layout="nchw").passed
    assert diff_models(*reversed(files), io_layout="nhwc").passed


@pytest.mark.parametrize(
    ("before", "after", "layout"),
    [
        ((2, 4, 5, 3), (2, 3, 4, 5), "nchw"),
        ((2, 3, 4, 5), (2, 4, 5, 3), "nhwc"),
        ((2, 4, 5, 6, 3), (2, 3, 4, 5, 6), "nchw"),
        ((None, None, None, 3), ("n", 3, "h", "w"), "nchw"),
    ],
)
def test_shapes_tell_what_was_moved(before, after, layout):
    assert was_moved(layout, (before, after))
    assert not was_moved(layout, (before, before))
    numbers = tuple(d if isinstance(d, int) else 7 for d in before)
    moved = relaid(np.empty(numbers), layout)
    assert all(not isinstance(d, int) or d == n for d, n in zip(after, moved.shape, strict=True))
    if None not in before:
        assert layout_between(before, after) == layout
        other = next(name for name in ("nhwc", "nchw") if name != layout)
        assert not was_moved(other, (before, after))
    assert layout_between(before, before) == ""


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3, 2)), (None, (2, 3, 4, 5)), ((2, 4, 5, 3), None), ((1, 2, 3, 4), (5,))]
)
def test_what_is_no_image_was_not_moved(shapes):
    assert not was_moved("nchw", shapes)
    assert layout_between(*shapes) == ""


def test_a_later_pair_of_shapes_tells_where_the_first_leaves_it_open():
    square = ((1, 3, 3, 3), (1, 3, 3, 3))
    assert was_moved("nchw", square)
    assert not was_moved("nchw", square, ((1, None, None, 3), (1, None, None, 3)))
    assert was_moved("nchw", square, ((1, None, None, 3), (1, 3, None, None)))
