"""What ends a run."""

from __future__ import annotations

from nnconv.formats.nnrt.importer import Importer, Source


def import_assert(s: Source) -> None:
    """ASSERT: of a condition that is known to hold, the data go on unchanged."""
    condition, data = s.operand("condition"), s.operand("data")
    if condition.data is None:
        raise s.unsupported(
            "whether a run must end is only known at run time",
            hint="Take the check out of the model, and use its data as they are.",
        )
    if not condition.data.all():
        raise s.fail("its condition never holds")
    s.bind(0, data)


IMPORTERS: dict[str, Importer] = {"ASSERT": import_assert}
