"""Write docs/ops.md: which ops nnconv knows, and what each becomes.

Everything comes from the tables that reading and writing use. What an op becomes is read off the
function that translates it: the op classes, or ONNX nodes' names, that it and its helpers mention.

    python tools/gen_ops_page.py            # rewrites the file
    python tools/gen_ops_page.py --check    # exits 1 if the file is stale
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import isclass
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import onnx.defs

import nnconv.ops
from nnconv.decompositions.base import decompositions_of
from nnconv.formats.mentions import mentioned
from nnconv.formats.onnx.exporter import exporter_of
from nnconv.formats.onnx.importer import importers as onnx_importers
from nnconv.formats.onnx.spelled import export_in_parts
from nnconv.formats.support import operations_of, version_of
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR
from nnconv.formats.tflite.exporter import exporter_of as tflite_exporter_of
from nnconv.formats.tflite.importer import importers
from nnconv.formats.tflite.scope import out_of_scope
from nnconv.ir import Op

TARGET = Path(__file__).resolve().parent.parent / "docs/ops.md"

RESOLVED = "(resolved while reading)"

HEAD = """\
# Ops

Made by `tools/gen_ops_page.py` from the tables that reading and writing use; don't edit it.
`nnconv ops` lists what an installed nnconv knows.

An op of a file becomes one op, or a few, of the IR (`nnconv/ops`), and these become TFLite
operators, ONNX nodes of the standard domain, or operations of NNAPI or NNRt. Which ones depends on
types, shapes, quantization and version: the tables name the main ones. What merely joins them
(Cast, DequantizeLinear, Reshape, Slice, Add ...) is named where there is nothing else. What a
format lacks is decomposed into other ops of the IR.
"""

WRITTEN = """\
Numbers behind operations are NNAPI's feature level and NNRt's API version that brought them; some
types and forms need more, which `nnconv check` tells. What TFLite, NNAPI or NNRt has no operation
for, or none of a type or form, is done with the ops of the last column, if it can be. All of these
run on the reference backend, on onnxruntime as the ONNX that is named, and on LiteRT as the TFLite.
"""

AROUND = {"Cast", "QuantizeLinear", "DequantizeLinear"}
BUILTIN_JOINTS = {"CAST", "QUANTIZE", "DEQUANTIZE", "RESHAPE", "SHAPE", "ADD", "SUB", "MUL"}
MERE_MOVES = {"Reshape", "Cast", "Squeeze", "Unsqueeze", "Transpose", "Identity", "ShapeOf"}
JOINTS = {
    *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Concat", "Slice", "Split", "Gather"),
    *("Shape", "Range", "Expand", "ConstantOfShape", "Identity", "Add", "Sub", "Mul", "Div", "Mod"),
    *("Neg", "Min", "Max", "Clip", "Equal", "Less", "Greater", "Where", "Not", "And", "Or"),
}


def is_kind(op: type[Op]) -> bool:
    """Whether nodes can have an op class: it is no mere base of others."""
    return not op.__subclasses__() or exporter_of(op) is not None


def op_classes() -> dict[type[Op], str]:
    """Every IR op that nodes can have (bases left out), with the stem of its file."""
    found: dict[type[Op], str] = {}
    for info in iter_modules(nnconv.ops.__path__):
        for value in vars(import_module(f"nnconv.ops.{info.name}")).values():
            if isclass(value) and issubclass(value, Op) and is_kind(value):
                found[value] = value.__module__.rpartition(".")[2]
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0].__name__)))


def ir_ops(name: str, importer: Callable[..., Any], format_name: str = "tflite") -> list[str]:
    """The IR ops that a format's op may become."""
    kinds = set()
    for value in mentioned(importer, name, f"nnconv.formats.{format_name}"):
        kind = value if isclass(value) else type(value)
        if issubclass(kind, Op) and is_kind(kind):
            kinds.add(kind.__name__)
    return sorted(kinds)


def onnx_nodes(op: type[Op]) -> list[str]:
    """The ONNX node types that an IR op may become; none where it is decomposed."""
    exporter = exporter_of(op)
    if exporter is None or exporter is export_in_parts:
        return []
    texts = {v for v in mentioned(exporter, op, "nnconv.formats.onnx") if isinstance(v, str)}
    names = {text for text in texts if onnx.defs.has(text)} - AROUND
    own = {op.__name__} if onnx.defs.has(op.__name__) else set()  # spelled by the class's name
    if not names - JOINTS:
        found = (names | AROUND) & own or names or own or {"DequantizeLinear"}
        return sorted(found)
    return sorted((names - JOINTS) | (names & own))


def tflite_operators(op: type[Op]) -> list[str]:
    """The TFLite operators that an IR op may become."""
    exporter = tflite_exporter_of(op)
    if exporter is None:
        return []
    texts = {v for v in mentioned(exporter, op, "nnconv.formats.tflite") if isinstance(v, str)}
    names = {text for text in texts if text in BUILTIN_OPERATOR}
    return sorted(names - BUILTIN_JOINTS) or sorted(names)


def parts_written(op: type[Op]) -> list[str]:
    """The IR ops that an op may be decomposed into."""
    kinds: set[str] = set()
    for decomposition in decompositions_of(op):
        for value in mentioned(decomposition, op, "nnconv.decompositions"):
            kind = value if isclass(value) else type(value)
            if issubclass(kind, Op) and is_kind(kind) and kind is not op:
                kinds.add(kind.__name__)
    return sorted(kinds - MERE_MOVES) or sorted(kinds)


def called(kind: str, op: type[Op]) -> str:
    """The operations of NNAPI or NNRt that an op may become, with the version that brought each."""
    found = operations_of(kind, op)
    main = [name for name in found if name not in BUILTIN_JOINTS] or found
    return ", ".join(f"{name} {version_of(kind, name)}" for name in main)


def read_table(title: str, kind: str) -> Iterator[str]:
    """A section of what a format's operations become."""
    known = import_module(f"nnconv.formats.{kind}.importer").importers()
    yield f"## {title}\n"
    rows = [
        [name, ", ".join(ir_ops(name, known[name], kind)) or RESOLVED] for name in sorted(known)
    ]
    yield from table([title, "IR"], rows)


def table(columns: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def render() -> str:
    """The page."""
    known = importers()
    lines = [HEAD, "## TFLite\n"]
    rows = [
        [name.replace("CUSTOM:", "custom "), ", ".join(ir_ops(name, known[name])) or RESOLVED]
        for name in sorted(known, key=lambda n: (n.startswith("CUSTOM"), n))
    ]
    lines += table(["TFLite", "IR"], rows)
    lines.append("Left out on purpose:\n")
    reasons: dict[str, list[str]] = {}
    for name in sorted(BUILTIN_OPERATOR):
        refusal = out_of_scope(name)
        if refusal is not None:
            reasons.setdefault(refusal["why"], []).append(name)
    lines += [f"- {', '.join(names)}: {why}." for why, names in reasons.items()]
    lines += ["", "## ONNX\n"]
    read = onnx_importers()
    rows = [
        [name, ", ".join(ir_ops(name, read[name], "onnx")) or RESOLVED]
        for name in sorted(read, key=lambda n: (":" in n, n))
    ]
    lines += table(["ONNX", "IR"], rows)
    lines.append(
        "Ops that aren't listed are read by the definitions that ONNX itself gives of them.\n"
    )
    lines += [*read_table("NNAPI", "nnapi"), *read_table("NNRt", "nnrt")]
    lines += ["## Written\n", WRITTEN]
    rows = [
        [
            op.__name__,
            stem,
            ", ".join(onnx_nodes(op)),
            ", ".join(tflite_operators(op)),
            *(called(kind, op) for kind in ("nnapi", "nnrt")),
            ", ".join(parts_written(op)),
        ]
        for op, stem in op_classes().items()
    ]
    lines += table(["IR", "family", "ONNX", "TFLite", "NNAPI", "NNRt", "or else"], rows)
    return "\n".join(lines)


def main() -> int:
    """Write the page, or compare it; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write docs/ops.md from nnconv's op tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if it is stale")
    text = render()
    if not parser.parse_args().check:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"{TARGET} is stale: run tools/gen_ops_page.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
