"""TFLite files, which LiteRT runs on the CPU."""

from __future__ import annotations

from fourfold.formats.format import Format
from fourfold.formats.source import ModelSource


def matches(source: ModelSource) -> bool:
    return source.content[4:8] == b"TFL3"


FORMAT = Format(
    "TFLite",
    (".tflite",),
    matches,
    f"{__name__}.reader",
    cpu_engine="litert",
    writer=f"{__name__}.write_graph",
)
