"""What is printed, on a terminal and elsewhere."""

import os
import subprocess
import sys

import numpy as np
import pytest

from nnconv.console import describe_array, describe_shape, print_json, print_table
from nnconv.diff.outcome import OutputCheck, Verification
from nnconv.errors import Reason, UnsupportedItem, UsageError, plural
from nnconv.ir.dtype import DType

ROWS = [("conv[bold]1", "2"), ("[/red]", "")]
TABLE = f"from nnconv.console import print_table; print_table('ops', ('name', 'count'), {ROWS!r})"


def test_piped_table_is_plain_aligned_text(capsys):
    print_table("ops", ("name", "count"), ROWS)
    assert capsys.readouterr().out == ("ops:\n  name         count\n  conv[bold]1  2\n  [/red]\n")


def test_terminal_gets_a_drawn_table_with_names_as_they_are():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", TABLE], stdout=theirs, stdin=theirs)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:  # Linux's way to say that the other end is closed
        pass
    os.close(ours)
    assert child.wait() == 0
    text = seen.decode()
    assert "\u2502" in text or "\u2503" in text
    assert all(name in text for name, _ in ROWS)


@pytest.mark.parametrize(
    ("shape", "text"),
    [(None, "?"), ((), "scalar"), ((1, None, 3), "1,?,3"), (("batch", 4), "batch,4")],
)
def test_shapes_show_what_is_unknown(shape, text):
    assert describe_shape(shape) == text


def test_json_has_no_number_that_json_lacks(capsys):
    print_json({"a": [float("inf"), 1.5], "b": {"c": float("nan")}})
    assert capsys.readouterr().out == (
        '{\n  "a": [\n    "inf",\n    1.5\n  ],\n  "b": {\n    "c": "nan"\n  }\n}\n'
    )


@pytest.mark.parametrize(
    ("array", "least", "mean", "most"),
    [
        (np.array([1, -3], DType.BFLOAT16.numpy), -3.0, -1.0, 1.0),
        (np.array(["a"], object), None, None, None),
        (np.array([[-128, 127]], np.int8), -128.0, -0.5, 127.0),
        (np.array([True, False]), 0.0, 0.5, 1.0),
        (np.zeros((0, 3), np.float32), None, None, None),
        (np.array([1 + 2j], np.complex64), None, None, None),
    ],
)
def test_array_is_described_by_its_range(array, least, mean, most):
    assert describe_array("x", array) == {
        "name": "x",
        "dtype": "string" if array.dtype == object else array.dtype.name,
        "shape": list(array.shape),
        "min": least,
        "mean": mean,
        "max": most,
    }


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (1, ("node",), "1 node"),
        (0, ("node",), "0 nodes"),
        (12, ("node",), "12 nodes"),
        ("1,024", ("byte",), "1,024 bytes"),
        (1, ("axis", "axes"), "1 axis"),
        (2, ("axis", "axes"), "2 axes"),
    ],
)
def test_what_is_counted_is_named_by_its_number(count, words, text):
    assert plural(count, *words) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UsageError("a is wrong"), "a is wrong"),
        (UsageError("a is wrong", hint="Try b."), "a is wrong. Hint: Try b."),
        (UsageError("That is wrong.", hint="Try b."), "That is wrong. Hint: Try b."),
        (
            UnsupportedItem(op="A", where="op #0", why="no A", reason=Reason.UNKNOWN_OP, hint="B."),
            "A at op #0: no A [unknown op]. Hint: B.",
        ),
    ],
)
def test_hint_is_a_sentence_of_its_own(error, text):
    assert str(error) == text


@pytest.mark.parametrize(
    ("kind", "apart", "text"),
    [
        ("steps", 0.0, "0 steps"),
        ("steps", 1.0, "1 step"),
        ("exact", 1.0, "1"),
        ("strings", 2.0, "2 differ"),
        ("relative", 1.0, "1 (0.5 of the largest)"),
    ],
)
def test_difference_is_told_in_its_unit(kind, apart, text):
    check = OutputCheck("y", True, apart, 0.5, None, 2.0, kind, "why", 0.0)
    assert check.row() == ("y", text, "2", "why", "agrees")


@pytest.mark.parametrize(("seeds", "text"), [([3], "2 runs, seed 3"), ([0, 1], "seeds 0, 1")])
def test_title_names_the_seeds(seeds, text):
    assert Verification(True, [], "a", "b", seeds, 2).title.endswith(text)
