"""Random graphs of the IR itself, and what they must come to in every format.

Ops and attributes are drawn from `support.random_ir_ops`; an example of each value is carried
along, so that results stay finite and quantization parameters suit them. `check` writes a graph in
each format and reads it again: the reference backend must give the same as for the graph itself,
and so must the format's runtime. How far two right answers may lie apart is measured as in
`support.random_core`.

What a format can't hold is refused by name; `IrNet.refusals` tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from nnconv.backends.reference.executor import run_graph, run_node
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as Lacking

import nnconv
from nnconv.errors import NnconvError, UnsupportedError
from nnconv.ir import Builder, DType, Graph, Layout, Model, Quant, Signature, Value
from nnconv.ir.clone import clone_model
from nnconv.ir.graph import Node
from nnconv.ir.op import Op, QuantRule
from nnconv.ir.quant import dequantize
from nnconv.ir.types import TensorType
from nnconv.ir.verifier import verify_model
from support.litert import RESOLVERS
from support.litert_worker import worker
from support.random_core import RandomNet, UnfitError, compare_ways, held
from support.spine import onnx_session

MOST_ELEMENTS = 2000
LARGEST = 1e3
"""Numbers beyond are no use: halves end soon behind, and sums of them swallow all others."""

FLOATS = (DType.FLOAT32, DType.FLOAT32, DType.FLOAT32, DType.FLOAT16, DType.FLOAT64)
CODES = (DType.INT8, DType.UINT8, DType.INT16)


class IrNet(RandomNet):
    """A random graph under construction.

    Attributes:
        layout: that of spatial ops.
        dtype: of most data.
        examples: of every value.
        refusals: what a format couldn't hold, with the format.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, 99)
        self.layout = self.one([Layout.NHWC, Layout.NCHW])
        self.dtype: DType = self.one([*FLOATS, *CODES])
        self.b = Builder(Graph(f"net{seed}"))
        self.examples: dict[Value, np.ndarray] = {}
        self.refusals: list[str] = []
        self.depth = 0

    # ------------------------------------------------------------------------- choices

    @property
    def traits(self) -> str:
        return str(self.dtype)

    def pick(
        self, where: Callable[[Value], bool], *, ranks: Sequence[int] = (0, 1, 2, 3, 4, 5)
    ) -> Value:
        """A value of one of the ranks that has what is asked; late ones more often."""
        fit = [
            v
            for v, a in self.examples.items()
            if v.data is None and a.ndim in ranks and a.size and where(v)
        ]
        return self.late(fit)

    # ------------------------------------------------------------------------- parts

    def add_input(self, dtype: DType, shape: tuple[int, ...]) -> Value:
        quant = self.parameters(dtype, -2.0, 2.0) if dtype in CODES else None
        value = self.b.input(f"x{len(self.b.graph.inputs)}", dtype, shape, quant=quant)
        self.examples[value] = self.random(value.type)
        return value

    def const(self, data: Any, dtype: DType | None = None, quant: Quant | None = None) -> Value:
        array = np.asarray(data, None if dtype is None else dtype.numpy)
        value = self.b.const(array, f"c{len(self.examples)}", quant=quant, dtype=dtype)
        self.examples[value] = array
        return value

    def like(self, x: Value, shape: Sequence[int]) -> Value:
        """A random constant of another value's type and parameters."""
        return self.const(self.random(x.type.with_shape(tuple(shape))), x.dtype, x.quant)

    def random(self, kind: TensorType) -> np.ndarray:
        shape = tuple(d for d in kind.shape or () if isinstance(d, int))
        if kind.dtype is DType.BOOL:
            return self.rng.integers(0, 2, shape).astype(bool)
        if kind.dtype.is_float:
            return self.rng.standard_normal(shape).astype(kind.dtype.numpy)
        low, high = kind.dtype.int_range if kind.quant is not None else (-9, 9)
        if kind.dtype in (DType.UINT8, DType.UINT32) and kind.quant is None:
            low = 0
        return self.rng.integers(low, high, shape, endpoint=True).astype(kind.dtype.numpy)

    def parameters(self, dtype: DType, low: float, high: float) -> Quant:
        """Those that suit a range of numbers."""
        low, high = min(low, 0.0), max(high, 0.0)
        high = high if high - low > 1e-2 else 1.0
        if dtype is DType.INT16:
            return Quant.per_tensor(float(np.float32(max(-low, high) / 32767)), 0)
        least, most = dtype.int_range
        scale = float(np.float32((high - low) / 255))
        return Quant.per_tensor(scale, int(np.clip(round(least - low / scale), least, most)))

    def real(self, value: Value) -> np.ndarray:
        """The example of a value in real numbers."""
        array = self.examples[value]
        return array if value.quant is None else dequantize(array, value.quant, np.float32)

    # ------------------------------------------------------------------------- nodes

    def add(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        *,
        bodies: Sequence[Graph] = (),
        quant: Quant | None = None,
    ) -> tuple[Value, ...]:
        """Add a node whose quantized results, if any, get parameters that suit them.

        Raises:
            UnfitError: it refuses the operands, or its results are of no use.
        """
        kinds = [None if v is None else v.type for v in inputs]
        for formal, kind in zip(op.operands, kinds, strict=False):
            if kind is not None and kind.dtype not in formal.types:
                raise UnfitError
        try:
            types = list(op.infer_node(kinds, bodies))
            if op.quant_rule is QuantRule.REAL and any(v and v.quant for v in inputs):
                found = self._computed(op, inputs, self._as_reals(op, inputs), bodies, real=True)
                types = [
                    replace(kind, quant=quant or self._suiting(kind, array))
                    for kind, array in zip(types, found, strict=True)
                ]
            elif quant is not None:
                types = [replace(kind, quant=quant) for kind in types]
            arrays = self._computed(op, inputs, types, bodies)
        except (ValueError, NnconvError) as error:
            raise UnfitError(str(error)) from error
        for array in arrays:
            useless = array.dtype.kind in "fi" and not np.all(
                np.abs(array.astype(np.float64)) < (1e9 if array.dtype.kind == "i" else LARGEST)
            )
            if useless or not 0 < array.size <= MOST_ELEMENTS or array.ndim > 5:
                raise UnfitError
        types = [
            kind.with_shape(array.shape) if kind.shape is None else kind
            for kind, array in zip(types, arrays, strict=True)
        ]
        names = [f"t{len(self.examples) + i}" for i in range(len(types))]
        results = self.b.add_typed(op, inputs, types, names=names, bodies=bodies)
        self.examples.update(zip(results, arrays, strict=True))
        shown = ", ".join("-" if v is None else v.name + "c" * (v.data is not None) for v in inputs)
        told = ", ".join(f"{v.name}:{v.type}" for v in results)
        self.log.append(f"{told} = {op}({shown})")
        return results

    def _as_reals(self, op: Op, inputs: Sequence[Value | None]) -> list[TensorType]:
        def real(value: Value) -> TensorType:
            if value.quant is None:
                return value.type
            return TensorType(DType.FLOAT32, value.shape)

        return list(op.infer([None if v is None else real(v) for v in inputs]))

    def _computed(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        types: Sequence[TensorType],
        bodies: Sequence[Graph],
        *,
        real: bool = False,
    ) -> list[np.ndarray]:
        arrays = [None if v is None else self.real(v) if real else self.examples[v] for v in inputs]
        operands = [
            None
            if v is None or a is None
            else Value("", v.type if a is self.examples[v] else TensorType(DType.of(a), a.shape))
            for v, a in zip(inputs, arrays, strict=True)
        ]
        node = Node(op, operands, [Value("", kind) for kind in types], bodies=bodies)
        return [np.asarray(a) for a in run_node(node, arrays)]

    def _suiting(self, kind: TensorType, array: np.ndarray) -> Quant | None:
        if kind.quant is not None or kind.dtype not in CODES:
            return kind.quant
        if not np.all(np.abs(array) < LARGEST):
            raise UnfitError
        return self.parameters(kind.dtype, float(array.min(initial=0)), float(array.max(initial=0)))

    def finish(self) -> Model:
        """The model: results that nothing reads go out, and now and then one that is read."""
        graph = self.b.graph
        made = [v for node in graph.nodes for v in node.outputs]
        graph.outputs = [v for v in made if not v.use_count or self.chance(0.1)][-6:]
        source = "tflite" if self.layout is Layout.NHWC else "onnx"
        return Model([Signature("", graph)], format=source, source=f"seed {self.seed}")


def draw(seed: int) -> tuple[IrNet, Model]:
    """The net of a seed, and its model."""
    from support.random_ir_ops import add_random

    net = IrNet(seed)
    for _ in range(net.number(1, 2)):
        rank = net.one([4, 4, 4, 3, 2, 1, 0, 5])
        net.add_input(net.dtype, tuple(net.number(1, 6) for _ in range(rank)))
    if net.chance(0.3):
        kind = net.one([DType.INT32, DType.INT64, DType.BOOL, DType.FLOAT32])
        net.add_input(kind, tuple(net.number(1, 4) for _ in range(net.number(0, 3))))
    net.grow(add_random, 10, tries=300)
    return net, net.finish()


def check(seed: int, folder: Path, *, shakes: int = 6) -> IrNet:
    """Draw the graph of a seed and hold all ways through it against one another.

    Raises:
        AssertionError: two of them differ, or an error came up on one.
    """
    return held(seed, draw, lambda net, model: _check_net(net, model, folder, shakes))


def _check_net(net: IrNet, model: Model, folder: Path, shakes: int) -> None:
    if not net.log:
        return
    verify_model(model)
    feeds = [net.examples[v] for v in model.inputs]
    reference = run_graph(model.graph, feeds)
    ways: dict[str, Sequence[np.ndarray]] = {}
    opset = net.one([13, 17, 21, 21, 24])
    int8 = net.one(["resign", "resign", "keep"])
    for path, options in (
        (folder / "net.onnx", {"opset": opset, "int8": int8}),
        (folder / "net.tflite", {"int8": int8}),
    ):
        path.unlink(missing_ok=True)
        try:
            nnconv.save(clone_model(model), path, **options)
        except UnsupportedError as error:
            net.refusals.append(f"{path.suffix}: {error}")
            continue
        again = nnconv.load(path)
        verify_model(again)
        ways[f"read again {path.suffix} {options}"] = run_graph(again.graph, feeds)
        if path.suffix == ".onnx":
            try:
                session = onnx_session(path)
            except Lacking as error:  # it has the operator, but not for this type
                net.refusals.append(f"onnxruntime: {error}")
                continue
            names = [info.name for info in session.get_inputs()]
            given = dict(zip(names, feeds, strict=True))
            ways[f"onnxruntime {options}"] = [np.asarray(a) for a in session.run(None, given)]
        else:
            for resolver in RESOLVERS:
                (ways[f"LiteRT {resolver} {options}"],) = worker().run(
                    path.read_bytes(), [feeds], resolver
                )[1]
    compare_ways(model, feeds, reference, ways, shakes=shakes)
