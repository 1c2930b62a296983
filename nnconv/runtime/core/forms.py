"""Models in the forms in which devices read them the quickest, as files of a folder.

Each is known by a name. ``Forms.make`` compiles a model and writes its form; ``Forms.load`` makes
it ready again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nnconv import backends
from nnconv.backends import Executable
from nnconv.errors import NnconvError, UnsupportedError
from nnconv.ir.graph import Model

_SUFFIXES = {"onnxruntime:cpu": ".onnx", "litert:cpu": ".tflite"}
"""What a device reads from files, for the devices that have such forms."""


class Forms:
    """A folder of models' forms.

    Attributes:
        folder: where.
        is_complete: whether all forms could be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_complete = True
        self._files: dict[Executable, list[str]] = {}

    def make(self, model: Model, device: str, name: str) -> Executable:
        """Compile a model, and write its form if its device has one.

        Raises:
            NnconvError: the device doesn't take it.
        """
        suffix = _SUFFIXES.get(device)
        if suffix is None:
            return backends.compile(model, device)
        path = self.folder / f"{name}{suffix}"
        try:
            executable = _write(model, device, path)
        except UnsupportedError:
            raise
        except (NnconvError, OSError):  # it may be the folder's fault
            executable = backends.compile(model, device)
            self.is_complete = False
        else:
            self._files[executable] = [file.name for file in self.folder.glob(f"{path.name}*")]
        return executable

    def files(self, executables: Iterable[Executable]) -> list[str]:
        """The names of the files that hold the forms of some of what was made."""
        return [name for executable in executables for name in self._files.get(executable, ())]

    def load(self, model: Model | None, device: str, name: str) -> Executable:
        """What was made under a name; compiled anew where there is no form.

        Raises:
            NnconvError: the device doesn't take it.
        """
        suffix = _SUFFIXES.get(device)
        if suffix is None and model is not None:
            return backends.compile(model, device)
        settled = {"optimize": False} if suffix == ".onnx" else {}
        return backends.compile(self.folder / f"{name}{suffix}", device, **settled)


def _write(model: Model, device: str, path: Path) -> Executable:
    if path.suffix == ".onnx":
        return backends.compile(model, device, keep=str(path))
    from nnconv.formats.tflite import encode
    from nnconv.lowering import choose_signature, one_entry, to_tflite

    encode.write(to_tflite(one_entry(model, choose_signature(model, None))).model, path)
    return backends.compile(path, device)
