"""NNRt models that differ from sound ones in one place: all that read them say the same of them.

Loading takes more than a device does, where the meaning is clear; the rest the check refuses too.
"""

from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError
from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.types import NUMPY
from nnconv.formats.nnrt.wire import Graph
from nnconv.runtime.nnrt import Error
from support.nnrt_broken import variations
from support.nnrt_corpus import sound_graphs
from support.nnrt_runtime import run_by_calls

PARTS = 4

SAME_FAULT = (
    "has no data, it must be a constant",  # nothing writes it, says the check
    "the shape isn't set",  # the outputs of rank 0 can't be bound, says the check
)
"""What the runtime calls a fault that is found in another way there."""


def ran(model: Graph, sound: Graph) -> str:
    """What building and running a model runs into; inputs of open extents get the sound ones."""
    feeds = []
    for index in model.inputs:
        tensor = model.tensors[index]
        known = (*sound.tensors[index].dimensions, 1)
        shape = [a if b < 0 else b for a, b in zip(known, tensor.dimensions, strict=False)]
        feeds.append(np.zeros(shape, NUMPY[tensor.data_type]))
    try:
        run_by_calls(model, feeds)
    except Error as error:
        return str(error)
    return ""


def disagreement(model: Graph, sound: Graph, path: Path) -> str:
    """Where check, load and the runtime say different things of a model; empty if they don't."""
    file.write(model, path)
    report = nnconv.check(path, "nnrt")
    loaded, is_open = "", False
    try:
        nnconv.load(path)
    except InvalidModelError as error:
        loaded = str(error)
    except UnsupportedError:
        is_open = True
    failed = ran(model, sound)
    if report.passed:
        return "" if not loaded and not failed else f"load: {loaded}, run: {failed}"
    same = any(o.why in failed for o in report.obstacles) or failed.endswith(SAME_FAULT)
    if not failed or not (same or is_open):
        return f"check: {report.obstacles}, load: {loaded}, run: {failed}"
    return ""


@pytest.mark.parametrize("part", range(PARTS))
def test_check_load_and_runtime_say_the_same(part, tmp_path):
    wrong, count = {}, 0
    for name, sound in list(sound_graphs())[part::PARTS]:
        if len(sound.operations) > 1:
            continue
        for what, model in variations(sound):
            count += 1
            if found := disagreement(model, sound, tmp_path / "model.nnrt"):
                wrong[name, what] = found
    assert wrong == {}
    assert count > 500


def test_sound_models_pass(tmp_path):
    for name, graph in sound_graphs():
        file.write(graph, tmp_path / "model.nnrt")
        report = nnconv.check(tmp_path / "model.nnrt", "nnrt")
        assert report.passed, (name, report.obstacles)
