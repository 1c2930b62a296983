"""Runs models on ONNX Runtime: ONNX files as they are, everything else by way of ONNX in memory."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from nnconv.backends.base import (
    Device,
    Executable,
    StateInfo,
    TensorInfo,
    aliases,
    check_options,
    check_threads,
    interface_names,
    one_line,
    refusal,
    refuse_shapes,
)
from nnconv.backends.lending import FATAL_ONLY, LENT_FROM, is_lendable, lend
from nnconv.backends.limits import DeadlineError, current_limits

from nnconv.errors import BackendError, InvalidModelError, UsageError
from nnconv.formats import detect, read_model
from nnconv.formats.onnx.notes import noted_names, noted_quants, noted_states
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model
from nnconv.ir.quant import Quant
from nnconv.ir.types import Dim, Shape
from nnconv.lowering import choose_signature, one_entry, to_onnx
from nnconv.ops.elementwise import Add, Mul

PROVIDERS = {
    "onnxruntime:cpu": "CPUExecutionProvider",
    "onnxruntime:cuda": "CUDAExecutionProvider",
    "onnxruntime:dml": "DmlExecutionProvider",
}
_DISTRIBUTIONS = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino")
_INSTALL = {
    "onnxruntime:cpu": "pip install nnconv[onnxruntime]",
    "onnxruntime:cuda": "pip install onnxruntime-gpu",
    "onnxruntime:dml": "pip install onnxruntime-directml (Windows)",
}
_DTYPES = {
    "tensor(float)": DType.FLOAT32,
    "tensor(double)": DType.FLOAT64,
    **{f"tensor({dtype.value})": dtype for dtype in DType},
}

_KEPT_WEIGHTS = "session.optimized_model_external_initializers_"


def find(device: str) -> Device:
    """What there is of a device of ONNX Runtime."""
    kind = "cpu" if device == "onnxruntime:cpu" else "gpu"
    if find_spec("onnxruntime") is None:
        missing = f"onnxruntime isn't installed; {_INSTALL[device]}"
        return Device(device, kind, available=False, why_not=missing)
    try:
        providers = _runtime().get_available_providers()
    except BackendError as error:
        return Device(device, kind, available=False, version=_version(), why_not=error.message)
    if PROVIDERS[device] not in providers:
        missing = f"this onnxruntime lacks {PROVIDERS[device]}; {_INSTALL[device]}"
        return Device(device, kind, available=False, version=_version(), why_not=missing)
    return Device(device, kind, available=True, version=_version())


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    for name in _DISTRIBUTIONS:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return "onnxruntime"


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise BackendError(
            f"onnxruntime can't be loaded: {one_line(error)}", hint=_INSTALL["onnxruntime:cpu"]
        ) from error
    return onnxruntime


def make(
    source: Model | str | os.PathLike[str], device: str, options: Mapping[str, Any]
) -> Executable:
    """Make a model ready for one of ONNX Runtime's devices; ``nnconv.compile`` says more."""
    check_options(options, OnnxRuntimeExecutable.OPTIONS, device)
    return OnnxRuntimeExecutable(source, device, **options)


class OnnxRuntimeExecutable(Executable):
    """An inference session."""

    OPTIONS = frozenset({"input_shapes", "keep", "optimize", "signature", "threads"})

    def __init__(
        self,
        source: Model | str | os.PathLike[str],
        device: str,
        *,
        input_shapes: Mapping[str, Shape] | None = None,
        keep: str = "",
        optimize: bool = True,
        signature: str | None = None,
        threads: int = 0,
    ) -> None:
        """Load ``source``, converted where it isn't an ONNX file.

        Without ``optimize`` onnxruntime runs each node as the file has it. What it makes of the
        model is written to the path ``keep``: a file for such CPUs, to be run without ``optimize``,
        with large weights beside it.
        """
        super().__init__(device)
        self._runtime = _runtime()
        self._errors = _error_classes(self._runtime)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lent: dict[str, np.ndarray] = {}
        self._fuses_codes, self._needs_elements = True, ""
        self._left_out: list[str] = []
        provider = PROVIDERS[device]
        if provider not in self._runtime.get_available_providers():
            raise BackendError(
                f"this onnxruntime has no {provider} for {device}", hint=_INSTALL[device]
            )
        content = self._content(source, signature, input_shapes)
        options = self._options(check_threads(threads), optimize=optimize)
        if keep:
            options.optimized_model_filepath = keep
            # Weights in a file of their own are mapped when the model is loaded.
            options.add_session_config_entry(f"{_KEPT_WEIGHTS}file_name", f"{Path(keep).name}.data")
            options.add_session_config_entry(f"{_KEPT_WEIGHTS}min_size_in_bytes", str(LENT_FROM))
        self._session = self._open(content, provider, options)
        self._read_interface(content)
        if input_shapes and not isinstance(source, Model):
            self._take_shapes(input_shapes, fixed=True)

    def _content(
        self,
        source: Model | str | os.PathLike[str],
        signature: str | None,
        input_shapes: Mapping[str, Shape] | None,
    ) -> bytes | str:
        """What the session is made of: a path or the bytes of a model."""
        if isinstance(source, Model):
            refuse_shapes(input_shapes)
            return self._converted(source, signature)
        if detect(source) != "onnx":
            return self._converted(read_model(source, input_shapes=input_shapes), signature)
        if signature is not None:
            raise UsageError(f"{os.fspath(source)} runs as it is: signature must be left out")
        return os.fspath(source)

    def _converted(self, model: Model, signature: str | None) -> bytes | str:
        from nnconv.formats.onnx.protobuf import MAX_BYTES, encode, part_chunks, write

        entry = choose_signature(model, signature)
        self._leave_out_what_crashes(model)
        lowered = to_onnx(one_entry(model, entry))
        large = [t for t in lowered.model.graph.initializers if is_lendable(t)]
        self._lent = lend(large, self._runtime)
        elsewhere = {id(tensor): ("memory", 0) for tensor in large}
        parts, size = encode(lowered.model, elsewhere)
        if size <= MAX_BYTES:
            return b"".join(part_chunks(parts))
        # A message this large can't be: its weights must lie in a file, which the session maps.
        self._lent.clear()
        self._folder = tempfile.TemporaryDirectory(prefix="nnconv-")
        path = Path(self._folder.name) / "model.onnx"
        write(lowered.model, path)
        return str(path)

    def _leave_out_what_crashes(self, model: Model) -> None:
        """Keep onnxruntime from the fusions that may end the process, as far as a model calls them.

        Where the extents that aren't known are those of inputs, codes are fused all the same, and
        runs on inputs without elements are refused. So they are for recurrences, of which those of
        no steps or of an empty batch end the process or give other states.
        """
        graphs = list(model.graphs())
        shapes = [shape for graph in graphs for shape in _of_one_code_or_none(graph)]
        self._fuses_codes = not any(None in shape for shape in shapes)
        if self._fuses_codes and shapes:
            self._needs_elements = "sums and products of codes"
        elif any(map(_has_open_recurrences, graphs)):
            self._needs_elements = "recurrences"
        if any(map(_has_halves, graphs)):
            self._left_out.append("MatmulTransposeFusion")

    def _options(self, threads: int, *, optimize: bool) -> Any:
        options = self._runtime.SessionOptions()
        options.log_severity_level = FATAL_ONLY
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.prepack.enable_parallel", "1")
        if not optimize:
            level = self._runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.graph_optimization_level = level
        if not self._fuses_codes:
            options.add_session_config_entry("session.disable_quant_qdq", "1")
        if not has_exact_byte_sums():
            options.add_session_config_entry("session.x64quantprecision", "1")
        if self._lent:
            values = [self._runtime.OrtValue.ortvalue_from_numpy(a) for a in self._lent.values()]
            options.add_external_initializers(list(self._lent), values)
        return options

    def _open(self, content: bytes | str, provider: str, options: Any) -> Any:
        providers = list(dict.fromkeys((provider, "CPUExecutionProvider")))
        try:
            session = self._runtime.InferenceSession(
                content, options, providers=providers, disabled_optimizers=self._left_out
            )
        except self._errors as error:
            if type(error).__name__ in ("InvalidProtobuf", "NoSuchFile"):
                path = content if isinstance(content, str) else ""
                raise InvalidModelError(one_line(error), path=path) from error
            raise refusal(self.device, "can't load the model", error) from error
        if session.get_providers()[0] != provider:
            raise BackendError(f"onnxruntime couldn't start {provider} and would use the CPU")
        return session

    def _read_interface(self, content: bytes | str) -> None:
        notes = self._session.get_modelmeta().custom_metadata_map
        quants = noted_quants(notes)
        taken, given = self._session.get_inputs(), self._session.get_outputs()
        ranked = all(argument.shape for argument in (*taken, *given))
        unranked = frozenset() if ranked else _unranked(content)
        inputs = {i.name: self._info(i, quants, unranked) for i in taken}
        self._asked = [o.name for o in given]  # one of them may be there twice
        self._results = interface_names(self._asked, "output")
        outputs = {
            name: self._info(o, quants, unranked)._replace(name=name)
            for name, o in zip(self._results, given, strict=True)
        }
        self.states = tuple(_states(notes, inputs, outputs))
        read = {state.input.name for state in self.states}
        written = {state.output for state in self.states}
        self.inputs = tuple(info for name, info in inputs.items() if name not in read)
        self.outputs = tuple(info for name, info in outputs.items() if name not in written)
        names = noted_names(notes, "inputs")
        self.aliases = aliases(list(names.items()), self.inputs)

    def _info(
        self, argument: Any, quants: Mapping[str, Quant], unranked: Collection[str]
    ) -> TensorInfo:
        dtype = _DTYPES.get(argument.type)
        if dtype is None:
            raise BackendError(
                f"`{argument.name}` is a {argument.type}; only tensors of known types can be run"
            )
        shape: Shape = None
        if argument.name not in unranked:
            shape = tuple(d if isinstance(d, int | str) else None for d in argument.shape or ())
        quant = quants.get(argument.name)
        if quant is not None and (quant.axis is not None or not dtype.is_integer):
            quant = None
        return TensorInfo(argument.name, dtype, shape, quant)

    def _execute(self, feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        if self._needs_elements and not all(array.size for array in feeds.values()):
            raise BackendError(f"{self.device} has no {self._needs_elements} without elements")
        seconds = current_limits().seconds_left()
        try:
            if seconds is None:
                results = self._session.run(self._asked, dict(feeds))
            else:
                results = self._execute_within(seconds, feeds)
        except self._errors as error:
            raise refusal(self.device, "failed while running", error) from error
        return dict(zip(self._results, results, strict=True))

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Callable[[], None] | None:
        """Have onnxruntime read and write the arrays themselves."""
        fits = all(map(_is_bindable, self.inputs, inputs)) and all(
            map(_is_bindable, self.outputs, outputs)
        )
        if self.states or not fits or self._asked != self._results:
            return None
        session, binding = self._session, self._session.io_binding()
        for info, array in zip(self.inputs, inputs, strict=True):
            place = array.ctypes.data
            binding.bind_input(info.name, "cpu", 0, array.dtype.type, array.shape, place)
        for info, array in zip(self.outputs, outputs, strict=True):
            place = array.ctypes.data
            binding.bind_output(info.name, "cpu", 0, array.dtype.type, array.shape, place)
        kept = (*inputs, *outputs)

        def run() -> None:
            try:
                session.run_with_iobinding(binding)
            except self._errors as error:
                raise refusal(self.device, "failed while running", error) from error
            assert kept, "the arrays must live as long as this does"

        return run

    def _execute_within(self, seconds: float, feeds: Mapping[str, np.ndarray]) -> Any:
        """Run, but stop at the next node once the time is over."""
        options = self._runtime.RunOptions()
        options.log_severity_level = FATAL_ONLY
        timer = threading.Timer(seconds, setattr, (options, "terminate", True))
        timer.daemon = True
        timer.start()
        try:
            return self._session.run(self._asked, dict(feeds), options)
        except self._errors as error:
            if options.terminate:
                raise DeadlineError("the run took longer than it may") from error
            raise
        finally:
            timer.cancel()

    def _close(self) -> None:
        self._session = None
        self._lent.clear()
        if self._folder is not None:
            self._folder.cleanup()


def _is_bindable(info: TensorInfo, array: np.ndarray) -> bool:
    """Whether onnxruntime can read or write an array where it is."""
    flags = array.flags
    return (
        array.dtype == info.dtype.numpy
        and array.dtype.isbuiltin == 1
        and array.shape == info.shape
        and array.size > 0
        and flags.c_contiguous
        and flags.aligned
    )


def _error_classes(runtime: Any) -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises: its own classes share no base but Exception."""
    own = vars(runtime.capi.onnxruntime_pybind11_state).values()
    classes = [c for c in own if isinstance(c, type) and issubclass(c, Exception)]
    return (*classes, RuntimeError, ValueError, TypeError)


def _unranked(content: bytes | str) -> frozenset[str]:
    """The inputs and outputs whose rank a model doesn't state: onnxruntime calls them scalars."""
    from nnconv.formats.onnx.decode import read

    graph = read(content).graph
    return frozenset(end.name for end in (*graph.inputs, *graph.outputs) if end.dims is None)


def _of_one_code_or_none(graph: Graph) -> list[tuple[Dim, ...]]:
    """The shapes of terms and factors of codes that have open extents, and else those of one code.

    Of a single code and none onnxruntime's fused sums and products read the code that isn't there,
    which may end the process.
    """
    values = (
        value
        for node in graph.nodes
        if isinstance(node.op, Add | Mul) and node.outputs[0].type.has_codes
        for value in node.inputs
        if value is not None
    )
    shapes = [value.shape or () for value in values]
    return [s for s in shapes if set(s) - {1} and not any(isinstance(d, int) and d > 1 for d in s)]


_RECURRENCES = frozenset({"GruLayer", "Lstm", "LstmLayer", "Rnn", "RnnLayer"})
"""By name: their families are loaded for models that have them alone."""


def _has_open_recurrences(graph: Graph) -> bool:
    """Whether there are recurrences whose steps and batch aren't known to be some."""
    inputs = (node.operand(0) for node in graph.nodes if node.op.name in _RECURRENCES)
    return any(
        not isinstance(dim, int) or dim == 0 for x in inputs for dim in (x.shape or (None,))[:2]
    )


def _has_halves(graph: Graph) -> bool:
    """Whether there are float16 numbers in a graph.

    Where such an input is transposed for a MatMul, onnxruntime fuses both to what it has no kernel
    for, and its next pass ends the process.
    """
    values = (value for node in graph.nodes for value in node.outputs)
    return any(value.dtype is DType.FLOAT16 for value in (*graph.inputs, *values))


def _states(
    notes: Mapping[str, str], inputs: Mapping[str, TensorInfo], outputs: Mapping[str, TensorInfo]
) -> Iterator[StateInfo]:
    """The states that a file notes of its own inputs and outputs."""
    for noted in noted_states(notes):
        info = inputs.get(noted.input)
        if info is None or noted.output not in outputs:
            continue
        initial = noted.begin(
            info.dtype, tuple(d if isinstance(d, int) else 1 for d in info.shape or ())
        )
        if initial is not None:
            yield StateInfo(info, noted.output, initial)


@cache
def has_exact_byte_sums(flags: str | None = None) -> bool:
    """Whether this CPU adds products of uint8 and int8 exactly.

    On x64 without VNNI, onnxruntime's kernels use an instruction that saturates at 16 bits. There a
    slower form is asked for (``session.x64quantprecision``), as it is where the CPU can't be told.

    Args:
        flags: the CPU's features as Linux lists them; looked up when None.
    """
    if flags is None:
        import platform

        if platform.machine().lower() not in ("x86_64", "amd64"):
            return True
        try:
            flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
        except OSError:
            return False
    return bool({"avx512_vnni", "avx_vnni"} & set(flags.split()))
