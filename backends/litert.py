"""Runs models on LiteRT's interpreter (or on TFLite's, where only that is installed)."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from nnconv.backends.base import (
    Device,
    Executable,
    TensorInfo,
    aliases,
    check_options,
    check_threads,
    interface_names,
    one_line,
    refusal,
    refuse_shapes,
)

from nnconv.errors import BackendError, UsageError
from nnconv.formats import detect, read_model
from nnconv.formats.tflite import wire
from nnconv.formats.tflite.reader import EntryPoint, entry_points
from nnconv.formats.tflite.types import dtype_of, quant_of, shape_of
from nnconv.ir.dtype import DType, as_texts
from nnconv.ir.graph import Model
from nnconv.ir.types import Shape
from nnconv.lowering import choose_signature, one_entry, to_tflite

RESOLVERS = {
    "xnn": "BUILTIN",
    "opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "ref": "BUILTIN_REF",
}
"""Kernel sets, by LiteRT's name: with XNNPACK, the optimized ones alone, the reference ones."""

_DISTRIBUTIONS = {"ai_edge_litert": "ai-edge-litert", "tflite_runtime": "tflite-runtime"}
_INSTALL = "pip install nnconv[litert], or tflite-runtime (with numpy below 2)"

_stderr_lock = threading.Lock()


def find(device: str) -> Device:
    """What there is of LiteRT."""
    from importlib.metadata import PackageNotFoundError, version

    for package, distribution in _DISTRIBUTIONS.items():
        if find_spec(package) is not None:
            try:
                text = f"{distribution} {version(distribution)}"
            except PackageNotFoundError:
                text = distribution
            return Device(device, "cpu", available=True, version=text)
    return Device(device, "cpu", available=False, why_not=f"LiteRT isn't installed; {_INSTALL}")


def _runtime() -> Any:
    """The module that has the interpreter."""
    try:
        from ai_edge_litert import interpreter
    except ImportError as litert:
        try:
            from tflite_runtime import interpreter
        except ImportError as tflite:
            absent = isinstance(tflite, ModuleNotFoundError) and tflite.name == "tflite_runtime"
            cause = litert if absent else tflite
            raise BackendError(
                f"LiteRT can't be loaded: {one_line(cause)}", hint=_INSTALL
            ) from cause
    return interpreter


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what the runtime's C++ code prints on stderr nowhere; its errors are exceptions too."""
    with _stderr_lock:
        try:
            saved = os.dup(2)
        except OSError:  # there is no stderr
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            os.close(nowhere)


def make(
    source: Model | str | os.PathLike[str], device: str, options: Mapping[str, Any]
) -> Executable:
    """Make a model ready for LiteRT; ``nnconv.compile`` says more."""
    check_options(options, LiteRtExecutable.OPTIONS, device)
    return LiteRtExecutable(source, device, **options)


class LiteRtExecutable(Executable):
    """An interpreter. It keeps states itself."""

    OPTIONS = frozenset({"input_shapes", "resolver", "signature", "threads"})

    def __init__(
        self,
        source: Model | str | os.PathLike[str],
        device: str,
        *,
        input_shapes: Mapping[str, Shape] | None = None,
        resolver: str = "xnn",
        signature: str | None = None,
        threads: int = 0,
    ) -> None:
        """Load ``source``, converted where it isn't a .tflite file."""
        super().__init__(device)
        if resolver not in RESOLVERS:
            raise UsageError(f"resolver {resolver!r}; allowed are {', '.join(RESOLVERS)}")
        self._threads = check_threads(threads)
        self._resolver = resolver
        self._remove: Callable[[], object] | None = None
        if isinstance(source, Model):
            refuse_shapes(input_shapes)
            self._path = self._converted(source, signature)
            signature = input_shapes = None
        elif detect(source) != "tflite":
            model = read_model(source, input_shapes=input_shapes)
            self._path = self._converted(model, signature)
            signature = input_shapes = None
        else:
            self._path = os.fspath(source)
        file = wire.read(self._path)
        self._entry = _choose(file, signature)
        self._describe(file, dict(input_shapes or {}))
        self._runtime = _runtime()
        self._load()

    def _converted(self, model: Model, signature: str | None) -> str:
        """The path of a .tflite file made of a model, which lives as long as this does."""
        from nnconv.formats.tflite.encode import write

        lowered = to_tflite(one_entry(model, choose_signature(model, signature)))
        folder = tempfile.mkdtemp(prefix="nnconv-")
        self._remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = os.path.join(folder, "model.tflite")  # noqa: PTH118 - a str is wanted
        write(lowered.model, path)
        return path

    def _describe(self, file: wire.File, shapes: dict[str, Shape]) -> None:
        subgraph = file.subgraphs[self._entry.subgraph]
        self.inputs = _infos(file, subgraph, subgraph.inputs, "input")
        self.outputs = _infos(file, subgraph, subgraph.outputs, "output")
        called = dict(zip(subgraph.inputs, (info.name for info in self.inputs), strict=True))
        ends = (*self.inputs, *self.outputs)
        self._has_strings = any(info.dtype is DType.STRING for info in ends)
        pairs = [(name, called[index]) for name, index in self._entry.inputs if index in called]
        self.aliases = aliases(pairs, self.inputs)
        self._signature_inputs = {name: other for other, name in pairs}
        made = dict(zip(subgraph.outputs, (info.name for info in self.outputs), strict=True))
        self._signature_outputs = {
            name: made[index] for name, index in self._entry.outputs if index in made
        }
        if shapes:
            self._take_shapes(shapes, fixed=False)
            # Results follow their inputs' shapes in ways that only the interpreter knows.
            self.outputs = tuple(info._replace(shape=None) for info in self.outputs)

    def _load(self) -> None:
        kind = getattr(self._runtime.OpResolverType, RESOLVERS[self._resolver])
        try:
            with _quiet():
                self._interpreter = self._runtime.Interpreter(
                    model_path=self._path,
                    num_threads=self._threads or None,
                    experimental_op_resolver_type=kind,
                )
                self._runner = None
                if self._entry.subgraph:
                    self._runner = self._interpreter.get_signature_runner(self._entry.key)
        except (RuntimeError, ValueError, SystemError) as error:  # the last: of an older numpy
            raise refusal(self.device, "can't load the model", error) from error
        self._shapes: list[tuple[int, ...]] | None = None
        self._fed: list[int] = []
        self._made: list[int] = []

    def _execute(self, feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        try:
            if self._has_strings:
                feeds = {name: _as_bytes(array) for name, array in feeds.items()}
            if self._runner is not None:
                found = self._run_signature(feeds)
            else:
                found = self._run_main([feeds[info.name] for info in self.inputs])
        except (RuntimeError, ValueError) as error:
            raise refusal(self.device, "failed while running", error) from error
        if self._has_strings:
            found = {name: as_texts(a) if a.dtype == object else a for name, a in found.items()}
        return found

    def _run_signature(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        assert self._runner is not None
        with _quiet():  # the first call prepares the subgraph
            found = self._runner(**{self._signature_inputs[n]: a for n, a in feeds.items()})
        return {name: np.asarray(found[key]) for key, name in self._signature_outputs.items()}

    def _run_main(self, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        interpreter = self._interpreter
        shapes = [array.shape for array in arrays]
        if shapes != self._shapes:
            self._shapes = None  # until it holds
            details = interpreter.get_input_details()
            with _quiet():
                for detail, shape in zip(details, shapes, strict=True):
                    if tuple(detail["shape"]) != shape:
                        interpreter.resize_tensor_input(detail["index"], shape)
                interpreter.allocate_tensors()
            self._shapes = shapes
            # asking for details takes longer than running a small model
            self._fed = [detail["index"] for detail in details]
            self._made = [detail["index"] for detail in interpreter.get_output_details()]
        for index, array in zip(self._fed, arrays, strict=True):
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return {
            info.name: self._read(place, index)
            for place, (info, index) in enumerate(zip(self.outputs, self._made, strict=True))
        }

    def _read(self, place: int, index: int) -> np.ndarray:
        """An output; one without elements can't be read if its extents weren't known before."""
        try:
            found = np.asarray(self._interpreter.get_tensor(index))  # scalars are no arrays
        except ValueError:
            detail = self._interpreter.get_output_details()[place]
            if 0 not in detail["shape"]:
                raise
            found = np.empty(detail["shape"], detail["dtype"])
        return found if found.size else _as_stated(found, self.outputs[place].shape)

    def _reset(self) -> None:
        # The interpreter resets variable tensors, but not resource variables: a new one has both.
        self._load()

    def _close(self) -> None:
        self._runner = None
        self._interpreter = None
        if self._remove is not None:
            self._remove()


def _as_bytes(array: np.ndarray) -> np.ndarray:
    """Strings as LiteRT has them: bytes, of any kind; other arrays stay as they are.

    Of an array without dimensions it takes the memory as the text, so that one holds it itself.
    """
    if array.dtype != object:
        return array
    texts = [t.encode("utf-8", "surrogateescape") for t in array.reshape(-1)]
    if not array.ndim:
        return np.ndarray((), f"S{len(texts[0])}", texts[0])
    found = np.empty(array.shape, object)
    found.reshape(-1)[:] = texts
    return found


def _as_stated(empty: np.ndarray, shape: Shape) -> np.ndarray:
    """An output without elements, by the extents that the model states.

    XNNPACK leaves those of convolutions and pools of an empty batch as the memory was.
    """
    if shape is None or len(shape) != empty.ndim:
        return empty
    pairs = zip(shape, empty.shape, strict=True)
    extents = tuple(stated if isinstance(stated, int) else seen for stated, seen in pairs)
    return empty if 0 not in extents else np.empty(extents, empty.dtype)


def _choose(file: wire.File, key: str | None) -> EntryPoint:
    entries = entry_points(file)
    for entry in entries:
        if key is None or entry.key == key:
            return entry
    known = ", ".join(repr(entry.key) for entry in entries)
    raise UsageError(f"no signature {key!r}; the model has {known}")


def _infos(
    file: wire.File, subgraph: wire.Subgraph, indices: Sequence[int], kind: str
) -> tuple[TensorInfo, ...]:
    tensors = [subgraph.tensors[index] for index in indices]
    names = interface_names((tensor.name for tensor in tensors), kind)
    return tuple(
        TensorInfo(name, dtype_of(tensor), shape_of(tensor), quant_of(file, subgraph, tensor))
        for name, tensor in zip(names, tensors, strict=True)
    )
