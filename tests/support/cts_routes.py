"""Android's conformance vectors by way of files of other formats."""

import tempfile
from pathlib import Path

import numpy as np

import nnconv
from nnconv.errors import BackendError, NnconvError, UnsupportedError
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.wire import Graph, Lifetime, Model, Operand
from support.cts import Vector, judge, requests_of, verdict_of

DEVICES = {
    "onnx": "onnxruntime:cpu",
    "tflite": "litert:cpu",
    "nnapi": "reference",
    "nnrt": "reference",
}
"""What runs the last file of a route."""

ROUTES = (
    "reference", "onnx", "tflite", "nnapi", "nnrt", "onnx-nnapi", "tflite-nnapi", "nnrt-nnapi",
)  # fmt: skip
"""``reference`` runs a vector as it is; of the others each part is the format of a file."""


def without_omitted(vector: Vector) -> Model:
    """A vector's model in which optional inputs that it leaves out are left out for good."""
    main, omitted = vector.model.main, vector.omitted
    operands = [
        Operand(
            operand.type,
            operand.dimensions,
            scale=operand.scale,
            zero_point=operand.zero_point,
            lifetime=Lifetime.NO_VALUE,
        )
        if index in omitted
        else operand
        for index, operand in enumerate(main.operands)
    ]
    inputs = [index for index in main.inputs if index not in omitted]
    graph = Graph(operands, main.operations, inputs, main.outputs, name=main.name)
    return Model(graph, vector.model.referenced, relaxed=vector.model.relaxed)


def run_by_way_of(vector: Vector, route: str, folder: Path) -> list[np.ndarray]:
    """The outputs of a vector whose model was written as one file after the other.

    Raises:
        NnconvError: it can't be converted or run.
    """
    path = folder / "0.nnapi"
    file.write(without_omitted(vector), path)
    feeds = list(requests_of(vector, nnconv.load(path)).values())
    formats = route.split("-")
    for number, kind in enumerate(formats, 1):
        following = folder / f"{number}.{kind}"
        nnconv.convert(path, following)
        path = following
    executable = nnconv.compile(path, DEVICES[formats[-1]])
    given = {
        info.name: numbers_of(feed, info.dtype.numpy)
        for info, feed in zip(executable.inputs, feeds, strict=True)
    }
    results = executable.run(given)
    executable.close()
    outputs = [np.asarray(results[info.name]) for info in executable.outputs]
    if route != "nnapi" and formats[-1] in ("nnapi", "nnrt"):  # which give scalars a dimension
        outputs = [
            got.reshape(()) if not want.dimensions and got.shape == (1,) else got
            for got, want in zip(outputs, vector.expected, strict=True)
        ]
    return outputs


def numbers_of(array: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Codes of 16 bits as int32, where that stands in for them."""
    stood_in_for = kind == np.int32 and array.dtype in (np.int16, np.uint16)
    return array.astype(kind) if stood_in_for else array


def verdict_by_way_of(vector: Vector, route: str) -> tuple[str, str]:
    """``passed``, ``failed``, ``refused`` (by the runtime) or ``unsupported``, and why."""
    if route == "reference":
        return verdict_of(vector)
    try:
        with tempfile.TemporaryDirectory() as name:
            outputs = run_by_way_of(vector, route, Path(name))
    except NnconvError as error:
        if vector.expect_failure:
            return "passed", ""
        if isinstance(error, UnsupportedError):
            whys = (f"{i.op}: {i.why}" for i in error.items)
            return "unsupported", " | ".join(dict.fromkeys(whys))
        return "refused" if isinstance(error, BackendError) else "failed", str(error)
    if vector.expect_failure:
        return "failed", "it must fail, but gives results"
    reason = judge(vector, outputs)
    return ("failed", reason) if reason else ("passed", "")
