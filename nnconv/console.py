"""What the command line prints: tables, JSON, progress, and descriptions of values and arrays."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import click

from nnconv.errors import UsageError, plural, printable

if TYPE_CHECKING:
    import numpy as np

    from nnconv.conversion import ConversionReport
    from nnconv.diff.outcome import Verification
    from nnconv.formats.summary import Summary
    from nnconv.ir import DType, Quant
    from nnconv.reach import CheckReport

    class Shown(Protocol):
        """An input or output, of a graph or as a file describes it."""

        @property
        def name(self) -> str:
            """Its name."""

        @property
        def dtype(self) -> DType | str:
            """Element type; a text for one that the IR lacks."""

        @property
        def shape(self) -> tuple[int | str | None, ...] | None:
            """Extents."""

        @property
        def quant(self) -> Quant | None:
            """Quantization parameters, if any."""


OBSTACLE_HEADER = ("op", "where", "why", "what would help")

LONG_WORK_SECONDS = 1.5
"""How long a command works in silence before a terminal is shown that it does."""


def say(line: str, *, err: bool = False, color: str | None = None) -> None:
    """Print a line, on stderr if ``err``, with what its stream can't show escaped.

    Raises:
        UsageError: stdout can't be written.
    """
    _write(_fit(line, sys.stderr if err else sys.stdout), err=err, color=color)


def _fit(line: str, stream: TextIO | None) -> str:
    """A line as ``printable`` has it, in letters that the stream's encoding has."""
    encoding = _encoding(stream)
    return printable(line).encode(encoding, "backslashreplace").decode(encoding)


def _encoding(stream: TextIO | None) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def _is_terminal(stream: TextIO | None) -> bool:
    # A process that was started with a closed stream has None in its place.
    return stream is not None and stream.isatty()


def _write(text: str, *, err: bool = False, color: str | None = None) -> None:
    try:
        click.secho(text, err=err, fg=color)
    except OSError as error:
        # What is still to come, and what is left in the stream's buffer, goes nowhere.
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), (sys.stderr if err else sys.stdout).fileno())
        # A reader that has seen enough is no failure, and of a lost stderr nobody can be told.
        if not err and not isinstance(error, BrokenPipeError):
            raise UsageError(f"stdout can't be written: {error.strerror or error}") from error


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object. Numbers that JSON lacks (nan, inf) become strings."""
    import json

    facts = _jsonable(data)
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    try:
        text.encode(_encoding(sys.stdout))
    except UnicodeEncodeError:  # letters that the stream lacks, or bytes of names that are no text
        text = json.dumps(facts, indent=2)
    _write(text)


def _jsonable(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, Mapping):
        return {str(key): _jsonable(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_jsonable(value) for value in data]
    return data


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: drawn by rich on a terminal, else in plain aligned columns."""
    rows = [tuple(_fit(cell, sys.stdout) for cell in row) for row in rows]
    if _is_terminal(sys.stdout):
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(_fit(title, sys.stdout)), title_justify="left", title_style="bold")
        for name in header:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))  # Text: names may look like markup
        Console().print(table)
        return
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    say(f"{title}:")
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        say(f"  {'  '.join(cells)}".rstrip())


@contextlib.contextmanager
def working(message: str) -> Iterator[None]:
    """Show on a terminal that work goes on, if it takes long; say nothing elsewhere."""
    if not _is_terminal(sys.stderr):
        yield
        return
    from threading import Timer

    shown = contextlib.ExitStack()

    def show() -> None:
        from rich.console import Console
        from rich.text import Text

        shown.enter_context(Console(stderr=True).status(Text(_fit(message, sys.stderr))))

    timer = Timer(LONG_WORK_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        shown.close()


def describe_shape(shape: Sequence[int | str | None] | None) -> str:
    """Give a shape as text, such as ``1,?,64``; unknown extents are ``?``."""
    if shape is None:
        return "?"
    # A symbol with a colon is made of a tensor's name and a place: it says no more than "open".
    dims = ("?" if dim is None or ":" in str(dim) else str(dim) for dim in shape)
    return ",".join(dims) or "scalar"


def describe_quant(quant: Quant | None) -> str:
    """Give the formula by which real values follow from codes; scales in full."""
    if quant is None:
        return ""
    points = sorted(set(quant.zero_point))
    if len(points) == 1:
        code = f"(q {'-' if points[0] > 0 else '+'} {abs(points[0])})" if points[0] else "q"
    else:
        code = f"(q - one of {plural(len(points), 'zero point')})"
    if quant.axis is None:
        return f"real = {quant.scale[0]:.9g} * {code}"
    kind = f"blocks of {quant.block} along" if quant.block else "indices of"
    return (
        f"real = one of {plural(len(quant.scale), 'scale')}, by {kind} axis {quant.axis}, * {code}"
    )


def describe_value(value: Shown) -> dict[str, Any]:
    """Give what is known of an input or output, fit for JSON."""
    quant = value.quant
    return {
        "name": value.name,
        "dtype": str(value.dtype),
        "shape": None if value.shape is None else list(value.shape),
        "quant": None
        if quant is None
        else {
            "scale": list(quant.scale),
            "zero_point": list(quant.zero_point),
            "axis": quant.axis,
            "block": quant.block,
        },
        "formula": describe_quant(quant),
    }


def value_row(role: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the cells that show, in a table, what ``describe_value`` tells."""
    return (role, facts["name"], facts["dtype"], describe_shape(facts["shape"]), facts["formula"])


def describe_array(name: str, array: np.ndarray) -> dict[str, Any]:
    """Give an array's dtype, shape and range, fit for JSON; no range where there is none."""
    from nnconv.ir.dtype import BOOLS, NUMBERS, DType

    dtype = DType.of(array)
    has_range = array.size > 0 and dtype in NUMBERS | BOOLS
    wide = array.astype("float64") if has_range else array
    return {
        "name": name,
        "dtype": dtype.value,
        "shape": list(array.shape),
        "min": float(wide.min()) if has_range else None,
        "mean": float(wide.mean()) if has_range else None,
        "max": float(wide.max()) if has_range else None,
    }


def describe_report(report: ConversionReport) -> Iterator[str]:
    """Give a conversion's report as lines: the outcome, the interface, then what is unusual."""
    versions = (
        (", opset", report.opset),
        (", feature level", report.feature_level),
        (", API version", report.api),
    )
    version = "".join(f"{kind} {number}" for kind, number in versions if number)
    yield (
        f"{report.source} ({report.source_format}) -> {report.target} "
        f"({report.target_format}{version}): {plural(sum(report.counts.values()), 'node')}"
    )
    for name, dtype, shape in report.inputs:
        yield f"  input   {name}: {dtype}[{describe_shape(shape)}]"
    for name, dtype, shape in report.outputs:
        yield f"  output  {name}: {dtype}[{describe_shape(shape)}]"
    for read, written in report.states:
        yield f"  state   comes in as {read}, goes out as {written}"
    for kind, old, new in report.renamed:
        yield f"  renamed {kind} {old!r} to {new!r}"
    for name in report.moved_io:
        yield f"  layout  of {name} changed"
    if report.other_signatures:
        left = ", ".join(repr(key) for key in report.other_signatures)
        yield f"  only signature {report.signature!r} was converted; the others: {left}"
    for note in report.notes:
        yield f"  note: {note}"


def describe_file(path: Path, summary: Summary) -> dict[str, Any]:
    """Give what ``inspect`` tells of a file, fit for JSON, as far as its summary goes."""
    return {
        "path": str(path),
        "format": summary.format,
        "description": summary.description,
        "size": path.stat().st_size,
        "signatures": [
            {
                "key": entry.key,
                "inputs": [describe_value(value) for value in entry.inputs],
                "outputs": [describe_value(value) for value in entry.outputs],
                "called": entry.called,
                "states": [describe_value(value) for value in entry.variables],
            }
            for entry in summary.entries
        ],
        "nodes": sum(summary.ops.values()),
        "ops": summary.ops,
        "constants": {"count": summary.constants, "bytes": summary.constant_bytes},
        "metadata": summary.metadata,
        "unsupported": [],
    }


def _bytes(size: int) -> str:
    return plural(f"{size:,}", "byte")


def show_model(facts: Mapping[str, Any]) -> None:
    """Print what ``inspect`` found, for people."""
    say(f"{facts['path']}: {facts['format']}, {_bytes(facts['size'])}")
    if facts["description"]:
        say(f"description: {facts['description']}")
    for entry in facts["signatures"]:
        kinds = (("input", "inputs"), ("state", "states"), ("output", "outputs"))
        rows = [
            (*value_row(role, value), entry["called"].get(value["name"], ""))
            for role, key in kinds
            for value in entry[key]
        ]
        title = f"signature {entry['key']}" if entry["key"] else "inputs and outputs"
        header = ("role", "name", "dtype", "shape", "quantization", "called")
        print_table(title, header, rows)
    counts = [(op, str(count)) for op, count in facts["ops"].items()]
    print_table(plural(facts["nodes"], "node"), ("op", "count"), counts)
    constants = facts["constants"]
    say(f"constants: {constants['count']}, {_bytes(constants['bytes'])}")
    if facts["metadata"]:
        entries = (f"{name} ({_bytes(size)})" for name, size in facts["metadata"].items())
        say(f"metadata: {', '.join(entries)}")
    if facts["unsupported"]:
        rows = [(item["op"], item["where"], item["why"]) for item in facts["unsupported"]]
        print_table("nnconv can't convert", ("op", "where", "why"), rows)
    if "graph" in facts:
        for line in facts["graph"].split("\n"):
            say(line)


def show_verification(found: Verification) -> None:
    """Print how two models compare."""
    from nnconv.diff.outcome import HEADER

    print_table(found.title, HEADER, found.rows())
    for note in found.notes:
        say(f"  note: {note}")


def show_check(found: CheckReport) -> None:
    """Print what keeps a model from being written in a format."""
    kind = found.version_kind
    at = f" at {kind} {found.version}" if found.version is not None else ""
    least = "" if found.least_version is None else f"{kind} {found.least_version} will do"
    if found.passed:
        less = f"; {least}" if least and found.version != found.least_version else ""
        say(f"{found.source}: {found.target} can hold it{at}{less}")
        return
    many = plural(len(found.obstacles), "obstacle")
    rows = [(o.op, o.where, o.why, o.hint) for o in found.obstacles]
    print_table(f"{found.source}: {many} for {found.target}{at}", OBSTACLE_HEADER, rows)
    none = f"no {kind} that nnconv knows of would do" if kind else ""
    if text := least or none:
        say(text)
