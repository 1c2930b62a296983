"""What the scripts of tools/ and benchmarks/ say of arguments that name nothing."""

import os
import subprocess
import sys

import pytest

from support.places import ROOT

pytest.importorskip("resource", reason="the fuzzers need POSIX")

FUZZERS = [f"tools/fuzz_{kind}.py" for kind in ("nnapi", "nnrt", "onnx", "tflite")]
DERIVING = [
    f"tools/gen_{kind}.py" for kind in ("nnapi_api", "nnapi_schema", "nnrt_api", "nnrt_schema")
]


def complaint(script, *arguments):
    """The last line on stderr of a script that refuses its arguments."""
    # Scripts find what they share beside themselves, which the tests' own setting forbids.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, ROOT / script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "script",
    [*FUZZERS, *DERIVING, "benchmarks/convert_time.py", "benchmarks/latency.py"],
)
def test_a_file_that_is_not_there_is_wrong_usage(script, tmp_path):
    assert str(tmp_path / "missing") in complaint(script, tmp_path / "missing")


@pytest.mark.parametrize("script", DERIVING)
def test_a_folder_without_the_data_is_wrong_usage(script, tmp_path):
    assert "No such file" in complaint(script, tmp_path, "--check")


@pytest.mark.parametrize("script", FUZZERS)
def test_an_unknown_target_is_wrong_usage(script, tmp_path):
    (tmp_path / "model").touch()
    assert "--target odd" in complaint(script, tmp_path / "model", "--target", "odd")


def test_a_benchmark_names_the_kinds_that_it_has():
    assert "there is no odd; kinds are " in complaint("benchmarks/nnapi_runtime.py", "odd")


def test_a_benchmark_names_the_files_that_it_takes(tmp_path):
    (tmp_path / "model.odd").touch()
    for script in ("convert_time", "latency"):
        last = complaint(f"benchmarks/{script}.py", tmp_path / "model.odd")
        assert last.endswith("model.odd is neither .tflite nor .onnx")
