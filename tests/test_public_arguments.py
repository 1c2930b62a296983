"""Arguments of the public functions that are of the wrong kind: each is told as what it is."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.errors import BackendError, NnconvError, UsageError
from support.tflite_builder import TfliteBuilder


@pytest.fixture
def source(tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 3))
    b.output(b.op("NEG", [x], [("float32", (2, 3))]))
    path = tmp_path / "a.tflite"
    path.write_bytes(b.build())
    return path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("opset", "21"),
        ("opset", 21.0),
        ("opset", True),
        ("io_layout", 5),
        ("int8", None),
        ("signature", 5),
        ("input_shapes", [2, 3]),
        ("input_shapes", {"x": 5}),
        ("input_shapes", {"x": "23"}),
        ("input_shapes", {"x": (2.0, 3)}),
        ("input_shapes", {"x": (True, 3)}),
        ("input_shapes", {"x": (-1, 3)}),
        ("input_shapes", {5: (2, 3)}),
    ],
)
def test_a_wrong_option_is_named(name, value, source):
    target = source.with_suffix(".onnx")
    with pytest.raises(UsageError, match=name):
        nnconv.convert(source, target, **{name: value})
    assert not target.exists()


ANYTHING = [
    None, True, 5, -1, 10**30, 5.0, float("nan"), "", "no such thing", "a\0b", "\ud800", b"", b"x",
    bytearray(b"x"), [], ["x"], (1, 2), {}, {5: 5}, {"x": 5}, {"x": "23"}, object(), len, int,
    np.zeros(2), np.array("x"), Path("no such thing"),
]  # fmt: skip

FITTING = {
    "model": (str, Path),
    "path": (str, Path),
    "src": (str, Path),
    "dst": (str, Path),
    "verify": (bool,),
    "seed": (int,),
    "threads": (int,),
    "opset": (int, type(None)),
    "feature_level": (int, type(None)),
    "api": (int, type(None)),
    "input_shapes": (dict, type(None)),
    "format": (str, type(None)),
    "source_format": (str, type(None)),
    "target_format": (str, type(None)),
    "signature": (str, type(None)),
}
"""The types that an argument may have; all others are strings."""

OPTIONS = {
    "reference": ("signature", "input_shapes"),
    "onnxruntime:cpu": ("signature", "input_shapes", "threads"),
    "litert:cpu": ("signature", "input_shapes", "threads", "resolver"),
}


def _calls():
    """Each argument of each public function: function, what to give besides, its name."""
    for name in nnconv.__all__:
        function = getattr(nnconv, name)
        if not inspect.isfunction(function):
            continue
        kinds = inspect.signature(function).parameters.items()
        for argument in [n for n, p in kinds if p.kind is not p.VAR_KEYWORD]:
            yield pytest.param(function, {}, argument, id=f"{name} {argument}")
        if any(p.kind is p.VAR_KEYWORD for _, p in kinds):
            for device, options in OPTIONS.items():
                for option in options:
                    yield pytest.param(
                        function, {"device": device}, option, id=f"{name} {device} {option}"
                    )


@pytest.mark.parametrize(("function", "besides", "name"), list(_calls()))
def test_arguments_of_wrong_kinds_are_usage_errors(function, besides, name, source, tmp_path):
    """Whatever is given where something else belongs: never another error, and nothing is done."""
    target = tmp_path / "b.onnx"
    whole = {
        nnconv.load: {"path": source},
        nnconv.save: {"model": nnconv.load(source), "path": target},
        nnconv.convert: {"src": source, "dst": target},
        nnconv.compile: {"model": source, "device": "reference"},
        nnconv.check: {"model": source, "to": "onnx"},
    }
    told = 0
    for value in ANYTHING:
        fits = type(value) in FITTING.get(name, (str,)) or (
            isinstance(value, Path) and Path in FITTING.get(name, ())
        )
        arguments = {**whole[function], **besides, name: value}
        try:
            function(**arguments)
        except UsageError:
            told += 1
        except NnconvError:
            assert fits, value  # such as a file that isn't there
        else:
            assert fits, value
            target.unlink(missing_ok=True)
        assert not target.exists()
    assert told >= len(ANYTHING) - 10


@pytest.mark.parametrize("value", [value for value in ANYTHING if value is not None])
def test_feeds_of_wrong_kinds_are_usage_errors(value, source):
    executable = nnconv.compile(source, "reference")
    for feeds in (value, {"x": value}):
        with pytest.raises(UsageError):
            executable.run(feeds)


def test_a_folder_is_no_file_to_write(source, tmp_path):
    folder = tmp_path / "folder.onnx"
    folder.mkdir()
    for write in (
        lambda: nnconv.save(nnconv.load(source), folder),
        lambda: nnconv.convert(source, folder),
    ):
        with pytest.raises(UsageError, match="it is a folder"):
            write()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "shape", [(4, 3), [4, 3], np.array([4, 3]), (np.int64(4), 3), (None, 3), ("n", 3)]
)
def test_shapes_may_be_any_sequence(shape, source):
    report = nnconv.convert(source, source.with_suffix(".onnx"), input_shapes={"x": shape})
    (_, _, (first, second)) = report.inputs[0]
    assert second == 3
    assert first == 4 or not isinstance(first, int)


@pytest.mark.parametrize("model", [None, 5, "a.tflite", b""])
def test_only_models_are_saved(model, tmp_path):
    with pytest.raises(UsageError, match="must be a Model"):
        nnconv.save(model, tmp_path / "a.onnx")


@pytest.mark.parametrize("device", ["onnxruntime:cpu", "litert:cpu"])
@pytest.mark.parametrize("threads", [-1, 1025, 10**9, 1.0, "1", True])
def test_threads_are_a_count_within_reason(device, threads, source):
    with pytest.raises(UsageError, match="threads is"):
        nnconv.compile(source, device, threads=threads)


@pytest.mark.parametrize("feeds", [None, [np.zeros((2, 3), np.float32)], "x"])
def test_feeds_go_by_name(feeds, source):
    executable = nnconv.compile(source, "reference")
    with pytest.raises(UsageError, match="arrays by input name"):
        executable.run(feeds)


def test_a_missing_runtime_is_told_with_what_to_install(source, monkeypatch, tmp_path):
    """Verifying where nothing is installed: the runtime's name, the remedy, and what was done."""
    hidden = tmp_path / "hidden" / "onnxruntime"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(hidden.parent))
    target = source.with_suffix(".onnx")
    with pytest.raises(BackendError) as caught:
        nnconv.convert(source, target, verify=True)
    assert "onnxruntime can't be loaded: not here" in caught.value.message
    assert caught.value.hint.startswith("pip install nnconv[onnxruntime]")
    assert "is written" in caught.value.hint
    assert target.exists()
