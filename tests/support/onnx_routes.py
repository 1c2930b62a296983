"""The spine of tests that begin with ONNX nodes.

A case is a graph of onnx's own making. What onnxruntime gives of it (or ``expected``) must come out
on every route: the IR on the reference backend; ONNX again, in as many nodes, on onnxruntime;
TFLite on LiteRT with each of its three sets of kernels, several runs of one file:

    CASES = [OnnxCase("gru", node("GRU", ["x", "w", "r"], ["y"], hidden_size=3), feeds)]

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_recurrent(case: OnnxCase, tmp_path: Path) -> None:
        check_routes(case, tmp_path)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from nnconv.backends.reference.executor import run_graph
from onnx import NodeProto, TensorProto, helper, numpy_helper

import nnconv
from nnconv.ir.verifier import verify_model
from support.compare import assert_match
from support.flatbuffer_verifier import verify
from support.litert import RESOLVERS
from support.litert_worker import Interface, worker
from support.spine import onnx_ops
from support.tflite_spine import tflite_ops


def node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    """A node; attributes of None are left out."""
    kept = {key: value for key, value in attributes.items() if value is not None}
    return helper.make_node(op_type, list(inputs), list(outputs), **kept)


@dataclass(frozen=True)
class OnnxCase:
    """A graph with what to feed and to expect.

    Attributes:
        id: what the test is called.
        nodes: one node or several.
        feeds: an array for each name that is an input, in order.
        more: feeds for further runs.
        constants: arrays of names that are constants.
        outputs: the names of the graph's outputs; None: those of the last node.
        results: element types of the outputs; None: onnx infers them.
        open: dimensions that the file leaves open, by input name.
        expected: the outputs of the first run; None: onnxruntime tells them.
        reference: whether onnxruntime's results are held against the reference evaluator of onnx.
        same_nodes: whether writing ONNX again gives the same nodes.
        ops: how many operators of each builtin the .tflite file must have.
        routes: the routes to try (say why not all).
        opset: of the file.
        domains: versions of other operator sets.
        tolerance: of float results, relative to the largest expected value.
        note: anything to say.
    """

    id: str
    nodes: NodeProto | Sequence[NodeProto]
    feeds: Mapping[str, np.ndarray]
    more: Sequence[Mapping[str, np.ndarray]] = ()
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    outputs: Sequence[str] | None = None
    results: Sequence[Any] | None = None
    open: Mapping[str, Sequence[int]] = field(default_factory=dict)
    expected: Sequence[np.ndarray] | None = None
    same_nodes: bool = True
    ops: dict[str, int] | None = None
    routes: Sequence[str] = ("reference", "onnx", "tflite")
    opset: int = 21
    domains: Mapping[str, int] = field(default_factory=dict)
    tolerance: float = 1e-5
    note: str = ""

    def __str__(self) -> str:
        return self.id

    def model(self) -> onnx.ModelProto:
        """The file, its outputs without types: onnx infers them."""
        nodes = [self.nodes] if isinstance(self.nodes, NodeProto) else list(self.nodes)
        outputs = self.outputs or [name for name in nodes[-1].output if name]
        inputs = []
        for name, array in self.feeds.items():
            dims: list[Any] = list(array.shape)
            for place in self.open.get(name, ()):
                dims[place] = f"{name}_{place}"
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(name, kind, dims))
        constants = [numpy_helper.from_array(a, name) for name, a in self.constants.items()]
        kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in self.results or ()]
        kinds = kinds or [TensorProto.UNDEFINED] * len(outputs)
        infos = [
            helper.make_tensor_value_info(name, kind, None)
            for name, kind in zip(outputs, kinds, strict=True)
        ]
        graph = helper.make_graph(nodes, self.id, inputs, infos, constants)
        versions = [helper.make_opsetid("", self.opset)]
        versions += [helper.make_opsetid(d, v) for d, v in self.domains.items()]
        model = helper.make_model(graph, opset_imports=versions, ir_version=10)
        inferred = onnx.shape_inference.infer_shapes(model)
        return (
            inferred if all(o.type.tensor_type.elem_type for o in inferred.graph.output) else model
        )


def feeding(
    id: str,
    nodes: NodeProto | Sequence[NodeProto],
    *arrays: Any,
    constants: Mapping[str, Any] | None = None,
    **more: Any,
) -> OnnxCase:
    """A case whose inputs are called x, z, u, v, w, in this order; its nodes may become others."""
    feeds = {name: np.asarray(array) for name, array in zip("xzuvw", arrays, strict=False)}
    kept = {name: np.asarray(array) for name, array in (constants or {}).items()}
    more.setdefault("same_nodes", False)
    return OnnxCase(id, nodes, feeds, constants=kept, **more)


def check_routes(case: OnnxCase, folder: Path) -> None:
    """Run a case on its routes and compare."""
    path = folder / "case.onnx"
    content = case.model().SerializeToString()
    path.write_bytes(content)
    runs = [case.feeds, *case.more]
    if case.expected is None:
        oracle = [run_onnxruntime(content, feeds) for feeds in runs]
    else:
        assert len(runs) == 1, "expected results of one run"
        oracle = [list(case.expected)]
    model = nnconv.load(path)
    verify_model(model)
    if "reference" in case.routes:
        for feeds, wanted in zip(runs, oracle, strict=True):
            _compare(case, "reference", run_graph(model.graph, list(feeds.values())), wanted)
    if "onnx" in case.routes:
        again = folder / "again.onnx"
        nnconv.save(nnconv.load(path), again, "onnx", opset=max(case.opset, 13))
        onnx.checker.check_model(str(again), full_check=True)
        if case.same_nodes:
            assert onnx_ops(again) == onnx_ops(path)
        for feeds, wanted in zip(runs, oracle, strict=True):
            seen = run_onnxruntime(again.read_bytes(), feeds)
            _compare(case, "onnxruntime", seen, wanted)
    if "tflite" in case.routes:
        _check_tflite(case, path, folder / "case.tflite", runs, oracle)


def _check_tflite(
    case: OnnxCase,
    path: Path,
    target: Path,
    runs: Sequence[Mapping[str, np.ndarray]],
    oracle: Sequence[Sequence[np.ndarray]],
) -> None:
    nnconv.save(nnconv.load(path), target, "tflite")
    content = target.read_bytes()
    verify(content)
    if case.ops is not None:
        assert tflite_ops(content) == case.ops
    arrays = [list(feeds.values()) for feeds in runs]
    for resolver in RESOLVERS:
        interface, results = worker().run(content, arrays, resolver)
        assert_interface(path, interface)
        for seen, wanted in zip(results, oracle, strict=True):
            _compare(case, f"LiteRT ({resolver})", seen, wanted)


def assert_interface(source: Path, told: Interface) -> None:
    """See that a .tflite file has the inputs and outputs of the ONNX file: names, order, types.

    Shapes are the inputs', and the outputs' as far as the source knows them.
    """
    graph = onnx.load(str(source), load_external_data=False).graph
    defaults = {tensor.name for tensor in graph.initializer}
    for infos, rows in ((graph.input, told.inputs), (graph.output, told.outputs)):
        stated = [info for info in infos if info.name not in defaults or infos is graph.output]
        assert [row[0] for row in rows] == [info.name for info in stated]
        for info, (name, dtype, dims) in zip(stated, rows, strict=True):
            kind = info.type.tensor_type
            if kind.elem_type:  # else the file leaves it to inference
                assert dtype == helper.tensor_dtype_to_np_dtype(kind.elem_type).name, name
            if not kind.HasField("shape"):
                continue
            assert len(dims) == len(kind.shape.dim), name
            for seen, dim in zip(dims, kind.shape.dim, strict=True):
                if dim.HasField("dim_value"):
                    assert seen == dim.dim_value, f"{name} has the shape {dims}"
                elif infos is graph.input:
                    assert seen == -1, f"{name} has the shape {dims}, is open in the source"


def run_onnxruntime(
    content: bytes | str, feeds: Mapping[str, np.ndarray], *, optimize: bool = True
) -> list[np.ndarray]:
    """The outputs of a model, as bytes or a path, on onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, dict(feeds))]


def _compare(
    case: OnnxCase, label: str, seen: Sequence[np.ndarray], wanted: Sequence[np.ndarray]
) -> None:
    assert len(seen) == len(wanted)
    for index, (have, want) in enumerate(zip(seen, wanted, strict=True)):
        label_of = f"{label}, output {index}"
        assert_match(have, want, quantized=False, tol=case.tolerance, label=label_of)
