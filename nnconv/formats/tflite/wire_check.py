"""Checks of a .tflite file's structure, which make it safe to walk.

They ask for what the format promises and every reader relies on: indices are in range, operators
stand in the order of execution, each tensor has one origin, calls between subgraphs end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnconv.errors import plural
from nnconv.formats.tflite.wire import IDENTIFIER

if TYPE_CHECKING:
    from nnconv.formats.tflite.flatbuffer import Reader
    from nnconv.formats.tflite.wire import File, Operator, Subgraph


_OTHERS = {
    b"version https://git-lfs": "It is a Git LFS pointer; `git lfs pull` fetches the file itself.",
    b"\x1f\x8b": "It is compressed by gzip; unpack it first.",
    b"PK\x03\x04": "It is a zip archive; unpack it first.",
    b"\x89HDF\r\n": "It is an HDF5 file, as Keras writes them.",
    b"<": "It looks like a web page; the download may have failed.",
}
"""What other files begin with, and what to say of them."""


def check_kind(reader: Reader) -> None:
    """Check that a file says of itself that it is a .tflite file.

    Raises:
        InvalidModelError: it doesn't; the hint says what it is, where that is known.
    """
    start = bytes(reader.data[:64])
    if start[4:8] == IDENTIFIER:
        return
    if not start:
        raise reader.fail("the file is empty")
    error = reader.fail(f"it is no TFLite file: no {IDENTIFIER.decode()} stands at byte 4")
    error.hint = next((hint for head, hint in _OTHERS.items() if start.startswith(head)), "")
    raise error


def check_file(file: File) -> None:
    """Check a whole file.

    Raises:
        InvalidModelError: at the first fault.
    """
    if not file.subgraphs:
        raise file.fail("the file has no subgraph")
    for subgraph in file.subgraphs:
        check_indices(file, subgraph)
        check_dataflow(file, subgraph)
    check_signatures(file)
    check_calls(file)


def check_indices(file: File, subgraph: Subgraph) -> None:
    """Check that what a subgraph refers to by number exists.

    Raises:
        InvalidModelError: at the first fault.
    """
    count = len(subgraph.tensors)
    for role in ("inputs", "outputs"):
        bad = _outside(getattr(subgraph, role), count, lowest=0)
        if bad is not None:
            raise file.fail(
                f"tensor {bad} of its {role} doesn't exist: it has {plural(count, 'tensor')}",
                f"subgraph {subgraph.index}",
            )
    for op in subgraph.operators:
        for role, lowest in (("inputs", -1), ("outputs", 0)):
            bad = _outside(getattr(op, role), count, lowest=lowest)
            if bad is not None:
                raise op.fail(
                    f"tensor {bad} of its {role} doesn't exist: the subgraph has "
                    f"{plural(count, 'tensor')}"
                )
    for tensor in subgraph.tensors:
        # Buffer 0 means "none" also in a file without any buffer.
        if tensor.buffer and tensor.buffer >= file.buffer_count:
            raise tensor.fail(
                f"its buffer {tensor.buffer} doesn't exist: the file has {file.buffer_count}"
            )


def _outside(indices: Sequence[int], count: int, *, lowest: int) -> int | None:
    if not indices or (min(indices) >= lowest and max(indices) < count):
        return None
    return next(index for index in indices if not lowest <= index < count)


def check_dataflow(file: File, subgraph: Subgraph) -> None:
    """Check that each tensor that is read was produced before, and none is produced twice.

    Constants, variables and tensors without elements need no producer, nor does what custom ops
    read: some take tensors that they fill themselves.

    Raises:
        InvalidModelError: at the first fault.
    """
    tensors = subgraph.tensors
    ready = bytearray(len(tensors))
    for index in subgraph.inputs:
        ready[index] = True

    def read(index: int, op: Operator | None) -> None:
        tensor = tensors[index]
        if tensor.is_variable or tensor.external_buffer or not tensor.size:
            return
        if tensor.buffer and file.buffer(tensor.buffer) is not None:
            ready[index] = True
            return
        text = f"tensor #{index} (`{tensor.name}`) has no content when it is read"
        if op is None:
            raise file.fail(text, f"subgraph {subgraph.index}, outputs")
        raise op.fail(text)

    made = bytearray(ready)
    for op in subgraph.operators:
        for index in op.inputs:
            if index >= 0 and not ready[index] and not op.custom_code:
                read(index, op)
        for index in op.outputs:
            if made[index]:
                raise op.fail(
                    f"it writes tensor #{index} (`{tensors[index].name}`), which is an input of "
                    "the subgraph or another op's output"
                )
            made[index] = ready[index] = True
    for index in subgraph.outputs:
        if not ready[index]:
            read(index, None)


def check_signatures(file: File) -> None:
    """Check that the subgraphs and tensors that signatures name exist.

    Raises:
        InvalidModelError: at the first fault.
    """
    for signature in file.signatures:
        where = f"signature `{signature.key}`"
        if signature.subgraph >= len(file.subgraphs):
            raise file.fail(
                f"subgraph {signature.subgraph} doesn't exist: the file has {len(file.subgraphs)}",
                where,
            )
        count = len(file.subgraphs[signature.subgraph].tensors)
        for name, index in signature.inputs + signature.outputs:
            if index >= count:
                raise file.fail(
                    f"`{name}` is tensor {index}, which doesn't exist: the subgraph has {count}",
                    where,
                )


def check_calls(file: File) -> None:
    """Check that the subgraphs that operators run exist and don't run themselves.

    Raises:
        InvalidModelError: at the first fault.
    """
    callees: list[set[int]] = [set() for _ in file.subgraphs]
    for subgraph in file.subgraphs:
        for op in subgraph.operators:
            if not op.code.calls:
                continue
            for callee in op.calls:
                if not 0 <= callee < len(file.subgraphs):
                    raise op.fail(
                        f"it runs subgraph {callee}, which doesn't exist: the file has "
                        f"{len(file.subgraphs)}"
                    )
                callees[subgraph.index].add(callee)
    # Subgraphs that run no unfinished one are finished; what remains runs in a circle.
    callers: list[list[int]] = [[] for _ in file.subgraphs]
    for caller, found in enumerate(callees):
        for callee in found:
            callers[callee].append(caller)
    left = [len(found) for found in callees]
    finished = [index for index, count in enumerate(left) if not count]
    for index in finished:  # grows while it is walked
        for caller in callers[index]:
            left[caller] -= 1
            if not left[caller]:
                finished.append(caller)
    if len(finished) < len(file.subgraphs):
        circle = next(index for index, count in enumerate(left) if count)
        raise file.fail("it runs itself, directly or through others", f"subgraph {circle}")
