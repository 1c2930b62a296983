"""Sparse constants become the dense tensors that they stand for."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as litert

from nnconv.errors import InvalidModelError
from nnconv.formats.tflite import wire
from support.litert import run_litert
from support.places import find_shared_dir
from support.tflite_builder import TfliteBuilder, pack

SHARED = find_shared_dir()
MODELS = sorted((SHARED / "models/tflite").rglob("*.tflite")) if SHARED else []

FORMS = {
    "csr rows": {"formats": ["dense", "csr"]},
    "csr columns": {"formats": ["dense", "csr"], "traversal": [1, 0]},
    "csr csr": {"formats": ["csr", "csr"]},
    "dense": {"formats": ["dense", "dense"]},
    "uint16": {"formats": ["dense", "csr"], "index_type": "uint16"},
    "uint8": {"formats": ["dense", "csr"], "index_type": "uint8"},
    "blocks of columns": {"formats": ["dense", "csr", "dense"], "block": {1: 4}},
    "blocks of both": {"formats": ["dense", "csr", "dense", "dense"], "block": {0: 3, 1: 2}},
    "blocks across": {
        "formats": ["dense", "csr", "dense", "dense"],
        "block": {0: 3, 1: 2},
        "traversal": [1, 0, 3, 2],
    },
}


def pruned(shape, dtype="float32", seed=7, kept=0.3):
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 100, shape) * rng.choice([-1, 1], shape)
    return (values * (rng.random(shape) < kept)).astype(dtype)


def densified(dense, form, change=None):
    b = TfliteBuilder()
    b.sparse_const(dense, **form, name="w")
    model = b.to_object()
    if change:
        change(model.subgraphs[0].tensors[0].sparsity)
    file = wire.read(pack(model), "m.tflite")
    return wire.tensor_data(file, file.subgraphs[0].tensors[0])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("form", FORMS)
def test_the_dense_tensor_comes_back(form, dtype):
    dense = pruned((6, 8), dtype)
    np.testing.assert_array_equal(densified(dense, FORMS[form]), dense, strict=True)


@pytest.mark.parametrize(
    ("formats", "traversal", "block"),
    [
        (["dense", "dense", "dense", "csr"], None, None),
        (["csr", "csr", "dense", "csr"], [3, 0, 2, 1], None),
        (["dense", "csr", "dense", "csr", "dense"], [2, 0, 1, 3, 4], {3: 2}),
    ],
)
def test_rank_4(formats, traversal, block):
    dense = pruned((2, 3, 5, 4))
    form = {"formats": formats, "traversal": traversal, "block": block}
    np.testing.assert_array_equal(densified(dense, form), dense, strict=True)


@pytest.mark.parametrize("form", FORMS)
def test_all_is_stored(form):
    dense = pruned((6, 8), kept=1.0)
    np.testing.assert_array_equal(densified(dense, FORMS[form]), dense, strict=True)


def test_nothing_is_stored():
    # An empty buffer is no content, whatever the sparse form says.
    assert densified(pruned((6, 8), kept=0.0), FORMS["csr rows"]) is None


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("form", ["csr rows", "blocks of columns", "blocks of both", "uint16"])
def test_litert_s_densify_gives_the_same(form, dtype):
    dense = pruned((6, 8), dtype)
    b = TfliteBuilder()
    x = b.input("x", dtype, (6, 8))
    y = b.op("DENSIFY", [b.sparse_const(dense, **FORMS[form])], [(dtype, (6, 8))])
    same = b.op("CONCATENATION", [y, x], [(dtype, (12, 8))], options={"axis": 0})
    b.output(y if dtype == "float16" else same)
    data = b.build()
    file = wire.read(data)
    ours = wire.tensor_data(file, file.subgraphs[0].tensors[1])
    theirs = run_litert(data, [np.zeros((6, 8), dtype)])[0][:6]
    np.testing.assert_array_equal(ours, theirs, strict=True)


def metadata(level, **fields):
    def change(sparsity):
        for name, value in fields.items():
            setattr(sparsity.dimMetadata[level], name, value)

    return change


def order(*levels):
    return lambda sparsity: setattr(sparsity, "traversalOrder", list(levels))


def blocks(*axes):
    return lambda sparsity: setattr(sparsity, "blockMap", list(axes))


def vector(*values):
    return litert.Int32VectorT(values=list(values))


FAULTS = {
    "order twice": ("csr rows", order(0, 0), "traversal order"),
    "order short": ("csr rows", order(0), "needs 2"),
    "order long": ("csr rows", order(0, 1, 2), "needs 2"),
    "block order": ("blocks of columns", order(0, 2, 1), "traversal order"),
    "block map": ("blocks of columns", blocks(2), "block map"),
    "block map twice": ("blocks of both", blocks(1, 1), "block map"),
    "block map too long": ("blocks of columns", blocks(0, 1), "needs 4"),
    "block size": ("blocks of columns", metadata(2, denseSize=3), "blocks of 3 don't divide the 8"),
    "block size 0": ("blocks of columns", metadata(2, denseSize=0), "blocks of 0 don't divide"),
    "block sparse": ("blocks of columns", metadata(2, format=1), "sparse inside"),
    "extent": ("csr rows", metadata(0, denseSize=5), "extent 5, not 6"),
    "huge extent": ("csr rows", metadata(0, denseSize=2**31 - 1), "extent 2147483647, not 6"),
    "format": ("csr rows", metadata(1, format=2), "unknown format 2"),
    "no segments": ("csr rows", metadata(1, arraySegmentsType=0), "miss its indices"),
    "no indices": ("csr rows", metadata(1, arrayIndicesType=0), "miss its indices"),
    "falling": ("csr rows", metadata(1, arraySegments=vector(0, 9, 2, 2, 2, 2, 12)), "fall"),
    "short segments": (
        "csr rows",
        metadata(1, arraySegments=vector(0, 2, 12)),
        "3 segment bounds, where 6 nodes above take 7",
    ),
    "index": ("csr rows", metadata(1, arrayIndices=vector(*[0] * 11, 8)), "beyond its extent 8"),
    "index -1": ("csr rows", metadata(1, arrayIndices=vector(*[0] * 11, -1)), "from -1 to 0"),
    "few values": (
        "csr rows",
        metadata(1, arrayIndices=vector(0), arraySegments=vector(0, 0, 0, 0, 0, 0, 1)),
        "has 48 bytes, where 1 value of FLOAT32 .* need 4",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_forms_are_named(fault):
    form, change, words = FAULTS[fault]
    dense = pruned((6, 8))
    assert np.count_nonzero(dense) == 12
    with pytest.raises(InvalidModelError, match=words) as caught:
        densified(dense, FORMS[form], change)
    assert caught.value.where == "subgraph 0, tensor #0 (`w`)"


def test_absurd_dense_form_is_refused():
    b = TfliteBuilder()
    b.sparse_const(pruned((6, 8)), ["dense", "csr"], name="w")
    model = b.to_object()
    model.subgraphs[0].tensors[0].shape = [6, 2**31 - 1]
    file = wire.read(pack(model))
    with pytest.raises(InvalidModelError, match="of which only 12 are stored"):
        wire.tensor_data(file, file.subgraphs[0].tensors[0])


def test_tensor_without_elements():
    sparsity = litert.SparsityParametersT(
        traversalOrder=[0, 1],
        dimMetadata=[litert.DimensionMetadataT(denseSize=2**30), litert.DimensionMetadataT()],
    )
    tensor = litert.TensorT(shape=[2**30, 0], buffer=1, sparsity=sparsity)
    buffers = [litert.BufferT(), litert.BufferT(data=[1])]
    graph = litert.SubGraphT(tensors=[tensor])
    file = wire.read(pack(litert.ModelT(subgraphs=[graph], buffers=buffers)))
    with pytest.raises(InvalidModelError, match="need 0"):
        wire.tensor_data(file, file.subgraphs[0].tensors[0])


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_sparse_tensors_of_real_models(path):
    file = wire.read(path)
    for subgraph in file.subgraphs:
        for tensor in subgraph.tensors:
            if tensor.sparsity is not None:
                dense = wire.tensor_data(file, tensor)
                assert dense.shape == tensor.shape
                stored = file.buffer(tensor.buffer).view(dense.dtype)
                np.testing.assert_array_equal(
                    np.sort(dense[dense != 0]), np.sort(stored[stored != 0])
                )
