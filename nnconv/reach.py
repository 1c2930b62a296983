"""Telling what keeps a model from being written in a format, without writing it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from nnconv.checks import check_arguments
from nnconv.errors import Reason, UnsupportedError, UsageError
from nnconv.formats import check_writable, detect, read_model
from nnconv.ir.collector import no_collection
from nnconv.ir.graph import Model
from nnconv.lowering import (
    LOWERINGS,
    VERSION_OPTIONS,
    Lowered,
    choose_signature,
    one_entry,
)

if TYPE_CHECKING:
    from nnconv.formats.findings import Finding
    from nnconv.ir.types import Shape

_VERSIONS = {"onnx": "opset", "nnapi": "feature level", "nnrt": "API version"}
"""What the versions of a format are called, of those that a model may choose among."""


@dataclass(frozen=True)
class Obstacle:
    """Something in a model that the target can't hold.

    Attributes:
        op: the operation's name in its own format; empty where it isn't about one.
        where: its place.
        why: what was seen and, where that is a matter of limits, what is allowed.
        reason: the kind of obstacle, see ``nnconv.errors.Reason``.
        hint: what would help; empty where nothing is known.
        version: the least version of the target that would do; None where none is known.
    """

    op: str
    where: str
    why: str
    reason: str
    hint: str = ""
    version: int | None = None


@dataclass(frozen=True)
class CheckReport:
    """Whether a format can hold a model.

    Attributes:
        source, source_format: the model.
        target: the format.
        version_kind: what the target's versions are called; empty where it has none to choose.
        version: the one that was asked for; None where none was.
        least_version: the least that holds the model; None where none does or none is known.
        obstacles: all that is in the way.
    """

    source: str
    source_format: str
    target: str
    version_kind: str
    version: int | None
    least_version: int | None
    obstacles: tuple[Obstacle, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is in the way."""
        return not self.obstacles

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {**asdict(self), "passed": self.passed}


def check(
    model: Model | str | os.PathLike[str],
    to: str,
    *,
    feature_level: int | None = None,
    opset: int | None = None,
    api: int | None = None,
    signature: str | None = None,
    input_shapes: Mapping[str, Shape] | None = None,
) -> CheckReport:
    """Tell what keeps a model from being written in a format; nothing is written.

    A file with an NNAPI model is held to NNAPI's own rules if ``to`` is ``nnapi``, one with an NNRt
    model to NNRt's if it is ``nnrt``.

    Args:
        model: a model, or the path of a file.
        to: the format.
        feature_level: NNAPI's, 1 to 8; the newest when None.
        opset: ONNX's; when None the default one, or the least that holds the model.
        api: the version of NNRt's API, 1 or 2; the newest when None.
        signature: key of the entry point; the first when None.
        input_shapes: shapes to give to inputs of a file, by name.

    Raises:
        InvalidModelError: the file is broken.
        UsageError: a wrong option.
    """
    check_arguments("text", to=to)
    check_arguments("text or None", signature=signature)
    check_arguments("shapes", input_shapes=input_shapes)
    if to != "nnapi" and feature_level is not None:
        raise UsageError(f"a feature level is NNAPI's; {to} has none")
    if to != "onnx" and opset is not None:
        raise UsageError(f"an opset is ONNX's; {to} has none")
    if to != "nnrt" and api is not None:
        raise UsageError(f"a version of the API is NNRt's; {to} has none")
    asked = {"onnx": opset, "nnapi": feature_level, "nnrt": api}.get(to)
    if isinstance(model, Model):
        source, kind = model.source, model.format
    else:
        check_arguments("path", model=model)
        source, kind = os.fspath(model), detect(model)
        if kind == to == "nnapi":
            return _check_nnapi(source, feature_level)
        if kind == to == "nnrt":
            return _check_nnrt(source, api)
    check_writable(to)
    try:
        if not isinstance(model, Model):
            model = read_model(model, input_shapes=input_shapes)
    except UnsupportedError as error:
        return CheckReport(source, kind, to, _VERSIONS.get(to, ""), asked, None, _told(error))
    entry = choose_signature(model, signature)

    def attempt(version: int | None) -> UnsupportedError | Lowered[Any]:
        option = {VERSION_OPTIONS[to]: version} if to in VERSION_OPTIONS else {}
        try:
            with no_collection():
                return LOWERINGS[to](one_entry(model, entry), **option)
        except UnsupportedError as error:
            return error

    result = attempt(asked)
    found = _told(result) if isinstance(result, UnsupportedError) else ()
    least = _LEAST.get(to, _least_opset)(attempt, asked, result)
    return CheckReport(source, kind, to, _VERSIONS.get(to, ""), asked, least, found)


def _told(error: UnsupportedError) -> tuple[Obstacle, ...]:
    return tuple(
        Obstacle(i.op, i.where, i.why, i.reason.value, i.hint, i.opset or None) for i in error.items
    )


Attempt: TypeAlias = "Callable[[int | None], UnsupportedError | Lowered[Any]]"
"""Brings the model into the form of a version of the target, or tells why that can't be."""


def _least_opset(
    _attempt: Attempt, _asked: int | None, result: UnsupportedError | Lowered[Any]
) -> int | None:
    """The opset that would do where one was too old; None where that isn't all."""
    if not isinstance(result, UnsupportedError):
        return None
    opsets = [item.opset for item in result.items]
    return max(opsets) if all(opsets) else None


def _least_api(
    attempt: Attempt, asked: int | None, result: UnsupportedError | Lowered[Any]
) -> int | None:
    """The least version of NNRt's API in which the model can be written."""
    from nnconv.formats.nnrt.types import NEWEST, VERSIONS

    for version in VERSIONS:
        known = version == (NEWEST if asked is None else asked)
        if not isinstance(result if known else attempt(version), UnsupportedError):
            return version
    return None


def _least_level(
    attempt: Attempt, asked: int | None, result: UnsupportedError | Lowered[Any]
) -> int | None:
    """The least feature level at which the model can be written: each knows what those below do."""
    from nnconv.formats.nnapi.check import least_level
    from nnconv.formats.nnapi.types import LEVELS, NEWEST_LEVEL

    low = LEVELS[0]
    if isinstance(result, UnsupportedError):
        low = NEWEST_LEVEL + 1 if asked is None else asked + 1
        if low > NEWEST_LEVEL or isinstance(result := attempt(NEWEST_LEVEL), UnsupportedError):
            return None
    high = max(low, least_level(result.model))
    while low < high:  # at ``high`` it can be written
        middle = (low + high) // 2
        tried = attempt(middle)
        if isinstance(tried, UnsupportedError):
            low = middle + 1
        else:
            high = max(low, min(middle, least_level(tried.model)))
    return high


_LEAST = {"nnapi": _least_level, "nnrt": _least_api}


def _when_read(read: Callable[[], Model]) -> list[Finding]:
    """What a model breaks of rules that count when it runs, as reading it tells."""
    from nnconv.formats.findings import BrokenModelError

    try:
        read()
    except BrokenModelError as error:
        return list(error.findings)
    except UnsupportedError:
        return []  # that is nnconv's limit, not the format's
    return []


def _others(found: list[Finding], known: list[Finding]) -> list[Finding]:
    """Findings on operations and tensors that aren't known to break something already."""
    places = {finding.where for finding in known}
    return [finding for finding in found if finding.where not in places]


def _check_nnapi(source: str, level: int | None) -> CheckReport:
    """What a file with an NNAPI model breaks of NNAPI's rules, those of running it included."""
    from nnconv.formats.nnapi.check import findings
    from nnconv.formats.nnapi.reader import import_model, read_wire
    from nnconv.formats.nnapi.types import LEVELS, NEWEST_LEVEL

    if level is not None and (type(level) is not int or level not in LEVELS):
        raise UsageError(f"feature level {level}; allowed are {LEVELS[0]} to {NEWEST_LEVEL}")
    wire = read_wire(source)
    graphs = [graph for _, graph in wire.graphs()]

    def obstacle(finding: Finding) -> Obstacle:
        inside = finding.operation >= 0
        op = graphs[finding.graph + 1].operations[finding.operation].code.name if inside else ""
        hint = "" if finding.level is None else f"feature level {finding.level} allows it"
        reason = Reason.IMPOSSIBLE.value
        return Obstacle(op, finding.where, finding.message, reason, hint, finding.level)

    found = findings(wire)
    if all(finding.level is not None for finding in found):  # else it isn't run
        found += _when_read(lambda: import_model(wire))
    levels = [finding.level for finding in found]
    known = [level for level in levels if level is not None]
    least = max([LEVELS[0], *known]) if len(known) == len(levels) else None
    limit = NEWEST_LEVEL if level is None else level
    broken = tuple(obstacle(f) for f in found if f.level is None or f.level > limit)
    return CheckReport(source, "nnapi", "nnapi", _VERSIONS["nnapi"], level, least, broken)


def _check_nnrt(source: str, api: int | None) -> CheckReport:
    """What a file with an NNRt model breaks of NNRt's rules, and what a device would refuse."""
    from nnconv.formats.nnrt.check import build_findings, findings
    from nnconv.formats.nnrt.file import read
    from nnconv.formats.nnrt.reader import import_model
    from nnconv.formats.nnrt.types import VERSIONS

    if api is not None and (type(api) is not int or api not in VERSIONS):
        raise UsageError(f"API version {api}; allowed are {', '.join(map(str, VERSIONS))}")
    wire = read(source)
    found = {version: findings(wire, version) for version in VERSIONS}
    if not build_findings(wire, wire.api):
        wrong = _when_read(lambda: import_model(wire))
        found = {version: those + _others(wrong, those) for version, those in found.items()}

    def obstacle(finding: Finding) -> Obstacle:
        op = wire.operations[finding.operation].type.name if finding.operation >= 0 else ""
        hint = "" if finding.level is None else f"API version {finding.level} allows it"
        reason = Reason.IMPOSSIBLE.value
        return Obstacle(op, finding.where, finding.message, reason, hint, finding.level)

    least = next((version for version in VERSIONS if not found[version]), None)
    broken = tuple(map(obstacle, found[VERSIONS[-1] if api is None else api]))
    return CheckReport(source, "nnrt", "nnrt", _VERSIONS["nnrt"], api, least, broken)
