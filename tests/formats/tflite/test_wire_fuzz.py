"""Broken files end in clean errors: a sample of what tools/fuzz_tflite.py does at length."""

import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from support.fuzzer import FUZZER, load_fuzzer
from support.tflite_builder import Quant, TfliteBuilder

pytest.importorskip("resource", reason="the fuzzer needs POSIX")

fuzzer = load_fuzzer()


def rich_model() -> bytes:
    """A model with something of everything that the reader decodes."""
    b = TfliteBuilder("graph")
    x = b.input("x", "int8", (1, 4, 5, 3), quant=(0.5, -3), signature=(-1, 4, 5, 3))
    w = b.const(np.ones((8, 3, 3, 3), np.int8), quant=Quant([0.1] * 8, 0, axis=0))
    y = b.op(
        "CONV_2D",
        [x, w, None],
        [("int8", (1, 4, 5, 8), (0.25, 4))],
        options={"stride_h": 1, "stride_w": 1, "padding": "SAME"},
    )
    dense = (np.arange(48).reshape(6, 8) % 3).astype(np.float32)
    for form in (["dense", "csr"], ["csr", "csr"]):
        b.output(b.op("DENSIFY", [b.sparse_const(dense, form)], [("float32", (6, 8))]))
    blocked = b.sparse_const(dense, ["dense", "csr", "dense"], block={1: 4}, index_type="uint8")
    b.output(b.op("DENSIFY", [blocked], [("float32", (6, 8))]))
    b.output(b.op("RESHAPE", [y, b.const(np.array([160], np.int32))], [("int8", (160,))]))
    b.output(b.op("DEQUANTIZE", [b.const(np.arange(5) - 2, dtype="int4")], [("float32", (5,))]))
    body = b.subgraph("body")
    z = body.input("z", "bool", (1,))
    body.output(body.op("LOGICAL_NOT", [z], [("bool", (1,))]))
    state = b.const(np.array([True]))
    options = {"cond_subgraph_index": body, "body_subgraph_index": body}
    b.output(b.op("WHILE", [state], [("bool", (1,))], options=options))
    b.output(b.op("MyOp", [x], [("float32", (2,))], custom_options=b"abc"))
    b.const(np.ones(9, np.float32), apart=True)
    b.signature("serving", {"in": x}, {"out": y})
    b.metadata("note", b"hello")
    return b.build()


MODEL = rich_model()
PLACES = fuzzer.find_places(MODEL)


def test_the_sound_file_reads(tmp_path):
    path = tmp_path / "sound.tflite"
    path.write_bytes(MODEL)
    assert fuzzer.fuzzing.run_case(fuzzer.read_all, path) == ("read", "")


def test_the_structure_is_found():
    assert len(PLACES.tables) > 60
    assert len(PLACES.lengths) > 60
    assert len(PLACES.offsets) > 150


@pytest.mark.parametrize("block", range(8))
def test_broken_files_end_in_clean_errors(block, tmp_path):
    path = tmp_path / "case.tflite"
    ends = {"read": 0, "refused": 0}
    for number in range(50):
        path.write_bytes(fuzzer.mutate(MODEL, PLACES, random.Random(f"{block}:{number}")))
        start = time.process_time()
        status, text = fuzzer.fuzzing.run_case(fuzzer.read_all, path)
        assert status in ends, f"block {block}, case {number}: {text}"
        assert status == "read" or text.startswith(f"{path}: ")
        assert time.process_time() - start < 60  # a hang
        ends[status] += 1
    assert ends["refused"] > 20
    assert ends["read"] > 0


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "case.tflite"
    whole = len(MODEL)
    for size in [*range(0, whole - 100, 37), *range(whole - 30, whole)]:
        path.write_bytes(MODEL[:size])
        status, text = fuzzer.fuzzing.run_case(fuzzer.read_all, path)
        assert status == "refused", f"{size} of {whole} bytes: {text}"


def test_the_same_seed_makes_the_same_cases(tmp_path):
    path = tmp_path / "sound.tflite"
    path.write_bytes(MODEL)
    first, second = (fuzzer.FUZZER.corpus([path], 5) for _ in range(2))
    assert [first.case(n)[1] for n in range(9)] == [second.case(n)[1] for n in range(9)]


TARGET = """
import os, time
def crash(path): os._exit(7)
def hang(path): time.sleep(60)
def blunder(path): raise LookupError("not ours")
"""


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("crash", "died, code 7"),
        ("hang", "still ran after 0.3 s"),
        ("blunder", "LookupError: not ours"),
    ],
)
def test_the_fuzzer_survives_and_reports(tmp_path, target, words):
    (tmp_path / "targets.py").write_text(TARGET)
    (tmp_path / "sound.tflite").write_bytes(MODEL)
    arguments = ["--cases=2", "--jobs=1", f"--target=targets:{target}", "--seconds=0.3"]
    arguments += [f"--keep={tmp_path / 'kept'}"]
    done = subprocess.run(
        [sys.executable, FUZZER, tmp_path / "sound.tflite", *arguments],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count(words) == 2
    assert "2 cases: 2 failed" in done.stdout
    assert len(list((tmp_path / "kept").iterdir())) == 2
