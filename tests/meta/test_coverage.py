"""No op is forgotten: TFLite's are read or left out for a reason, the IR's lack nothing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import pytest
from nnconv.backends.reference.executor import kernel_of

import nnconv.ops
from nnconv.errors import NnconvError
from nnconv.formats.onnx.exporter import exporter_of
from nnconv.formats.onnx.reader import read as read_onnx
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR
from nnconv.formats.tflite.importer import importers
from nnconv.formats.tflite.reader import read
from nnconv.formats.tflite.scope import out_of_scope
from nnconv.ir import Model, Op
from support.onnx_routes import OnnxCase
from support.onnx_spine import IrCase
from support.places import ROOT
from support.spine import Case, model_bytes
from support.tflite_spine import TfliteCase

NO_ONNX_FORM: dict[str, str] = {}
"""IR ops that ONNX can't hold, each with the reason."""

SHOWN_OTHERWISE: dict[str, str] = {
    "Bernoulli": "test_random.test_bernoulli",
    "DynamicQuantize": "test_dynamic_quantize.test_onnx",
}
"""IR ops that are in no listed case, each with the test in tests/ops that makes its own."""


def op_kinds() -> list[type[Op]]:
    """Every op class that nodes can have: all but mere bases."""
    found: dict[str, type[Op]] = {}
    for info in iter_modules(nnconv.ops.__path__):
        for value in vars(import_module(f"nnconv.ops.{info.name}")).values():
            if isinstance(value, type) and issubclass(value, Op):
                base = value.__subclasses__() and exporter_of(value) is None
                if not base and value.__module__.startswith("nnconv.ops."):
                    found[value.__name__] = value
    return [found[name] for name in sorted(found)]


@pytest.mark.parametrize("op", sorted(set(BUILTIN_OPERATOR) - {"CUSTOM"}))
def test_builtin_is_either_read_or_left_out_for_a_reason(op: str) -> None:
    assert (op in importers()) is (out_of_scope(op) is None)


def test_importers_are_of_ops_that_exist() -> None:
    names = {name for name in importers() if not name.startswith("CUSTOM:")}
    assert names <= set(BUILTIN_OPERATOR)


@pytest.mark.parametrize("op", op_kinds(), ids=lambda op: op.__name__)
def test_op_has_all_that_an_op_needs(op: type[Op]) -> None:
    assert (op.__doc__ or "").strip(), "it says nothing of itself"
    assert op.infer is not Op.infer, "it infers no types"
    assert kernel_of(op) is not None, "the reference backend has no kernel"
    assert (exporter_of(op) is not None) is (op.__name__ not in NO_ONNX_FORM)


def test_op_names_are_unique() -> None:
    kinds = [
        value
        for info in iter_modules(nnconv.ops.__path__)
        for value in vars(import_module(f"nnconv.ops.{info.name}")).values()
        if isinstance(value, type) and issubclass(value, Op)
    ]
    assert len({kind.__name__ for kind in kinds}) == len(set(kinds))


def test_tables_of_a_family_hold_ops_of_that_family() -> None:
    """A kernel or exporter in the file of another stem would never be found."""
    for package, table in (
        ("nnconv.backends.reference", "KERNELS"),
        ("nnconv.formats.onnx.exports", "EXPORTERS"),
    ):
        for info in iter_modules(import_module(package).__path__):
            entries = getattr(import_module(f"{package}.{info.name}"), table, {})
            strays = [op.__name__ for op in entries if op.__module__ != f"nnconv.ops.{info.name}"]
            assert not strays, f"{package}.{info.name} has {strays}"


# -------------------------------------------------------------------- what the spine shows


def _load(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


_KINDS = (Case, IrCase, TfliteCase, OnnxCase)


def _cases(value: Any) -> Iterator[Any]:
    if isinstance(value, _KINDS):
        yield value
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _cases(entry)
    elif isinstance(value, dict):
        yield from _cases(list(value.values()))


def _modules() -> dict[str, ModuleType]:
    return {
        path.stem: _load(f"cases_of_{path.stem}", str(path))
        for path in sorted((ROOT / "tests/ops").glob("test_*.py"))
        if not path.stem.endswith("_refused")  # whose models onnx itself may fail on
    }


def _kinds_in(case: Any) -> set[str]:
    try:
        model = _model_of(case)
    except NnconvError:
        return set()  # a case of a refusal
    return {node.op.name for graph in model.graphs() for node in graph.nodes}


def _model_of(case: Any) -> Model:
    """A case's graph as it is before any pass."""
    if isinstance(case, Case):
        return read(model_bytes(case), name=case.id)
    if isinstance(case, OnnxCase):
        return read_onnx(case.model().SerializeToString(), name=case.id)
    model: Model = case.model()
    return model


def test_every_op_is_in_a_case_of_the_spine() -> None:
    missing = {op.__name__ for op in op_kinds()} - set(SHOWN_OTHERWISE)
    modules = _modules()
    for test in SHOWN_OTHERWISE.values():
        stem, _, function = test.partition(".")
        assert callable(getattr(modules[stem], function, None)), f"there is no {test}"
    cases = [case for module in modules.values() for case in _cases(list(vars(module).values()))]
    step = 16  # neighbours are alike: looking far apart first, most needn't be looked at
    for start in range(step):
        for case in cases[start::step]:
            if missing:
                missing -= _kinds_in(case)
    assert sorted(missing) == []
