"""What NNAPI's calls cost over onnxruntime alone.

    python benchmarks/nnapi_runtime.py [KIND...]

- compute: an execution of a small float network that is computed again and again, against a bare
  session whose inputs and outputs are bound.
- compile: a compilation of a model of 50 MB of some kind, against the creation of a session from
  the ONNX file of that model; then with a cache, the first time and again. One of the models is
  compiled in two pieces, as if onnxruntime had no square roots.

Rounds of the sides alternate. Of computations the least times are compared: other work on the
machine only ever adds. Of compilations it is the medians, and each side has a process, whose
allocator keeps what is freed (glibc's; others aren't told): else fresh pages cost a factor of two
or nothing, by chance. Exits with 1 where a limit is exceeded.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnxruntime
from measure import print_rows

import nnconv
from nnconv import backends
from nnconv.errors import BackendError
from nnconv.ir import Model
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode

FLOAT, HALF, INT = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16, OperandCode.INT32
CODES, CHANNELS = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL

IMAGE, CLASSES = (1, 32, 32, 3), 10

MOST_RATIO, MOST_MICROSECONDS = 1.10, 30.0
"""A computation may take this times as long as a bare one, and so much more."""

MOST_COMPILE_RATIO = 1.3

COMPUTE_ROUNDS, RUNS = 100, 50
COMPILE_ROUNDS = 20

BYTES = 50e6
"""Of the weights of a model that is compiled."""

ONNXRUNTIME = "onnxruntime:cpu"


class Net:
    """A chain of operations of an NNAPI model, built by calls."""

    def __init__(self, shape: tuple[int, ...], kind: OperandCode = FLOAT) -> None:
        self.model = nnapi.Model()
        self.rng = np.random.default_rng(0)
        self.kind = kind
        self.first = self.last = self.model.add_operand(self._type(shape))

    def _type(self, shape: tuple[int, ...]) -> OperandType:
        """Of a value."""
        return OperandType(self.kind, shape, *((0.05, 3) if self.kind is CODES else ()))

    def constant(self, *shape: int, axis: int = 0) -> int:
        """Random weights, or a bias; ``axis`` is that of the filters."""
        if self.kind is CODES:
            return self._codes(shape, axis)
        index = self.model.add_operand(OperandType(self.kind, shape))
        size = np.sqrt(np.prod(shape[1:], dtype=np.float64)) if len(shape) > 1 else 10
        data = (self.rng.standard_normal(shape) / size).astype(np.float32)
        self.model.set_operand_value(index, data.astype(np.float16) if self.kind is HALF else data)
        return index

    def _codes(self, shape: tuple[int, ...], axis: int) -> int:
        if len(shape) == 1:
            index = self.model.add_operand(OperandType(OperandCode.TENSOR_INT32, shape))
            self.model.set_operand_value(index, self.rng.integers(-99, 99, shape, np.int32))
            return index
        index = self.model.add_operand(OperandType(CHANNELS, shape))
        self.model.set_operand_value(index, self.rng.integers(-127, 128, shape, np.int8))
        scales = self.rng.uniform(1e-4, 1e-3, shape[axis]).astype(np.float32)
        params = nnapi.SymmPerChannelQuantParams(axis, scales)
        self.model.set_operand_symm_per_channel_quant_params(index, params)
        return index

    def number(self, value: int) -> int:
        """A setting."""
        index = self.model.add_operand(OperandType(INT))
        self.model.set_operand_value(index, np.int32(value))
        return index

    def add(self, code: OperationCode, shape: tuple[int, ...], *operands: int) -> None:
        """An operation on what the last one gave."""
        result = self.model.add_operand(self._type(shape))
        self.model.add_operation(code, [self.last, *operands], [result])
        self.last = result

    def conv(self, size: int, before: int, after: int) -> None:
        """A convolution of 8 x 8 pixels: same padding, strides of 1, ReLU."""
        weights = self.constant(after, size, size, before), self.constant(after)
        settings = map(self.number, (1, 1, 1, 1))
        self.add(OperationCode.CONV_2D, (1, 8, 8, after), *weights, *settings)

    def finished(self) -> nnapi.Model:
        """The model."""
        self.model.identify_inputs_and_outputs([self.first], [self.last])
        self.model.finish()
        return self.model


def small_network() -> nnapi.Model:
    """Three convolutions with pooling, and a layer of ten classes."""
    net = Net(IMAGE)
    size, before = IMAGE[1], IMAGE[3]
    for channels in (16, 32, 64):
        conv = [net.number(n) for n in (1, 1, 1, 1)]  # same padding, strides, ReLU
        weights = net.constant(channels, 3, 3, before), net.constant(channels)
        net.add(OperationCode.CONV_2D, (1, size, size, channels), *weights, *conv)
        size, before = size // 2, channels
        pool = [net.number(n) for n in (1, 2, 2, 2, 2, 0)]
        net.add(OperationCode.MAX_POOL_2D, (1, size, size, channels), *pool)
    weights = net.constant(CLASSES, size * size * before), net.constant(CLASSES)
    net.add(OperationCode.FULLY_CONNECTED, (1, CLASSES), *weights, net.number(0))
    return net.finished()


def bottlenecks() -> nnapi.Model:
    """As in ResNets."""
    net = Net((1, 8, 8, 1024))
    for _ in range(11):  # 4.47 MB each
        for size, before, after in ((1, 1024, 256), (3, 256, 256), (1, 256, 1024)):
            net.conv(size, before, after)
    return net.finished()


def convolutions(size: int, channels: int, kind: OperandCode = FLOAT) -> nnapi.Model:
    """Convolutions of one size."""
    net = Net((1, 8, 8, channels), kind)
    count = size * size * channels * channels * {FLOAT: 4, HALF: 2, CODES: 1}[kind]
    for _ in range(round(BYTES / count)):
        net.conv(size, channels, channels)
    return net.finished()


def depthwise() -> nnapi.Model:
    """Depthwise convolutions."""
    channels = 4096
    net = Net((1, 8, 8, channels))
    for _ in range(round(BYTES / (4 * 49 * channels))):
        weights = net.constant(1, 7, 7, channels), net.constant(channels)
        settings = map(net.number, (1, 1, 1, 1, 1))
        net.add(OperationCode.DEPTHWISE_CONV_2D, (1, 8, 8, channels), *weights, *settings)
    return net.finished()


def layers(kind: OperandCode = FLOAT, *, root: bool = False) -> nnapi.Model:
    """Fully connected layers; with a square root in the middle."""
    size = 1024
    net = Net((1, size), kind)
    count = round(BYTES / (size * size * (2 if kind is HALF else 4)))
    for number in range(count):
        if root and number == count // 2:
            net.add(OperationCode.SQRT, (1, size))
        weights = net.constant(size, size), net.constant(size)
        net.add(OperationCode.FULLY_CONNECTED, (1, size), *weights, net.number(1))
    return net.finished()


PIECES = "layers, in pieces"

KINDS: dict[str, Callable[[], nnapi.Model]] = {
    "bottlenecks": bottlenecks,
    "3x3": lambda: convolutions(3, 256),
    "1x1": lambda: convolutions(1, 512),
    "7x7": lambda: convolutions(7, 256),
    "depthwise": depthwise,
    "layers": layers,
    "3x3, int8": lambda: convolutions(3, 256, CODES),
    "1x1, int8": lambda: convolutions(1, 1024, CODES),
    "3x3, float16": lambda: convolutions(3, 256, HALF),
    "layers, float16": lambda: layers(HALF),
    PIECES: lambda: layers(root=True),
}
"""Models with about 50 MB of weights."""


def compiled(
    model: nnapi.Model, folder: Path | None = None, names: Sequence[str] = (ONNXRUNTIME,)
) -> nnapi.Compilation:
    """The model on devices."""
    devices = [nnapi.get_device(i) for i in range(nnapi.get_device_count())]
    chosen = [next(d for d in devices if d.get_name() == name) for name in names]
    made = nnapi.Compilation.create_for_devices(model, chosen)
    if folder is not None:
        made.set_caching(folder, bytes(32))
    made.finish()
    return made


@contextlib.contextmanager
def no_square_roots() -> Iterator[None]:
    """Have onnxruntime refuse them, and with them every model that has one."""
    real = backends.compile

    def picky(model: Any, device: str, **options: Any) -> backends.Executable:
        nodes = model.graph.nodes if isinstance(model, Model) else ()
        if device == ONNXRUNTIME and any(node.op.name == "Sqrt" for node in nodes):
            raise BackendError("there are no square roots")
        return real(model, device, **options)

    with mock.patch.object(backends, "compile", picky):
        yield


def bare_session(model: nnapi.Model, path: Path) -> onnxruntime.InferenceSession:
    """A session of the ONNX file that nnconv makes of a model."""
    nnconv.save(model.to_ir(), path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def alternate(sides: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The times of each side, in seconds, as its function measures them."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            times[name].append(measure())
    return times


def seconds_of(work: Callable[[], Any], runs: int = 1) -> float:
    """What one run takes."""
    start = time.perf_counter()
    for _ in range(runs):
        work()
    return (time.perf_counter() - start) / runs


def measure_compute(folder: Path) -> dict[str, float]:
    """Seconds of a computation, of the session alone and by NNAPI's calls."""
    model = small_network()
    image = np.random.default_rng(1).random(IMAGE, np.float32)
    mine, bare = (np.zeros((1, CLASSES), np.float32) for _ in range(2))
    session = bare_session(model, folder / "small.onnx")
    binding = session.io_binding()
    for edges, bind, array in (
        (session.get_inputs(), binding.bind_input, image),
        (session.get_outputs(), binding.bind_output, bare),
    ):
        place = array.ctypes.data
        bind(edges[0].name, "cpu", 0, np.float32, array.shape, place)
    execution = nnapi.Execution(compiled(model))
    execution.set_reusable(True)
    execution.set_input(0, image)
    execution.set_output(0, mine)
    found = alternate(
        {
            "onnxruntime": lambda: seconds_of(lambda: session.run_with_iobinding(binding), RUNS),
            "nnconv": lambda: seconds_of(execution.compute, RUNS),
        },
        COMPUTE_ROUNDS,
    )
    if not np.array_equal(mine, bare):
        raise SystemExit("the two sides give different results")
    return {side: min(times) for side, times in found.items()}


class Compiler:
    """Compiles a model of some kind, in the ways that are compared."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.model = KINDS[kind]()
        self.path = folder / "large.onnx"
        self.cache = folder / "cache"
        self.in_pieces = kind == PIECES
        self.names = (ONNXRUNTIME, "reference") if self.in_pieces else (ONNXRUNTIME,)

    def session(self) -> None:
        """By onnxruntime alone."""
        onnxruntime.InferenceSession(self.path, providers=["CPUExecutionProvider"])

    def compile(self) -> None:
        """By nnconv, without a cache."""
        compiled(self.model, names=self.names)

    def keep(self) -> None:
        """By nnconv, into an empty cache."""
        shutil.rmtree(self.cache, ignore_errors=True)
        self.cache.mkdir()
        compiled(self.model, self.cache, self.names)

    def find(self) -> None:
        """By nnconv, from the cache."""
        compiled(self.model, self.cache, self.names)

    def seconds(self, way: str) -> float:
        """What one of the ways takes."""
        with no_square_roots() if self.in_pieces else contextlib.nullcontext():
            return seconds_of(getattr(self, way))


WAYS = {
    "onnxruntime": "session", "nnconv": "compile", "nnconv, kept": "keep", "nnconv, found": "find"
}  # fmt: skip

KEEP_MEMORY = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(1 << 30))
"""What has glibc's allocator give nothing back to the system."""

_compilers: dict[str, Compiler] = {}
"""By kind, in a process that measures one of the ways."""


def _prepare(kind: str, folder: Path) -> None:
    _compilers[kind] = Compiler(kind, folder)


def _measure(kind: str, way: str) -> float:
    return _compilers[kind].seconds(way)


def measure_compile(kind: str, folder: Path) -> dict[str, float]:
    """Seconds until a model can run."""
    compiler = Compiler(kind, folder)
    nnconv.save(compiler.model.to_ir(), compiler.path)
    spawning = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, KEEP_MEMORY))
        pools = {
            way: stack.enter_context(spawning.Pool(1, _prepare, (kind, folder)))
            for way in WAYS.values()
        }

        def measuring(way: str) -> Callable[[], float]:
            return lambda: pools[way].apply(_measure, (kind, way))

        found = alternate({side: measuring(way) for side, way in WAYS.items()}, COMPILE_ROUNDS)
    return {side: statistics.median(times) for side, times in found.items()}


def main() -> int:
    """Measure and report; 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    named = ", ".join(map(repr, KINDS))  # commas are in some
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=named)
    kinds = parser.parse_args().kinds or list(KINDS)
    if wrong := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"there is no {', '.join(wrong)}; kinds are {named}")
    with tempfile.TemporaryDirectory() as name:
        found = {"compute": measure_compute(Path(name))}
        found |= {kind: measure_compile(kind, Path(name)) for kind in kinds}
    rows = []
    for what, times in found.items():
        bare = times["onnxruntime"]
        for side, seconds in times.items():
            rows.append((what, side, f"{1e3 * seconds:.4g}", f"{seconds / bare:.3f}"))
    print_rows(("what", "by", "ms", "ratio"), rows)
    compute = found.pop("compute")
    most = MOST_RATIO * compute["onnxruntime"] + 1e-6 * MOST_MICROSECONDS
    exceeded = ["a computation takes too long"] if compute["nnconv"] > most else []
    for kind, times in found.items():
        if times["nnconv"] > MOST_COMPILE_RATIO * times["onnxruntime"]:
            exceeded.append(f"{kind}: the compilation takes too long")
        if times["nnconv, found"] > times["nnconv"]:
            exceeded.append(f"{kind}: the cache saves no time")
    for text in exceeded:
        print(text)
    return int(bool(exceeded))


if __name__ == "__main__":
    sys.exit(main())
