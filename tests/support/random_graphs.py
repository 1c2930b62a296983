"""Random TFLite graphs, and what they must come to on every way through the converter.

`support.random_net.Net` draws a graph op by op (`support.random_ops`, `support.random_patterns`)
and carries an example of each tensor along, so that quantization parameters suit the values.
`check` runs it through LiteRT, the reference backend and onnxruntime.

How far two right answers may lie apart in a graph of many quantized ops depends on the graph: one
step behind a rounding grows in what follows, or flips a comparison. So the bounds are measured: the
reference runs several times with one in six of its quantized numbers off by a step and every float
off in its last bits; results may differ by a step more, floats by twice what that does. Elements of
integer and boolean results that it changes aren't compared.

`tools/random_graphs.py` checks thousands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from nnconv.backends.reference.executor import run_graph, run_node

import nnconv
from nnconv.formats.tflite.reader import read
from nnconv.ir import Model, Value
from nnconv.ir.op import QuantRule
from nnconv.ir.verifier import verify_model
from support.litert import RESOLVERS, LiteRtRunner
from support.litert_worker import worker
from support.random_net import Net, UnfitError
from support.random_patterns import add_random
from support.spine import onnx_session, random_array

HALVES = 1000
"""How many times coarser float16 is, where some runtimes compute in it and some around it."""


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
    wanted, tries = net.number(2, 12), 0
    while len(net.log) < wanted and tries < 200:
        tries += 1
        try:
            add_random(net)
        except UnfitError:
            continue
    return net, net.finish()


# ----------------------------------------------------------------------------------- comparing


def run_shaken(
    model: Model, feeds: Sequence[np.ndarray], seed: int, *, share: float
) -> list[np.ndarray]:
    """The reference's results when a share of all roundings is off by a step."""
    rng = np.random.default_rng(seed)
    graph = model.graph
    memory: dict[Value, np.ndarray] = dict(zip(graph.inputs, feeds, strict=True))

    def content(value: Value) -> np.ndarray:
        return value.data if value.data is not None else memory[value]

    for node in graph.nodes:
        results = run_node(node, [None if v is None else content(v) for v in node.inputs])
        if node.op.quant_rule is QuantRule.REAL or results[0].dtype.kind == "f":
            results = [
                _shake(array, value, rng, share)
                for array, value in zip(results, node.outputs, strict=True)
            ]
        memory.update(zip(node.outputs, results, strict=True))
    return [content(v) for v in graph.outputs]


def _shake(array: np.ndarray, value: Value, rng: np.random.Generator, share: float) -> np.ndarray:
    if value.quant is not None and value.dtype.is_integer:
        low, high = value.dtype.int_range
        step = 2 if value.dtype.bits == 16 else 1  # LiteRT's tables of 16 bits are as wrong as that
        moved = array.astype(np.int64) + step * rng.choice(
            [-1, 0, 1], array.shape, p=[share / 2, 1 - share, share / 2]
        )
        return np.clip(moved, low, high).astype(array.dtype)
    if array.dtype.kind != "f":
        return array
    size = np.abs(array[np.isfinite(array)]).max(initial=0)
    noise = rng.uniform(-1, 1, array.shape) * (1e-6 * np.abs(array) + 3e-7 * size)
    if array.dtype == np.float16:
        noise *= HALVES
    return (array + noise).astype(array.dtype)


def compare(
    label: str,
    value: Value,
    actual: np.ndarray,
    wanted: np.ndarray,
    shaken: Sequence[np.ndarray],
) -> None:
    """Assert that two results are as near as shaken ones are.

    Raises:
        AssertionError: they aren't.
    """
    assert actual.dtype == wanted.dtype, f"{label}: {actual.dtype}, not {wanted.dtype}"
    assert actual.shape == wanted.shape, f"{label}: {actual.shape}, not {wanted.shape}"
    quantized = value.quant is not None and value.dtype.is_integer
    if quantized or actual.dtype.kind == "f":
        a, w = actual.astype(np.float64), wanted.astype(np.float64)
        spread = [np.abs(s.astype(np.float64) - w) for s in shaken]
        moved = np.nan_to_num(np.max(spread, axis=0), nan=np.inf) if spread else np.zeros(w.shape)
        least = (
            (2.0 if value.dtype.bits == 16 else 1.0)
            if quantized
            else 3e-6 * max(np.abs(w[np.isfinite(w)]).max(initial=0), 0.05)
        )
        least *= HALVES if actual.dtype == np.float16 else 1
        bound = (1 if quantized else 2) * moved[np.isfinite(moved)].max(initial=0) + least
        both = np.isfinite(a) & np.isfinite(w) & np.isfinite(moved)
        same = (a == w) | (np.isnan(a) & np.isnan(w)) | ~np.isfinite(moved)
        with np.errstate(invalid="ignore"):
            bad = np.where(both, np.abs(a - w) > bound, ~same)
    else:
        loose = np.any([s != wanted for s in shaken], axis=0)
        bad = (actual != wanted) & ~loose
        bound = 0
        if loose.any() and bad.sum() <= 2 + loose.sum():
            bad = np.zeros_like(bad)
    if bad.any():
        at = tuple(np.argwhere(bad)[0])
        raise AssertionError(
            f"{label}: {bad.sum()} of {bad.size} differ by more than {bound:g}; at "
            f"{[int(i) for i in at]} {actual[at]!s}, wanted {wanted[at]!s}"
        )


def check(seed: int, folder: Path, *, shakes: int = 6) -> Net:
    """Draw the graph of a seed and hold all ways through it against one another.

    Raises:
        AssertionError: two of them differ, or an error came up on one.
    """
    try:
        net, content = draw(seed)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
    try:
        check_net(net, content, folder, shakes=shakes)
    except Exception as error:
        raise AssertionError(
            f"seed {seed} ({net.dtype}{', dynamic' if net.dynamic else ''}): {error}\n  "
            + "\n  ".join(net.log)
        ) from error
    return net


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
        _compare_ways(model, feeds, reference, ways, f"{options}", shakes)


def _write_again(source: Path, folder: Path, options: Mapping[str, Any]) -> dict[str, bytes]:
    """The TFLite files that come of a TFLite file: at once, and by way of ONNX."""
    kept = {"int8": options["int8"]} if "int8" in options else {}
    nnconv.convert(source, folder / "again.tflite", **kept)
    written = {"tflite": (folder / "again.tflite").read_bytes()}
    if "io_layout" in options:
        return written
    nnconv.convert(folder / "a.onnx", folder / "back.tflite", **kept)
    return written | {"tflite by way of onnx": (folder / "back.tflite").read_bytes()}


def _compare_ways(
    model: Model,
    feeds: Sequence[np.ndarray],
    reference: Sequence[np.ndarray],
    ways: Mapping[str, Sequence[np.ndarray]],
    label: str,
    shakes: int,
) -> None:
    """Compare; before it fails, with many more shaken runs."""
    for count in (shakes, 8 * shakes):
        # the more runs, the more of them are shaken hard
        shaken = [
            run_shaken(model, feeds, i, share=0.16 if i < 2 * shakes else 0.6) for i in range(count)
        ]
        failures = []
        for way, found in ways.items():
            for i, value in enumerate(model.outputs):
                name = f"{way} against reference, {value.name} {label}"
                try:
                    compare(name, value, found[i], reference[i], [run[i] for run in shaken])
                except AssertionError as error:
                    failures.append(str(error))
        if not failures:
            return
    raise AssertionError("\n".join(failures[:4]))
