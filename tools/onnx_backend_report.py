"""Run onnx's node tests on one of the routes and say which pass, by operator.

    python tools/onnx_backend_report.py [--route ROUTE ...] [--filter TEXT ...] [--op OP ...]

Routes: ``reference`` (ONNX, IR, reference backend), ``onnx`` (ONNX, IR, ONNX, onnxruntime),
``tflite`` (ONNX, IR, TFLite, LiteRT), ``original`` (the test's own model on onnxruntime). Cases out
of scope are left out. Exits 1 if one fails that isn't listed as unable to pass, or if one passes
that is.
"""

from __future__ import annotations

import argparse
import json
import queue
import re
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.litert import RESOLVERS
from support.onnx_backend import (
    DEFAULT_RESOLVER,
    ROUTES,
    SCOPE_FILE,
    MismatchError,
    Scope,
    cases,
    onnx_version,
    scope,
)
from support.onnx_backend_worker import Outcome, Worker


def run_all(names: list[str], route: str, resolver: str, jobs: int) -> dict[str, Outcome]:
    """Run cases on a route, several at a time; a crash costs only its own case."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    outcomes: dict[str, Outcome] = {}

    def work() -> None:
        with Worker() as worker:
            while True:
                try:
                    name = waiting.get_nowait()
                except queue.Empty:
                    return
                outcomes[name] = worker.run(name, route, resolver)

    threads = [threading.Thread(target=work) for _ in range(max(1, min(jobs, len(names))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: outcomes[name] for name in names}


def chosen(told: Scope, *, texts: list[str], ops: list[str]) -> list[str]:
    """The cases in scope with one of the texts in their name or operator, or of the operators."""
    known = cases()
    wanted_ops = {op.lower() for op in ops}
    return [
        name
        for name in told.inside
        if name in known
        and (not (texts or ops) or _matches(name, told.families[name], texts, wanted_ops))
    ]


def _matches(name: str, family: str, texts: list[str], ops: set[str]) -> bool:
    return family.lower() in ops or any(
        text.lower() in name or text.lower() in family.lower() for text in texts
    )


def exempt(told: Scope, route: str) -> dict[str, str]:
    """The cases that can't pass on a route, with the reason."""
    return {"tflite": told.tflite, "original": told.onnxruntime}.get(route, {})


def show(route: str, outcomes: dict[str, Outcome], told: Scope, *, brief: bool) -> int:
    """Print a table of the operators, then what failed. Returns how many verdicts are new."""
    listed = exempt(told, route)
    by_family: defaultdict[str, list[str]] = defaultdict(list)
    for name in outcomes:
        by_family[told.families[name]].append(name)
    news = 0
    for family, names in sorted(by_family.items()):
        passed = sum(outcomes[name].passed for name in names)
        mark = " " if passed == len(names) else "-"
        if not brief or passed < len(names):
            print(f"{mark} {family:32} {passed:4} of {len(names)}")
        for name in names:
            outcome = outcomes[name]
            if outcome.passed and name in listed:
                news += 1
                print(f"      {name}: passes, but is listed: {listed[name]}")
            elif not outcome.passed:
                news += name not in listed
                where = f" [{outcome.place}]" if outcome.place else ""
                note = " (listed)" if name in listed else ""
                print(f"      {name}{note}: {outcome.error[:300]}{where}")
    if lacking := _lacking(outcomes):
        print("lacks: " + ", ".join(f"{what} ({count})" for what, count in lacking.most_common()))
    passed = sum(outcome.passed for outcome in outcomes.values())
    slowest = max(outcomes, key=lambda name: outcomes[name].seconds)
    print(
        f"{route}: {passed} of {len(outcomes)} pass ({passed / len(outcomes):.1%}); "
        f"{sum(o.crashed for o in outcomes.values())} crashed; "
        f"slowest {slowest} {outcomes[slowest].seconds:.2f} s"
    )
    return news


def _lacking(outcomes: dict[str, Outcome]) -> Counter[str]:
    """The operators that stop cases, with the number of cases: ONNX's and, with "IR", ours."""
    found: Counter[str] = Counter()
    for outcome in outcomes.values():
        if "unsupported node" in outcome.error:
            ops = re.findall(r"(\w+) at (node|op) #", outcome.error)
            found.update({f"IR {op}" if kind == "op" else op for op, kind in ops})
    return found


def write_onnxruntime_list(outcomes: dict[str, Outcome]) -> None:
    """Store which of the originals onnxruntime doesn't do, and what it says."""
    import onnxruntime

    told = {
        "onnx_version": onnx_version(),
        "onnxruntime_version": onnxruntime.__version__,
        "by_cpu": sorted(scope().by_cpu),
        "tests": {name: _reason(o.error) for name, o in outcomes.items() if not o.passed},
    }
    text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    path = SCOPE_FILE.parent / "not_on_onnxruntime.json"
    path.write_text(text, encoding="utf-8")


def _reason(error: str) -> str:
    """What onnxruntime says, without its places in the source and without numbers of results."""
    kind, _, text = error.partition(": ")
    if kind == MismatchError.__name__:
        return "other results: " + "; ".join(text.split("; ")[:2])
    text = re.sub(
        r"\[ONNXRuntimeError\] : \d+ : \w+ : |/onnxruntime_src\S+ | node with name ''", "", text
    )
    text = re.sub(
        r"^Non-zero status code returned while running (\w+) node\..*?Message: ", r"\1: ", text
    )
    return "refused: " + text[:160].strip()


def main() -> int:
    """Run and report. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--route", nargs="+", choices=list(ROUTES), default=["reference"])
    parser.add_argument(
        "--filter", nargs="+", default=[], help="parts of test names or operators; one is enough"
    )
    parser.add_argument("--op", nargs="+", default=[], help="operators, whole names")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--resolver", choices=RESOLVERS, default=DEFAULT_RESOLVER)
    parser.add_argument("--brief", action="store_true", help="leave out operators that pass")
    parser.add_argument(
        "--write-list",
        action="store_true",
        help="with --route original: store what onnxruntime doesn't do",
    )
    asked = parser.parse_args()
    told = scope()
    names = chosen(told, texts=asked.filter, ops=asked.op)
    if not names:
        print("no test in scope has such a name or operator")
        return 1
    news = 0
    for route in asked.route:
        outcomes = run_all(names, route, asked.resolver, asked.jobs)
        news += show(route, outcomes, told, brief=asked.brief)
        if asked.write_list and route == "original" and not (asked.filter or asked.op):
            write_onnxruntime_list(outcomes)
    return int(news > 0)


if __name__ == "__main__":
    sys.exit(main())
