"""The .nnapi file and its .json twin; ``nnconv.formats.container`` says how both are made."""

from __future__ import annotations

from nnconv.formats.container import Container
from nnconv.formats.nnapi.json_form import FORMAT, from_plain, to_plain
from nnconv.formats.nnapi.wire import Model

FILES: Container[Model] = Container(
    FORMAT,
    schema="nnapi/model.schema.json",
    leaves=("lifetime", "type"),
    spell=to_plain,
    build=from_plain,
)

read = FILES.read
write = FILES.write
from_json = FILES.from_json
to_json = FILES.to_json
to_bytes = FILES.to_bytes
