"""Finds ops that are spelled in simpler ones: activations, square roots, differences.

Frameworks write them so where ONNX, or its version, lacks the op; so does nnconv where the longer
form is quicker in onnxruntime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ops.activation import HardSigmoid, Mish, Softplus
from nnconv.ops.elementwise import (
    Add,
    Clip,
    Div,
    Gelu,
    HardSwish,
    LeakyRelu,
    Maximum,
    Mul,
    Pow,
    PRelu,
    Rsqrt,
    Sqrt,
    Square,
    SquaredDifference,
    Sub,
    Tanh,
)
from nnconv.ops.numeric import Erf, Reciprocal
from nnconv.ops.quantize import Dequantize
from nnconv.ops.shape import Identity
from nnconv.passes.base import Pass
from nnconv.passes.terms import Product, is_plain, lines_of, made_by, number_of, product_of

_TOLERANCE = 2e-3
"""How far the constants of a formula may be off, relative: float16 ones are."""

_LOWEST = -3e38
"""From here down a bound is none."""


class RespellPass(Pass):
    """Makes one op of each spelling that is known, where nothing else reads what is in between.

    Constants of the formulas may be rounded. What nothing reads any more is left to prune.
    """

    name: ClassVar[str] = "respell"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph: each node is looked at once, as the last one of a spelling."""
        modified = False
        outputs: set[Value] | None = None
        for node in graph.nodes:
            rules = _RULES.get(type(node.op))
            if rules is None or not is_plain(node.outputs[0]) or not is_plain(node.inputs[0]):
                continue
            for rule in rules:
                found = rule(node)
                if found is None:
                    continue
                outputs = graph.output_set() if outputs is None else outputs
                if _is_closed(node, found.nodes, outputs):
                    _put(node, found)
                    modified = True
                    break
        return modified


class _Spelled(NamedTuple):
    """What a node's result is.

    Attributes:
        op: the op that gives it.
        inputs: its operands.
        nodes: the nodes of the spelling that then are not needed.
        constant: another operand, a constant.
    """

    op: Op
    inputs: list[Value]
    nodes: list[Node]
    constant: np.ndarray | None = None


def _is_closed(last: Node, nodes: list[Node], outputs: set[Value]) -> bool:
    """Whether what is made inside of a spelling is read inside alone."""
    inside = {*nodes, last}
    return all(
        value not in outputs and all(use.node in inside for use in value.uses)
        for node in inside
        if node is not last
        for value in node.outputs
    )


def _put(node: Node, found: _Spelled) -> None:
    inputs = list(found.inputs)
    if found.constant is not None:
        assert node.graph is not None
        builder = Builder(node.graph, before=node, origin=node.origin)
        inputs.append(builder.const(found.constant.astype(inputs[0].dtype.numpy)))
    node.op = found.op
    node.set_inputs(inputs)


def _near(a: float | None, b: float) -> bool:
    return a is not None and math.isclose(a, b, rel_tol=_TOLERANCE)


def _plus(value: Value) -> tuple[Value, float, Node] | None:
    """A value as another one plus a number, and the Add."""
    node = made_by(value, Add)
    if node is None:
        return None
    a, b = node.inputs
    for x, other in ((a, b), (b, a)):
        number = number_of(other)
        if number is not None and x is not None and x.shape == value.shape:
            return x, number, node
    return None


# -------------------------------------------------------------------- products with x


def _gated(node: Node) -> _Spelled | None:
    """A value times a function of itself: HardSwish, Gelu and Mish."""
    if getattr(node.op, "activation", Activation.NONE) is not Activation.NONE:
        return None
    product = product_of(node.outputs[0])
    if product is None or len(product.factors) != 2:
        return None
    for x, gate in (product.factors, product.factors[::-1]):
        if x.shape != node.outputs[0].shape or gate.producer is None:
            continue
        for rule in (_hard_swish, _gelu, _mish):
            found = rule(x, gate, product)
            if found is not None:
                return found
    return None


def _hard_swish(x: Value, gate: Value, product: Product) -> _Spelled | None:
    node = gate.producer
    assert node is not None
    op = node.op
    if isinstance(op, HardSigmoid):
        gates = _near(op.alpha * product.number, 1 / 6) and _near(op.beta * product.number, 0.5)
        if gates and _near(product.number, 1) and node.inputs[0] is x:
            return _Spelled(HardSwish(), [x], [*product.nodes, node])
        return None
    if not _near(product.number, 1 / 6):
        return None
    nodes = [*product.nodes, node]
    inner: Value | None = gate
    if isinstance(op, Clip) and (op.low, op.high) == (0.0, 6.0):
        inner = node.inputs[0]
    elif not (isinstance(op, Add) and op.activation is Activation.RELU6):
        return None
    if inner is None or inner.producer is None:
        return None
    if isinstance(op, Add):
        a, b = node.inputs
        other = b if a is x else a if b is x else None
        return _Spelled(HardSwish(), [x], nodes) if _near(number_of(other), 3) else None
    found = _plus(inner)
    if found is None or found[0] is not x or not _near(found[1], 3):
        return None
    return _Spelled(HardSwish(), [x], [*nodes, found[2]])


def _mish(x: Value, gate: Value, product: Product) -> _Spelled | None:
    function = made_by(gate, Tanh)
    inner = None if function is None else made_by(function.inputs[0], Softplus)
    if function is None or inner is None or inner.inputs[0] is not x:
        return None
    return _Spelled(Mish(), [x], [*product.nodes, function, inner]) if product.number == 1 else None


def _gelu(x: Value, gate: Value, product: Product) -> _Spelled | None:
    moved = _plus(gate) if _near(product.number, 0.5) else None
    if moved is None or not _near(moved[1], 1):
        return None
    function = made_by(moved[0], Erf, Tanh)
    if function is None or function.inputs[0] is None:
        return None
    inner = product_of(function.inputs[0])
    if inner is None:
        return None
    nodes = [*product.nodes, moved[2], function, *inner.nodes]
    if isinstance(function.op, Erf):
        fits = inner.factors == [x] and _near(inner.number, math.sqrt(0.5))
        return _Spelled(Gelu(), [x], nodes) if fits else None
    if not _near(inner.number, math.sqrt(2 / math.pi)):
        return None
    cubic = _cubic(x, inner)
    return None if cubic is None else _Spelled(Gelu(approximate=True), [x], [*nodes, *cubic])


_CUBIC = 0.044715
"""The factor of the third power in Gelu's approximation."""


def _cubic(x: Value, inner: Product) -> list[Node] | None:
    """The nodes of x + 0.044715 x^3, or of x times (1 + 0.044715 x^2), if a product is that."""
    if len(inner.factors) == 1:
        total = made_by(inner.factors[0], Add)
        power = None if total is None else _other(total, x)
        wanted = [x, x, x]
        nodes = [] if total is None else [total]
    else:
        rest = inner.others(x)
        found = None if rest is None or len(rest) != 1 else _plus(rest[0])
        if found is None or not _near(found[1], 1):
            return None
        power, wanted, nodes = found[0], [x, x], [found[2]]
    if power is None:
        return None
    product = product_of(power)
    if product is None or product.factors != wanted or not _near(product.number, _CUBIC):
        return None
    return [*nodes, *product.nodes]


def _other(node: Node, x: Value) -> Value | None:
    """The operand beside ``x``."""
    a, b = node.inputs
    return b if a is x else a if b is x else None


# -------------------------------------------------------------------- squares and roots


def _square_of_difference(node: Node) -> _Spelled | None:
    """(a - b) times itself, or to the power of 2."""
    if getattr(node.op, "activation", Activation.NONE) is not Activation.NONE:
        return None
    d = node.inputs[0]
    if isinstance(node.op, Mul) and node.inputs[1] is not d:
        return None
    if isinstance(node.op, Pow) and number_of(node.inputs[1]) != 2:
        return None
    difference = made_by(d, Sub)
    if difference is None or d is None or d.shape != node.outputs[0].shape:
        return None
    operands = [v for v in difference.inputs if v is not None]
    if all(v.data is not None for v in operands):
        return None
    return _Spelled(SquaredDifference(), operands, [difference])


def _rsqrt(node: Node) -> _Spelled | None:
    """1 / sqrt(x), or x to the power of -1/2."""
    y = node.outputs[0]
    if isinstance(node.op, Pow):
        x, exponent = node.inputs
        if x is None or number_of(exponent) != -0.5 or x.shape != y.shape:
            return None
        return _Spelled(Rsqrt(), [x], [])
    root = node.inputs[0]
    if isinstance(node.op, Div):
        root = node.inputs[1]
        if number_of(node.inputs[0]) != 1 or node.op.activation is not Activation.NONE:
            return None
    made = made_by(root, Sqrt)
    if made is None or made.inputs[0] is None or made.inputs[0].shape != y.shape:
        return None
    return _Spelled(Rsqrt(), [made.inputs[0]], [made])


def _square_of_codes(node: Node) -> _Spelled | None:
    """What codes stand for, to the power of 2: a product, which there is on codes too."""
    x, exponent = node.inputs
    if x is None or made_by(x, Dequantize) is None or number_of(exponent) != 2:
        return None
    return None if x.shape != node.outputs[0].shape else _Spelled(Mul(), [x, x], [])


# -------------------------------------------------------------------- two straight lines


def _rectifier(node: Node) -> _Spelled | None:
    """Sums and extremes that are x where x is positive, and a multiple of x elsewhere."""
    lines = lines_of(node)
    if lines is None or not bool(np.all(lines.slopes.above == 1)):
        return None
    below = lines.slopes.below
    inner = [n for n in lines.nodes if n is not node]
    first = float(below.reshape(-1)[0])
    if not bool(np.all(below == first)):
        return _Spelled(PRelu(), [lines.x], inner, constant=below)
    if first == 1:
        return None
    op = Clip(low=0.0, high=math.inf) if first == 0 else LeakyRelu(alpha=float(np.float32(first)))
    return _Spelled(op, [lines.x], inner)


def _no_bound(node: Node) -> _Spelled | None:
    """A maximum with a number that nothing is below: it keeps onnxruntime from joining nodes."""
    x, bound = node.inputs
    number = number_of(bound)
    if x is None or number is None or number > _LOWEST or x.shape != node.outputs[0].shape:
        return None
    return _Spelled(Identity(), [x], [])


_RULES: dict[type[Op], tuple[Callable[[Node], _Spelled | None], ...]] = {
    Mul: (_square_of_difference, _gated),
    Div: (_rsqrt, _gated),
    Pow: (_square_of_difference, _rsqrt, _square_of_codes),
    Square: (_square_of_difference,),
    Reciprocal: (_rsqrt,),
    Add: (_rectifier,),
    Sub: (_rectifier,),
    Maximum: (_no_bound, _rectifier),
}
"""By the last op of a spelling: what it may be."""
