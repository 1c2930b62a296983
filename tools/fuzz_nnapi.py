"""Feed broken .nnapi files, or their .json twins, to nnconv: nothing but clean errors may come.

    python tools/fuzz_nnapi.py MODEL_OR_FOLDER... [--cases 20000] [--target import|read]
        [--changes entries|bytes]

Each case changes one of the files in a few places and hands the result to the target, a function of
a path. Changed are entries of the JSON (dimensions, types, values, indices, scales, and what there
is of operands and operations), which is sound JSON afterwards; or bytes of the file. What a failure
is, and how to repeat a case, is said in `fuzzing`. `tools/cts_report.py --write FOLDER` gives files
to change.

Exits 1 if a case failed. ``--keep FOLDER`` saves the files of those.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from nnconv.formats.nnapi.file import read, to_json
from nnconv.formats.nnapi.reader import read as read_ir
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.ir.verifier import verify_model

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fuzz_twins
import fuzzing


def _quant(operand: dict[str, Any], rng: random.Random) -> None:
    operand["scale"] = rng.choice(fuzz_twins.SCALES)
    operand["zero_point"] = rng.choice(fuzz_twins.POINTS)


def _lifetime(operand: dict[str, Any], rng: random.Random) -> None:
    for key in ("value", "base64", "model"):
        operand.pop(key, None)
    operand["lifetime"] = rng.choice(("temporary", "input", "output", "no_value"))


TWIN = fuzz_twins.Twin(
    to_json=lambda data: to_json(read(data)),
    graphs=lambda plain: [plain["main"], *plain.get("referenced", [])],
    operands="operands",
    kind="type",
    kinds=[code.name for code in OperandCode],
    operation="type",
    operations=[code.name for code in OperationCode],
    lists=("inputs", "outputs"),
    is_constant=lambda operand: operand["lifetime"] == "constant",
    changes=(_quant, _lifetime),
)


def read_file(path: Path) -> None:
    """Read a file, as far as its form goes."""
    read(path)


def import_file(path: Path) -> None:
    """Read a file into the IR, which must be sound."""
    verify_model(read_ir(path))


FUZZER = fuzzing.Fuzzer(
    module="fuzz_nnapi",
    suffix=".json",
    targets={"import": import_file, "read": read_file},
    changes=fuzz_twins.changes_of(TWIN),
)

if __name__ == "__main__":
    sys.exit(fuzzing.main(FUZZER, __doc__.splitlines()[0]))
