"""Bringing a model into the form that a target format takes: by passes, and by its writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from nnconv.errors import UnsupportedError, UsageError
from nnconv.ir.graph import Model, Signature
from nnconv.ir.op import Layout
from nnconv.pipelines import evaluate, nnapi_passes, nnrt_passes, onnx_passes, tflite_passes

if TYPE_CHECKING:
    from nnconv.formats.nnapi import wire as nnapi
    from nnconv.formats.nnrt import wire as nnrt
    from nnconv.formats.onnx import wire
    from nnconv.formats.tflite import build
    from nnconv.formats.written import Written
    from nnconv.passes.base import Pass

IO_LAYOUTS = ("keep", "nhwc", "nchw")
INT8_FORMS = ("resign", "keep")
QUANT_FORMS = ("keep", "integer", "float")

Form = TypeVar("Form")
"""What a format's writer takes."""


class Lowered(NamedTuple, Generic[Form]):
    """A model in the form of its target format.

    Attributes:
        model: what is to be written.
        written: what a user should know of it.
        moved_io: inputs and outputs whose layout changed on request.
    """

    model: Form
    written: Written
    moved_io: list[str]


def choose_signature(model: Model, key: str | None) -> Signature:
    """The entry point called ``key``; the first when None.

    Raises:
        UsageError: there is none of that name.
    """
    if key is None:
        return model.main
    for signature in model.signatures:
        if signature.key == key:
            return signature
    known = ", ".join(repr(s.key) for s in model.signatures)
    raise UsageError(f"no signature {key!r}; the model has {known}")


def one_entry(model: Model, entry: Signature) -> Model:
    """A copy of a model with one of its entry points alone, for passes to change."""
    from nnconv.ir.clone import clone_model

    return clone_model(
        Model([entry], model.format, model.source, model.metadata, model.description)
    )


def first_entry(model: Model) -> Model:
    """A copy of a model with its first entry point alone.

    Raises:
        UsageError: it is no model.
    """
    if not isinstance(model, Model):
        raise UsageError(f"model is a {type(model).__name__}, must be a Model; see nnconv.load")
    return one_entry(model, model.main)


def check_options(*, io_layout: str = "keep", int8: str = "resign", quant: str = "keep") -> None:
    """See that options are among what is allowed.

    Raises:
        UsageError: one isn't.
    """
    for name, value, allowed in (
        ("io_layout", io_layout, IO_LAYOUTS),
        ("int8", int8, INT8_FORMS),
        ("quant", quant, QUANT_FORMS),
    ):
        if value not in allowed:
            raise UsageError(f"{name} {value!r}; allowed are {', '.join(allowed)}")


def to_tflite(
    model: Model, *, io_layout: str = "keep", int8: str = "resign", quant: str = "keep"
) -> Lowered[build.File]:
    """Turn a model's first entry point into TFLite; the model is used up.

    Args:
        model: what to turn.
        io_layout: ``nhwc`` moves image-like inputs and outputs, where that saves a transpose at the
            edge; ``keep`` and ``nchw`` leave them as the source has them.
        int8: ``resign`` keeps uint8 activations as int8 inside (which LiteRT has faster kernels
            for), ``keep`` leaves the signs.
        quant: ``keep`` keeps codes, and has LiteRT's slow ops of 16 bits computed in floats between
            them, ``integer`` has these computed in integers as well, ``float`` all in floats
            between the quantized inputs and outputs.

    Raises:
        UnsupportedError: TFLite can't hold a node; all of those are listed.
        UsageError: a wrong option.
    """
    from nnconv.formats.tflite import writer
    from nnconv.passes.base import run_passes
    from nnconv.passes.fold_qdq import FoldQdqPass
    from nnconv.passes.layout import LayoutPass
    from nnconv.passes.resign import ResignPass

    check_options(io_layout=io_layout, int8=int8, quant=quant)
    layout = LayoutPass(Layout.NHWC, edge=model.main if io_layout == "nhwc" else None)
    fold = FoldQdqPass()
    resign = ResignPass(keep=int8 == "keep")
    run_passes(
        model, tflite_passes(layout, fold_qdq=fold, in_floats=quant == "float", resign=resign)
    )
    result, written = writer.to_wire(
        model, model.main, evaluate=evaluate, slow_kernels=quant == "integer"
    )
    written.notes.extend(fold.notes)
    return Lowered(result, written, layout.moved_io)


def to_nnapi(
    model: Model,
    *,
    feature_level: int | None = None,
    io_layout: str = "keep",
    int8: str = "resign",
    quant: str = "keep",
) -> Lowered[nnapi.Model]:
    """Turn a model's first entry point into NNAPI; the model is used up.

    Args:
        model: what to turn.
        feature_level: NNAPI's feature level that the result must be valid at; the newest when None.
        io_layout: see ``to_tflite``.
        int8: ``resign`` and ``keep`` both leave 8-bit codes their signs where the level knows them.
        quant: ``keep`` and ``integer`` keep codes; ``float`` as in ``to_tflite``.

    Raises:
        UnsupportedError: NNAPI can't hold a node at this level; all of those are listed.
        UsageError: a wrong option.
    """
    from nnconv.formats.graph_export import give_dimension
    from nnconv.formats.nnapi import writer
    from nnconv.formats.nnapi.types import LEVELS, NEWEST_LEVEL
    from nnconv.passes.base import run_passes
    from nnconv.passes.fold_qdq import FoldQdqPass
    from nnconv.passes.layout import LayoutPass
    from nnconv.passes.name_extents import forget_extents, name_extents
    from nnconv.passes.narrow_numbers import NARROWED, beyond_floats, refuse_lost
    from nnconv.passes.to_floats import computes_wide_codes

    check_options(io_layout=io_layout, int8=int8, quant=quant)
    level = NEWEST_LEVEL if feature_level is None else feature_level
    if type(level) is not int or level not in LEVELS:
        allowed = f"{LEVELS[0]} to {NEWEST_LEVEL}"
        raise UsageError(f"feature level {level!r}; allowed are {allowed}")
    layout = LayoutPass(Layout.NHWC, edge=model.main if io_layout == "nhwc" else None)
    fold = FoldQdqPass(open_weights=True)
    notes = [
        f"`{value.name}` is {value.dtype}, which NNAPI lacks: it becomes {NARROWED[value.dtype]}"
        for value in (*model.graph.inputs, *model.graph.outputs)
        if value.dtype in NARROWED
    ]
    in_floats = quant == "float"
    wide = (
        model.format != "nnapi" and not in_floats and any(map(computes_wide_codes, model.graphs()))
    )
    if wide:
        notes.append(
            "16-bit codes are computed with as floats, and rounded as they were: NNAPI has no "
            "operations on them; `--quant float` leaves out the rounding"
        )
    passes = nnapi_passes(layout, fold_qdq=fold, in_floats=in_floats, wide=wide, level=level)
    if model.format == "nnapi":
        _keep_own_forms(passes)
        if io_layout == "keep" and level >= _LAYOUTS_LEVEL:
            passes.remove(layout)  # operations take both, and the model had reasons for its own
    names = name_extents(model)
    run_passes(model, passes)
    refuse_lost(passes, model.source)
    notes += beyond_floats(passes)
    result, written = writer.to_wire(model, model.main, level=level, evaluate=evaluate)
    forget_extents([*model.graph.inputs, *model.graph.outputs], names)
    notes += [
        f"`{name}` has no dimensions, as NNAPI's tensors do: it gets the dimensions [1]"
        for name in give_dimension(dict.fromkeys([*model.graph.inputs, *model.graph.outputs]))
    ]
    written.notes.extend([*notes, *fold.notes])
    return Lowered(result, written, layout.moved_io)


def _keep_own_forms(passes: Sequence[Pass]) -> None:
    """Leave what models of NNAPI have, and nothing else makes: numbers without dimensions."""
    from nnconv.ops.shape import Rank
    from nnconv.passes.fold_constants import FoldConstantsPass

    for step in passes:
        if isinstance(step, FoldConstantsPass):
            step.kept = (Rank,)


_LAYOUTS_LEVEL = 3


def to_nnrt(
    model: Model,
    *,
    api: int | None = None,
    io_layout: str = "keep",
    int8: str = "resign",
    quant: str = "keep",
) -> Lowered[nnrt.Graph]:
    """Turn a model's first entry point into NNRt; the model is used up.

    Args:
        model: what to turn.
        api: the version of the API, 1 or 2, that the result must be valid in; the newest when None.
        io_layout: see ``to_tflite``.
        int8: see ``to_tflite``; NNRt's operations take signed codes alone.
        quant: ``keep`` and ``integer`` keep codes; ``float`` as in ``to_tflite``.

    Raises:
        UnsupportedError: NNRt can't hold a node in this version; all of those are listed.
        UsageError: a wrong option.
    """
    from nnconv.formats.graph_export import give_dimension
    from nnconv.formats.nnrt import writer
    from nnconv.formats.nnrt.types import NEWEST, VERSIONS
    from nnconv.passes.base import run_passes
    from nnconv.passes.fold_qdq import FoldQdqPass
    from nnconv.passes.layout import LayoutPass
    from nnconv.passes.name_extents import forget_extents, name_extents

    check_options(io_layout=io_layout, int8=int8, quant=quant)
    version = NEWEST if api is None else api
    if type(version) is not int or version not in VERSIONS:
        raise UsageError(f"version {version!r}; allowed are {', '.join(map(str, VERSIONS))}")
    layout = LayoutPass(Layout.NHWC, edge=model.main if io_layout == "nhwc" else None)
    fold = FoldQdqPass()
    names = name_extents(model)
    run_passes(model, nnrt_passes(layout, fold_qdq=fold, in_floats=quant == "float"))
    result, written = writer.to_wire(model, model.main, api=version, evaluate=evaluate)
    forget_extents([*model.graph.inputs, *model.graph.outputs], names)
    give_dimension(model.graph.outputs)
    written.notes.extend(fold.notes)
    return Lowered(result, written, layout.moved_io)


def to_onnx(
    model: Model,
    *,
    opset: int | None = None,
    io_layout: str = "keep",
    int8: str = "resign",
    quant: str = "keep",
) -> Lowered[wire.Model]:
    """Turn a model's first entry point into ONNX; the model is used up.

    Args:
        model: what to turn.
        opset: ONNX opset; when None the default one, or the least that holds the model.
        io_layout: ``nchw`` moves image-like inputs and outputs, where that saves a transpose at the
            edge; ``keep`` and ``nhwc`` leave them as the source has them.
        int8: ``resign`` keeps int8 activations as uint8 inside (fast on x64), ``keep`` leaves
            the signs.
        quant: ``keep`` and ``integer`` compute as the model says, ``float`` in floats
            between the quantized inputs and outputs.

    Raises:
        UnsupportedError: ONNX can't hold a node; all of those are listed.
        UsageError: a wrong option.
    """
    from nnconv.formats.onnx import writer
    from nnconv.passes.base import run_passes
    from nnconv.passes.layout import LayoutPass

    check_options(io_layout=io_layout, int8=int8, quant=quant)
    version = writer.DEFAULT_OPSET if opset is None else opset
    if type(version) is not int or not writer.LEAST_OPSET <= version <= writer.NEWEST_OPSET:
        allowed = f"{writer.LEAST_OPSET} to {writer.NEWEST_OPSET}"
        raise UsageError(f"opset {version} can't be written; allowed are {allowed}")
    layout = LayoutPass(Layout.NCHW, edge=model.main if io_layout == "nchw" else None)
    run_passes(
        model,
        onnx_passes(layout, moves_edge=io_layout == "nchw", in_floats=quant == "float"),
    )
    resign = int8 == "resign"
    try:
        result, written = writer.to_wire(model, model.main, opset=version, resign=resign)
    except UnsupportedError as error:
        least = [item.opset for item in error.items]
        if opset is not None or not all(least) or max(least) > writer.NEWEST_OPSET:
            raise
        result, written = writer.to_wire(model, model.main, opset=max(least), resign=resign)
    return Lowered(result, written, layout.moved_io)


LOWERINGS: dict[str, Callable[..., Lowered[Any]]] = {
    "nnapi": to_nnapi,
    "nnrt": to_nnrt,
    "onnx": to_onnx,
    "tflite": to_tflite,
}
"""What brings a model into the form of each format."""

VERSION_OPTIONS = {"nnapi": "feature_level", "nnrt": "api", "onnx": "opset"}
"""The option of each of these that says for which version of the format."""
