"""PyTorch's serialized NNAPI models: streams, saved modules, and broken ones of either."""

import io
import random
import struct
import zipfile

import numpy as np
import pytest

from nnconv.errors import InvalidModelError, NnconvError, UsageError
from nnconv.formats.nnapi import detect, pytorch, pytorch_archive
from nnconv.formats.nnapi.check import problems
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from support.nnapi_models import FLOAT, NnapiBuilder, add_model, assert_same
from support.pytorch_nnapi import Pickle, nnapi_state, stream_of, write_archive


def model():
    """A model as the exporter would make it: two bools first, one large constant."""
    b = NnapiBuilder()
    for value in (0, 1):
        b.const(OperandCode.BOOL, value)
    x = b.input(FLOAT, (0, 8))
    w = b.const(FLOAT, np.arange(8).reshape(1, 8))
    middle = b.operand(FLOAT, (0, 8))
    b.run(OperationCode.ADD, [x, w, b.const(OperandCode.INT32, 0)], [middle])
    b.run(OperationCode.RELU, [middle], [b.output(FLOAT, (0, 8))])
    return b.model()


@pytest.fixture
def samples(shared_dir):
    folder = shared_dir / "nnapi" / "pytorch_samples"
    if not folder.is_dir():
        pytest.skip("no samples here")
    return folder


# ---------------------------------------------------------------- streams


def test_a_stream_gives_the_model_back():
    stream, weights = stream_of(model())
    assert [weight.size for weight in weights] == [8]
    assert_same(pytorch.read_stream(stream, weights), model())
    assert detect.is_stream(stream[:64], len(stream))
    assert not detect.is_stream(b"\x00" * 64, 64)
    assert not detect.is_stream(stream[:20], len(stream))


def test_weights_lie_beside_a_stream_in_a_file(tmp_path):
    stream, weights = stream_of(model())
    path = tmp_path / "net.nnapi.bin"
    path.write_bytes(stream)
    with pytest.raises(InvalidModelError, match=r"are in .*net\.npz, which isn't there: operand 3"):
        pytorch.read(path)
    np.savez(tmp_path / "net.npz", w1=weights[0])
    with pytest.raises(InvalidModelError, match="operand 3 lies in buffer 0, there are 0"):
        pytorch.read(path)
    np.savez(tmp_path / "net.npz", w0=weights[0], in0=np.zeros(3))
    assert_same(pytorch.read(path), model())
    assert weights[0].dtype == np.float32
    np.savez(tmp_path / "net.npz", w0=weights[0].astype(">f4"))
    assert_same(pytorch.read(path), model())


def _archive(member):
    """An archive whose first member isn't an array."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr("w0.npy", member)
    return file.getvalue()


def _saved(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    "broken",
    [
        b"PK",
        b"PK\x03\x04" + bytes(60),
        b"",
        _saved(np.zeros(3)),
        _archive(b"no array"),
        _archive(_saved(np.array([{}], object))),
        _archive(_saved(np.zeros(9))[:-1]),
        _archive(_saved(np.zeros(9)).replace(b"(9,)", b"((((")),
    ],
)
def test_weights_that_are_no_arrays_are_refused(broken, tmp_path):
    (tmp_path / "net.nnapi.bin").write_bytes(stream_of(model())[0])
    (tmp_path / "net.npz").write_bytes(broken)
    with pytest.raises(InvalidModelError, match=r"net.npz: it is no archive of arrays of numbers$"):
        pytorch.read(tmp_path / "net.nnapi.bin")


def word(stream, index, value):
    return stream[: 4 * index] + struct.pack("<i", value) + stream[4 * index + 4 :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s[:20], "the header end at byte 24"),
        (lambda s: word(s, 0, 2), "version 2, must be 1"),
        (lambda s: word(s, 1, -1), "each must be from 0 to"),
        (lambda s: word(s, 1, 1 << 24), "each must be from 0 to"),
        (lambda s: word(s, 1, 1 << 20), "the operands end at byte"),
        (lambda s: word(s, 6, 99), "operand 0: type 99 isn't known"),
        (lambda s: word(s, 7, 1 << 20), "the dimensions end at byte"),
        (lambda s: s + b"\0\0\0\0", "4 bytes left behind the stream's end"),
        (lambda s: s[:-4] + struct.pack("<I", 70), "operand 70, there are 7"),
        (lambda s: s[:-4] + struct.pack("<I", 2), "operand 2 is an output and a input"),
        (lambda s: word(s, 34, 9), "a value of operand 9, there are 7"),
        (lambda s: word(s, 35, 3), "a source of kind 3, must be 0 or 2"),
        (lambda s: word(s, 37, 0), "operand 0 has two values"),
        (lambda s: word(s, 46, 200), "operation 200 isn't known"),
    ],
)
def test_a_broken_stream_is_refused(change, message):
    stream, weights = stream_of(model())
    with pytest.raises(InvalidModelError) as caught:
        pytorch.read_stream(change(stream), weights, path="net")
    assert message in str(caught.value)


def test_buffers_must_fit():
    stream, weights = stream_of(model())
    with pytest.raises(InvalidModelError, match="ends at byte 32 of buffer 0: 28 bytes"):
        pytorch.read_stream(stream, [weights[0].reshape(-1)[:7]])


def test_changed_streams_end_in_clean_errors_alone():
    chance = random.Random(3)
    stream, weights = stream_of(model())
    read = 0
    for _ in range(2000):
        data = bytearray(stream)
        for _ in range(chance.choice((1, 2, 4))):
            place = chance.randrange(len(data))
            data[place] = chance.choice((0, 1, 2, 255, chance.randrange(256)))
        try:
            problems(pytorch.read_stream(bytes(data), weights))
        except NnconvError:
            continue
        read += 1
    assert read > 20


# ---------------------------------------------------------------- saved modules


def archive(tmp_path, tree, **members):
    pickled = Pickle()
    pickled.value(tree)
    return write_archive(tmp_path / "net.pt", pickled, **members)


def test_a_saved_module_gives_the_model_back(tmp_path):
    path = archive(tmp_path, ("Root", {"a": ("Inner", {"mod": ("Nnapi", nnapi_state(model()))})}))
    assert detect.is_archive(path.read_bytes()[:16])
    found = pytorch_archive.read(path)
    wanted = model()
    wanted.relaxed = True
    assert_same(found.model, wanted)
    assert (found.path, found.preference) == ("a.mod", 1)
    assert found.input_formats == found.output_formats == (0,)


def test_old_files_lack_some_entries(tmp_path):
    state = nnapi_state(model())
    for key in ("compilation_preference", "relax_f32_to_f16", "inp_mem_fmts", "out_mem_fmts"):
        del state[key]
    state["ser_model"] = state["ser_model"].view(np.uint8)
    found = pytorch_archive.read(archive(tmp_path, ("Nnapi", state)))
    assert (found.path, found.preference, found.model.relaxed) == ("", 2, False)


def test_weights_may_be_permuted_views(tmp_path):
    wanted = model()
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    wanted.main.operands[3].dimensions = (4, 2)
    wanted.main.operands[3].value = np.ascontiguousarray(data.T)
    pickled = Pickle()
    state = nnapi_state(wanted)
    pickled.code += b"c__torch__\nNnapi\n)\x81}("
    pickled.value("ser_model")
    pickled.value(state["ser_model"])
    pickled.value("weights")
    pickled.code += b"]("
    pickled.tensor(data, size=(4, 2), stride=(1, 4))
    pickled.code += b"eub"
    found = pytorch_archive.read(write_archive(tmp_path / "net.pt", pickled))
    assert_same(found.model, wanted)


def test_of_several_modules_one_must_be_named(tmp_path):
    modules = {name: ("Nnapi", nnapi_state(add_model())) for name in ("a", "b")}
    path = archive(tmp_path, ("Root", modules))
    with pytest.raises(UsageError, match="There are 'b', 'a'"):
        pytorch_archive.read(path)
    assert pytorch_archive.read(path, module="b").path == "b"


def test_an_ordinary_module_is_told_apart(tmp_path):
    path = archive(tmp_path, ("Root", {"weight": np.zeros(3, np.float32)}))
    with pytest.raises(InvalidModelError, match="no NNAPI module is inside"):
        pytorch_archive.read(path)


@pytest.mark.parametrize(
    "name", [b"os\nsystem", b"builtins\neval", b"torch\nload", b"collections\nChainMap"]
)
def test_a_pickle_can_call_nothing(tmp_path, name):
    pickled = Pickle()
    pickled.code += b"c" + name + b"\n(X\x04\x00\x00\x00exittR"
    path = write_archive(tmp_path / "net.pt", pickled)
    with pytest.raises(InvalidModelError, match="may not be in it"):
        pytorch_archive.read(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 7}, "storage 0 has 32 bytes for 7 elements"),
        ({"count": -1}, "a storage without a size"),
        ({"offset": 1}, "ends at element 8 of 8"),
        ({"offset": -1}, "negative or absurd size"),
        ({"size": (9,), "stride": (1,)}, "ends at element 8 of 8"),
        ({"size": (1 << 20, 1 << 10), "stride": (0, 0)}, "more elements than its storage"),
        ({"size": (2,), "stride": (-1,)}, "negative or absurd size"),
        ({"size": (2,), "stride": ()}, "without a storage or shape"),
    ],
)
def test_tensors_stay_inside_of_their_storages(tmp_path, changes, message):
    pickled = Pickle()
    pickled.tensor(np.arange(8, dtype=np.float32), **changes)
    path = write_archive(tmp_path / "net.pt", pickled)
    with pytest.raises(InvalidModelError, match=message):
        pytorch_archive.read(path)


def test_broken_archives_are_refused(tmp_path):
    path = archive(tmp_path, ("Nnapi", nnapi_state(model())), byteorder=b"big")
    with pytest.raises(InvalidModelError, match="big-endian"):
        pytorch_archive.read(path)
    path = archive(tmp_path, ("Nnapi", nnapi_state(model(), weights=3)))
    with pytest.raises(InvalidModelError, match="no stream or no weights"):
        pytorch_archive.read(path)
    path = archive(tmp_path, ("Nnapi", nnapi_state(model(), inp_mem_fmts=[5])))
    with pytest.raises(InvalidModelError, match="memory formats"):
        pytorch_archive.read(path)
    path.write_bytes(b"\x18\0\0\0PTMF" + bytes(40))
    with pytest.raises(InvalidModelError, match="FlatBuffers form"):
        pytorch_archive.read(path)
    path.write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(InvalidModelError, match="a zip archive that is broken"):
        pytorch_archive.read(path)
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("model/../data.pkl", b"")
    with pytest.raises(InvalidModelError, match="leads out of the archive"):
        pytorch_archive.read(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("model/data.pkl", b"N.")
    with pytest.raises(InvalidModelError, match="is compressed"):
        pytorch_archive.read(path)


def test_changed_archives_end_in_clean_errors_alone(tmp_path):
    chance = random.Random(5)
    source = archive(tmp_path, ("Nnapi", nnapi_state(model()))).read_bytes()
    path = tmp_path / "changed.pt"
    for _ in range(700):
        data = bytearray(source)
        for _ in range(chance.choice((1, 1, 3))):
            data[chance.randrange(len(data))] = chance.choice((0, 46, 255, chance.randrange(256)))
        path.write_bytes(data)
        try:
            problems(pytorch_archive.read(path).model)
        except NnconvError:
            continue


# ---------------------------------------------------------------- what PyTorch wrote


def test_samples_are_valid_models(samples):
    for path in sorted(samples.glob("*.nnapi.bin")):
        if ".resolved." in path.name:
            continue
        found = problems(pytorch.read(path))
        assert bool(found) is ("invalid" in path.name), path.name


def test_saved_samples_hold_the_same_models(samples):
    archives = [*samples.glob("*.pt"), *samples.glob("*.ptl")]
    assert len(archives) == 4
    for path in archives:
        found = pytorch_archive.read(path)
        assert_same(found.model, pytorch.read(path.with_suffix(".nnapi.bin")))
        with np.load(path.with_suffix(".npz")) as arrays:
            assert list(found.input_formats) == arrays["inp_mem_fmts"].tolist()
            assert list(found.output_formats) == arrays["out_mem_fmts"].tolist()


def test_filled_in_dimensions_are_all_that_differs(samples):
    for path in sorted(samples.glob("*.resolved.nnapi.bin")):
        plain = path.with_name(path.name.replace(".resolved", ""))
        weights = pytorch._weights_of(pytorch._beside(plain))
        left, right = pytorch.read(plain), pytorch.read_stream(path.read_bytes(), weights)
        for a, b in zip(left.main.operands, right.main.operands, strict=True):
            assert all(x in (0, y) for x, y in zip(a.dimensions, b.dimensions, strict=True))
            a.dimensions = b.dimensions
        assert_same(left, right)
