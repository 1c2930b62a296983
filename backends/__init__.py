"""Executors: what runs a model, each behind the same small protocol.

A device is called ``<backend>:<where>``; each backend is a module that is loaded when one of its
devices is asked for, and its runtime when a model is compiled for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nnconv.backends.base import (
    NNAPI_LEVEL,
    REFERENCE,
    SERIAL,
    UNINTERRUPTIBLE,
    Compile,
    Cuts,
    Device,
    Executable,
    NoDeviceError,
    TensorInfo,
)
from nnconv.backends.control import is_true, run_while
from nnconv.backends.limits import DeadlineError, Limits, current_limits, limited

from nnconv import checks, errors

if TYPE_CHECKING:
    from nnconv.ir import Model

__all__ = [
    "REFERENCE", "SERIAL", "UNINTERRUPTIBLE", "Compile", "Cuts", "DeadlineError", "Device",
    "Executable", "Limits", "NoDeviceError", "TensorInfo", "compile", "compile_pieces",
    "current_limits", "device_names", "devices", "is_true", "limited", "reference_ops", "run_while",
]  # fmt: skip

_HOMES = {
    "onnxruntime:cpu": "nnconv.backends.onnxruntime",
    "onnxruntime:cuda": "nnconv.backends.onnxruntime",
    "onnxruntime:dml": "nnconv.backends.onnxruntime",
    "litert:cpu": "nnconv.backends.litert",
    "reference": "nnconv.backends.reference.executable",
}
"""The module behind each device; it has ``find(device)`` and ``make(source, device, options)``."""


_OPTION_KINDS = {"signature": "text or None", "input_shapes": "shapes", "resolver": "text"}
"""What options of ``compile`` must be, as far as the backends leave it to be seen here."""


def devices() -> list[Device]:
    """Every device that nnconv knows, whether or not it can be used here."""
    found = [import_module(home).find(name) for name, home in _HOMES.items()]
    return [d._replace(feature_level=NNAPI_LEVEL) if d.available else d for d in found]


def device_names(device: str) -> list[str]:
    """The devices that a text names, with commas between them.

    Raises:
        UsageError: there is no such device.
    """
    names = [name.strip() for name in device.split(",")]
    for name in names:
        if name not in _HOMES:
            have = ", ".join(_HOMES)
            raise errors.UsageError(f"there is no device {name!r}; devices are {have}")
    return names


def compile(  # noqa: A001 - it is what it does
    model: Model | str | os.PathLike[str], device: str = "onnxruntime:cpu", **options: Any
) -> Executable:
    """Make a model ready to run on a device, or in pieces on several.

    A file in the device's own format (.onnx for onnxruntime, .tflite for LiteRT) runs as it is; any
    other, and a model in memory, is converted in memory. A model is not changed by it.

    One device runs the whole model or refuses it. Of several (``onnxruntime:cpu,reference``) the
    first that takes the whole model runs it; where only the reference would, or none, each node
    goes to the first that takes it. The executable's ``device`` tells what came of it.

    Args:
        model: a model, or the path of a file.
        device: one of ``devices()``, by name, or several with commas between them.
        options: ``signature``, the key of the entry point (default: the first), for files other
            than .onnx; ``input_shapes``, shapes by input name, for files; ``threads`` (0, the
            default: the runtime's choice) for onnxruntime and LiteRT; ``resolver`` for LiteRT:
            ``xnn`` (XNNPACK, the default), ``opt`` or ``ref`` kernels. Several devices take the
            first two.

    Raises:
        BackendError: the runtime isn't installed, or refuses the model.
        InvalidModelError: the file is broken.
        UnsupportedError: the model can't be brought into the device's format.
        UsageError: there is no such device or option.
    """
    from nnconv.ir import Model
    from nnconv.ir.collector import no_collection

    if not isinstance(model, Model):
        checks.check_arguments("path", model=model)
    checks.check_arguments("text", device=device)
    for name, kind in _OPTION_KINDS.items():
        if name in options:
            checks.check_arguments(kind, **{name: options[name]})
    names = device_names(device)
    with no_collection():
        if len(names) > 1:
            return _compile_for(model, names, options)
        made: Executable = import_module(_HOMES[names[0]]).make(model, names[0], options)
    return made


def _compile_for(
    model: Model | str | os.PathLike[str], names: Sequence[str], options: Mapping[str, Any]
) -> Executable:
    """Make a model ready for the first device that takes it whole, else for several in pieces."""
    from nnconv.backends.base import check_options

    from nnconv.formats import read_model
    from nnconv.ir import Model

    check_options(options, frozenset({"input_shapes", "signature"}), ",".join(names))
    for number, name in enumerate(names):
        if name == REFERENCE and number:
            break
        try:
            return compile(model, name, **options)
        except (errors.BackendError, errors.UnsupportedError):
            continue
    if not isinstance(model, Model):
        model = read_model(model, input_shapes=options.get("input_shapes"))
    return compile_pieces(model, names, signature=options.get("signature"))


def compile_pieces(
    model: Model,
    devices: Sequence[str],
    *,
    signature: str | None = None,
    compile_model: Compile | None = None,
    cuts: Cuts | None = None,
) -> Executable:
    """Cut a model so that each node runs on the first of the devices that takes it.

    Args:
        model: the model; it must not be changed as long as the result is in use.
        devices: the devices, by name.
        signature: the key of the entry point; the first when None.
        compile_model: makes a piece ready for a device; the name that it gets tells the piece from
            others on that device. ``compile`` when None.
        cuts: where to cut, from an executable of the same model for the same devices; when None,
            it is tried out what the devices take.

    Raises:
        NoDeviceError: a node has no device.
        NnconvError: with ``cuts``, what ``compile_model`` raises.
    """
    from nnconv.backends.pieces import PiecesExecutable

    if compile_model is None:

        def compile_model(model: Model, device: str, _: str) -> Executable:
            return compile(model, device)

    return PiecesExecutable(model, devices, compile_model, signature=signature, cuts=cuts)


def reference_ops() -> set[str]:
    """The names of the IR ops that the reference backend can run."""
    from nnconv.backends.reference.executor import all_kernels

    return {op.__name__ for op in all_kernels()}
