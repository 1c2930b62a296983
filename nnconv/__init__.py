"""nnconv converts neural-network models between formats, exactly, and runs them on devices.

Importing it loads no runtime and no format: each public name is fetched from its module when it is
first used.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnconv import errors
    from nnconv.backends import Device, compile, devices  # noqa: A004 - compile is what it does
    from nnconv.conversion import ConversionReport, convert, load, save
    from nnconv.ir import Model
    from nnconv.reach import CheckReport, check

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022 - grouped by purpose
    # Models: read, write, convert.
    "CheckReport",
    "ConversionReport",
    "Model",
    "check",
    "convert",
    "load",
    "save",
    # Devices: run a model.
    "Device",
    "compile",
    "devices",
    # What can go wrong.
    "errors",
    # This package.
    "__version__",
]  # fmt: skip

_HOME = {
    "CheckReport": "nnconv.reach",
    "ConversionReport": "nnconv.conversion",
    "Device": "nnconv.backends",
    "Model": "nnconv.ir",
    "check": "nnconv.reach",
    "compile": "nnconv.backends",
    "convert": "nnconv.conversion",
    "devices": "nnconv.backends",
    "load": "nnconv.conversion",
    "save": "nnconv.conversion",
}
"""The module that each lazy public name lives in."""


if not Path(__file__).with_name("backends").is_dir():
    # A checkout, where the rest of the package lies beside this folder.
    __path__.append(str(Path(__file__).absolute().parents[1]))


def __getattr__(name: str) -> object:
    """Fetch a public name from its module, once."""
    if name == "errors":
        return import_module("nnconv.errors")
    if name not in _HOME:
        raise AttributeError(f"module 'nnconv' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, those not fetched yet included."""
    return sorted({*globals(), *__all__})
