"""Loading, saving and converting models: the formats and passes put together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnconv.checks import check_arguments
from nnconv.errors import UsageError
from nnconv.formats import check_writable, format_for, read_model
from nnconv.ir.collector import no_collection
from nnconv.ir.graph import Model, Signature
from nnconv.ir.types import Shape
from nnconv.lowering import (
    LOWERINGS,
    VERSION_OPTIONS,
    Lowered,
    choose_signature,
    one_entry,
)

if TYPE_CHECKING:
    import numpy as np

    from nnconv.diff.outcome import Verification
    from nnconv.formats.written import Written


@dataclass
class ConversionReport:
    """What a conversion did.

    Attributes:
        source, target: the files.
        source_format, target_format: their formats.
        signature: the entry point that was converted.
        other_signatures: entry points left out.
        inputs, outputs: (name, dtype, shape) of the written interface, states included.
        states: (input name, output name) of each state.
        renamed: (kind, old name, new name) of inputs and outputs.
        moved_io: inputs and outputs whose layout changed on request.
        opset: the ONNX opset written.
        feature_level: the least NNAPI feature level at which the written model is valid.
        api: the version of NNRt's API that the model is written for.
        counts: how many nodes of each type were written.
        notes: what a user should know besides.
        verification: what comparing the two files gave; None if it wasn't asked for.
    """

    source: str
    target: str
    source_format: str
    target_format: str
    signature: str = ""
    other_signatures: list[str] = field(default_factory=list)
    inputs: list[tuple[str, str, list[int | str | None] | None]] = field(default_factory=list)
    outputs: list[tuple[str, str, list[int | str | None] | None]] = field(default_factory=list)
    states: list[tuple[str, str]] = field(default_factory=list)
    renamed: list[tuple[str, str, str]] = field(default_factory=list)
    moved_io: list[str] = field(default_factory=list)
    opset: int | None = None
    feature_level: int | None = None
    api: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    verification: Verification | None = None

    @property
    def verified(self) -> bool | None:
        """Whether source and result agree; None if that wasn't asked for."""
        return None if self.verification is None else self.verification.passed

    def as_dict(self) -> dict[str, Any]:
        """The report as plain JSON-able data."""
        return {**asdict(self), "verified": self.verified}


def load(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
) -> Model:
    """Read a model.

    Args:
        path: the file.
        format: its format; told by content, then by suffix, when None.
        input_shapes: shapes to give to inputs, by name.

    Raises:
        InvalidModelError: the file is broken.
        UnsupportedError: it has nodes that can't be imported.
        UsageError: the format can't be read, or an input has no such name.
    """
    check_arguments("path", path=path)
    check_arguments("text or None", format=format)
    check_arguments("shapes", input_shapes=input_shapes)
    return read_model(path, format, input_shapes=input_shapes)


def save(
    model: Model,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    signature: str | None = None,
    opset: int | None = None,
    feature_level: int | None = None,
    api: int | None = None,
    io_layout: str = "keep",
    int8: str = "resign",
    quant: str = "keep",
) -> None:
    """Write one entry point of a model; the model itself isn't changed.

    Args:
        model: what to write.
        path: the file.
        format: its format; told by the suffix when None.
        signature: key of the entry point; the first when None.
        opset: ONNX opset.
        feature_level: NNAPI feature level, 1 to 8; the newest when None.
        api: version of NNRt's API, 1 or 2; the newest when None.
        io_layout: ``keep`` leaves the interface in the source's layout, ``nhwc`` and ``nchw`` move
            image-like inputs and outputs to theirs, where that saves a transpose at the edge.
        int8: ``resign`` keeps int8 activations as uint8 inside (fast on x64), ``keep`` leaves
            the signs.
        quant: ``keep`` computes as the model says, ``float`` in floats between the quantized inputs
            and outputs, ``integer`` in integers even where floats between codes are what LiteRT
            is quicker at.

    Raises:
        UnsupportedError: the format can't hold a node.
        UsageError: a wrong option.
    """
    if not isinstance(model, Model):
        raise UsageError(f"model is a {type(model).__name__}, must be a Model; see nnconv.load")
    check_arguments("path", path=path)
    check_arguments("text or None", format=format, signature=signature)
    check_arguments("text", io_layout=io_layout, int8=int8, quant=quant)
    single = one_entry(model, choose_signature(model, signature))
    target = format_for(path) if format is None else format
    _write(
        single,
        path,
        target,
        versions={"opset": opset, "feature_level": feature_level, "api": api},
        io_layout=io_layout,
        int8=int8,
        quant=quant,
    )


def _write(
    model: Model,
    path: str | os.PathLike[str],
    target: str,
    *,
    versions: Mapping[str, int | None],
    **options: Any,
) -> Lowered[Any]:
    """Bring a model (which is used up) into the target's form and write it.

    ``versions`` has each format's version that is asked for, under the name of its option.
    """
    check_writable(target)
    option = VERSION_OPTIONS.get(target)
    for name, version in versions.items():
        if version is not None and name != option:
            owner = next(kind for kind, its in VERSION_OPTIONS.items() if its == name)
            raise UsageError(f"{name} is an option for {owner}; {target} has none")
    if option is not None:
        options[option] = versions[option]
    with no_collection():
        lowered = LOWERINGS[target](model, **options)
        import_module(_WRITERS[target]).write(lowered.model, path)
    return lowered


_WRITERS = {
    "nnapi": "nnconv.formats.nnapi.file",
    "nnrt": "nnconv.formats.nnrt.file",
    "onnx": "nnconv.formats.onnx.protobuf",
    "tflite": "nnconv.formats.tflite.encode",
}
"""The module of each format whose ``write`` makes its files."""


def convert(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    verify: bool = False,
    source_format: str | None = None,
    target_format: str | None = None,
    signature: str | None = None,
    input_shapes: Mapping[str, Shape] | None = None,
    opset: int | None = None,
    feature_level: int | None = None,
    api: int | None = None,
    io_layout: str = "keep",
    int8: str = "resign",
    quant: str = "keep",
    seed: int = 0,
) -> ConversionReport:
    """Convert a model file.

    Args:
        src: the file to read.
        dst: the file to write; on any error it is left as it was.
        verify: run both files on their own runtimes and compare.
        source_format: the format of ``src``; told by content when None.
        target_format: the format of ``dst``; told by the suffix when None.
        signature: key of the entry point to convert; the first when None.
        input_shapes: shapes to give to inputs, by name.
        opset: ONNX opset.
        feature_level: NNAPI feature level, 1 to 8; the newest when None.
        api: version of NNRt's API, 1 or 2; the newest when None.
        io_layout: see ``save``.
        int8: see ``save``.
        quant: see ``save``; ``float`` makes another model of a quantized one, which ``verify``
            can't compare.
        seed: of the inputs that ``verify`` makes.

    Raises:
        InvalidModelError: ``src`` is broken.
        UnsupportedError: nodes that can't be converted; all are listed.
        UsageError: a wrong option, or ``dst`` can't be written.
        BackendError: with ``verify``, when a runtime fails.
    """
    check_arguments("path", src=src, dst=dst)
    texts = {"source_format": source_format, "target_format": target_format, "signature": signature}
    check_arguments("text or None", **texts)
    check_arguments("text", io_layout=io_layout, int8=int8, quant=quant)
    check_arguments("flag", verify=verify)
    check_arguments("seed", seed=seed)
    target = format_for(dst) if target_format is None else target_format
    check_writable(target)
    if _same_file(src, dst):
        raise UsageError(f"{os.fspath(dst)} is the source file; choose another name")
    model = load(src, source_format, input_shapes=input_shapes)
    entry = choose_signature(model, signature)
    if verify and quant == "float":
        _check_verifiable(one_entry(model, entry))
    report = ConversionReport(
        source=os.fspath(src),
        target=os.fspath(dst),
        source_format=model.format,
        target_format=target,
        signature=entry.key,
        other_signatures=[s.key for s in model.signatures if s is not entry],
    )
    model.signatures = [entry]
    # Writing uses the graph up, and what follows from the types is to be read off the source's own.
    kept = one_entry(model, entry) if verify else model
    versions = {"opset": opset, "feature_level": feature_level, "api": api}
    options = {"io_layout": io_layout, "int8": int8, "quant": quant}
    lowered = _write(model, dst, target, versions=versions, **options)
    _tell_written(report, lowered, entry)
    if verify:
        from nnconv.diff.verify import verify_conversion

        report.verification = verify_conversion(report, kept, seed=seed)
    return report


def _check_verifiable(model: Model) -> None:
    """See that nothing is rounded in a model that is to compute in floats.

    Raises:
        UsageError: quantized values are computed, or data are quantized at run time.
    """
    from nnconv.ops.quantize import DynamicQuantize

    nodes = (node for graph in model.graphs() for node in graph.nodes)
    if any(
        isinstance(node.op, DynamicQuantize) or any(v.type.has_codes for v in node.outputs)
        for node in nodes
    ):
        raise UsageError(
            "a model in floats rounds otherwise than its quantized source: nothing to verify",
            hint="Verify the conversion with quant keep, and judge the floats by accuracy.",
        )


def _tell_written(report: ConversionReport, lowered: Lowered[Any], entry: Signature) -> None:
    """Put into a report what was written."""
    report.opset = lowered.written.opset
    if report.target_format == "nnapi":
        from nnconv.formats.nnapi.check import least_level

        report.feature_level = least_level(lowered.model)
    if report.target_format == "nnrt":
        report.api = lowered.model.api
    report.renamed = lowered.written.renamed
    report.moved_io = lowered.moved_io
    report.notes += lowered.written.notes
    report.counts = lowered.written.counts
    _describe_interface(report, entry, lowered.written)


def _same_file(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> bool:
    try:
        return Path(a).samefile(b)
    except OSError:  # one of them isn't there, or can't be
        return False


def _describe_interface(report: ConversionReport, entry: Signature, written: Written) -> None:
    keeps_states = bool(entry.states) and len(written.inputs) == len(entry.inputs)
    whole = entry if keeps_states else entry.graph
    for values, names, rows in (
        (whole.inputs, written.inputs, report.inputs),
        (whole.outputs, written.outputs, report.outputs),
    ):
        for value, name in zip(values, names, strict=True):
            shape = None if value.shape is None else list(value.shape)
            rows.append((name, value.dtype.value, shape))
    if keeps_states:  # inside the file, where its format has a place for them
        return
    report.states = [
        (report.inputs[len(entry.inputs) + i][0], report.outputs[len(entry.outputs) + i][0])
        for i in range(len(entry.states))
    ]
    if report.target_format in _WITHOUT_FIRST_VALUES:
        report.notes += [
            f"state `{read}` must be fed {_first_value(state.initial)} in the first run, and what "
            f"`{written_as}` gave in the next ones"
            for state, (read, written_as) in zip(entry.states, report.states, strict=True)
        ]


_WITHOUT_FIRST_VALUES = ("nnapi", "nnrt")
"""Formats that hold neither states nor anything to say of inputs."""


def _first_value(initial: np.ndarray) -> str:
    if initial.size and (initial == initial.flat[0]).all():
        return str(initial.flat[0])
    return "the values that it begins with in the source"
