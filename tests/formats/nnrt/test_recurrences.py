"""Recurrences of other formats that are layers of NNRt's."""

from collections import Counter

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.reader import import_model
from nnconv.ir import Activation, DType
from nnconv.ir.clone import clone_model
from nnconv.lowering import one_entry, to_nnrt
from nnconv.ops.rnn import Lstm
from support.recurrences import BATCH, DEPTH, PARTS, WAYS, recurrence
from support.tflite_spine import model_of

LAYERS = {"plain": (), "states": ("states",), "coupled": ("coupled", "states")}


def check(build, *, layers, api=2, devices=("reference",), tolerance=1e-5):
    """What devices make of the model that is written; it has so many LSTMs."""
    model = model_of(build, format="tflite", source="net")
    rng = np.random.default_rng(0)
    feeds = {v.name: rng.uniform(-1, 1, v.shape).astype(v.dtype.numpy) for v in model.inputs}
    wanted = run_graph(model.graph, list(feeds.values()))
    written = to_nnrt(one_entry(clone_model(model), model.main), api=api)
    assert Counter(written.written.counts)["LSTM"] == layers
    again = import_model(file.read(file.to_bytes(written.model), name="net"))
    for device in devices:
        found = nnconv.compile(clone_model(again), device).run(feeds)
        for got, want in zip(found.values(), wanted, strict=True):
            assert got.shape == want.shape
            assert np.abs(got - want).max() <= tolerance, device


@pytest.mark.parametrize("results", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LAYERS)
def test_an_lstm_is_a_layer(name, way, results):
    check(recurrence(Lstm(**WAYS[way]), LAYERS[name], results=results), layers=1)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_run(name):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    build = recurrence(Lstm(time_major=False), LAYERS[name], results=(0, 1, 2))
    check(build, layers=1, devices=("onnxruntime:cpu", "litert:cpu"))


def test_a_single_step_is_a_layer():
    check(recurrence(Lstm(), results=(0, 1, 2), shape=(BATCH, DEPTH)), layers=1)


def test_a_layer_of_halves():
    build = recurrence(Lstm(), dtype=DType.FLOAT16, results=(0, 1, 2))
    check(build, layers=1, tolerance=2e-3)


def test_version_1_has_no_layers():
    check(recurrence(Lstm(), results=(0, 1, 2)), layers=0, api=1)


@pytest.mark.parametrize("name", [name for name in PARTS if name not in ("plain", "coupled")])
def test_what_is_more_than_a_layer_is_written_out(name):
    check(recurrence(Lstm(), PARTS[name], results=(0, 1, 2)), layers=0)


@pytest.mark.parametrize("op", [Lstm(cell_clip=0.2), Lstm(activation=Activation.RELU)], ids=str)
def test_clips_and_other_activations_are_written_out(op):
    check(recurrence(op, results=(0, 1, 2)), layers=0)
