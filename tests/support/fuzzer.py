"""The fuzzer of tools/, as a module."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from support.places import ROOT

FUZZER = ROOT / "tools/fuzz_tflite.py"


def load_fuzzer() -> ModuleType:
    """Give tools/fuzz_tflite.py as a module; it needs POSIX."""
    if "fuzz_tflite" not in sys.modules:
        spec = importlib.util.spec_from_file_location("fuzz_tflite", FUZZER)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["fuzz_tflite"] = module  # where its dataclasses look themselves up
        spec.loader.exec_module(module)
    return sys.modules["fuzz_tflite"]
