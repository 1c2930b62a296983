"""A crash of a runtime ends in an error, and other ends stay what they are."""

import json
import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnconv.errors import ExitCode
from nnconv.outlive import death

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="a child goes on on Linux alone")


def outcome_of(end):
    """The exit code, and what was printed, of a program whose child ends in some way."""
    code = (
        "import os, signal, sys\n"
        "from nnconv.errors import BackendError\n"
        "from nnconv.outlive import outlive\n"
        "try:\n"
        "    outlive('it')\n"
        "except BackendError as error:\n"
        "    print('told:', error.message)\n"
        "    raise SystemExit(5)\n"
        f"{end}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


@linux_only
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGBUS"])
def test_a_crash_is_told(name):
    end = f"os.kill(os.getpid(), signal.{name})"
    assert outcome_of(end) == (5, f"told: it crashed ({name})")


@pytest.mark.parametrize("code", [0, 3])
def test_other_ends_stay(code):
    assert outcome_of(f"print('done'); sys.exit({code})") == (code, "done")


@linux_only
def test_the_child_ends_with_its_parent():
    """A program that is killed leaves nothing that holds its output open."""
    code = (
        "import time\n"
        "from nnconv.outlive import outlive\n"
        "outlive('it')\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        process.kill()
        assert process.stdout.read() == b""  # comes back once nobody can write
    assert process.returncode == -signal.SIGKILL


def test_names_of_ends():
    assert death(7) == "ended its process with code 7"
    assert death(-signal.SIGABRT) == "crashed (SIGABRT)"
    assert death(-200) == "crashed (signal 200)"


@linux_only
def test_a_split_without_names(tmp_path):
    """Its results have no names where nobody reads them: onnxruntime dies of that."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    a = helper.make_tensor_value_info("a", TensorProto.FLOAT, [2])
    split = helper.make_node("Split", ["x"], ["a", ""], axis=0, num_outputs=2)
    graph = helper.make_graph([split], "split", [x], [a])
    path = tmp_path / "split.onnx"
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)

    def run(device):
        command = [sys.executable, "-m", "nnconv", "run", path, "--device", device, "--json"]
        given = ["--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / device]
        return subprocess.run([*command, *given], capture_output=True, text=True, check=False)

    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    done = run("reference")
    assert done.returncode == ExitCode.OK
    np.testing.assert_array_equal(np.load(tmp_path / "reference" / "a.npy"), [0, 1])
    done = run("onnxruntime:cpu")
    if done.returncode == ExitCode.OK:  # a release of onnxruntime that has this right
        np.testing.assert_array_equal(np.load(tmp_path / "onnxruntime:cpu" / "a.npy"), [0, 1])
        return
    assert done.returncode == ExitCode.BACKEND
    error = json.loads(done.stdout)["error"]
    assert error["message"] == f"{path} on onnxruntime:cpu crashed (SIGSEGV)"
    assert "--device reference" in error["hint"]
