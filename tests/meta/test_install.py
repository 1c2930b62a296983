"""The tests see the installed package, whole, and not the checkout's incomplete folder."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nnconv

MAPPED = ["nnconv.backends", "nnconv.schemas", "nnconv.cli"]


@pytest.mark.parametrize("name", MAPPED)
def test_mapped_folder_is_part_of_the_package(name):
    assert importlib.util.find_spec(name) is not None, f"nnconv comes from {nnconv.__file__}"


@pytest.mark.parametrize("name", ["backends", "schemas", "cli"])
def test_bare_name_is_not_importable(name):
    assert importlib.util.find_spec(name) is None


def test_child_process_in_the_checkout_sees_the_same_package(repo_root):
    code = "import nnconv, nnconv.cli; print(nnconv.__file__)"
    seen = subprocess.run(
        [sys.executable, "-c", code], cwd=repo_root, capture_output=True, text=True, check=True
    )
    assert Path(seen.stdout.strip()) == Path(nnconv.__file__)


@pytest.mark.parametrize("name", MAPPED)
def test_the_checkouts_own_folder_is_whole_as_well(name, repo_root):
    """A program that starts in the checkout imports from there, whatever is installed."""
    code = f"import nnconv, {name}; print(nnconv.__file__, {name}.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(repo_root)}
    seen = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert all(Path(path).is_relative_to(repo_root) for path in seen.stdout.split())
