"""Whole conversions of ONNX files to TFLite, for tests of what a file holds besides arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import FunctionProto, NodeProto, ValueInfoProto, helper, numpy_helper

import nnconv
from support.compare import assert_match
from support.flatbuffer_verifier import verify
from support.litert import RESOLVERS
from support.litert_worker import Interface, worker
from support.onnx_routes import assert_interface, run_onnxruntime
from support.tflite_spine import tflite_ops

Dims = Sequence[int | str | None]


def info(name: str, dtype: Any, dims: Dims | None) -> ValueInfoProto:
    """An input or output; dimensions that are None or names are open."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, dims)


def ints(*numbers: int) -> np.ndarray:
    """A vector of 64-bit integers, such as ONNX has for axes and shapes."""
    return np.array(numbers, np.int64)


def onnx_model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 21,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[FunctionProto] = (),
    ir_version: int = 10,
) -> onnx.ModelProto:
    """A model; nothing is checked or inferred."""
    tensors = [numpy_helper.from_array(a, name) for name, a in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), tensors)
    versions = [helper.make_opsetid("", opset)]
    versions += [helper.make_opsetid(d, v) for d, v in (domains or {}).items()]
    return helper.make_model(
        graph, opset_imports=versions, ir_version=ir_version, functions=list(functions)
    )


class Made(NamedTuple):
    """One conversion to TFLite.

    Attributes:
        source, target: the files.
        report: what nnconv says it did.
    """

    source: Path
    target: Path
    report: nnconv.ConversionReport

    @property
    def content(self) -> bytes:
        """The written file."""
        return self.target.read_bytes()

    @property
    def ops(self) -> dict[str, int]:
        """How many operators of each builtin the written file has."""
        return tflite_ops(self.content)

    def run(self, *arrays: np.ndarray, resolver: str = "ref") -> list[np.ndarray]:
        """Run the written file on LiteRT; the inputs go by order."""
        return worker().run(self.content, [arrays], resolver)[1][0]

    def interface(self) -> Interface:
        """What LiteRT says of the inputs and outputs."""
        return worker().run(self.content, [], "ref")[0]


def to_tflite(model: onnx.ModelProto | Path, folder: Path, **options: Any) -> Made:
    """Convert a model, see that the source stays as it was and that the result is well formed."""
    if isinstance(model, Path):
        source = model
    else:
        source = folder / "model.onnx"
        source.write_bytes(model.SerializeToString())
    before = source.read_bytes(), source.stat().st_mtime_ns
    target = folder / "model.tflite"
    report = nnconv.convert(source, target, **options)
    assert (source.read_bytes(), source.stat().st_mtime_ns) == before
    made = Made(source, target, report)
    verify(made.content)
    return made


def check_against_onnxruntime(
    made: Made,
    *runs: Sequence[np.ndarray],
    interface: bool = True,
    tolerance: float = 1e-5,
    steps: int | None = None,
) -> list[list[np.ndarray]]:
    """See that LiteRT gives with each of its sets of kernels what onnxruntime gives of the source.

    ``steps`` are those allowed of quantized results; None: outputs of integers must be equal.
    Gives onnxruntime's results.
    """
    graph = onnx.load(str(made.source), load_external_data=False).graph
    defaults = {tensor.name for tensor in graph.initializer}
    names = [i.name for i in graph.input if i.name not in defaults]
    feeds = [dict(zip(names, arrays, strict=True)) for arrays in runs]
    oracle = [run_onnxruntime(str(made.source), arrays) for arrays in feeds]
    for resolver in RESOLVERS:
        told, results = worker().run(made.content, runs, resolver)
        if interface:
            assert_interface(made.source, told)
        for seen, wanted in zip(results, oracle, strict=True):
            for index, (have, want) in enumerate(zip(seen, wanted, strict=True)):
                assert_match(
                    have,
                    want,
                    quantized=steps is not None and want.dtype.kind in "iu",
                    tol=tolerance,
                    steps=steps or 0,
                    label=f"LiteRT ({resolver}), output {index}",
                )
    return oracle
