"""Feed broken .nnrt files, or their .json twins, to nnconv: nothing but clean errors may come.

    python tools/fuzz_nnrt.py MODEL_OR_FOLDER... [--cases 20000] [--target import|read|check]
        [--changes entries|bytes]

Cases are made as in `fuzz_nnapi`, and parameters are changed as inputs are. What a failure is, and
how to repeat a case, is said in `fuzzing`. In tests/, `python -m support.nnrt_corpus FOLDER` gives
files to change, a model of each operation among them.

Exits 1 if a case failed. ``--keep FOLDER`` saves the files of those.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from nnconv.formats.nnrt.check import findings
from nnconv.formats.nnrt.file import read, to_json
from nnconv.formats.nnrt.reader import read as read_ir
from nnconv.formats.nnrt.types import VERSIONS, DataType, OperationType, TensorType
from nnconv.ir.verifier import verify_model

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fuzz_twins
import fuzzing


def _quant(tensor: dict[str, Any], rng: random.Random) -> None:
    count = rng.choice((1, 1, 1, 2, 3))
    tensor["scales"] = [rng.choice(fuzz_twins.SCALES) for _ in range(count)]
    tensor["zero_points"] = [rng.choice(fuzz_twins.POINTS) for _ in range(count)]


def _role(tensor: dict[str, Any], rng: random.Random) -> None:
    tensor["type"] = rng.choice(list(TensorType)).name


def _value(tensor: dict[str, Any], _: random.Random) -> None:
    for key in ("value", "base64"):
        tensor.pop(key, None)


TWIN = fuzz_twins.Twin(
    to_json=lambda data: to_json(read(data)),
    graphs=lambda plain: [plain],
    operands="tensors",
    kind="data_type",
    kinds=[kind.name for kind in DataType],
    operation="op",
    operations=[kind.name for kind in OperationType],
    lists=("inputs", "outputs", "params"),
    is_constant=lambda tensor: "value" in tensor or "base64" in tensor,
    changes=(_quant, _role, _value),
    extents=(-1, *fuzz_twins.EXTENTS),
)


def read_file(path: Path) -> None:
    """Read a file, as far as its form goes."""
    read(path)


def import_file(path: Path) -> None:
    """Read a file into the IR, which must be sound."""
    verify_model(read_ir(path))


def check_file(path: Path) -> None:
    """Tell what a file's model breaks in either version."""
    graph = read(path)
    for version in VERSIONS:
        findings(graph, version)


FUZZER = fuzzing.Fuzzer(
    module="fuzz_nnrt",
    suffix=".json",
    targets={"import": import_file, "read": read_file, "check": check_file},
    changes=fuzz_twins.changes_of(TWIN),
)

if __name__ == "__main__":
    sys.exit(fuzzing.main(FUZZER, __doc__.splitlines()[0]))
