"""The fuzzers of tools/, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from support.places import ROOT

FUZZER = ROOT / "tools/fuzz_tflite.py"
ONNX_FUZZER = ROOT / "tools/fuzz_onnx.py"


def load_fuzzer(path: Path = FUZZER) -> ModuleType:
    """Give a fuzzer of tools/ as a module; it needs POSIX."""
    name = path.stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # where its dataclasses look themselves up
        spec.loader.exec_module(module)
    return sys.modules[name]
