"""States become variables again: read before all else, assigned behind all else.

A resource a state, which a subgraph that CALL_ONCE runs gives its initial content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnconv.formats.tflite import build
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR, TensorType
from nnconv.formats.tflite.types import CODES
from nnconv.ir.graph import State, unique_names


def keep_states(
    subgraphs: list[build.Subgraph], states: Sequence[State], kept: Sequence[bool]
) -> None:
    """Let the last inputs and outputs of the main subgraph be variables.

    Those ``kept`` by an operator are variable tensors already.
    """
    named = zip(states, unique_names(state.name for state in states), strict=True)
    states = [replace(state, name=name) for state, name in named]  # one name is one variable
    main = subgraphs[0]
    tensors, inputs, outputs = list(main.tensors), list(main.inputs), list(main.outputs)
    first, last = len(inputs) - len(states), len(outputs) - len(states)
    before, after = [_call_once(len(subgraphs))], []
    left = [
        row
        for row, is_kept in zip(
            zip(states, inputs[first:], outputs[last:], strict=True), kept, strict=True
        )
        if not is_kept
    ]
    for state, read, written in left:
        handle = len(tensors)
        tensors.append(_handle(state.name))
        before += [_var_handle(state.name, handle), _operator("READ_VARIABLE", [handle], [read])]
        after.append(_operator("ASSIGN_VARIABLE", [handle, written], []))
    operators = [*before, *main.operators, *after] if left else main.operators
    subgraphs[0] = build.Subgraph(main.name, tensors, inputs[:first], outputs[:last], operators)
    if left:
        subgraphs.append(_start([(s, tensors[read].shape) for s, read, _ in left]))


def _start(states: Sequence[tuple[State, tuple[int, ...]]]) -> build.Subgraph:
    """The subgraph that gives the variables their initial content, under the shapes given."""
    tensors: list[build.Tensor] = []
    operators = []
    for state, shape in states:
        handle = len(tensors)
        data = np.ascontiguousarray(state.initial)
        if data.size == np.prod(shape, dtype=np.int64):  # a Reshape behind it was taken out
            data = data.reshape(shape)
        tensors += [
            _handle(state.name),
            build.Tensor(state.name, CODES[state.input.dtype], data.shape, data=data),
        ]
        operators += [
            _var_handle(state.name, handle),
            _operator("ASSIGN_VARIABLE", [handle, handle + 1], []),
        ]
    return build.Subgraph("initialize", tensors, [], [], operators)


def _handle(name: str) -> build.Tensor:
    return build.Tensor(f"{name}/handle", TensorType.RESOURCE, ())


def _var_handle(name: str, handle: int) -> build.Operator:
    options = ("VarHandleOptions", {"container": "", "shared_name": name})
    return build.Operator(BUILTIN_OPERATOR["VAR_HANDLE"], [], [handle], options)


def _operator(name: str, inputs: Sequence[int], outputs: Sequence[int]) -> build.Operator:
    return build.Operator(BUILTIN_OPERATOR[name], inputs, outputs)


def _call_once(subgraph: int) -> build.Operator:
    options = ("CallOnceOptions", {"init_subgraph_index": subgraph})
    return build.Operator(BUILTIN_OPERATOR["CALL_ONCE"], [], [], options)
