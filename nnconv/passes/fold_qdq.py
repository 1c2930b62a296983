"""Makes ops between Dequantize and Quantize ops on the codes themselves."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, QuantRule, Role
from nnconv.ir.quant import quantize
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.elementwise import Comparison
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.reduce import ArgExtreme
from nnconv.ops.rewrite import reshaped, transposed
from nnconv.ops.shape import Identity, Rank, Reshape, ShapeOf, Squeeze, Transpose, Unsqueeze
from nnconv.passes.base import Pass
from nnconv.passes.coded_operands import (
    DATA_TYPES,
    clamps,
    covers,
    data_places,
    fills_with_codes,
    has_data,
    lets_codes_pass,
    takes_codes,
)
from nnconv.passes.ranges import is_implied, range_of, step_of
from nnconv.passes.weight_codes import (
    WEIGHTED,
    constant_as_codes,
    multiply_instead,
    product_operands,
)

_VIEWS = (Reshape, Squeeze, Unsqueeze, Transpose)


class Island(NamedTuple):
    """A node that goes on computing with real numbers though it stands between codes.

    Attributes:
        node: the node.
        reason: why it can't work on codes.
    """

    node: Node
    reason: str

    def __str__(self) -> str:
        name = self.node.outputs[0].name if self.node.outputs else ""
        return f"{self.node.op.name} `{name}` computes with floats: {self.reason}"


class FoldQdqPass(Pass):
    """Turns Dequantize, op, Quantize into the op on quantized values.

    Ops on real values keep the meaning that they have: the parameters of what they read and write
    are those of the Dequantize and Quantize around. Ops on codes move through a Dequantize, or a
    Quantize through them. Constants become codes where those mean the same; a bias is rounded to
    the scale of the sums that it is added to. What can't follow stays between its Dequantize and
    Quantize. Activations belong in the ops before (``FuseActivationsPass``). What nothing reads any
    more is left to prune.

    Attributes:
        islands: the nodes that stayed, over all graphs.
    """

    name: ClassVar[str] = "fold_qdq"

    def __init__(self, *, open_weights: bool = False) -> None:
        """Start with no islands; ``open_weights``: products take weights that a run gives."""
        self.islands: list[Island] = []
        self.open_weights = open_weights

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph: once from its end, once from its start."""
        walk = _Walk(graph, open_weights=self.open_weights)
        walk.merge_quantizers()
        for node in graph.nodes_reversed:
            if isinstance(node.op, Quantize):
                walk.lift(node)
        for node in graph.nodes:
            walk.visit(node)
        if walk.renamed:
            graph.outputs = [walk.now(value) for value in graph.outputs]
        self.islands += walk.islands
        return walk.modified

    @property
    def notes(self) -> list[str]:
        """What a user should know of the islands: one line for each op and reason."""
        groups: dict[tuple[str, str], list[Node]] = {}
        for node, reason in self.islands:
            groups.setdefault((node.op.name, reason), []).append(node)
        return [
            f"{name} computes with floats between quantized values, {reason} "
            f"({len(nodes)}, first `{nodes[0].outputs[0].name if nodes[0].outputs else ''}`)"
            for (name, reason), nodes in groups.items()
        ]


class _Walk:
    """The rewrite of one graph.

    Attributes:
        codes: for the result of a Dequantize, its codes.
        renamed: for a value that stands no longer, the one in its place.
        islands: see ``FoldQdqPass``.
        modified: whether anything changed.
    """

    def __init__(self, graph: Graph, *, open_weights: bool) -> None:
        self.graph = graph
        self.open_weights = open_weights
        self.codes: dict[Value, Value] = {}
        self.renamed: dict[Value, Value] = {}
        self.islands: list[Island] = []
        self.modified = False
        self._outputs = graph.output_set()

    def now(self, value: Value) -> Value:
        """What stands in a graph output's place."""
        while value in self.renamed:
            value = self.renamed[value]
        return value

    # ---------------------------------------------------------------- preparation

    def merge_quantizers(self) -> None:
        """Let one Quantize serve all readers that want the same codes of a value."""
        made: dict[tuple[Value, TensorType], Value] = {}
        for node in self.graph.nodes:
            x = node.inputs[0] if isinstance(node.op, Quantize) else None
            if x is None:
                continue
            result = node.outputs[0]
            first = made.setdefault((x, result.type), result)
            if first is not result and (result not in self._outputs):
                result.replace_all_uses_with(first)
                self.graph.remove(node)
                self.modified = True

    def lift(self, node: Node) -> None:
        """Let the moves in front of a Quantize move its codes, up to what makes the numbers."""
        while True:
            x, result = node.inputs[0], node.outputs[0]
            if x is None or x.producer is None or x.producer.graph is not self.graph:
                return
            move = x.producer
            source = move.inputs[0] if move.inputs else None
            alone = x.use_count == 1 and x not in self._outputs
            if source is None or not alone or not lets_codes_pass(move, source):
                return
            if source.use_count != 1 or source in self._outputs or result.quant is None:
                return
            if not result.quant.is_per_tensor:
                return
            codes = Value(
                f"{source.name}/codes", TensorType(result.dtype, source.shape, result.quant)
            )
            above = Node(node.op, [source], [codes], origin=node.origin)
            self.graph.insert_before(move, above)
            rest = move.inputs[1:]
            node.op = move.op
            node.set_inputs([codes, *rest])
            self.graph.remove(move)
            self.modified = True
            node = above

    # ---------------------------------------------------------------- one node

    def visit(self, node: Node) -> None:
        """Let one node work on codes, if it can."""
        op = node.op
        if node.bodies:
            self._note(node, "what its bodies read comes in as floats")
        elif isinstance(op, Quantize):
            self._quantize(node)
        elif isinstance(op, Dequantize):
            x = node.inputs[0]
            if x is not None and x.type.has_codes:
                self.codes[node.outputs[0]] = x
        elif op.quant_rule is QuantRule.CODES:
            self._move(node)
        elif isinstance(op, ArgExtreme | ShapeOf | Rank):
            self._look(node)
        elif op.quant_rule is QuantRule.REAL:
            reason = self._fold(node)
            if reason:
                self._note(node, reason)
        elif not isinstance(op, Cast):
            self._note(node, "it works on the stored numbers themselves")

    def _note(self, node: Node, reason: str) -> None:
        """Say that a node stays, if it reads what was codes at run time."""
        found = (self.codes.get(v) for v in node.inputs if v is not None)
        if any(c is not None and c.data is None for c in found):
            self.islands.append(Island(node, reason))

    def _quantize(self, node: Node) -> None:
        x, result = node.inputs[0], node.outputs[0]
        if x is None or result.quant is None:
            return
        if x.data is not None and x.dtype.is_float:
            data = quantize(x.data, result.quant, result.dtype)
            constant = Value(
                result.name,
                TensorType(result.dtype, tuple(data.shape), result.quant),
                data=data,
                origin=result.origin,
            )
            self._stand_in(result, constant)
            return
        codes = self.codes.get(x)
        if codes is None or codes.quant is None:
            return
        if codes.dtype is result.dtype and codes.quant == result.quant:
            if result not in self._outputs:
                self._stand_in(result, codes)
                return
            if codes.producer is not None and self.now(codes) not in self._outputs:
                codes.name = result.name
                self._outputs.add(codes)
                self._stand_in(result, codes)
                return
            node.op = Identity()
        if codes.quant.is_per_tensor and codes.data is None:
            node.set_inputs([codes])
            self.modified = True

    def _stand_in(self, old: Value, new: Value) -> None:
        """Let ``new`` stand for the result of a Quantize, which goes."""
        node = old.producer
        assert node is not None
        old.replace_all_uses_with(new)
        self.renamed[old] = new
        self.graph.remove(node)
        self.modified = True

    # ---------------------------------------------------------------- moves

    def _move(self, node: Node) -> None:
        """Move codes where a node moves what a Dequantize made of them."""
        places = data_places(node)
        first = next((self._codes_at(node, i) for i in places if self._codes_at(node, i)), None)
        if first is None:
            return
        if first.data is not None and isinstance(node.op, _VIEWS) and self._view(node, first):
            return
        if isinstance(node.op, Transpose) and first.quant and not first.quant.is_per_tensor:
            self._turn_channels(node, first)
            return
        if first.quant is None or not first.quant.is_per_tensor or not clamps(node):
            return
        if not self._is_quantized_to(node.outputs[0], first) and not fills_with_codes(node, first):
            self._note(node, "no code stands for what it puts in")
            return
        kind = TensorType(first.dtype, None, first.quant)
        operands: dict[int, Value] = {}
        for i in places:
            value = node.operand(i)
            codes = self.codes.get(value)
            if codes is None and value.data is not None and value.dtype.is_float:
                found = constant_as_codes(value, kind)
                codes = None if isinstance(found, str) else found
            if codes is None or codes.dtype is not first.dtype or codes.quant != first.quant:
                self._bring_together(node, places)
                return
            operands[i] = codes
        for i, codes in operands.items():
            node.replace_input_with(i, codes)
        for result in node.outputs:
            if result.dtype.is_float:
                self._dequantize(result, first)
        self.modified = True

    def _turn_channels(self, node: Node, codes: Value) -> None:
        """Turn codes with scales for channels where a Quantize gives them back their scales."""
        assert isinstance(node.op, Transpose)
        result = node.outputs[0]
        if codes.quant is None or codes.quant.block or node.op.perm is None:
            return
        kind = codes.type.permuted(node.op.perm)
        if any(
            isinstance(u.node.op, Quantize) and u.node.outputs[0].type == kind for u in result.uses
        ):
            builder = Builder(self.graph, before=node, origin=node.origin)
            (self.codes[result],) = builder.add_typed(node.op, [codes], [kind])

    def _is_quantized_to(self, result: Value, codes: Value) -> bool:
        """Whether all that reads a result makes codes of the same parameters of it."""
        return result not in self._outputs and all(
            isinstance(u.node.op, Quantize) and u.node.outputs[0].quant == codes.quant
            for u in result.uses
        )

    def _bring_together(self, node: Node, places: list[int]) -> None:
        """Give a move's operands the parameters that its result gets, before it moves them."""
        kind = self._wanted(node)
        values = [node.inputs[i] for i in places]
        if isinstance(kind, str) or any(
            u.node.outputs[0].type.quant != kind.quant for u in node.outputs[0].uses
        ):
            self._note(node, "its operands differ in parameters")
            return
        builder = Builder(self.graph, before=node, origin=node.origin)
        for i, value in zip(places, values, strict=True):
            assert value is not None
            codes = self.codes.get(value, value)
            if codes.dtype is kind.dtype and codes.quant == kind.quant:
                same = codes
            elif value.data is not None:
                assert kind.quant is not None
                data = quantize(value.data, kind.quant, kind.dtype)
                same = builder.const(data, value.name, quant=kind.quant, dtype=kind.dtype)
            else:
                wanted = TensorType(kind.dtype, value.shape, kind.quant)
                op = Quantize(dtype=kind.dtype)
                same = builder.add_typed(op, [codes], [wanted], names=[value.name])[0]
            node.replace_input_with(i, same)
        self._write_codes(node.outputs[0], kind)
        self.modified = True

    def _codes_at(self, node: Node, index: int) -> Value | None:
        value = node.inputs[index]
        return None if value is None else self.codes.get(value)

    def _view(self, node: Node, codes: Value) -> bool:
        """Make a move of constant codes a view of the constant."""
        op, result = node.op, node.outputs[0]
        shape = static_shape(result.shape)
        if any(v is not None for v in node.inputs[1:]) or shape is None:
            return False
        builder = Builder(self.graph, before=node)
        try:
            if isinstance(op, Transpose):
                if op.perm is None:
                    return False
                view = transposed(builder, codes, op.perm)
            else:
                view = reshaped(builder, codes, shape)
        except ValueError:
            return False  # parameters that don't follow
        before = node.operand(0)
        assert before.producer is not None
        node.op = before.producer.op
        node.set_inputs([view])
        self.codes[result] = view
        self.modified = True
        return True

    def _dequantize(self, result: Value, codes: Value) -> None:
        """Let ``result`` have codes, and its readers read a Dequantize of it."""
        node = result.producer
        assert node is not None
        name = result.name
        real = Value(name, result.type, origin=result.origin)
        result.replace_all_uses_with(real)
        if result in self._outputs:
            self.renamed[result] = real
            self._outputs.add(real)
        result.name = f"{name}/codes"
        back = Node(Dequantize(dtype=result.dtype), [result], [real], origin=node.origin)
        result.type = TensorType(codes.dtype, result.shape, codes.quant)
        self.graph.insert_after(node, back)

    def _look(self, node: Node) -> None:
        """Look at codes for their shape, or the greatest: their order is that of the numbers."""
        codes = self._codes_at(node, 0)
        if codes is None or codes.quant is None or not codes.quant.is_per_tensor:
            return
        node.replace_input_with(0, codes)
        self.modified = True

    # ---------------------------------------------------------------- real values

    def _fold(self, node: Node) -> str:
        """Let an op on real values read and write codes; gives the reason if it can't."""
        compared = isinstance(node.op, Comparison)
        result = node.outputs[0]
        kind = result.type if compared else None
        if not compared:
            found = self._wanted(node)
            if isinstance(found, str):
                return found
            kind = found
            if node.inputs[0] in self.codes:
                multiply_instead(node)
        operands = self._operands(node, kind)
        if isinstance(operands, str):
            return operands
        if compared and len({(v.dtype, v.quant) for v in operands if v is not None}) > 1:
            return "what it compares differs in parameters"
        node.set_inputs(operands)
        self.modified = True
        if not compared:
            assert kind is not None
            self._write_codes(result, kind)
        return ""

    def _wanted(self, node: Node) -> TensorType | str:
        """The type whose codes are to be the result."""
        result = node.outputs[0]
        if len(node.outputs) != 1:
            return "it has several results"
        if result in self._outputs:
            return "its result goes out as floats"
        if not result.use_count or not all(isinstance(u.node.op, Quantize) for u in result.uses):
            return "its result is read as floats"
        kinds = [use.node.outputs[0].type for use in result.uses]
        if any(k.quant is None or not k.quant.is_per_tensor for k in kinds):
            return "its result gets a scale for each channel"
        if any(k.dtype not in DATA_TYPES for k in kinds):
            return f"its result becomes {kinds[0].dtype}"
        best = min(kinds, key=step_of)
        low, high = range_of(best)
        reach = step_of(best) / 2
        for kind in kinds:
            other_low, other_high = range_of(kind)
            if other_low < low - reach or other_high > high + reach:
                return "its result is quantized to several ranges"
        if result.type.has_codes and result.dtype is not best.dtype:
            return "its result has codes of another type already"  # which kernels may insist on
        if result.type.has_codes and not covers(result.type, best):
            return "its codes end before those that they become"
        return best

    def _operands(self, node: Node, kind: TensorType | None) -> list[Value | None] | str:
        """A node's operands as codes; the reason if one of them can't be."""
        if any(node.op.role(i) is Role.STATE for i in range(len(node.inputs))):
            return "it keeps a state"
        values = node.inputs
        found: list[Value | None] = [
            self.codes.get(v, v) if v is not None and takes_codes(node, i, v) else v
            for i, v in enumerate(values)
        ]
        data = [i for i in data_places(node) if found[i] is not None]
        beside = next((v.type for i in data if (v := found[i]) is not None and has_data(v)), None)
        if beside is None:
            return "none of its operands is quantized"
        for i in data:
            value = found[i]
            assert value is not None
            if not value.dtype.is_float and not value.type.has_codes:
                continue  # a condition
            if value.data is not None:
                constant = constant_as_codes(value, beside)
                if isinstance(constant, str):
                    return constant
                found[i] = constant
            elif not value.type.has_codes:
                return f"`{value.name}` isn't quantized"
            elif value.quant is None or not value.quant.is_per_tensor:
                return f"`{value.name}` has a scale for each channel"
            elif value.dtype not in DATA_TYPES:
                return f"`{value.name}` is {value.dtype}"
            elif value.dtype.bits != beside.dtype.bits:
                return "its operands have codes of different widths"
        if kind is not None and kind.has_codes and kind.dtype.bits != beside.dtype.bits:
            return f"it makes {kind.dtype} of {beside.dtype}"
        if not isinstance(node.op, WEIGHTED):
            return found
        return product_operands(node, found, beside, open_weights=self.open_weights)

    def _write_codes(self, result: Value, kind: TensorType) -> None:
        """Let a node's result be the codes that a Quantize would make of it."""
        result.type = TensorType(kind.dtype, result.shape, kind.quant)
        for use in result.uses:
            made = use.node.outputs[0]
            if made.dtype is not kind.dtype or made.quant != kind.quant:
                continue
            if made in self._outputs:
                if result in self._outputs:
                    continue  # one tensor, two names: the other stays a copy
                result.name = made.name
                self._outputs.add(result)
            self._stand_in(made, result)
        self._clear_activation(result)

    def _clear_activation(self, result: Value) -> None:
        """Drop an activation whose bounds the result's range implies."""
        node = result.producer
        assert node is not None
        activation = getattr(node.op, "activation", Activation.NONE)
        if activation.bounds is None or not is_implied(activation.bounds, result.type):
            return
        node.op = node.op.replace(activation=Activation.NONE)
