"""The ONNX nodes and constants of a graph under construction, whatever they are made for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.errors import Reason, UnsupportedItem
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.types import DATA_TYPES, LEAST_OPSET
from nnconv.formats.refusals import STRINGS, NotExportable, item_of
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node

_SMALL = 64
"""Constants of no more elements are shared if they are equal."""


class Names:
    """Gives out names that are unique in a whole model, subgraphs included."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def reserve(self, name: str) -> bool:
        """Take a name as it is; False if it is empty or taken already."""
        if not name or name in self._next:
            return False
        self._next[name] = 1
        return True

    def unique(self, wanted: str) -> str:
        """``wanted``, or the first free variation of it."""
        base = wanted or "tensor"
        name = base
        while name in self._next:
            number = self._next[base]
            self._next[base] = number + 1
            name = f"{base}_{number}"
        self._next[name] = 1
        return name


class GraphParts:
    """The nodes and constants of an ONNX graph so far, and how more are added.

    Attributes:
        opset: the version of the standard operator set.
        names: the model's names.
        nodes: ONNX nodes so far.
        initializers: ONNX constants so far.
        current: the IR node being exported; its first result's name is the base of new names.
    """

    def __init__(self, *, opset: int, names: Names) -> None:
        self.opset = opset
        self.names = names
        self.nodes: list[wire.Node] = []
        self.initializers: list[wire.Tensor] = []
        self.current: Node | None = None
        self._consts: dict[tuple[object, ...], str] = {}
        self._whole: dict[str, np.ndarray] = {}
        self._kept: list[np.ndarray] = []

    def node(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add an ONNX node of one result; returns the result's name.

        Attributes of None are left out.
        """
        return self.nodes_of(op_type, inputs, 1, **attributes)[0]

    def nodes_of(
        self, op_type: str, inputs: Sequence[str], count: int, **attributes: Any
    ) -> list[str]:
        """Add an ONNX node of ``count`` results; returns their names."""
        wanted = self._base()
        last = wanted[wanted.rfind("/") + 1 :]
        # What was written here before has such a name, which needn't grow each time.
        if last != op_type and not last.startswith(f"{op_type}_"):
            wanted = f"{wanted}/{op_type}"
        results = [self.names.unique(wanted) for _ in range(count)]
        kept = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(wire.Node(op_type, list(inputs), results, kept, name=results[0]))
        return results

    def nodes_with(
        self, op_type: str, inputs: Sequence[str], wanted: Sequence[bool], **attributes: Any
    ) -> list[str]:
        """``nodes_of`` for a node whose results may be left out: their names are "" then."""
        count = max((i + 1 for i, is_wanted in enumerate(wanted) if is_wanted), default=1)
        results = self.nodes_of(op_type, inputs, count, **attributes)
        if not all(wanted[:count]):
            made = self.nodes.pop()
            results = [n if w else "" for n, w in zip(results, wanted, strict=False)]
            name = next((n for n in results if n), made.name)
            self.nodes.append(wire.Node(op_type, made.inputs, results, made.attributes, name=name))
        return results

    def _base(self) -> str:
        if self.current is None:
            return "graph"
        outputs = self.current.outputs
        return outputs[0].name or self.current.op.name if outputs else self.current.op.name

    def const(
        self,
        data: np.ndarray | np.generic | float | Sequence[int],
        dtype: DType | None = None,
        *,
        name: str = "",
    ) -> str:
        """A constant by its elements; equal small ones and views of one array are shared.

        Sequences of int become int64. ``dtype`` is needed only for types that numpy lacks.
        """
        # numpy's own float64 is meant as it is
        wanted = np.float32 if type(data) is float else None
        array = np.asarray(data, np.int64 if isinstance(data, list | tuple) else wanted)
        kind = dtype or DType.of(array)
        key: tuple[object, ...]
        if array.size <= _SMALL:
            key = (kind, array.shape, array.tobytes())
        else:
            key = (kind, array.shape, array.strides, array.__array_interface__["data"][0])
        found = self._consts.get(key)
        if found is None:
            found = self.initializer(array, kind, name or f"{self._base()}/const")
            self._consts[key] = found
            self._kept.append(array)  # its address is the key: it must live as long
            if array.size <= _SMALL and kind.is_integer and kind.bits >= 8:
                self._whole[found] = array
        return found

    def initializer(self, data: np.ndarray, dtype: DType, wanted: str) -> str:
        """A constant that isn't shared, called ``wanted`` or a variation of it."""
        if dtype is DType.STRING:
            raise self.strings()
        dtype = self.held_type(dtype)
        name = self.names.unique(wanted)
        content = data.view(np.uint16) if dtype is DType.BFLOAT16 else data
        self.initializers.append(wire.Tensor(name, DATA_TYPES[dtype], data.shape, content))
        return name

    def cast(self, name: str, dtype: DType) -> str:
        """A Cast node; its operand must be in the range of a type of less than 8 bits.

        A small constant of whole numbers that a wider type holds becomes another constant.
        """
        known = self._whole.get(name)
        whole = dtype.is_integer and dtype.bits >= 8
        if known is not None and whole and np.can_cast(known.dtype, dtype.numpy, "safe"):
            return self.const(known.astype(dtype.numpy), dtype)
        return self.node("Cast", [name], to=int(DATA_TYPES[self.held_type(dtype)]))

    def held_type(self, dtype: DType) -> DType:
        """The type that holds ``dtype``'s numbers inside: 8 bits where the opset has no fewer."""
        if self.opset >= LEAST_OPSET.get(dtype, 0):
            return dtype
        return DType.INT8 if dtype.is_signed else DType.UINT8

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """A Reshape node; no extent may be 0."""
        return self.node("Reshape", [name, self.const(list(shape))])

    # ---------------------------------------------------------------- refusals

    def require_opset(self, least: int, what: str) -> None:
        """Refuse the node if the opset is below ``least``.

        Raises:
            NotExportable: naming ``what`` and the opset that would do.
        """
        if self.opset < least:
            raise self.unsupported(
                f"{what} need opset {least}, the target has {self.opset}",
                reason=Reason.IMPOSSIBLE,
                hint=f"Choose --opset {least} or newer.",
                opset=least,
            )

    def strings(self, where: str = "") -> NotExportable:
        """The exception to raise for a constant of strings, if need be with what it is called."""
        why, hint = STRINGS
        return self.unsupported(where + why, reason=Reason.OUT_OF_SCOPE, hint=hint)

    def unsupported(
        self,
        why: str,
        *,
        reason: Reason = Reason.NOT_IMPLEMENTED,
        hint: str = "",
        opset: int = 0,
    ) -> NotExportable:
        """The exception to raise for a node that can't be exported, at least below ``opset``."""
        if self.current is not None:
            item = item_of(self.current, why, reason=reason, hint=hint, opset=opset)
        else:
            item = UnsupportedItem(
                op="graph", where="graph", why=why, reason=reason, hint=hint, opset=opset
            )
        return NotExportable(item)
