"""Compiled models in a folder."""

import json

import numpy as np
import pytest
from nnconv.backends import devices

from nnconv import backends
from nnconv.runtime import nnrt
from nnconv.runtime.core import program
from nnconv.runtime.nnrt import OperationType, ReturnCode
from nnconv.runtime.nnrt.cache import NAME
from support.nnrt_runtime import ONNXRUNTIME, array, described, device_id, executor, finished

CACHED = [device.name for device in devices() if device.available and device.name != "reference"]


def set_up(folder, version=1, *, model=None, name=ONNXRUNTIME, api=2):
    made = nnrt.Compilation(finished(api=api) if model is None else model)
    made.set_device(device_id(name))
    made.set_cache(folder, version)
    return made


def cached(*args, **options):
    made = set_up(*args, **options)
    made.build()
    return made


def without_model(folder, version=1, name=ONNXRUNTIME):
    made = nnrt.Compilation.construct_for_cache()
    made.set_device(device_id(name))
    made.set_cache(folder, version)
    made.build()
    return made


def runs(compilation):
    made = executor(compilation)
    result = np.zeros((2, 3), np.float32)
    made.set_output(0, result)
    made.run()
    return np.array_equal(result, 2 * array())


@pytest.fixture
def compiles(monkeypatch):
    """What is compiled: models, and paths of files."""
    seen = []
    inner = backends.compile

    def noted(model, device, **options):
        seen.append(model)
        return inner(model, device, **options)

    monkeypatch.setattr(program.backends, "compile", noted)
    return seen


@pytest.mark.parametrize("name", CACHED)
@pytest.mark.parametrize("api", [1, 2])
def test_a_model_comes_from_the_cache(tmp_path, name, api, compiles):
    assert runs(cached(tmp_path, name=name, api=api))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = set_up(tmp_path, name=name, api=api)
    compiles.clear()
    again.build()
    assert runs(again)
    assert [type(each).__name__ for each in compiles] == ["PosixPath"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", CACHED)
def test_a_cache_needs_no_model(tmp_path, name):
    cached(tmp_path, 3, name=name)
    assert runs(without_model(tmp_path, 3, name))
    assert runs(without_model(tmp_path, 3, name))


def broken(path):
    path.write_bytes(path.read_bytes()[:-1])


def foreign(path):
    note = path.with_name(f"{NAME}.json")
    entries = json.loads(note.read_text())
    note.write_text(json.dumps(entries | {"device": "another"}))


def noted_as(text):
    def damage(path):
        path.with_name(f"{NAME}.json").write_text(text)

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        broken,
        foreign,
        noted_as("{}"),
        noted_as("["),
        noted_as("[" * 100_000),
        noted_as('{"checksum": 1, "version": 1}'),
    ],
)
def test_what_is_damaged_is_built_anew(tmp_path, damage):
    cached(tmp_path)
    damage(tmp_path / NAME)
    with pytest.raises(nnrt.Error) as caught:
        without_model(tmp_path)
    assert caught.value.code is ReturnCode.INVALID_PARAMETER
    assert runs(cached(tmp_path))
    assert runs(without_model(tmp_path))


def test_versions_only_rise(tmp_path):
    cached(tmp_path, 2)
    with pytest.raises(nnrt.Error) as caught:
        cached(tmp_path, 1)
    assert caught.value.code is ReturnCode.OPERATION_FORBIDDEN
    cached(tmp_path, 3)
    with pytest.raises(nnrt.Error) as caught:
        cached(tmp_path, 2)
    assert caught.value.code is ReturnCode.OPERATION_FORBIDDEN
    assert runs(without_model(tmp_path, 3))


def test_another_model_takes_the_place_of_one(tmp_path):
    cached(tmp_path)
    other = cached(tmp_path, model=finished((1, 3)))
    made = nnrt.Executor(other)
    made.set_input(0, described((1, 3)), array()[:1])
    assert made.get_output_shape(0) == (1, 3)
    assert nnrt.Executor(without_model(tmp_path)).get_output_shape(0) == (1, 3)


def weighted(weights):
    """The sum of an input and weights."""
    model = nnrt.Model()
    x, constant, out = (model.add_tensor(described(weights.shape)) for _ in range(3))
    model.set_tensor_data(constant, weights)
    model.add_operation(OperationType.ADD, [], [x, constant], [out])
    model.specify_inputs_and_outputs([x], [out])
    model.finish()
    return model


@pytest.mark.parametrize("version", [1, 2])
def test_every_weight_counts(tmp_path, version):
    first = np.arange(10_000, dtype=np.float32)
    second = first.copy()
    second[5000] += 1
    cached(tmp_path, model=weighted(first))
    found = cached(tmp_path, version, model=weighted(second))
    for made in (found, without_model(tmp_path, version)):
        ready = nnrt.Executor(made)
        result = np.zeros(first.shape, np.float32)
        ready.set_input(0, described(first.shape), np.zeros(first.shape, np.float32))
        ready.set_output(0, result)
        ready.run()
        assert np.array_equal(result, second)


@pytest.mark.parametrize("folder", ["a\0b", b"a\0b", "\ud800", "x" * 5000])
@pytest.mark.parametrize("api", [1, 2])
def test_a_folder_that_cannot_be_is_refused(folder, api):
    with pytest.raises(nnrt.Error, match="is no folder") as caught:
        cached(folder, api=api)
    assert caught.value.code is ReturnCode.INVALID_PARAMETER


@pytest.mark.parametrize(("api", "code"), [(1, "INVALID_FILE"), (2, "SAVE_CACHE_EXCEPTION")])
def test_what_cannot_be_written_is_told(tmp_path, api, code):
    (tmp_path / NAME).mkdir()
    with pytest.raises(nnrt.Error) as caught:
        cached(tmp_path, api=api)
    assert caught.value.code is ReturnCode[code]


def test_an_empty_path_is_no_cache():
    made = nnrt.Compilation(finished())
    made.set_cache("", 1)
    made.build()
    assert runs(made)
