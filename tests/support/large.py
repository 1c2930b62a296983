"""Conversions of more than 2 GiB, on request, in little memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

on_request = pytest.mark.skipif(
    sys.platform != "linux" or "NNCONV_LARGE" not in os.environ,
    reason="writes 2.3 GB: asked for by NNCONV_LARGE=1, on Linux",
)
"""For tests of whole files of that size."""


def convert(source: Path, target: Path, most_memory: int) -> None:
    """Convert by the command line, in so many bytes besides the maps of the files."""
    import resource  # Linux has it

    subprocess.run(
        [sys.executable, "-m", "nnconv", "convert", str(source), str(target)],
        check=True,
        capture_output=True,
        timeout=600,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (most_memory, most_memory)),
    )
