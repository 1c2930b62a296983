"""Weights beside the model are found in its folder, and nowhere else."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnconv.errors import InvalidModelError
from nnconv.formats.onnx import protobuf, wire
from nnconv.formats.onnx.decode import read
from nnconv.formats.onnx.summary import summarize

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def tensor(location="w.bin", *, name="w", dims=(2, 3), data_type=TensorProto.FLOAT, **entries):
    made = TensorProto(name=name, data_type=data_type, dims=dims, data_location=1)
    for key, value in {"location": location, **entries}.items():
        if value is not None:
            made.external_data.add(key=key, value=str(value))
    return made


def saved(folder, *tensors):
    path = folder / "m.onnx"
    graph = helper.make_graph([], "g", [], [], tensors)
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def loaded(folder, *tensors):
    return read(saved(folder, *tensors)).graph.initializers


@pytest.fixture
def folder(tmp_path):
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "w.bin").write_bytes(bytes(16) + WEIGHTS.tobytes())
    return inner


@pytest.mark.parametrize("entries", [{"offset": 16}, {"offset": 16, "length": 24}])
def test_weights_in_a_file_beside_the_model(folder, entries):
    found = loaded(folder, tensor(**entries))[0].array()
    assert found.tolist() == WEIGHTS.tolist()
    assert not found.flags.owndata


def test_the_onnx_package_wrote_them(folder):
    graph = helper.make_graph([], "g", [], [], [numpy_helper.from_array(WEIGHTS, n) for n in "ab"])
    node = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(WEIGHTS + 1))
    graph.node.append(node)
    path = folder / "theirs.onnx"
    onnx.save_model(
        helper.make_model(graph),
        path,
        save_as_external_data=True,
        location="all.data",
        size_threshold=0,
        convert_attribute=True,
    )
    ours = read(path).graph
    for made in ours.initializers:
        assert made.array().tolist() == WEIGHTS.tolist()
    constant = ours.nodes[0].attributes["value"].value
    assert constant.array().tolist() == (WEIGHTS + 1).tolist()


def test_what_the_writer_puts_beside_a_model_is_found(folder):
    array = np.arange(5000, dtype=np.int32)
    made = wire.Model(wire.Graph("g", [], [], [], [wire.Tensor.from_array("w", array)]), 17)
    files = protobuf.write(made, folder / "ours.onnx", max_bytes=1000)
    assert len(files) == 2
    np.testing.assert_array_equal(read(files[0]).graph.initializers[0].array(), array)


def test_types_under_8_bits_and_bools(folder):
    (folder / "w.bin").write_bytes(b"\x21\x03\x01\x00")
    ours = loaded(
        folder,
        tensor(dims=[3], data_type=TensorProto.INT4),
        tensor(dims=[2], data_type=TensorProto.BOOL, offset=2),
        tensor(dims=[0], offset=4),
    )
    assert [made.array().tolist() for made in ours] == [[1, 2, 3], [True, False], []]


def test_each_file_is_mapped_once(folder):
    first, second = loaded(folder, tensor(offset=16), tensor(offset=0, dims=[4]))
    assert first.data.obj is second.data.obj


def test_files_in_folders_within_the_models_folder(folder):
    (folder / "data").mkdir()
    (folder / "w.bin").rename(folder / "data" / "w.bin")
    assert loaded(folder, tensor("data/w.bin", offset=16))[0].array().shape == (2, 3)
    assert loaded(folder, tensor("./data/w.bin", offset=16))[0].array().shape == (2, 3)


def test_a_model_that_is_named_from_its_own_folder(folder, monkeypatch):
    saved(folder, tensor(offset=16))
    monkeypatch.chdir(folder)
    assert read("m.onnx").graph.initializers[0].array().shape == (2, 3)


def test_links_within_the_folder_are_followed(folder):
    (folder / "link").symlink_to("w.bin")
    assert loaded(folder, tensor("link", offset=16))[0].array().shape == (2, 3)


def test_the_folder_itself_may_be_behind_a_link(folder):
    saved(folder, tensor(offset=16))
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert read(link / "m.onnx").graph.initializers[0].array().shape == (2, 3)


def refusal(folder, made):
    """What is said of a tensor; reading the model's structure alone does no harm."""
    path = saved(folder, made)
    ours = read(path).graph.initializers[0]
    with pytest.raises(InvalidModelError) as caught:
        ours.array()
    assert caught.value.path == str(path)
    assert caught.value.where == "tensor `w`"
    return caught.value.message


@pytest.mark.parametrize("location", ["../secret", "a/../../secret", "a/..", ".."])
def test_paths_that_lead_up_are_refused(folder, location):
    (folder.parent / "secret").write_bytes(bytes(24))
    assert "outside of the folder" in refusal(folder, tensor(location))


def test_absolute_paths_are_refused_even_to_the_right_file(folder):
    assert "outside of the folder" in refusal(folder, tensor(str(folder / "w.bin"), offset=16))


def test_links_that_lead_out_of_the_folder_are_refused(folder):
    (folder.parent / "secret").write_bytes(bytes(24))
    (folder / "link").symlink_to("../secret")
    (folder / "up").symlink_to("..")
    for location in ("link", "up/secret"):
        assert "outside of the folder" in refusal(folder, tensor(location))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (tensor("missing.bin"), "'missing.bin' can't be read: No such file"),
        (tensor("."), "'.' can't be read: it is no regular file"),
        (tensor("a\0b"), "'a\\x00b' can't be"),
        (tensor("w.bin/x"), "'w.bin/x' can't be"),
        (tensor("x" * 5000), "can't be"),
        (tensor(""), "no name is given"),
        (tensor(None), "no name is given"),
        (tensor(offset=17), "bytes 17 to 41 of 'w.bin', which has 40"),
        (tensor(offset=2**62), "which has 40"),
        (tensor(offset="9" * 30), "the offset of its data is"),
        (tensor(offset=-1), "the offset of its data is '-1', must be a number"),
        (tensor(offset="1_0"), "the offset of its data is '1_0'"),
        (tensor(offset="²"), "the offset of its data is"),
        (tensor(length=23), "have 23 bytes, 24 are needed"),
        (tensor(length="x"), "the length of its data is 'x'"),
        (tensor(dims=[2**40]), "which has 40"),
    ],
)
def test_places_where_no_data_are(folder, made, words):
    assert words in refusal(folder, made)


def test_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder / "pipe")
    assert "no regular file" in refusal(folder, tensor("pipe"))


def test_a_link_to_itself(folder):
    (folder / "loop").symlink_to("loop")
    assert "can't be" in refusal(folder, tensor("loop"))


def test_an_empty_file(folder):
    (folder / "empty").write_bytes(b"")
    assert "which has 0" in refusal(folder, tensor("empty"))
    assert loaded(folder, tensor("empty", dims=[0]))[0].array().size == 0


def test_a_model_in_memory_has_no_folder(folder):
    data = saved(folder, tensor(offset=16)).read_bytes()
    with pytest.raises(InvalidModelError, match="a model in memory has no folder") as caught:
        read(data, "a file").graph.initializers[0].array()
    assert "path" in caught.value.hint


def test_strings_are_never_elsewhere(folder):
    path = saved(folder, tensor(data_type=TensorProto.STRING))
    with pytest.raises(InvalidModelError, match="strings as raw bytes"):
        read(path)


def test_a_summary_needs_no_data(folder):
    summary = summarize(saved(folder, tensor("missing.bin")))
    assert (summary.constants, summary.constant_bytes) == (1, 24)
