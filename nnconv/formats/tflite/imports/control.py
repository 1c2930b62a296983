"""Control flow and variables: subgraphs become bodies or are inlined, variables become states.

Resources live as long as the model. Variable tensors of a subgraph that IF, WHILE or a composite
runs start anew with each run of that op, and so are no states; inside a WHILE they are carried from
turn to turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnconv.errors import plural
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.formats.tflite.subgraph import Given, SubgraphImport
from nnconv.formats.tflite.variables import Key, Variable, blank, evaluated
from nnconv.ir.graph import Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.control import If, While, joined

# ---------------------------------------------------------------- subgraphs


def _given(s: Source, first: int = 0) -> list[Value | Key]:
    """The operands from ``first`` on: values, and variables of handles."""
    return [
        s.scope.handles.get(s.op.inputs[i]) or s.operand(i) for i in range(first, s.operand_count)
    ]


def _enter(
    s: Source,
    field: str,
    given: Sequence[Given],
    *,
    into: SubgraphImport | None = None,
    fresh: dict[Key, Value] | None = None,
) -> SubgraphImport | None:
    """Import the subgraph that option ``field`` names; None if some of its nodes can't be.

    ``into`` and ``fresh`` are those of ``SubgraphImport``.
    """
    index = s.options.int(field)
    subgraph = s.scope.file.subgraphs[index]
    if len(subgraph.inputs) != len(given):
        raise s.fail(
            f"it gives {plural(len(given), 'value')} to subgraph {index}, which takes "
            f"{len(subgraph.inputs)}"
        )
    scope = _inner(s, index, into=into)
    scope.fresh = fresh
    scope.run(given)
    s.scope.unsupported += scope.unsupported
    if scope.unsupported:
        return None
    if len(scope.results) < len(s.op.outputs):
        raise s.fail(
            f"it takes {plural(len(s.op.outputs), 'result')} of subgraph {index}, "
            f"which gives {len(scope.results)}"
        )
    return scope


def _inner(s: Source, index: int, *, into: SubgraphImport | None = None) -> SubgraphImport:
    """The import of a subgraph that the operator runs."""
    shared = s.scope.variables.file
    scope = SubgraphImport(s.scope.file, index, shared=shared, into=into)
    scope.depth = s.scope.depth + 1
    shared.enter(scope.depth, s.op.fail)
    return scope


def _bind(s: Source, index: int, result: Value | Key) -> None:
    """Let a value or a handle be result number ``index``."""
    if isinstance(result, Value):
        s.bind(index, result)
    else:
        s.scope.handles[s.op.outputs[index]] = result


def _inline(s: Source, field: str, fresh: dict[Key, Value] | None, first: int = 0) -> None:
    scope = _enter(s, field, _given(s, first), into=s.scope, fresh=fresh)
    if scope is not None:
        for index in range(len(s.op.outputs)):
            result = scope.results[index]
            if isinstance(result, Value) and result.producer is not None:
                result.name = s.output_tensor(index).name
            _bind(s, index, result)


def import_call(s: Source) -> None:
    """CALL: the callee's nodes join the caller's."""
    _inline(s, "subgraph", s.scope.fresh)


def import_composite(s: Source) -> None:
    """STABLEHLO_COMPOSITE: its decomposition, which LiteRT runs as well."""
    _inline(s, "decomposition_subgraph_index", {})


# ---------------------------------------------------------------- IF and WHILE


def _inside(given: Sequence[Value | Key], same: Sequence[bool]) -> list[Given]:
    """What the inputs of a body are: constants remain so where all its runs get the ``same``."""
    return [
        what.type if isinstance(what, Value) and not (keeps and what.data is not None) else what
        for what, keeps in zip(given, same, strict=True)
    ]


def _complete_inputs(scope: SubgraphImport, given: Sequence[Given]) -> None:
    """Give the body an (unread) input for each constant that it reads directly."""
    present = iter(scope.graph.inputs)
    inputs = []
    for index, what in zip(scope.subgraph.inputs, given, strict=True):
        if isinstance(what, Value):
            kind = scope.values[index].type
            inputs.append(Value(scope.tensors[index].name, kind, origin=what.origin))
        elif isinstance(what, TensorType):
            inputs.append(next(present))
    scope.graph.inputs = inputs


def _values(given: Sequence[Value | Key]) -> list[Value]:
    return [what for what in given if isinstance(what, Value)]


def _variables_of(scopes: Sequence[SubgraphImport]) -> list[Key]:
    """The variables that the scopes use, each once."""
    return list(dict.fromkeys(key for scope in scopes for key in scope.variables.inputs))


def _emit(
    s: Source,
    op: Op,
    inputs: Sequence[Value],
    scopes: Sequence[SubgraphImport],
    results: Sequence[Value | Key],
    keys: Sequence[Key],
) -> None:
    """Add the node over the finished bodies and bind its results.

    ``results`` are the bodies' own, without what they give back of the variables ``keys``.
    """
    variables = s.scope.variables
    states = [
        variables.file.known[key].start() if key[0] == "tensor" else variables.present(key)
        for key in keys
    ]
    inputs = [*inputs, *states]
    bodies = [scope.graph for scope in scopes]
    try:
        types = list(op.infer_node([v.type for v in inputs], bodies))
    except ValueError as error:
        raise s.fail(str(error)) from error
    places: list[int] = []  # of each value among the results: its output, -1 where it is dropped
    for index, result in enumerate(results):
        bound = index < len(s.op.outputs)
        if isinstance(result, Value):
            places.append(index if bound else -1)
        elif bound:
            _bind(s, index, result)
    names = []
    for at, place in enumerate(places):
        if place >= 0:
            stated = s.output_type(place)
            types[at] = replace(types[at], quant=stated.quant or types[at].quant)
        names.append(s.output_tensor(place).name if place >= 0 else "")
    names += [state.name for state in states]
    values = s.builder.add_typed(op, inputs, types, names=names, bodies=bodies)
    for place, value in zip(places, values, strict=False):
        if place >= 0:
            s.bind(place, value)
    for key, value in zip(keys, values[len(places) :], strict=True):
        if key[0] != "tensor":
            variables.assign(key, value)


def import_if(s: Source) -> None:
    """IF: a branch whose condition is a constant joins the caller."""
    condition = s.operand(0)
    if condition.data is not None:
        if condition.data.size != 1:
            raise s.fail("its condition must have one element")
        taken = "then" if condition.data.reshape(-1)[0] else "else"
        _inline(s, f"{taken}_subgraph_index", {}, 1)
        return
    given = _given(s, 1)
    inside = _inside(given, [True] * len(given))
    scopes = []
    for branch in ("then", "else"):
        scope = _enter(s, f"{branch}_subgraph_index", inside, fresh={})
        if scope is not None:
            _complete_inputs(scope, inside)
            scopes.append(scope)
    if len(scopes) < 2:
        return
    keys = _variables_of(scopes)
    for scope in scopes:
        scope.variables.close(scope.graph, keys)
    then, otherwise = (scope.results for scope in scopes)
    if len(then) != len(otherwise):
        raise s.fail(f"its branches give {len(then)} and {plural(len(otherwise), 'result')}")
    for a, b in zip(then, otherwise, strict=True):
        if a != b and not (isinstance(a, Value) and isinstance(b, Value)):
            raise s.unsupported("its branches give handles of different variables")
    _emit(s, If(), [condition, *_values(given)], scopes, then, keys)


def import_while(s: Source) -> None:
    """WHILE: what the body hands on as it got it keeps its content; constants stay so inside."""
    given = _given(s)
    turn = s.scope.file.subgraphs[s.options.int("body_subgraph_index")]
    if len(turn.outputs) != len(given) or len(turn.inputs) != len(given):
        raise s.fail(f"its body must take and give {plural(len(given), 'value')}")
    kept = [a == b for a, b in zip(turn.inputs, turn.outputs, strict=True)]
    inside = _inside(given, kept)
    while True:
        body = _enter(s, "body_subgraph_index", inside)
        if body is None:
            break
        wider = [_wider(s, a, b) for a, b in zip(inside, body.results, strict=True)]
        if wider == inside:
            break
        inside = wider
    condition = _enter_condition(s, inside)
    if body is None or condition is None:
        return
    if any(condition.variables.current[k] is not v for k, v in condition.variables.inputs.items()):
        raise s.unsupported("its condition changes a variable")
    keys = _variables_of([condition, body])
    _complete_inputs(condition, inside)
    _complete_inputs(body, inside)
    values = [same for what, same in zip(given, kept, strict=True) if isinstance(what, Value)]
    body.graph.outputs = [
        before if same else after
        for before, after, same in zip(body.graph.inputs, body.graph.outputs, values, strict=True)
    ]
    body.variables.close(body.graph, keys)
    condition.variables.meet(keys)
    condition.graph.inputs += [condition.variables.inputs[key] for key in keys]
    _emit(s, While(), _values(given), [condition, body], body.results, keys)
    for index, (what, same) in enumerate(zip(given, kept, strict=True)):
        if same and isinstance(what, Value) and index < len(s.op.outputs):
            s.bind(index, what)


def _enter_condition(s: Source, given: Sequence[Given]) -> SubgraphImport | None:
    """The condition's body: like ``_enter``, but its results aren't the operator's."""
    index = s.options.int("cond_subgraph_index")
    subgraph = s.scope.file.subgraphs[index]
    if len(subgraph.inputs) != len(given) or len(subgraph.outputs) != 1:
        raise s.fail(
            f"its condition, subgraph {index}, must take {plural(len(given), 'value')}, give one"
        )
    scope = _inner(s, index)
    scope.run(given)
    s.scope.unsupported += scope.unsupported
    return None if scope.unsupported else scope


def _wider(s: Source, before: Given, after: Value | Key) -> Given:
    """What holds both what a turn gets and what it gives."""
    if isinstance(before, Value):
        return before
    if isinstance(before, TensorType) and isinstance(after, Value):
        try:
            return joined(before, after.type)
        except ValueError as error:
            raise s.fail(str(error)) from error
    if before != after:
        raise s.unsupported("its body exchanges handles of variables")
    return before


# ---------------------------------------------------------------- variables


def import_var_handle(s: Source) -> None:
    """VAR_HANDLE: the variable is told by container and name."""
    key: Key = ("resource", s.options.text("container"), s.options.text("shared_name"))
    s.output_tensor()
    s.scope.handles[s.op.outputs[0]] = key


def _handle(s: Source) -> Key:
    key = s.scope.handles.get(s.op.inputs[0]) if s.op.inputs else None
    if key is None:
        raise s.fail("operand 0 must be the handle of a variable")
    return key


def _learn(s: Source, key: Key, kind: TensorType) -> None:
    """Make a variable known: from what CALL_ONCE gives it, else as zeros of type ``kind``."""
    shared = s.scope.variables.file
    if key in shared.known:
        return
    if shared.initial is None:
        shared.initial = {}
        _run_initializers(s)
    name = str(key[2]) or "variable"
    if key in shared.initial:
        found, initial = shared.initial[key]
        shared.known[key] = Variable(key, name, found, initial)
        return
    try:
        shape = tuple(d if isinstance(d, int) else 0 for d in kind.shape or ())
        fill = kind.quant.zero_point[0] if kind.quant is not None else 0
        shared.known[key] = Variable(key, name, kind, blank(kind.with_shape(shape), fill))
    except ValueError as error:
        raise s.fail(str(error)) from error


def import_read_variable(s: Source) -> None:
    """READ_VARIABLE."""
    key = _handle(s)
    _learn(s, key, s.output_type())
    value = s.scope.variables.present(key)
    s.bind(0, value)


def import_assign_variable(s: Source) -> None:
    """ASSIGN_VARIABLE."""
    key, value = _handle(s), s.operand(1)
    _learn(s, key, value.type)
    known = s.scope.variables.file.known[key].kind
    if known.dtype is not value.dtype:
        raise s.fail(f"a variable of {known.dtype} is assigned {value.dtype}")
    s.scope.variables.assign(key, s.scope.reread(value, known.quant, value.name))


def import_call_once(s: Source) -> None:
    """CALL_ONCE: what its subgraph assigns are variables' initial values."""
    if s.op.inputs or s.op.outputs:
        raise s.fail("it must have neither operands nor results")


def _run_initializers(s: Source) -> None:
    """Find out the initial values that all subgraphs run by CALL_ONCE give to variables."""
    file, shared = s.scope.file, s.scope.variables.file
    done: set[int] = set()
    for subgraph in file.subgraphs:
        for op in subgraph.operators:
            if op.name != "CALL_ONCE" or op.options.int("init_subgraph_index") in done:
                continue
            index = op.options.int("init_subgraph_index")
            done.add(index)
            scope = _inner(s, index)
            graph = scope.run()
            s.scope.unsupported += scope.unsupported
            if scope.unsupported:
                continue
            assigned = dict(scope.variables.current)
            graph.outputs = list(assigned.values())
            _check_initializer(s, op.index, scope)
            arrays = evaluated(graph)
            if arrays is None:
                raise s.unsupported("the initial values of variables can't be computed beforehand")
            assert shared.initial is not None
            for (key, value), array in zip(assigned.items(), arrays, strict=True):
                kind = replace(value.type, shape=static_shape(value.shape) or array.shape)
                shared.initial[key] = (kind, array)
                known = shared.known[key]
                shared.known[key] = known._replace(kind=kind, initial=array)


def _check_initializer(s: Source, index: int, scope: SubgraphImport) -> None:
    """Check that an initializing subgraph reads no variable and takes no input."""
    read = any(value.use_count for value in scope.variables.inputs.values())
    if read or scope.graph.inputs:
        raise s.unsupported(f"the subgraph that CALL_ONCE (op #{index}) runs needs values")


IMPORTERS: dict[str, Importer] = {
    "CALL": import_call,
    "STABLEHLO_COMPOSITE": import_composite,
    "IF": import_if,
    "WHILE": import_while,
    "VAR_HANDLE": import_var_handle,
    "READ_VARIABLE": import_read_variable,
    "ASSIGN_VARIABLE": import_assign_variable,
    "CALL_ONCE": import_call_once,
}
