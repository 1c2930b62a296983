"""The exception tree: what can go wrong, what it is called, and which exit code it earns.

Every error that a user can meet is one of these classes. Each text says what went wrong, where
(file, op, tensor), what was seen, what is allowed and, where something would help, what.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar


def printable(text: str) -> str:
    """A text on one line, in which what no terminal should get is escaped as Python would.

    Names come from files that anyone may have made: a line break, an escape sequence or a mark that
    turns the direction of text would make of them what nnconv never said.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def on_one_line(text: str) -> str:
    """The text of an error as another's message quotes it, with semicolons in what it lists."""
    head, *listed = text.split("\n")
    return " ".join([head, "; ".join(line.strip() for line in listed)]).strip()


def hinted(text: str, hint: str) -> str:
    """A text, and behind it as a sentence of its own what would help, where anything would."""
    if not hint:
        return text
    return f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} Hint: {hint}"


def plural(count: object, one: str, several: str = "") -> str:
    """A number and what it counts: ``1 node``, ``3 nodes``, with ``several`` ``2 axes``."""
    number = str(count)
    return f"{number} {one if number == '1' else several or f'{one}s'}"


class ExitCode(enum.IntEnum):
    """Exit codes of the command line."""

    OK = 0
    DIFFERS = 1
    USAGE = 2
    BAD_INPUT = 3
    UNSUPPORTED = 4
    BACKEND = 5
    INTERNAL = 70
    """nnconv itself is at fault (EX_SOFTWARE of sysexits.h)."""


class Reason(enum.Enum):
    """Why a node can't be carried over."""

    NOT_IMPLEMENTED = "not implemented"
    """nnconv lacks it; nothing in the formats forbids it."""

    IMPOSSIBLE = "impossible in the target"
    """The target format has no form for it."""

    OUT_OF_SCOPE = "out of scope"
    """A kind of op that nnconv doesn't handle on purpose (strings, training, ...)."""

    UNKNOWN_OP = "unknown op"
    """A custom op whose meaning isn't known."""


class NnconvError(Exception):
    """Base of all errors that nnconv raises for a user's input or request."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Make an error from a one-line ``message`` and an optional ``hint`` on what would help."""
        self.message = printable(message)
        self.hint = printable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return hinted(self.message, self.hint)


class UsageError(NnconvError):
    """A wrong option, name, shape or value was given by the caller."""

    exit_code = ExitCode.USAGE


class InvalidModelError(NnconvError):
    """A model file (or a model in memory) breaks the rules of its own format."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, message: str, *, path: str = "", where: str = "", hint: str = "") -> None:
        """Name the file (``path``) and the place in it (``where``: op, tensor, offset) besides."""
        place = ": ".join(part for part in (path, where) if part)
        super().__init__(f"{place}: {message}" if place else message, hint=hint)
        self.path = path
        self.where = where


@dataclass(frozen=True, kw_only=True)
class UnsupportedItem:
    """One node that can't be carried over.

    Attributes:
        op: the op's name in its own format, such as ``HASHTABLE_FIND``.
        where: the node's place, such as ``subgraph 0, op #4 (`logits`)``.
        why: one sentence.
        reason: the kind of obstacle.
        hint: what would help, if anything would.
        opset: the least ONNX opset that could hold it; 0 where none is known.
        node: the number of the node's origin; -1 where there is none.
        scope: the scope of the node's origin, in which no other node has that number.
    """

    op: str
    where: str
    why: str
    reason: Reason
    hint: str = ""
    opset: int = 0
    node: int = -1
    scope: str = ""

    def __str__(self) -> str:
        text = f"{self.op} at {self.where}: {self.why} [{self.reason.value}]"
        return printable(hinted(text, self.hint))


class UnsupportedError(NnconvError):
    """Nodes that can't be converted: all of them, never the first alone."""

    exit_code = ExitCode.UNSUPPORTED

    def __init__(self, items: Iterable[UnsupportedItem], *, path: str = "") -> None:
        """Collect ``items`` (at least one) under one error."""
        self.items = tuple(items)
        self.path = path
        head = f"{path}: " if path else ""
        super().__init__(f"{head}{plural(len(self.items), 'unsupported node')}:")
        self.message += "".join(f"\n  {item}" for item in self.items)
        self.args = (self.items,)


class BackendError(NnconvError):
    """A runtime refused a model, failed while running it, or isn't installed."""

    exit_code = ExitCode.BACKEND


class GraphError(NnconvError):
    """The IR verifier found a broken invariant.

    A bug in nnconv, or in code that built the graph.
    """

    exit_code = ExitCode.INTERNAL
