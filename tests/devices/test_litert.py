"""What is LiteRT's own: where it comes from, its kernel sets, its noise, its errors."""

import contextlib
import os
import subprocess
import sys
import types

import numpy as np
import pytest
from nnconv.backends import compile as compile_for
from nnconv.backends import litert

from nnconv.errors import BackendError, UsageError
from support.onnx_routes import feeding, node
from support.tflite_builder import TfliteBuilder


def softmax(path):
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 5))
    b.output(b.op("SOFTMAX", [x], [("float32", (2, 5))], options={"beta": 1.0}))
    path.write_bytes(b.build())
    return path


@pytest.mark.parametrize("resolver", litert.RESOLVERS)
def test_every_kernel_set_runs_without_a_word(tmp_path, resolver, capfd):
    executable = compile_for(softmax(tmp_path / "m.tflite"), "litert:cpu", resolver=resolver)
    (y,) = executable.run({"x": np.zeros((2, 5), np.float32)}).values()
    np.testing.assert_allclose(y, 0.2, rtol=1e-6)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_batch_of_none_spoils_no_other(op, tmp_path):
    """XNNPACK may refuse it, for want of extents, or leave them open; the next one runs."""
    made = node(op, ["x"], ["y"], kernel_shape=[2, 2])
    some = np.ones((2, 3, 4, 4), np.float32)
    path = tmp_path / "m.onnx"
    path.write_bytes(feeding(op, made, some, open={"x": (0,)}).model().SerializeToString())
    executable = compile_for(path, "litert:cpu")
    (first,) = executable.run({"x": some}).values()
    with contextlib.suppress(BackendError):
        (none,) = executable.run({"x": some[:0]}).values()
        assert none.shape == (0, *first.shape[1:])
    (again,) = executable.run({"x": some}).values()
    np.testing.assert_array_equal(again, first)


def test_works_where_stderr_is_closed(tmp_path):
    path = softmax(tmp_path / "m.tflite")
    code = (
        "import os, sys, numpy as np\n"
        "os.close(2)\n"
        "import nnconv\n"
        "e = nnconv.compile(sys.argv[1], 'litert:cpu')\n"
        "print(len(e.run({'x': np.zeros((2, 5), np.float32)})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "1\n"


def test_op_that_it_lacks_is_a_backend_error_of_one_line(tmp_path, capfd):
    b = TfliteBuilder()
    b.output(b.op("Mystery", [b.input("x", "float32", (2,))], [("float32", (2,))]))
    path = tmp_path / "odd.tflite"
    path.write_bytes(b.build())
    with pytest.raises(BackendError, match="Mystery") as caught:
        compile_for(path, "litert:cpu").run({"x": np.zeros(2, np.float32)})
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def hide(monkeypatch, *names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_comes_from_tflite_runtime_where_only_that_is_installed(tmp_path, monkeypatch):
    ours = pytest.importorskip("ai_edge_litert.interpreter")
    stand_in = types.ModuleType("tflite_runtime")
    stand_in.interpreter = ours
    hide(monkeypatch, "ai_edge_litert", "ai_edge_litert.interpreter")
    monkeypatch.setitem(sys.modules, "tflite_runtime", stand_in)
    executable = compile_for(softmax(tmp_path / "m.tflite"), "litert:cpu")
    assert executable.run({"x": np.zeros((2, 5), np.float32)})


def test_absent_runtime_names_what_to_install(tmp_path, monkeypatch):
    hide(monkeypatch, "ai_edge_litert", "ai_edge_litert.interpreter", "tflite_runtime")
    with pytest.raises(BackendError, match=r"pip install nnconv\[litert\]"):
        compile_for(softmax(tmp_path / "m.tflite"), "litert:cpu")


def test_device_is_listed_with_what_is_missing(monkeypatch):
    monkeypatch.setattr(litert, "find_spec", lambda _: None)
    device = litert.find("litert:cpu")
    assert not device.available
    assert "tflite-runtime" in device.why_not


@pytest.fixture(scope="session")
def tflite_runtime_python():
    """A Python that has tflite-runtime and numpy 1, named by the environment; skips without one."""
    named = os.environ.get("NNCONV_TFLITE_RUNTIME_PYTHON")
    if not named:
        pytest.skip("no Python with tflite-runtime is named (NNCONV_TFLITE_RUNTIME_PYTHON)")
    return named


def test_runs_on_tflite_runtime(tmp_path, tflite_runtime_python):
    path = softmax(tmp_path / "m.tflite")
    code = (
        "import sys, numpy as np, nnconv\n"
        "assert 'ai_edge_litert' not in sys.modules\n"
        "print([d.version for d in nnconv.devices() if d.name == 'litert:cpu'])\n"
        "for resolver in ('xnn', 'opt', 'ref'):\n"
        "    e = nnconv.compile(sys.argv[1], 'litert:cpu', resolver=resolver)\n"
        "    y = e.run({'x': np.zeros((2, 5), np.float32)})\n"
        "    assert np.allclose(list(y.values())[0], 0.2)"
    )
    done = subprocess.run(
        [tflite_runtime_python, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "tflite-runtime" in done.stdout


@pytest.fixture
def row(tmp_path):
    """A file that puts strings in a row."""
    b = TfliteBuilder()
    x = b.input("x", "string", (2, 2))
    shape = b.const(np.array([4], np.int32))
    b.output(b.op("RESHAPE", [x, shape], [("string", (4,), None, "y")]))
    path = tmp_path / "strings.tflite"
    path.write_bytes(b.build())
    return path


@pytest.mark.parametrize("device", ["litert:cpu", "reference"])
def test_strings_are_texts(device, row):
    """In and out, whatever numpy has them as; bytes that aren't UTF-8 go through unharmed."""
    executable = compile_for(row, device)
    texts = ["a", "bé", "", "日本"]
    objects = np.array(texts, object).reshape(2, 2)
    encoded = np.array([text.encode() for text in texts])
    for given in (objects, objects.astype(str), encoded, encoded.astype(object)):
        result = executable.run({"x": given.reshape(2, 2)})["y"]
        assert result.tolist() == texts
    odd = np.array([[b"\xff", b"b"], [b"", b"\xc3"]], object)
    result = executable.run({"x": odd})["y"]
    assert [text.encode("utf-8", "surrogateescape") for text in result] == odd.ravel().tolist()


@pytest.mark.parametrize("device", ["litert:cpu", "onnxruntime:cpu", "reference"])
@pytest.mark.parametrize("has_key", [True, False])
def test_a_text_may_have_no_dimensions(device, has_key, tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "string", ())
    y = b.op("RESHAPE", [x, b.const(np.array([1], np.int32))], [("string", (1,), None, "y")])
    b.output(y)
    if has_key:
        b.signature("serve", {"x": x}, {"y": y})
    path = tmp_path / "text.tflite"
    path.write_bytes(b.build())
    executable = compile_for(path, device)
    for text in ("a", "", "\0", "b\0", "日本", "c" * 100):
        for given in (np.array(text, object), np.array(text.encode(), object)):
            assert executable.run({"x": given})["y"].tolist() == [text]


@pytest.mark.parametrize("device", ["litert:cpu", "onnxruntime:cpu", "reference"])
@pytest.mark.parametrize(("item", "kind"), [(3, "int"), (None, "NoneType"), (["a"], "list")])
def test_what_is_no_text_is_no_string(device, item, kind, row):
    given = np.empty((2, 2), object)
    given[:] = "a"
    given[1, 0] = item
    with pytest.raises(UsageError, match=f"^input 'x' has a {kind} among its strings"):
        compile_for(row, device).run({"x": given})


@pytest.mark.parametrize("device", ["litert:cpu", "onnxruntime:cpu"])
def test_texts_that_have_no_bytes_are_refused(device, row):
    given = np.full((2, 2), "\ud800", object)
    with pytest.raises(BackendError, match="surrogates not allowed"):
        compile_for(row, device).run({"x": given})
