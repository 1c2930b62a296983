"""What NNAPI's calls cost over onnxruntime alone.

    python benchmarks/nnapi_runtime.py

- compute: an execution of a small float network that is computed again and again, against a bare
  session whose inputs and outputs are bound.
- compile: a compilation of a model of 50 MB, against the creation of a session from the ONNX file
  of that model; then with a cache, the first time and again.

Rounds of the sides alternate, and the least time of each is compared: other work on the machine
only ever adds. Exits with 1 where a limit is exceeded.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from measure import print_rows

import nnconv
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode

FLOAT, INT = OperandCode.TENSOR_FLOAT32, OperandCode.INT32

IMAGE, CLASSES = (1, 32, 32, 3), 10

MOST_RATIO, MOST_MICROSECONDS = 1.10, 30.0
"""A computation may take this times as long as a bare one, and so much more."""

MOST_COMPILE_RATIO = 1.3

COMPUTE_ROUNDS, RUNS = 100, 50
COMPILE_ROUNDS = 20


class Net:
    """A chain of operations of an NNAPI model, built by calls."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.model = nnapi.Model()
        self.rng = np.random.default_rng(0)
        self.first = self.last = self.model.add_operand(OperandType(FLOAT, shape))

    def constant(self, *shape: int) -> int:
        """Random weights."""
        index = self.model.add_operand(OperandType(FLOAT, shape))
        size = np.sqrt(np.prod(shape[1:], dtype=np.float64)) if len(shape) > 1 else 10
        data = (self.rng.standard_normal(shape) / size).astype(np.float32)
        self.model.set_operand_value(index, data)
        return index

    def number(self, value: int) -> int:
        """A setting."""
        index = self.model.add_operand(OperandType(INT))
        self.model.set_operand_value(index, np.int32(value))
        return index

    def add(self, code: OperationCode, shape: tuple[int, ...], *operands: int) -> None:
        """An operation on what the last one gave."""
        result = self.model.add_operand(OperandType(FLOAT, shape))
        self.model.add_operation(code, [self.last, *operands], [result])
        self.last = result

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


def large_network() -> nnapi.Model:
    """Bottlenecks as in ResNets, with 50 MB of weights."""
    wide, narrow = 1024, 256
    net = Net((1, 8, 8, wide))
    for _ in range(11):  # 4.47 MB each
        for size, before, after in ((1, wide, narrow), (3, narrow, narrow), (1, narrow, wide)):
            weights = net.constant(after, size, size, before), net.constant(after)
            conv = map(net.number, (1, 1, 1, 1))  # same padding, strides, ReLU
            net.add(OperationCode.CONV_2D, (1, 8, 8, after), *weights, *conv)
    return net.finished()


def compiled(model: nnapi.Model, folder: Path | None = None) -> nnapi.Compilation:
    """The model on onnxruntime."""
    devices = (nnapi.get_device(i) for i in range(nnapi.get_device_count()))
    device = next(d for d in devices if d.get_name() == "onnxruntime:cpu")
    made = nnapi.Compilation.create_for_devices(model, [device])
    if folder is not None:
        made.set_caching(folder, bytes(32))
    made.finish()
    return made


def bare_session(model: nnapi.Model, path: Path) -> onnxruntime.InferenceSession:
    """A session of the ONNX file that nnconv makes of a model."""
    nnconv.save(model.to_ir(), path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def least_times(sides: dict[str, Callable[[], Any]], rounds: int, runs: int) -> dict[str, float]:
    """The least time of one run of each side, in seconds."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            start = time.perf_counter()
            for _ in range(runs):
                work()
            times[name].append((time.perf_counter() - start) / runs)
    return {name: min(found) for name, found in times.items()}


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
    found = least_times(
        {"onnxruntime": lambda: session.run_with_iobinding(binding), "nnconv": execution.compute},
        COMPUTE_ROUNDS,
        RUNS,
    )
    if not np.array_equal(mine, bare):
        raise SystemExit("the two sides give different results")
    return found


def measure_compile(folder: Path) -> dict[str, float]:
    """Seconds until a model can run."""
    model = large_network()
    path = folder / "large.onnx"
    nnconv.save(model.to_ir(), path)
    cache = folder / "cache"
    cache.mkdir()

    def kept_anew() -> None:
        for file in cache.iterdir():
            file.unlink()
        compiled(model, cache)

    providers = ["CPUExecutionProvider"]
    return least_times(
        {
            "onnxruntime": lambda: onnxruntime.InferenceSession(path, providers=providers),
            "nnconv": lambda: compiled(model),
            "nnconv, kept": kept_anew,
            "nnconv, found": lambda: compiled(model, cache),
        },
        COMPILE_ROUNDS,
        1,
    )


def main() -> int:
    """Measure and report; 1 if a limit is exceeded."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compute = measure_compute(folder)
        compilation = measure_compile(folder)
    rows = []
    for what, found in (("compute", compute), ("compile", compilation)):
        bare = found["onnxruntime"]
        for side, seconds in found.items():
            times = (f"{1e3 * seconds:.4g}", f"{seconds / bare:.3f}")
            rows.append((f"{what}, {side}", *times))
    print_rows(("what", "ms", "ratio"), rows)
    most = MOST_RATIO * compute["onnxruntime"] + 1e-6 * MOST_MICROSECONDS
    limits = {
        "a computation takes too long": compute["nnconv"] > most,
        "a compilation takes too long": compilation["nnconv"]
        > MOST_COMPILE_RATIO * compilation["onnxruntime"],
        "the cache saves no time": compilation["nnconv, found"] > compilation["nnconv"],
    }
    for text, broken in limits.items():
        if broken:
            print(text)
    return int(any(limits.values()))


if __name__ == "__main__":
    sys.exit(main())
