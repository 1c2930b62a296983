"""Recurrences of any number of steps are one operation, as far as NNAPI's is the same."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.reader import import_model
from nnconv.ir import Activation, Builder, DType
from nnconv.ir.clone import clone_model
from nnconv.lowering import to_nnapi
from nnconv.ops.recurrent import Function, GruLayer, LstmLayer, RnnLayer
from nnconv.ops.rnn import Lstm, Rnn
from support.nnapi_spine import NnapiCase, check_nnapi
from support.recurrences import BATCH, CELLS, DEPTH, PARTS, STEPS, WAYS, numbers, recurrence
from support.tflite_spine import model_of

F32, F16 = DType.FLOAT32, DType.FLOAT16
PLAIN = ("Sigmoid", "Tanh", "Tanh")
LSTM, RNN = "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"
LEVELS = pytest.mark.parametrize("level", [3, 4, 8])
RESULTS = pytest.mark.parametrize("results", [(0,), (1,), (0, 1), (0, 1, 2)], ids=str)


def layer(op, *, given=(), results=(0,), steps=STEPS, lengths=None, dtype=F32, known=True):
    """An ONNX layer; of its optional operands those that are named, of weights known or not."""

    def build(b: Builder):
        sides, rows = len(op.directions), op.gates * CELLS
        x = b.input("x", dtype, (steps, BATCH, DEPTH))
        operands = {
            "bias": numbers(b, sides, 2 * rows, dtype=dtype),
            "lengths": None if lengths is None else b.const(np.asarray(lengths, np.int32)),
            "output": b.input("h", dtype, (sides, BATCH, CELLS)) if "output" in given else None,
        }
        if isinstance(op, LstmLayer):
            state = (sides, BATCH, CELLS)
            operands["cell"] = b.input("c", dtype, state) if "cell" in given else None
            peepholes = numbers(b, sides, 3 * CELLS, dtype=dtype)
            operands["peepholes"] = peepholes if "peepholes" in given else None
        weights = [numbers(b, sides, rows, n, dtype=dtype) for n in (DEPTH, CELLS)]
        if not known:
            weights = [b.input(f"w{i}", dtype, w.shape) for i, w in enumerate(weights)]
        found = b.add_many(op, [x, *weights, *operands.values()])
        return [found[i] for i in results if i < len(found)]

    return build


def functions(*names, sides=1):
    return tuple(Function(name) for name in names) * sides


LSTM_LAYER = LstmLayer(functions=functions(*PLAIN))
RNN_LAYER = RnnLayer(functions=functions("Tanh"))
BOTH = (False, True)
LAYERS = {
    "lstm": (LSTM_LAYER, ()),
    "lstm, states": (LSTM_LAYER, ("output", "cell")),
    "lstm, peepholes": (LSTM_LAYER, ("peepholes",)),
    "lstm, coupled": (LSTM_LAYER.replace(coupled=True), ("peepholes",)),
    "lstm, relu": (LstmLayer(functions=functions("Sigmoid", "Relu", "Relu")), ()),
    "lstm, backward": (LSTM_LAYER.replace(directions=(True,)), ("output", "cell")),
    "lstm, both": (LstmLayer(functions=functions(*PLAIN, sides=2), directions=BOTH), ()),
    "rnn": (RNN_LAYER, ("output",)),
    "rnn, sigmoid": (RnnLayer(functions=functions("Sigmoid")), ()),
    "rnn, backward": (RNN_LAYER.replace(directions=(True,)), ("output",)),
    "rnn, both": (RnnLayer(functions=functions("Tanh", sides=2), directions=BOTH), ()),
}


def counts_of(case):
    """The operations of the model that a case becomes."""
    model = model_of(case.build, format=case.format, source=case.id)
    return Counter(to_nnapi(model, feature_level=case.level).written.counts)


def check_devices(case, feeds_seed=0):
    """What runtimes make of the model that is written."""
    model = model_of(case.build, format=case.format, source=case.id)
    rng = np.random.default_rng(feeds_seed)
    feeds = {}
    for value in model.inputs:
        shape = [d if isinstance(d, int) else BATCH for d in value.shape]
        feeds[value.name] = rng.uniform(-1, 1, shape).astype(value.dtype.numpy)
    wanted = run_graph(model.graph, list(feeds.values()))
    written = to_nnapi(clone_model(model), feature_level=case.level)
    again = import_model(file.read(file.to_bytes(written.model), name=case.id))
    for device, module in (("onnxruntime:cpu", "onnxruntime"), ("litert:cpu", "ai_edge_litert")):
        pytest.importorskip(module)
        found = nnconv.compile(clone_model(again), device).run(feeds)
        for got, want in zip(found.values(), wanted, strict=True):
            scale = max(1.0, float(np.abs(want).max()))
            assert np.abs(got - want).max() <= case.tolerance * scale, device


@LEVELS
@RESULTS
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_known_steps(name, results, level):
    op, given = LAYERS[name]
    case = NnapiCase(name, layer(op, given=given, results=results), level=level)
    check_nnapi(case)
    if level > 3 or 2 not in results or isinstance(op, RnnLayer):
        counts = counts_of(case)
        assert counts[RNN if isinstance(op, RnnLayer) else LSTM] == len(op.directions)
        assert not {"FULLY_CONNECTED", "TANH", "WHILE"} & set(counts)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_early_levels(name):
    op, given = LAYERS[name]
    case = NnapiCase(name, layer(op, given=given, results=(0, 1, 2)), level=2)
    check_nnapi(case)
    single = "RNN" if isinstance(op, RnnLayer) else "LSTM"
    assert counts_of(case)[single] == STEPS * len(op.directions)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_run(name):
    op, given = LAYERS[name]
    check_devices(NnapiCase(name, layer(op, given=given, results=(0, 1)), level=3))
    check_devices(NnapiCase(name, layer(op, given=given, results=(0, 1, 2))))


@pytest.mark.parametrize("steps", [1, 2, 200])
@pytest.mark.parametrize("op", [LSTM_LAYER, RNN_LAYER], ids=["lstm", "rnn"])
def test_the_number_of_steps_makes_no_more_operations(op, steps):
    check_nnapi(NnapiCase("long", layer(op, steps=steps), level=3))
    assert counts_of(NnapiCase("long", layer(op, steps=steps), level=3)).total() == 2


@LEVELS
@pytest.mark.parametrize("op", [LSTM_LAYER, RNN_LAYER, GruLayer(functions=functions(*PLAIN[:2]))])
def test_layers_of_no_steps_whose_weights_are_not_known(op, level):
    case = NnapiCase("none", layer(op, steps=0, given=("output",), results=(0, 1), known=False))
    model = model_of(case.build, format=case.format, source=case.id)
    rng = np.random.default_rng(case.seed)
    feeds = [rng.standard_normal(value.shape).astype(np.float32) for value in model.inputs]
    again = import_model(to_nnapi(clone_model(model), feature_level=level).model)
    for got, want in zip(run_graph(again.graph, feeds), run_graph(model.graph, feeds), strict=True):
        np.testing.assert_array_equal(got, want)


@LEVELS
@pytest.mark.parametrize("name", ["lstm", "lstm, both", "rnn"])
def test_layers_of_halves(name, level):
    op, given = LAYERS[name]
    build = layer(op, given=given, dtype=F16)
    check_nnapi(NnapiCase(name, build, level=level, tolerance=2e-3))
    assert {LSTM, RNN} & set(counts_of(NnapiCase(name, build, level=level)))


def test_lengths_that_all_count_are_none():
    case = NnapiCase("whole", layer(LSTM_LAYER, lengths=(5, 7), results=(0, 1, 2)))
    check_nnapi(case)
    assert counts_of(case)[LSTM] == 1


OTHERS = {
    "clipped": layer(LSTM_LAYER.replace(clip=0.5)),
    "of lengths": layer(LSTM_LAYER, lengths=(5, 3), results=(0, 1)),
    "of other activations": layer(LstmLayer(functions=functions("Sigmoid", "Tanh", "Relu"))),
    "of other gates": layer(LstmLayer(functions=functions("Relu", "Tanh", "Tanh"))),
    "gated": layer(GruLayer(functions=functions("Sigmoid", "Tanh"))),
}


@LEVELS
@pytest.mark.parametrize("name", OTHERS)
def test_other_layers_are_written_out(name, level):
    case = NnapiCase(name, OTHERS[name], level=level)
    check_nnapi(case)
    assert not {LSTM, RNN} & set(counts_of(case))


@LEVELS
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PARTS)
def test_recurrences(name, way, level):
    op = Lstm(cell_clip=0.6, projection_clip=0.5, **WAYS[way])
    for results in ((0,), (0, 1)):
        case = NnapiCase(name, recurrence(op, PARTS[name], results=results), level=level)
        check_nnapi(case)
        assert counts_of(case)[LSTM] == 1
    case = NnapiCase(name, recurrence(op, PARTS[name], results=(0, 1, 2)), level=level)
    check_nnapi(case)
    assert counts_of(case)[LSTM if level > 3 else "LSTM"] == (1 if level > 3 else STEPS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PARTS)
def test_recurrences_run(name, way):
    op = Lstm(cell_clip=0.6, projection_clip=0.5, **WAYS[way])
    case = NnapiCase(name, recurrence(op, PARTS[name], results=(0, 1)), level=3)
    check_devices(case)
    build = recurrence(op, PARTS[name], results=(0, 1, 2))
    check_devices(replace(case, build=build, level=8))


@LEVELS
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("activation", [Activation.RELU, Activation.RELU6, Activation.SIGMOID])
@pytest.mark.parametrize("kind", [Lstm, Rnn])
def test_activations(kind, activation, way, level):
    build = recurrence(kind(activation=activation, **WAYS[way]), results=(0, 1))
    check_nnapi(NnapiCase("activation", build, level=level))
    assert {LSTM, RNN} & set(counts_of(NnapiCase("activation", build, level=level)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [name for name, parts in PARTS.items() if "norms" not in parts])
def test_early_levels_have_single_steps(name, way):
    op = Lstm(cell_clip=0.6, projection_clip=0.5, **WAYS[way])
    case = NnapiCase(name, recurrence(op, PARTS[name], results=(0, 1, 2)), level=2)
    check_nnapi(case)
    assert counts_of(case)["LSTM"] == STEPS
    check_devices(case)


@pytest.mark.parametrize("way", WAYS)
def test_early_levels_have_single_steps_of_an_rnn(way):
    case = NnapiCase("rnn", recurrence(Rnn(**WAYS[way]), ("states",), results=(0, 1)), level=2)
    check_nnapi(case)
    assert counts_of(case)["RNN"] == STEPS
    check_devices(case)


@pytest.mark.parametrize("kind", [Lstm, Rnn])
def test_a_sequence_of_one_step_on_the_first_level(kind):
    shape, results = (1, BATCH, DEPTH), (0, 1) if kind is Rnn else (0, 1, 2)
    build = recurrence(kind(reverse=True), ("states",), results=results, shape=shape)
    check_nnapi(NnapiCase("one", build, level=1))
    assert counts_of(NnapiCase("one", build, level=1))[kind.__name__.upper()] == 1


@pytest.mark.parametrize("kind", [Lstm, Rnn])
@pytest.mark.parametrize("shape", [(STEPS, "n", DEPTH), ("n", DEPTH)], ids=["sequence", "step"])
def test_any_number_of_sequences(kind, shape):
    results = (0, 1) if kind is Rnn else (0, 1, 2)
    build = recurrence(kind(), ("states",), results=results, shape=shape)
    check_devices(NnapiCase("any", build, level=3))
    check_devices(NnapiCase("any", build))


@pytest.mark.parametrize("level", [2, 3, 8])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Lstm, Rnn])
def test_weights_in_8_bits(kind, way, level):
    build = recurrence(kind(**WAYS[way]), ("codes", "projection"), results=(0, 1))
    check_nnapi(NnapiCase("codes", build, level=level))
    assert {"LSTM", "RNN", LSTM, RNN} & set(counts_of(NnapiCase("codes", build, level=level)))


@LEVELS
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", [Lstm, Rnn])
def test_single_steps(kind, reverse, level):
    build = recurrence(kind(reverse=reverse), ("states",), results=(0, 1), shape=(BATCH, DEPTH))
    check_nnapi(NnapiCase("step", build, level=level))
    name = kind.__name__.upper()
    name = f"UNIDIRECTIONAL_SEQUENCE_{name}" if level > 3 else name
    assert counts_of(NnapiCase("step", build, level=level))[name] == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Lstm, Rnn])
def test_recurrences_of_halves(kind, way):
    build = recurrence(kind(**WAYS[way]), ("states",), results=(0, 1), dtype=F16)
    check_nnapi(NnapiCase("halves", build, level=3, tolerance=2e-3))
    assert {LSTM, RNN} & set(counts_of(NnapiCase("halves", build, level=3)))
