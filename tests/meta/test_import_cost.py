"""What an import loads and costs, in a process of its own."""

import json
import subprocess
import sys

import pytest

RUNTIMES = ["ai_edge_litert", "flatbuffers", "onnx", "onnxruntime", "tflite_runtime"]
HEAVY = [*RUNTIMES, "google.protobuf", "ml_dtypes", "rich", "safetensors", "scipy"]
COMMANDS = ["check", "convert", "devices", "diff", "inspect", "ops", "run"]


def python(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_after(code):
    report = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    return set(json.loads(python(report).splitlines()[-1]))


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import nnconv", [*HEAVY, "numpy", "click"]),
        ("import nnconv; nnconv.load; nnconv.save; nnconv.convert", [*HEAVY, "click"]),
        ("import nnconv; nnconv.Model", [*HEAVY, "click"]),
        ("import nnconv; nnconv.compile; nnconv.devices", [*HEAVY, "click"]),
        ("import nnconv.cli", [*HEAVY, "numpy"]),
    ],
)
def test_import_loads_no_runtime(code, unwanted):
    assert loaded_after(code) & set(unwanted) == set()


@pytest.mark.parametrize("arguments", [[], *([name] for name in COMMANDS)])
def test_help_works_where_no_runtime_is_installed(arguments):
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({HEAVY!r}))\n"  # None there makes an import fail
        "from nnconv.cli import main\n"
        "sys.exit(main([*sys.argv[1:], '--help']))"
    )
    assert python(code, *arguments).startswith("Usage: nnconv")
