"""The .nnrt file and its .json twin; ``nnconv.formats.container`` says how both are made."""

from __future__ import annotations

from nnconv.formats.container import Container
from nnconv.formats.nnrt.json_form import FORMAT, from_plain, to_plain
from nnconv.formats.nnrt.wire import Graph

FILES: Container[Graph] = Container(
    FORMAT,
    schema="nnrt/model.schema.json",
    leaves=("data_type", "op"),
    spell=to_plain,
    build=from_plain,
)

read = FILES.read
write = FILES.write
from_json = FILES.from_json
to_json = FILES.to_json
to_bytes = FILES.to_bytes
