"""The node tests that the onnx package ships: their models and data, and the routes they run on.

The package makes them by running some 190 modules, which takes seconds. That is done once for each
version of onnx, in a process of its own; what it gives lies under ``build/`` from then on.

A route takes a case and a folder, and raises an error (`MismatchError` or the one that stopped it).
Runtimes may crash on a model: tests go through `support.onnx_backend_worker`.
"""

from __future__ import annotations

import fcntl
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from support.places import ROOT

SCOPE_FILE = ROOT / "tests" / "onnx_backend" / "scope.json"
FORMAT = 2
"""Of the stored cases: a change of `Case` or `make` needs the next number."""

DEFAULT_RESOLVER = "xnn"


class MismatchError(AssertionError):
    """A result isn't what the case expects."""


class Case(NamedTuple):
    """A node test.

    Attributes:
        name: as onnx calls it, such as ``test_abs``.
        family: the operator that is tested, with its domain unless that is the standard one; also
            for a test of the operator's function body (``..._expanded``).
        ops: the operators in the graph.
        model: the serialized ModelProto.
        inputs, outputs: names of the graph's inputs and outputs.
        data_sets: (inputs, outputs): an array each; lists of arrays for sequences.
        rtol, atol: the tolerances.
    """

    name: str
    family: str
    ops: tuple[str, ...]
    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    data_sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


# -------------------------------------------------------------------------------- the cases


@cache
def cases() -> dict[str, Case]:
    """All node tests of the installed onnx by name, in its order."""
    path = _stored()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes one makes them
            if not path.exists():
                _store(path)
    with path.open("rb") as file:
        made: dict[str, Case] = {fields[0]: Case(*fields) for fields in pickle.load(file)}
    return made


def onnx_version() -> str:
    """The version of the installed onnx, found without loading it."""
    return version("onnx")


def _stored() -> Path:
    names = "-".join(f"{p}{version(p)}" for p in ("onnx", "numpy", "ml_dtypes"))
    return ROOT / "build" / "onnx_backend" / f"{FORMAT}-{names}.pickle"


def _store(path: Path) -> None:
    """Make the cases apart from this process: it seeds numpy, warns, and loads all of onnx."""
    temporary = path.with_suffix(".new")
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r}); "
        "from support.onnx_backend import make; make(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-P", "-W", "ignore", "-c", code, temporary], check=True)
    temporary.replace(path)


def make(path: str) -> None:
    """Run onnx's modules and store what they give."""
    from onnx.backend.test.loader import load_model_tests

    made = []
    families: dict[str, str] = {}
    for test in load_model_tests(kind="node"):
        graph = test.model.graph
        ops = sorted({f"{n.domain}.{n.op_type}".removeprefix(".") for n in graph.node})
        base = test.name.partition("_expanded")[0]
        family = families.setdefault(base, ops[0] if len(ops) == 1 else "")
        if not family:
            raise ValueError(f"{test.name} has no test of one operator before it")
        data = [
            tuple([_value(v) for v in side] for side in data_set) for data_set in test.data_sets
        ]
        names = [tuple(v.name for v in side) for side in (graph.input, graph.output)]
        model = test.model.SerializeToString()
        made.append((test.name, family, tuple(ops), model, *names, data, test.rtol, test.atol))
    with Path(path).open("wb") as file:
        pickle.dump(made, file, protocol=pickle.HIGHEST_PROTOCOL)


def _value(value: Any) -> Any:
    """A test's input or output as an array, a list of arrays, or None."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return [_value(v) for v in value]
    return None if value is None else np.asarray(value)


# -------------------------------------------------------------------------------- the scope


class Scope(NamedTuple):
    """What ``scope.json`` says.

    Attributes:
        onnx_version: the one whose tests it lists.
        reasons: why tests are out of scope, by short name.
        families: each test's operator.
        outside: tests out of scope, with the short name of the reason.
        drawn: operators whose results are drawn at random, with all values that they may have: such
            results are compared in type, in shape, and in that they have no others.
        tflite: tests in scope that don't pass on LiteRT, with the reason.
        onnxruntime: tests in scope whose original onnxruntime doesn't run or gets wrong, with what
            it says.
        by_cpu: those of them whose verdict depends on how the CPU's kernels round.
        onnxruntime_versions: of onnx and onnxruntime, for which that list holds.
    """

    onnx_version: str
    reasons: dict[str, str]
    families: dict[str, str]
    outside: dict[str, str]
    drawn: dict[str, list[float]]
    tflite: dict[str, str]
    onnxruntime: dict[str, str]
    by_cpu: frozenset[str]
    onnxruntime_versions: tuple[str, str]

    @property
    def inside(self) -> list[str]:
        """The tests in scope."""
        return [name for name in self.families if name not in self.outside]


@cache
def scope() -> Scope:
    """The scope of the node tests."""
    told = json.loads(SCOPE_FILE.read_text(encoding="utf-8"))
    litert, onnxruntime = (
        json.loads((SCOPE_FILE.parent / f"not_on_{name}.json").read_text(encoding="utf-8"))
        for name in ("litert", "onnxruntime")
    )
    return Scope(
        told["onnx_version"],
        told["reasons"],
        {name: row[0] for name, row in told["tests"].items()},
        {name: row[1] for name, row in told["tests"].items() if len(row) > 1},
        told["drawn"],
        litert,
        onnxruntime["tests"],
        frozenset(onnxruntime["by_cpu"]),
        (onnxruntime["onnx_version"], onnxruntime["onnxruntime_version"]),
    )


# -------------------------------------------------------------------------------- comparing


def compare(case: Case, wanted: Sequence[Any], seen: Sequence[Any]) -> None:
    """Hold results to what is expected, as onnx's own runner does.

    That is: shapes and element types equal, values within the case's tolerances, NaN equal to NaN;
    bfloat16 within two of its steps. Types that numpy lacks may come in what carries them: int4 in
    int8, a float8 as its bits.

    Raises:
        MismatchError: they differ.
    """
    if len(seen) != len(wanted):
        raise MismatchError(f"{len(seen)} outputs, {len(wanted)} expected")
    for name, want, have in zip(case.outputs, wanted, seen, strict=True):
        if isinstance(want, list) or want is None:
            raise MismatchError(f"output {name}: a {type(want).__name__} can't be compared")
        array = np.asarray(have)
        if array.shape != want.shape:
            raise MismatchError(f"output {name}: shape {array.shape}, expected {want.shape}")
        if want.dtype.kind in "OUS":
            same = np.array_equal(_texts(array), _texts(want))
            if not same:
                raise MismatchError(f"output {name}: {array}, expected {want}")
            continue
        if array.dtype != want.dtype:
            if not _carries(array.dtype, want.dtype):
                raise MismatchError(f"output {name}: {array.dtype}, expected {want.dtype}")
            array = from_carrier(array, want.dtype)
        drawn = scope().drawn.get(case.family)
        if drawn is not None:
            if not np.isin(_plain(array), drawn).all():
                raise MismatchError(f"output {name}: {array}, all must be of {drawn}")
            continue
        rtol = max(case.rtol, 2**-6) if want.dtype.name == "bfloat16" else case.rtol
        try:
            np.testing.assert_allclose(_plain(array), _plain(want), rtol=rtol, atol=case.atol)
        except AssertionError as error:
            raise MismatchError(f"output {name}: {_brief(error)}") from None


def _texts(array: np.ndarray) -> list[str]:
    return [v.decode() if isinstance(v, bytes) else str(v) for v in array.reshape(-1).tolist()]


def _brief(error: AssertionError) -> str:
    """Numpy's message on one line, the arrays cut short."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines)[:400]


def _plain(array: np.ndarray) -> np.ndarray:
    """The same numbers in a type of numpy's own."""
    if is_plain(array.dtype):
        return array
    return array.astype(np.float32 if _is_float(array.dtype) else np.int64)


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether a type is one of numpy's own, not one of ml_dtypes."""
    return dtype.num < 256


def _is_float(dtype: np.dtype[Any]) -> bool:
    return "float" in dtype.name


def carrier(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of numpy's own that carries small integers; any other type itself."""
    if is_plain(dtype) or _is_float(dtype):
        return dtype
    return np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)


def _carries(seen: np.dtype[Any], want: np.dtype[Any]) -> bool:
    if is_plain(want):
        return False
    if not _is_float(want):
        return seen == carrier(want)
    return want.itemsize == 1 and seen in (np.dtype(np.uint8), np.dtype(np.int8))


def from_carrier(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """What an array carries; small integers stay in it, bits become numbers."""
    return array.view(dtype) if _is_float(dtype) else array


def to_carrier(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The array as an interface of type ``dtype`` takes it: as it is, carried, or as its bits.

    Raises:
        MismatchError: the interface's type isn't the array's.
    """
    if array.dtype == dtype:
        return array
    if carrier(array.dtype) == dtype:
        return array.astype(dtype)
    if _carries(dtype, array.dtype):
        return array.view(dtype)
    raise MismatchError(f"an input is {dtype}, expected {array.dtype}")


# -------------------------------------------------------------------------------- the routes


def on_reference(case: Case, folder: Path) -> None:
    """ONNX, IR, reference backend."""
    import nnconv

    _reference(case, nnconv.load(_written(case, folder), "onnx"))


def to_onnx(case: Case, folder: Path) -> None:
    """ONNX, IR, ONNX, onnxruntime.

    Where onnxruntime doesn't do the original, our file must pass onnx's checker, and give the right
    results when it is read again.
    """
    import nnconv

    target = folder / "ours.onnx"
    nnconv.save(nnconv.load(_written(case, folder), "onnx"), target, "onnx")
    if case.name not in scope().onnxruntime:
        _onnxruntime(case, target.read_bytes())
        return
    import onnx

    onnx.checker.check_model(target, full_check=True)
    _reference(case, nnconv.load(target, "onnx"))


def to_tflite(case: Case, folder: Path, resolver: str = DEFAULT_RESOLVER) -> None:
    """ONNX, IR, TFLite, LiteRT."""
    import nnconv

    target = folder / "ours.tflite"
    nnconv.save(nnconv.load(_written(case, folder), "onnx"), target, "tflite")
    from support.litert import LiteRtRunner

    runner = LiteRtRunner(target, resolver)
    details = runner.interpreter.get_input_details()
    _same_names("input", case.inputs, [detail["name"] for detail in details])
    for given, wanted in case.data_sets:
        feeds = dict(zip(case.inputs, given, strict=True))
        arrays = [to_carrier(feeds[d["name"]], np.dtype(d["dtype"])) for d in details]
        results = runner.run(arrays)
        names = [detail["name"] for detail in runner.interpreter.get_output_details()]
        _same_names("output", case.outputs, names)
        compare(case, wanted, results)


def original(case: Case, _folder: Path) -> None:
    """The case's own model on onnxruntime."""
    _onnxruntime(case, case.model)


ROUTES: dict[str, Callable[..., None]] = {
    "reference": on_reference,
    "onnx": to_onnx,
    "tflite": to_tflite,
    "original": original,
}


def _written(case: Case, folder: Path) -> Path:
    path = folder / "case.onnx"
    path.write_bytes(case.model)
    return path


def _same_names(kind: str, wanted: Sequence[str], seen: Sequence[str]) -> None:
    if list(seen) != list(wanted):
        raise MismatchError(f"{kind}s are {list(seen)}, expected {list(wanted)}")


def _reference(case: Case, model: Any) -> None:
    import nnconv

    runnable = nnconv.compile(model, device="reference")
    _same_names("input", case.inputs, [info.name for info in runnable.inputs])
    types = {info.name: info.dtype.numpy for info in runnable.inputs}
    for given, wanted in case.data_sets:
        feeds = {n: to_carrier(a, types[n]) for n, a in zip(case.inputs, given, strict=True)}
        results = runnable.run(feeds)
        _same_names("output", case.outputs, list(results))
        compare(case, wanted, list(results.values()))


def _onnxruntime(case: Case, model: bytes) -> None:
    import onnxruntime

    types = {a.dtype for data in case.data_sets for side in data for a in side if a is not None}
    if any(not is_plain(dtype) for dtype in types):
        model = with_plain_interface(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    _same_names("input", case.inputs, [i.name for i in session.get_inputs()])
    _same_names("output", case.outputs, [o.name for o in session.get_outputs()])
    for given, wanted in case.data_sets:
        feeds: Mapping[str, Any] = {
            name: value if isinstance(value, list) else _plain_interface(value)
            for name, value in zip(case.inputs, given, strict=True)
        }
        results = session.run(None, feeds)
        wanted_plain = [
            w if isinstance(w, list) or w is None else _plain_interface(w) for w in wanted
        ]
        loose = [isinstance(w, np.ndarray) and w.dtype.name == "bfloat16" for w in wanted]
        bound = case._replace(rtol=max(case.rtol, 2**-6)) if any(loose) else case
        compare(bound, wanted_plain, results)


def _plain_interface(array: np.ndarray) -> np.ndarray:
    if is_plain(array.dtype):
        return array
    return array.astype(np.float32 if _is_float(array.dtype) else carrier(array.dtype))


def with_plain_interface(model: bytes) -> bytes:
    """The model with a Cast at each input and output of a type that onnxruntime's Python lacks.

    Small floats are float32 outside, small integers int8 or uint8: both hold them exactly.
    """
    import onnx
    from onnx import TensorProto, helper

    proto = onnx.load_from_string(model)
    graph = proto.graph
    before, after = [], []
    for values, casts in ((graph.input, before), (graph.output, after)):
        for value in values:
            kind = value.type.tensor_type.elem_type
            if not value.type.HasField("tensor_type") or kind == TensorProto.STRING:
                continue
            dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
            plain = np.dtype(np.float32) if _is_float(dtype) else carrier(dtype)
            if is_plain(dtype):
                continue
            inner = f"{value.name}/inner"
            _rename(graph, value.name, inner)
            ends = ([value.name], [inner]) if casts is before else ([inner], [value.name])
            outer = helper.np_dtype_to_tensor_dtype(plain)
            casts.append(helper.make_node("Cast", *ends, to=kind if casts is before else outer))
            value.type.tensor_type.elem_type = outer
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return proto.SerializeToString()


def _rename(graph: Any, old: str, new: str) -> None:
    """Give a value another name in the nodes, and in the graphs inside that read it."""
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, old, new)
