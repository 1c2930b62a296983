"""Runs Android's conformance vectors for NNAPI and reports by operation.

python tools/cts_report.py                        # all of them
python tools/cts_report.py --op CONV_2D SOFTMAX   # those with these operations
python tools/cts_report.py --route onnx           # as ONNX files, on onnxruntime
python tools/cts_report.py --route tflite-nnapi   # as TFLite, and NNAPI again, on the reference
python tools/cts_report.py --part 0/8 --brief     # every eighth; the table alone
python tools/cts_report.py --device onnxruntime:cpu,reference --brief

On several devices, models are counted as ``whole`` (no piece of them on the reference), ``partly``
and ``reference``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from nnconv.formats.nnapi.file import to_json
from support.cts import find_vectors, read_vectors, subject_of, verdict_on
from support.cts_routes import ROUTES, verdict_by_way_of


def main() -> int:
    """Run and report; returns 1 if a vector that could be imported fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--op", nargs="+", default=[], help="only vectors with these operations")
    parser.add_argument("--name", default="", help="only vectors whose names contain this")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every N-th, from I on")
    parser.add_argument("--route", choices=ROUTES, default="reference", help="files on the way")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the models, run none")
    parser.add_argument("--device", default="", help="devices, with commas between them")
    parser.add_argument("--brief", action="store_true", help="the table alone")
    arguments = parser.parse_args()
    path = find_vectors()
    if path is None:
        print("no conformance vectors here")
        return 2
    part, parts = map(int, arguments.part.split("/"))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for vector in read_vectors(path, part=part, parts=parts):
        if arguments.op and not vector.operations & set(arguments.op):
            continue
        if arguments.name not in vector.name:
            continue
        if arguments.write:
            (arguments.write / f"{vector.name}.json").write_text(to_json(vector.model))
            continue
        if arguments.device:
            verdict, reason = verdict_on(vector, arguments.device.split(","))
        else:
            verdict, reason = verdict_by_way_of(vector, arguments.route)
        counts[subject_of(vector)][verdict] += 1
        if verdict not in ("passed", "whole") and not arguments.brief:
            why = reason.splitlines()[-1].strip() if reason else ""
            print(f"{verdict:12} {subject_of(vector)} {vector.name}: {why}")
    total: Counter[str] = sum(counts.values(), Counter())
    for subject, row in sorted(counts.items()):
        print(f"{subject:32} " + " ".join(f"{key} {row[key]}" for key in sorted(row)))
    print(f"{'in all':32} " + " ".join(f"{key} {total[key]}" for key in sorted(total)))
    return int(bool(total["failed"]))


if __name__ == "__main__":
    sys.exit(main())
