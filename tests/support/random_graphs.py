"""Random TFLite graphs, and what they must come to on every way through the converter.

`support.random_net.Net` draws a graph op by op (`support.random_ops`, `support.random_patterns`)
and carries an example of each tensor along, so that quantization parameters suit the values.
`check` runs it through LiteRT, the reference backend and onnxruntime.

`support.random_core` says how far two right answers may lie apart.

`tools/random_graphs.py` checks thousands.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.formats.tflite.reader import read
from nnconv.ir.verifier import verify_model
from support.litert import RESOLVERS, LiteRtRunner
from support.litert_worker import worker
from support.random_core import compare_ways, held
from support.random_net import Net
from support.random_patterns import add_random
from support.spine import onnx_session, random_array


def draw(seed: int) -> tuple[Net, bytes]:
    """The net of a seed, and its file."""
    net = Net(seed)
    for _ in range(net.number(1, 2)):
        rank = net.one([4, 4, 4, 4, 3, 2, 1, 5])
        extents = [net.number(1, 7) for _ in range(rank - 1)]
        if extents and net.chance(0.1):
            extents[-1] = net.one([8, 16, 17])
        shape = (net.batch, *extents)
        net.add_input(net.dtype, shape)
    if net.chance(0.15):
        net.add_input("int32", (net.batch, net.number(1, 6)))
    net.grow(add_random, 12)
    return net, net.finish()


def check(seed: int, folder: Path, *, shakes: int = 6) -> Net:
    """Draw the graph of a seed and hold all ways through it against one another.

    Raises:
        AssertionError: two of them differ, or an error came up on one.
    """
    return held(seed, draw, lambda net, content: check_net(net, content, folder, shakes=shakes))


def check_net(net: Net, content: bytes, folder: Path, *, shakes: int) -> None:
    """Hold all ways through a net against one another."""
    model = read(content, name=f"seed{net.seed}")
    verify_model(model)
    rng = np.random.default_rng([net.seed, 1])
    options: dict[str, Any] = {"opset": [21, 21, 13, 17, 24][rng.integers(5)]}
    if rng.random() < 0.3:
        options["io_layout"] = "nchw"
    if rng.random() < 0.3:
        options["int8"] = "keep"
    source = folder / "source.tflite"
    source.write_bytes(content)
    report = nnconv.convert(source, folder / "a.onnx", **options)
    moved = report.moved_io
    nnconv.convert(source, folder / "b.onnx", **options)
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes(), "not the same file"
    session = onnx_session(folder / "a.onnx")
    names = [info.name for info in session.get_inputs()]
    assert names == [v.name for v in model.inputs], "inputs' names"
    results = [info.name for info in session.get_outputs()]
    assert results == [v.name for v in model.outputs], "outputs' names"
    runner = LiteRtRunner(content, "opt")
    again = _write_again(source, folder, options)
    wrong_there = any("LOCAL_RESPONSE_NORMALIZATION" in line for line in net.log)
    resolvers = RESOLVERS[1:] if wrong_there else RESOLVERS  # it drops a neighbour
    for batch in (None, 3) if net.dynamic else (None,):
        feeds = [s.data for s in net.inputs]
        if batch is not None:
            feeds = [random_array(v, rng) for v in model.inputs]
            feeds = [np.concatenate([f[:1]] * 2 + [f[-1:]]) for f in feeds]
        reference = run_graph(model.graph, feeds)
        given = [
            np.moveaxis(f, -1, 1) if n in moved else f for n, f in zip(names, feeds, strict=True)
        ]
        onnx = session.run(None, dict(zip(names, map(np.ascontiguousarray, given), strict=True)))
        onnx = [
            np.moveaxis(np.asarray(a), 1, -1) if n in moved else np.asarray(a)
            for n, a in zip(results, onnx, strict=True)
        ]
        ways = {"litert": runner.run(feeds), "onnxruntime": onnx}
        for name, written in again.items():
            for resolver in resolvers:
                (ways[f"{name} on {resolver}"],) = worker().run(written, [feeds], resolver)[1]
        compare_ways(model, feeds, reference, ways, label=f"{options}", shakes=shakes)


def _write_again(source: Path, folder: Path, options: Mapping[str, Any]) -> dict[str, bytes]:
    """The TFLite files that come of a TFLite file: at once, and by way of ONNX."""
    kept = {"int8": options["int8"]} if "int8" in options else {}
    nnconv.convert(source, folder / "again.tflite", **kept)
    written = {"tflite": (folder / "again.tflite").read_bytes()}
    if "io_layout" in options:
        return written
    nnconv.convert(folder / "a.onnx", folder / "back.tflite", **kept)
    return written | {"tflite by way of onnx": (folder / "back.tflite").read_bytes()}
