"""A small NNRt model for each operation, which runs: what fuzzers change.

In tests/: ``python -m support.nnrt_corpus FOLDER`` writes them as twins.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.table import spec_of
from nnconv.formats.nnrt.types import NUMPY, DataType, OperationType
from nnconv.formats.nnrt.wire import Graph
from support.nnrt_models import add_model, conv_model
from support.nnrt_ops import Given, const, graph_of

A, IMAGE = (2, 3), (1, 4, 4, 4)


def f(*shape: int) -> np.ndarray:
    """Floats of a shape."""
    return np.zeros(shape, np.float32)


def i(*numbers: int) -> Given:
    """A constant of whole numbers."""
    return const(numbers, np.int32)


CONV = {"stride": (1, 1), "dilation": (1, 1), "padMode": 0}
POOL = {"kernelSize": (2, 2), "strides": (2, 2)}
LAYER = {"input": f(*IMAGE), "weight": const(f(4, 3, 3, 4)), "bias": const(f(4))}
LSTM = {"inputSize": 2, "hiddenSize": 3, "numLayers": 1, "numDirections": 1}
BOXES = {"scale": (10, 10, 5, 5), "nmsIoUThreshold": 0.5, "maxDetections": 2, "numClasses": 2}

Case = tuple[dict[str, Any], dict[str, Any], list[np.ndarray]]

CASES: dict[str, Case] = {
    "ALL": ({"input": np.ones(A, bool), "axis": i(1)}, {}, [np.ones(2, bool)]),
    "ARG_MAX": ({"input": f(*A)}, {"axis": 1}, [np.zeros(2, np.int32)]),
    "ASSERT": ({"condition": const([True]), "data": f(*A)}, {}, [f(*A)]),
    "AVG_POOL": ({"input": f(*IMAGE)}, POOL, [f(1, 2, 2, 4)]),
    "BATCH_NORM": (
        {"input": f(*A)} | dict.fromkeys(("scale", "offset", "mean", "variance"), const(f(3))),
        {}, [f(*A)],
    ),
    "BATCH_TO_SPACE_ND": (
        {"input": f(4, 1, 2, 1)}, {"blockSize": (2, 2), "crops": [[0, 0], [1, 0]]}, [f(1, 2, 3, 1)]
    ),
    "BIAS_ADD": ({"input": f(*A), "bias": const(f(3))}, {}, [f(*A)]),
    "BROADCAST_TO": ({"input": f(3)}, {"shape": A}, [f(*A)]),
    "CAST": ({"input": f(*A), "type": i(2)}, {}, [np.zeros(A, np.int8)]),
    "CLIP": ({"input": f(*A)}, {"min": 0, "max": 1}, [f(*A)]),
    "CONCAT": ({"input": [f(*A), f(*A)]}, {"axis": 1}, [f(2, 6)]),
    "CONSTANT_OF_SHAPE": ({"input": i(2, 3)}, {"dataType": 11, "value": [1]}, [f(*A)]),
    "CONV2D": (LAYER, CONV, [f(*IMAGE)]),
    "CONV2D_TRANSPOSE": (LAYER, CONV | {"stride": (2, 2)}, [f(1, 8, 8, 4)]),
    "CROP": ({"input": f(3, 4), "shape": f(*A)}, {"offset": (1, 0)}, [f(*A)]),
    "DEPTHWISE_CONV2D_NATIVE": (LAYER | {"weight": const(f(4, 3, 3, 1))}, CONV, [f(*IMAGE)]),
    "DEPTH_TO_SPACE": ({"input": f(*IMAGE)}, {"blockSize": 2}, [f(1, 8, 8, 1)]),
    "DETECTION_POST_PROCESS": (
        {"bbox": f(1, 5, 4), "scores": f(1, 5, 3), "anchors": const(np.ones((5, 4), np.float32))},
        BOXES | {"maxClassesPerDetection": 1, "detectionsPerClass": 2, "nmsScoreThreshold": 0.1},
        [f(1, 2, 4), f(1, 2), f(1, 2), f(1)],
    ),
    "EXPAND_DIMS": ({"input": f(*A), "axis": i(0)}, {}, [f(1, *A)]),
    "FILL": ({"value": f(1), "shape": i(2, 3)}, {}, [f(*A)]),
    "FLATTEN": ({"input": f(2, 3, 4)}, {}, [f(2, 12)]),
    "FULL_CONNECTION": (
        {"input": f(*A), "weight": const(f(4, 3)), "bias": const(f(4))}, {"hasBias": True},
        [f(2, 4)],
    ),
    "GATHER": ({"input": f(*A), "inputIndices": i(1, 0), "axis": i(1)}, {}, [f(2, 2)]),
    "GATHER_ND": ({"input": f(*A), "indices": const([[1, 0]], np.int32)}, {}, [f(1)]),
    "INSTANCE_NORM": (
        {"input": f(1, 3, 2, 2), "scale": const(f(3)), "bias": const(f(3))}, {"epsilon": 1},
        [f(1, 3, 2, 2)],
    ),
    "L2_NORMALIZE": ({"input": f(*A)}, {"axis": [1]}, [f(*A)]),
    "LAYER_NORM": ({"input": f(*A), "gamma": const(f(3)), "beta": const(f(3))}, {}, [f(*A)]),
    "LOG_SOFTMAX": ({"input": f(*A)}, {}, [f(*A)]),
    "LRN": (
        {"input": f(*IMAGE)}, {"depthRadius": 1, "bias": 1, "alpha": 1, "beta": 1}, [f(*IMAGE)]
    ),
    "LSTM": (
        {
            "input": f(2, 1, 2), "wIh": const(f(1, 12, 2)), "wHh": const(f(1, 12, 3)),
            "bias": const(f(1, 24)), "hx": f(1, 1, 3), "cx": f(1, 1, 3),
        },
        LSTM, [f(2, 1, 3), f(1, 1, 3), f(1, 1, 3)],
    ),
    "MATMUL": ({"input1": f(*A), "input2": f(3, 4)}, {}, [f(2, 4)]),
    "MAX_POOL": ({"input": f(*IMAGE)}, POOL, [f(1, 2, 2, 4)]),
    "ONE_HOT": (
        {"indices": i(1, 0), "depth": i(3), "onValue": const(f(1)), "offValue": const(f(1))}, {},
        [f(*A)],
    ),
    "PAD": ({"inputX": f(*A), "paddings": const([[1, 0], [0, 2]], np.int32)}, {}, [f(3, 5)]),
    "POW": ({"input": f(*A), "y": f(1)}, {"scale": 2}, [f(*A)]),
    "PRELU": ({"input": f(*A), "weight": const(f(3))}, {}, [f(*A)]),
    "QUANT_DTYPE_CAST": ({"input": f(*A)}, {"srcT": 11, "dstT": 11}, [f(*A)]),
    "RANGE": ({"input": f(1)}, {"limit": 5}, [np.zeros(5, np.int32)]),
    "RANK": ({"input": f(*A)}, {}, [np.zeros(1, np.int32)]),
    "REDUCE_ALL": ({"input": np.ones(A, bool), "axis": i(1)}, {}, [np.ones(2, bool)]),
    "RESHAPE": ({"input": f(*A), "InputShape": i(3, -1)}, {}, [f(3, 2)]),
    "RESIZE_BILINEAR": ({"input": f(*IMAGE)}, {"newHeight": 3, "newWidth": 5}, [f(1, 3, 5, 4)]),
    "SCALE": ({"input": f(*A), "scale": const(f(3)), "bias": const(f(3))}, {"axis": 1}, [f(*A)]),
    "SCATTER_ND": (
        {"indices": const([[1]], np.int32), "updates": f(1, 3), "shape": i(2, 3)}, {}, [f(*A)]
    ),
    "SHAPE": ({"input": f(*A)}, {}, [np.zeros(2, np.int32)]),
    "SLICE": ({"input": f(*A), "begin": i(1, 0), "size": i(1, 2)}, {}, [f(1, 2)]),
    "SOFTMAX": ({"input": f(*A)}, {"axis": 1}, [f(*A)]),
    "SPACE_TO_BATCH_ND": (
        {"input": f(*IMAGE)}, {"blockShape": (2, 2), "paddings": [[0, 0], [0, 0]]}, [f(4, 2, 2, 4)]
    ),
    "SPACE_TO_DEPTH": ({"input": f(*IMAGE)}, {"blocksize": 2}, [f(1, 2, 2, 16)]),
    "SPARSE_TO_DENSE": (
        {"indices": const([[1, 0]], np.int32), "values": f(1), "sparseShape": i(2, 3)}, {}, [f(*A)]
    ),
    "SPLIT": ({"input": f(*A)}, {"outputNum": 3, "axis": 1}, [f(2, 1)] * 3),
    "SQUEEZE": ({"input": f(1, 3)}, {"axis": [0]}, [f(3)]),
    "STACK": ({"input": [f(*A), f(*A)]}, {}, [f(2, *A)]),
    "STRIDED_SLICE": (
        {"input": f(*A), "begin": i(0, 0), "end": i(2, 2), "strides": i(1, 1)}, {"beginMask": 1},
        [f(2, 2)],
    ),
    "TILE": ({"input": f(*A), "multiples": i(1, 2)}, {}, [f(2, 6)]),
    "TOP_K": ({"input": f(*A), "k": i(1)}, {"axis": 1}, [f(2, 1), np.zeros((2, 1), np.int32)]),
    "TRANSPOSE": ({"input": f(*A), "permutation": i(1, 0)}, {}, [f(3, 2)]),
    "UNSQUEEZE": ({"input": f(*A)}, {"axis": 0}, [f(1, *A)]),
    "UNSTACK": ({"input": f(*A)}, {}, [f(3)] * 2),
}  # fmt: skip
"""Inputs, parameters and results of the operations whose results haven't their inputs' shape."""


def _elementwise(code: OperationType) -> Case:
    """Operations whose tensors all have one shape, and reductions."""
    spec = spec_of(code)
    if code.name.startswith("REDUCE"):
        return {"input": f(*A), "axis": i(1)}, {}, [f(2)]

    def plain(types: tuple[DataType, ...]) -> np.ndarray:
        kind = DataType.FLOAT32 if DataType.FLOAT32 in types else types[0]
        return np.zeros(A, bool if kind is DataType.BOOL else NUMPY[kind])

    given = {formal.name: plain(formal.types) for formal in spec.inputs}
    return given, {}, [plain(formal.types) for formal in spec.outputs]


def sound_graphs() -> Iterator[tuple[str, Graph]]:
    """The name and the model of each operation, and those of a few models of more."""
    for code in OperationType:
        inputs, params, outputs = CASES.get(code.name) or _elementwise(code)
        yield code.name, graph_of(code.name, inputs, params, [Given(each) for each in outputs])
    yield "sum", add_model()
    yield "image", conv_model()
    yield "codes", conv_model(quantized=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for name, graph in sound_graphs():
        file.write(graph, target / f"{name}.json")
