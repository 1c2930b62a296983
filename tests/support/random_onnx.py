"""Random ONNX graphs, and what they must come to on every way through the converter.

`OnnxNet` is a graph under construction, each node's results at hand as examples;
`support.random_onnx_patterns` draws the nodes. `check` runs a graph on onnxruntime, on the
reference backend, on onnxruntime once more after a way through the IR, and on LiteRT with its three
sets of kernels. How far two right answers may lie apart is measured as in `support.random_core`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from nnconv.backends.reference.executor import run_graph
from onnx import NodeProto, helper, numpy_helper

import nnconv
from nnconv.ir.verifier import verify_model
from support.litert import RESOLVERS
from support.litert_worker import worker
from support.onnx_routes import run_onnxruntime
from support.random_core import Example, RandomNet, UnfitError, compare_ways, held

MOST_ELEMENTS = 3000
LARGEST = 1e4
"""Numbers beyond are no use: sums of them swallow all others."""

OPSETS = (13, 17, 18, 21, 21, 22)


@dataclass(eq=False)
class Slot(Example):
    """A value of a net: its name, an example of its content, whether it is a constant."""

    name: str
    data: np.ndarray
    fixed: bool = False

    @property
    def is_float(self) -> bool:
        return self.data.dtype.kind == "f"


class OnnxNet(RandomNet):
    """A random graph under construction.

    Attributes:
        kind: ``float``, or the type of the codes between QuantizeLinear and DequantizeLinear.
        dynamic: whether the first extent of every input is open.
        slots: what nodes may read, constants left out.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, 77)
        self.opset = int(self.one(OPSETS))
        self.kind = str(self.one(["float", "float", "float", "int8", "uint8"]))
        self.dynamic = self.chance(0.2)
        self.batch = 1 if self.dynamic else self.number(1, 2)
        self.slots: list[Slot] = []
        self.inputs: list[Slot] = []
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.used: set[str] = set()
        self._count = 0

    # ------------------------------------------------------------------------- choices

    @property
    def traits(self) -> str:
        return f"{self.kind}{', dynamic' if self.dynamic else ''}, opset {self.opset}"

    def pick(
        self,
        kinds: str = "f",
        ranks: Sequence[int] = (1, 2, 3, 4, 5),
        where: Any = None,
        small: int = MOST_ELEMENTS,
    ) -> Slot:
        """A value of one of the kinds of element type and ranks; late ones more often."""
        fit = [
            s
            for s in self.slots
            if s.data.dtype.kind in kinds
            and s.rank in ranks
            and 0 < s.data.size <= small
            and (where is None or where(s))
        ]
        return self.late(fit)

    def axis(self, x: Slot, *, first: int = 0) -> int:
        """An axis, now and then counted from the end; not the batch of a dynamic net."""
        low = max(first, int(self.dynamic))
        if low > x.rank - 1:
            raise UnfitError
        axis = self.number(low, x.rank - 1)
        return axis - x.rank if self.chance(0.3) else axis

    def still(self) -> None:
        """For nodes that can't follow an unknown batch."""
        if self.dynamic:
            raise UnfitError

    # ------------------------------------------------------------------------- parts

    def add_input(self, dtype: str, shape: tuple[int, ...]) -> Slot:
        data = self.random(shape).astype(dtype) if dtype == "float32" else self.ints(shape, dtype)
        slot = Slot(f"x{len(self.inputs)}", data)
        self.inputs.append(slot)
        self.slots.append(slot)
        return slot

    def random(self, shape: Sequence[int]) -> np.ndarray:
        return self.rng.standard_normal(tuple(shape)).astype(np.float32)

    def ints(self, shape: Sequence[int], dtype: str = "int64") -> np.ndarray:
        return self.rng.integers(0, 4, tuple(shape)).astype(dtype)

    def const(self, data: Any, dtype: Any = None) -> Slot:
        array = np.asarray(data, dtype)
        self._count += 1
        name = f"c{self._count}"
        self.constants[name] = array
        return Slot(name, array, fixed=True)

    def weight(self, shape: Sequence[int], fan: int) -> Slot:
        return self.const(self.random(shape) / np.float32(np.sqrt(max(fan, 1))))

    def add(
        self,
        op: str,
        operands: Sequence[Slot | None],
        results: int = 1,
        *,
        captured: Sequence[Slot] = (),
        **attributes: Any,
    ) -> list[Slot]:
        """Add a node; ``captured`` are what its bodies read from outside.

        Raises:
            UnfitError: onnxruntime can't work it out, or its results are of no use.
        """
        names = [f"t{self._count + i + 1}" for i in range(results)]
        inputs = ["" if s is None else s.name for s in operands]
        made = helper.make_node(op, inputs, names, **attributes)
        given = {s.name: s.data for s in (*operands, *captured) if s is not None}
        try:
            found = run_onnxruntime(self._file([made], given, names), given)
        except Exception as error:  # onnxruntime's errors have no common class
            raise UnfitError from error
        for array in found:
            useless = array.dtype.kind == "f" and not np.all(np.abs(array) < LARGEST)
            if useless or not 0 < array.size <= MOST_ELEMENTS or array.ndim > 5:
                raise UnfitError
        self._count += results
        self.nodes.append(made)
        self.used.update(inputs, (s.name for s in captured))
        slots = [Slot(name, array) for name, array in zip(names, found, strict=True)]
        self.slots += slots
        told = ", ".join(
            "-" if s is None else f"{s.name}{list(s.shape)}{'c' if s.fixed else ''}"
            for s in operands
        )
        results_ = ", ".join(f"{s.name}:{s.data.dtype}{list(s.shape)}" for s in slots)
        shown = {k: v for k, v in attributes.items() if not isinstance(v, onnx.GraphProto)}
        self.log.append(f"{results_} = {op}({told}) {shown or ''}")
        return slots

    def _file(
        self, nodes: Sequence[NodeProto], given: Mapping[str, np.ndarray], results: Sequence[str]
    ) -> bytes:
        """A model of nodes whose inputs all have fixed shapes."""
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given.items()
        ]
        graph = helper.make_graph(
            list(nodes), "part", infos, [helper.make_empty_tensor_value_info(n) for n in results]
        )
        versions = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10).SerializeToString()

    def finish(self) -> bytes:
        """Choose the outputs (all that nothing reads, and some others) and give the file."""
        inner = [s for s in self.slots if s not in self.inputs]
        chosen = [s for s in inner if s.name not in self.used or self.chance(0.2)]
        chosen = chosen or self.add("Identity", [self.inputs[0]])
        infos = []
        for slot in self.inputs:
            dims: list[Any] = list(slot.shape)
            if self.dynamic:
                dims[0] = "N"
            kind = helper.np_dtype_to_tensor_dtype(slot.data.dtype)
            infos.append(helper.make_tensor_value_info(slot.name, kind, dims))
        results = [
            helper.make_tensor_value_info(
                s.name, helper.np_dtype_to_tensor_dtype(s.data.dtype), [None] * s.rank
            )
            for s in chosen
        ]
        tensors = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, f"seed{self.seed}", infos, results, tensors)
        versions = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=10)
        return model.SerializeToString()


def draw(seed: int) -> tuple[OnnxNet, bytes]:
    """The net of a seed, and its file."""
    from support.random_onnx_patterns import add_random

    net = OnnxNet(seed)
    for _ in range(net.number(1, 2)):
        rank = net.one([4, 4, 4, 4, 3, 3, 2, 1, 5])
        most = 7 if rank < 5 else 5
        net.add_input("float32", (net.batch, *(net.number(1, most) for _ in range(rank - 1))))
    if net.chance(0.15):
        net.add_input("int64", (net.batch, net.number(1, 6)))
    net.grow(add_random, 12)
    if not net.nodes:
        net.add("Relu", [net.inputs[0]])
    return net, net.finish()


def check(seed: int, folder: Path, *, shakes: int = 6) -> OnnxNet:
    """Draw the graph of a seed and hold all ways through it against one another.

    Raises:
        AssertionError: two of them differ, or an error came up on one.
    """
    return held(seed, draw, lambda net, content: _check_net(net, content, folder, shakes))


def _check_net(net: OnnxNet, content: bytes, folder: Path, shakes: int) -> None:
    source = folder / "source.onnx"
    source.write_bytes(content)
    model = nnconv.load(source)
    verify_model(model)
    rng = np.random.default_rng([net.seed, 1])
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["io_layout"] = "nhwc"
    if rng.random() < 0.3:
        options["int8"] = "keep"
    report = nnconv.convert(source, folder / "a.tflite", **options)
    nnconv.convert(source, folder / "b.tflite", **options)
    written = (folder / "a.tflite").read_bytes()
    assert written == (folder / "b.tflite").read_bytes(), "not the same file"
    nnconv.convert(source, folder / "a.onnx", opset=int(rng.choice([net.opset, 21, 21, 25])))
    onnx.checker.check_model(str(folder / "a.onnx"), full_check=True)
    again = (folder / "a.onnx").read_bytes()
    assert source.read_bytes() == content, "the source was changed"
    moved = report.moved_io
    for batch in (None, 3) if net.dynamic else (None,):
        feeds = {s.name: s.data for s in net.inputs}
        if batch is not None:
            feeds = {s.name: _batch_of(s, rng, batch) for s in net.inputs}
        try:
            plain = run_onnxruntime(content, feeds, optimize=False)
        except Exception as error:
            if batch is None:
                raise
            net.log.append(f"(onnxruntime itself can't take a batch of {batch}: {error!s:.60})")
            return
        arrays = list(feeds.values())
        ways = {"onnxruntime": plain, "onnx again": _optimized(again, feeds)}
        twin = _optimized(content, feeds)
        given = [
            np.ascontiguousarray(np.moveaxis(f, 1, -1)) if n in moved else f
            for n, f in feeds.items()
        ]
        for resolver in RESOLVERS:
            told, (found,) = worker().run(written, [given], resolver)
            assert [row[0] for row in told.inputs] == [v.name for v in model.inputs]
            assert [row[0] for row in told.outputs] == [v.name for v in model.outputs]
            ways[f"tflite on {resolver}"] = [
                np.moveaxis(a, -1, 1) if v.name in moved else a
                for a, v in zip(found, model.outputs, strict=True)
            ]
        # Onnxruntime's optimizations quantize what only stands beside codes, in the source too.
        reference = run_graph(model.graph, arrays)
        twins = {"onnx again": twin}
        compare_ways(model, arrays, reference, ways, label=f"{options}", shakes=shakes, twins=twins)


def _optimized(content: bytes, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Onnxruntime's results, without optimizations where it makes an invalid graph by them."""
    try:
        return run_onnxruntime(content, feeds)
    except Exception as error:
        if "output_dtype INT8 does not match" not in str(error):
            raise
        return run_onnxruntime(content, feeds, optimize=False)


def _batch_of(slot: Slot, rng: np.random.Generator, batch: int) -> np.ndarray:
    shape = (batch, *slot.shape[1:])
    if slot.is_float:
        return rng.standard_normal(shape).astype(np.float32)
    return rng.integers(0, 4, shape).astype(slot.data.dtype)
