"""Runs .tflite files in LiteRT's Python interpreter, quietly and in this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

RESOLVERS = ("ref", "opt", "xnn")
"""Reference kernels, optimized kernels, and optimized kernels with the XNNPACK delegate."""

_RESOLVER_TYPES = {
    "ref": OpResolverType.BUILTIN_REF,
    "opt": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "xnn": OpResolverType.BUILTIN,
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what LiteRT's C++ code prints on stderr to nowhere; its errors are exceptions too."""
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


class LiteRtRunner:
    """A loaded model. Variables keep their values from one run to the next."""

    def __init__(
        self, model: bytes | str | os.PathLike[str], resolver: str = "ref", *, threads: int = 1
    ) -> None:
        """Load a model from bytes or a file; raise LiteRT's ValueError or RuntimeError if it can't.

        ``resolver`` is one of `RESOLVERS`.
        """
        source: dict[str, Any] = (
            {"model_content": model}
            if isinstance(model, bytes)
            else {"model_path": os.fspath(model)}
        )
        with _quiet():
            self.interpreter = Interpreter(
                **source,
                num_threads=threads,
                experimental_op_resolver_type=_RESOLVER_TYPES[resolver],
            )
        self._inputs = self.interpreter.get_input_details()
        self._shapes: list[tuple[int, ...]] | None = None

    def run(self, inputs: Sequence[np.ndarray] | Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Run the first subgraph.

        Inputs go in order or by tensor name, each with the model's dtype; where shapes differ from
        the last run's, the model is resized (which resets its variables). Outputs come in order.
        """
        names = [detail["name"] for detail in self._inputs]
        if isinstance(inputs, Mapping):
            if sorted(inputs) != sorted(names):
                raise ValueError(f"the model's inputs are {names}, got {list(inputs)}")
            inputs = [inputs[name] for name in names]
        if len(inputs) != len(names):
            raise ValueError(f"the model has {len(names)} inputs, got {len(inputs)}")
        arrays = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in inputs]
        shapes: list[tuple[int, ...]] = [array.shape for array in arrays]
        with _quiet():
            if shapes != self._shapes:
                for detail, shape in zip(self._inputs, shapes, strict=True):
                    if tuple(detail["shape"]) != shape or self._shapes is not None:
                        self.interpreter.resize_tensor_input(detail["index"], shape)
                self.interpreter.allocate_tensors()
                self._shapes = shapes
            for detail, array in zip(self._inputs, arrays, strict=True):
                self.interpreter.set_tensor(detail["index"], array)
            self.interpreter.invoke()
            return [self._read(detail) for detail in self.interpreter.get_output_details()]

    def _read(self, detail: Mapping[str, Any]) -> np.ndarray:
        """An output; one without elements can't be read where its extents weren't known before."""
        if 0 in detail["shape"]:
            return np.empty(detail["shape"], detail["dtype"])
        return np.asarray(self.interpreter.get_tensor(detail["index"]))  # a scalar is no array

    def run_signature(self, key: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the signature ``key``; inputs and outputs go by the signature's names."""
        with _quiet():
            return dict(self.interpreter.get_signature_runner(key)(**inputs))

    def reset(self) -> None:
        """Set the variables back to their initial values."""
        with _quiet():
            self.interpreter.reset_all_variables()


def run_litert(
    model: bytes | str | os.PathLike[str],
    inputs: Sequence[np.ndarray] | Mapping[str, np.ndarray],
    resolver: str = "ref",
) -> list[np.ndarray]:
    """Load a model, run it once and give its outputs in order; see `LiteRtRunner.run`."""
    return LiteRtRunner(model, resolver).run(inputs)
