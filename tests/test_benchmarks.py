"""The benchmarks run, on the smallest of models: their numbers are for people to judge."""

import json
import os
import subprocess
import sys

import pytest

import nnconv

pytestmark = pytest.mark.skipif(not hasattr(os, "wait4"), reason="costs are told by wait4")


def bench(repo_root, script, *arguments):
    # Scripts find what they share beside themselves, which the tests' own setting forbids.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    return subprocess.run(
        [sys.executable, str(repo_root / "benchmarks" / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.fixture
def model(fixtures_dir):
    return fixtures_dir / "digits" / "digits_float.tflite"


@pytest.fixture
def onnx_model(model, tmp_path):
    path = tmp_path / "digits_float.onnx"
    nnconv.convert(model, path)
    return path


def test_conversion_cost_is_told_for_each_model(repo_root, model):
    done = bench(repo_root, "convert_time.py", model, "--rounds", 1)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["model", "MB", "s"]
    assert lines[1].startswith("digits_float.tflite")
    assert lines[2].startswith("nnconv: 1 models, median ")


def test_latency_takes_turns_and_gives_a_row(repo_root, model):
    done = bench(repo_root, "latency.py", model, "--row", "--seconds", 0.05, "--least-ops", 1)
    name, kind, litert, ours, _ = json.loads(done.stdout)
    assert (name, kind) == ("digits_float.tflite", "tflite, float")
    assert min(litert, ours) > 0


def test_onnx_files_are_measured_the_other_way_round(repo_root, onnx_model):
    done = bench(repo_root, "convert_time.py", onnx_model, "--rounds", 1)
    assert done.stdout.splitlines()[1].split()[0] == "digits_float.onnx"
    assert "not converted" not in done.stdout
    options = ("--row", "--seconds", 0.05, "--least-ops", 1, "--input-shape", "other=1,2")
    done = bench(repo_root, "latency.py", onnx_model, *options)
    name, kind, source, ours, _ = json.loads(done.stdout)
    assert (name, kind) == ("digits_float.onnx", "onnx, float")
    assert min(source, ours) > 0


def test_models_that_are_too_small_are_left_out(repo_root, model):
    done = bench(repo_root, "latency.py", model, "--row", "--least-ops", 1000)
    assert (done.returncode, json.loads(done.stdout)) == (0, None)
