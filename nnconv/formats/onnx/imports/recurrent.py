"""Recurrent layers.

``layout`` 1 (batch first), which onnxruntime has no kernels for, becomes transposes around the
layer. Results that the node leaves out are left out again when it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ops.quantize import Dequantize
from nnconv.ops.recurrent import FUNCTIONS, Function, GruLayer, Layer, LstmLayer, RnnLayer
from nnconv.ops.rewrite import transposed
from nnconv.ops.shape import Transpose

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}

_NAMES = {name.lower(): name for name in FUNCTIONS}


def _import(src: Source, kind: type[Layer], standard: Sequence[str], **more: Any) -> None:
    """A layer; ``standard`` are the activations of one direction where none are given."""
    emit_layer(src, kind, standard, [src.optional(i) for i in range(8)], more)


def emit_layer(
    src: Source,
    kind: type[Layer],
    standard: Sequence[str],
    given: Sequence[Value | None],
    more: dict[str, Any],
) -> None:
    """Bind the results of a layer of these operands."""
    direction = src.text("direction", "forward")
    if direction not in _DIRECTIONS:
        raise src.fail(f"direction {direction!r} is unknown")
    directions = _DIRECTIONS[direction]
    op = kind(
        directions=directions,
        functions=_functions(src, [*standard] * len(directions)),
        clip=src.float("clip", 0.0),
        **more,
    )
    operands = list(given[: len(kind.operands)])
    while operands[-1] is None and len(operands) > 3:
        operands.pop()
    batch_first = src.int("layout", 0) == 1
    if not batch_first:
        src.emit(op, operands)
        return
    for place, perm in ((0, (1, 0, 2)), (5, (1, 0, 2)), (6, (1, 0, 2))):
        value = operands[place] if place < len(operands) else None
        if value is not None:
            operands[place] = src.add(Transpose(perm=perm), [value])
    results = src.add_many(op, operands)
    for place, value in enumerate(results):
        if src.wants(place):
            turned = Transpose(perm=(1, 0, 2) if place else (2, 0, 1, 3))
            src.bind(place, src.add(turned, [value]))


def _functions(src: Source, standard: Sequence[str]) -> tuple[Function, ...]:
    """The activations; alphas and betas go, in order, to those that have such parameters."""
    names = src.text_list("activations") or standard
    alphas = list(src.float_list("activation_alpha") or ())
    betas = list(src.float_list("activation_beta") or ())
    found = []
    for text in names:
        name = _NAMES.get(text.lower())
        if name is None:
            raise src.unsupported(f"activation {text!r} is unknown")
        parameters = list(FUNCTIONS[name])
        for place, numbers in enumerate((alphas, betas)):
            if place < len(parameters) and numbers:
                parameters[place] = numbers.pop(0)
        found.append(Function(name, *parameters))
    return tuple(found)


def import_rnn(src: Source) -> None:
    """RNN."""
    _import(src, RnnLayer, ["Tanh"])


def import_gru(src: Source) -> None:
    """GRU."""
    after = bool(src.int("linear_before_reset", 0))
    _import(src, GruLayer, ["Sigmoid", "Tanh"], reset_after=after)


def import_lstm(src: Source) -> None:
    """LSTM."""
    coupled = bool(src.int("input_forget", 0))
    _import(src, LstmLayer, _LSTM, coupled=coupled)


def import_dynamic_quantize_lstm(src: Source) -> None:
    """DynamicQuantizeLSTM: LSTM of weights in 8 bits, which stand for their real values.

    That the data of each product is quantized too, by its range at run time, is a matter of
    onnxruntime's speed and not of the model.
    """
    given = [src.optional(i) for i in range(8)]
    given[1:3] = [_weights(src, 1, 8), _weights(src, 2, 10)]
    emit_layer(src, LstmLayer, _LSTM, given, {"coupled": bool(src.int("input_forget", 0))})


def _weights(src: Source, place: int, scale_place: int) -> Value:
    """Weights [D,I,4*H] in codes by their real values [D,4*H,I].

    They have a scale for each direction, or for each direction and column.
    """
    codes = src.operand(place)
    scale = src.required_constant(scale_place, "the scale of its weights")
    point = src.constant(scale_place + 1)
    points = np.zeros(scale.shape, np.int64) if point is None else point.astype(np.int64)
    if codes.type.rank != 3 or points.size != scale.size:
        raise src.fail(
            f"weights are {codes.type}, with {plural(scale.size, 'scale')}, "
            f"{plural(points.size, 'point')}"
        )
    if scale.size == 1:
        quant = Quant.per_tensor(float(scale.reshape(-1)[0]), int(points.reshape(-1)[0]))
    else:
        sides = (codes.shape or ())[0]
        if scale.ndim == 2 and sides != 1:
            return _widened(src, codes, scale, points)
        axis = 0 if scale.ndim == 1 and sides == scale.size else 2
        scales, zeros = scale.reshape(-1).tolist(), points.reshape(-1).tolist()
        quant = Quant(scale=tuple(scales), zero_point=tuple(zeros), axis=axis)
    real = src.add(Dequantize(dtype=DType.FLOAT32), [src.scope.reread(codes, quant)])
    return transposed(src.builder, real, (0, 2, 1))


def _widened(src: Source, codes: Value, scale: np.ndarray, points: np.ndarray) -> Value:
    """Weights with scales along two dimensions, which no Dequantize has."""
    if codes.data is None:
        raise src.unsupported(
            "weights of both directions, by column, that are computed at run time"
        )
    sides, _, columns = codes.data.shape
    if scale.shape != (sides, columns) or points.shape != scale.shape:
        raise src.fail(f"weights are {codes.type}, with scales {list(scale.shape)}")
    real = (codes.data - points[:, np.newaxis]) * scale[:, np.newaxis]
    return src.const(real.astype(np.float32).transpose(0, 2, 1), codes.name)


_LSTM = ("Sigmoid", "Tanh", "Tanh")

IMPORTERS: dict[str, Importer] = {
    "RNN": import_rnn,
    "GRU": import_gru,
    "LSTM": import_lstm,
    "com.microsoft:DynamicQuantizeLSTM": import_dynamic_quantize_lstm,
}
