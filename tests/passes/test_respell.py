"""Ops spelled in simpler ones: what is found, what must stay, and that the numbers stay."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Model, Op, Signature, Value
from nnconv.ir.op import Activation
from nnconv.ops import activation as a
from nnconv.ops import elementwise as e
from nnconv.ops import numeric as n
from nnconv.ops.activation import HardSigmoid
from nnconv.ops.conv import Conv2D
from nnconv.ops.shape import Identity
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.respell import RespellPass
from support.layout_nets import Net

Spell = Callable[["Spelling"], Value]


class Spelling(Net):
    """A graph of a value ``x`` and constants, with one function for each simple op."""

    def number(self, value: float, rank: int = 0) -> Value:
        return self.b.const(np.full((1,) * rank, value, np.float32))

    def mul(self, *factors: Value | float) -> Value:
        return self._chain(e.Mul(), factors)

    def plus(self, *terms: Value | float) -> Value:
        return self._chain(e.Add(), terms)

    def minus(self, a: Value, b: Value) -> Value:
        return self.add(e.Sub(), a, b)

    def over(self, a: Value | float, b: Value | float) -> Value:
        return self._chain(e.Div(), (a, b))

    def power(self, x: Value, exponent: float) -> Value:
        return self.add(e.Pow(), x, self.number(exponent))

    def _chain(self, op: Op, parts: tuple[Value | float, ...]) -> Value:
        values = [v if isinstance(v, Value) else self.number(v) for v in parts]
        result = values[0]
        for value in values[1:]:
            result = self.add(op, result, value)
        return result

    def square(self, x: Value) -> Value:
        return self.mul(x, x)

    def erf(self, x: Value) -> Value:
        return self.add(n.Erf(), x)

    def tanh(self, x: Value) -> Value:
        return self.add(e.Tanh(), x)

    def relu6(self, x: Value) -> Value:
        return self.add(e.Clip(low=0.0, high=6.0), x)

    def neg(self, x: Value) -> Value:
        return self.add(e.Neg(), x)

    def slopes(self, *, low: float = -0.5, high: float = 0.9) -> Value:
        return self.b.const(self.rng.uniform(low, high, (3, 1, 1)).astype(np.float32))

    def share(self, x: Value) -> Value:
        """1 + erf(x / sqrt 2)."""
        return self.plus(self.erf(self.over(x, math.sqrt(2))), 1.0)

    def cubic(self, x: Value, cube: Value) -> Value:
        """sqrt(2 / pi) (x + 0.044715 x^3)."""
        return self.mul(math.sqrt(2 / math.pi), self.plus(x, self.mul(0.044715, cube)))


def _two(s: Spelling) -> tuple[Value, Value]:
    return s.x, s.add(e.Sin(), s.x)


def _prelu_of_blocks(s: Spelling) -> Value:
    slopes = s.slopes()
    part = s.b.const(1 - slopes.data)  # type: ignore[operator]
    return s.plus(
        s.mul(s.relu(s.mul(s.x, s.b.const(np.full((3, 1, 1), -1, np.float32)))), part), s.x
    )


def _prelu_by_parts(s: Spelling) -> Value:
    return s.minus(s.relu(s.x), s.mul(s.relu(s.neg(s.x)), s.slopes()))


def _prelu_by_abs(s: Spelling) -> Value:
    half = s.mul(s.minus(s.x, s.add(e.Abs(), s.x)), 0.5)
    return s.plus(s.relu(s.x), s.mul(s.slopes(), half))


def _prelu_by_min(s: Spelling) -> Value:
    below = s.add(e.Minimum(), s.number(0), s.x)
    return s.plus(s.add(e.Maximum(), s.x, s.number(0)), s.mul(s.slopes(), below))


GELU, TANH_GELU, SWISH = e.Gelu(), e.Gelu(approximate=True), e.HardSwish()
LEAKY = e.LeakyRelu(alpha=float(np.float32(0.2)))

FOUND: dict[str, tuple[Op, Spell]] = {
    "mish": (a.Mish(), lambda s: s.mul(s.x, s.tanh(s.add(a.Softplus(), s.x)))),
    "gelu, halved last": (GELU, lambda s: s.mul(s.x, s.share(s.x), 0.5)),
    "gelu, halved first": (GELU, lambda s: s.mul(0.5, s.x, s.share(s.x))),
    "gelu, half a share": (GELU, lambda s: s.mul(s.x, s.mul(s.share(s.x), 0.5))),
    "gelu, divided": (GELU, lambda s: s.over(s.mul(s.share(s.x), s.x), 2.0)),
    "gelu, times root": (
        GELU,
        lambda s: s.mul(s.x, 0.5, s.plus(1.0, s.erf(s.mul(s.x, math.sqrt(0.5))))),
    ),
    "gelu, rounded": (
        GELU,
        lambda s: s.mul(s.x, 0.5, s.plus(1.0, s.erf(s.over(s.x, 1.4140625)))),
    ),
    "tanh gelu, power": (
        TANH_GELU,
        lambda s: s.mul(0.5, s.x, s.plus(s.tanh(s.cubic(s.x, s.power(s.x, 3))), 1.0)),
    ),
    "tanh gelu, products": (
        TANH_GELU,
        lambda s: s.mul(s.x, s.plus(s.tanh(s.cubic(s.x, s.mul(s.x, s.x, s.x))), 1.0), 0.5),
    ),
    "tanh gelu, square": (
        TANH_GELU,
        lambda s: s.mul(
            s.mul(s.x, 0.5),
            s.plus(s.tanh(s.mul(s.x, 0.79788456, s.plus(1.0, s.mul(s.x, 0.044715, s.x)))), 1.0),
        ),
    ),
    "hard swish, divided": (SWISH, lambda s: s.over(s.mul(s.x, s.relu6(s.plus(s.x, 3.0))), 6.0)),
    "hard swish, sixth": (
        SWISH,
        lambda s: s.mul(s.x, s.mul(s.relu6(s.plus(3.0, s.x)), 0.16666667)),
    ),
    "hard swish, gate": (
        SWISH,
        lambda s: s.mul(s.add(HardSigmoid(alpha=1 / 6, beta=0.5), s.x), s.x),
    ),
    "hard swish, fused clamp": (
        SWISH,
        lambda s: s.mul(s.x, s.add(e.Add(activation=Activation.RELU6), s.x, s.number(3)), 1 / 6),
    ),
    "square of a difference": (
        e.SquaredDifference(),
        lambda s: s.square(s.minus(*_two(s))),
    ),
    "power of a difference": (
        e.SquaredDifference(),
        lambda s: s.power(s.minus(*_two(s)), 2),
    ),
    "rsqrt, reciprocal": (
        e.Rsqrt(),
        lambda s: s.add(n.Reciprocal(), s.add(e.Sqrt(), s.add(e.Abs(), s.x))),
    ),
    "rsqrt, divided": (
        e.Rsqrt(),
        lambda s: s.over(1.0, s.add(e.Sqrt(), s.add(e.Abs(), s.x))),
    ),
    "rsqrt, power": (e.Rsqrt(), lambda s: s.power(s.add(e.Abs(), s.x), -0.5)),
    "prelu in blocks": (e.PRelu(), _prelu_of_blocks),
    "prelu by parts": (e.PRelu(), _prelu_by_parts),
    "prelu by abs": (e.PRelu(), _prelu_by_abs),
    "prelu by min": (e.PRelu(), _prelu_by_min),
    "prelu by max": (e.PRelu(), lambda s: s.add(e.Maximum(), s.x, s.mul(s.x, s.slopes()))),
    "leaky relu by max": (LEAKY, lambda s: s.add(e.Maximum(), s.mul(s.x, 0.2), s.x)),
    "leaky relu by parts": (
        LEAKY,
        lambda s: s.minus(s.relu(s.x), s.mul(0.2, s.relu(s.neg(s.x)))),
    ),
    "relu by abs": (
        e.Clip(low=0.0, high=math.inf),
        lambda s: s.plus(s.mul(s.x, 0.5), s.mul(s.add(e.Abs(), s.x), 0.5)),
    ),
    "no bound": (Identity(), lambda s: s.add(e.Maximum(), s.x, s.number(-3e38))),
}


def _read_again(s: Spelling, share: Value) -> Value:
    return s.plus(s.mul(s.x, share, 0.5), s.add(e.Sin(), share))


def _square_and(s: Spelling, difference: Value) -> Value:
    return s.plus(s.square(difference), difference)


STAYS: dict[str, Spell] = {
    "mish of another": lambda s: s.mul(s.x, s.tanh(s.add(a.Softplus(), s.neg(s.x)))),
    "another number": lambda s: s.mul(s.x, s.share(s.x), 0.75),
    "another root": lambda s: s.mul(s.x, 0.5, s.plus(1.0, s.erf(s.mul(s.x, 0.7)))),
    "of two values": lambda s: s.mul(_two(s)[1], s.share(s.x), 0.5),
    "share read again": lambda s: _read_again(s, s.share(s.x)),
    "clamp at 5": lambda s: s.mul(s.x, s.add(e.Clip(low=0, high=5.0), s.plus(s.x, 3.0)), 1 / 6),
    "no gate": lambda s: s.mul(s.x, s.add(HardSigmoid(), s.x)),
    "product of differences": lambda s: s.mul(s.minus(*_two(s)), s.minus(*_two(s)[::-1])),
    "difference read again": lambda s: _square_and(s, s.minus(*_two(s))),
    "two over a root": lambda s: s.over(2.0, s.add(e.Sqrt(), s.add(e.Abs(), s.x))),
    "other power": lambda s: s.power(s.add(e.Abs(), s.x), -1.5),
    "bent the other way": lambda s: s.plus(s.mul(s.x, 2.0), s.relu(s.x)),
    "residual": lambda s: s.plus(s.relu(s.plus(s.x, _two(s)[1])), s.x),
    "other operand": lambda s: s.add(e.Maximum(), s.mul(_two(s)[1], 0.2), s.x),
    "a bound": lambda s: s.add(e.Maximum(), s.x, s.number(-1.0)),
    "higher rank": lambda s: s.mul(s.x, s.share(s.x), s.number(0.5, 5)),
}


def _check(s: Spelling, *outputs: Value) -> list[Op]:
    s.out(*outputs)
    x = (s.rng.standard_normal((2, 3, 5, 7)) * 4).astype(np.float32)
    before = run_graph(s.graph, [x])
    run_passes(Model([Signature("", s.graph)]), [RespellPass(), PrunePass()], verify=True)
    for old, new in zip(before, run_graph(s.graph, [x]), strict=True):
        np.testing.assert_allclose(new, old, rtol=2e-3, atol=2e-3)
    return [node.op for node in s.graph.nodes]


@pytest.mark.parametrize("name", FOUND)
def test_spellings_are_found(name):
    op, spell = FOUND[name]
    s = Spelling()
    ops = _check(s, spell(s))
    assert op in ops
    assert len(ops) <= 2
    assert not {e.Mul, e.Sub, n.Erf, e.Sqrt} & {type(o) for o in ops}


@pytest.mark.parametrize("name", FOUND)
def test_what_an_output_needs_stays(name):
    _, spell = FOUND[name]
    s = Spelling()
    y = spell(s)
    assert y.producer is not None
    inner = [v for v in y.producer.inputs if v is not None and v.producer is not None]
    inner = [v for v in inner if v.producer.op not in (e.Sin(), e.Abs())]  # type: ignore[union-attr]
    count = len(s.graph)
    ops = _check(s, y, *inner)
    assert len(ops) == count


@pytest.mark.parametrize("name", STAYS)
def test_what_isnt_quite_that_stays(name):
    s = Spelling()
    y = STAYS[name](s)
    before = [node.op for node in s.graph.nodes]
    assert _check(s, y) == before


def test_slopes_keep_their_precision():
    s = Spelling()
    slopes = s.slopes()
    _check(s, s.minus(s.relu(s.x), s.mul(s.relu(s.neg(s.x)), slopes)))
    (found,) = [node for node in s.graph.nodes if isinstance(node.op, e.PRelu)]
    assert found.inputs[1] is not None
    assert slopes.data is not None
    np.testing.assert_array_equal(found.inputs[1].data, slopes.data)


def test_networks_of_sums_stay_and_take_little_time():
    s = Spelling()
    y = s.x
    for _ in range(30):
        y = s.plus(y, s.relu(s.conv(y, 3)))
    assert sum(isinstance(op, Conv2D) for op in _check(s, y)) == 30
