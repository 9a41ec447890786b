"""ONNX files, which ONNX Runtime runs on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fourfold.formats.format import Format
from fourfold.formats.protobuf import Message
from fourfold.formats.source import ModelSource
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.formats.onnx import files as model_files
else:
    model_files = lazy_import(f"{__name__}.files")

IR_VERSION, GRAPH = 1, 7  # fields that every model has
_STARTS = bytes.fromhex("08121a2228323a4272")  # possible first bytes of a model


def matches(source: ModelSource) -> bool:
    """Match by fields that every model has; a damaged .onnx file matches, too."""
    start = source.content[:1]
    if not start or start not in _STARTS:
        return False
    if source.has_extension((".onnx",)):
        return True
    try:
        message = Message(source.content)
        return message.integer(IR_VERSION) > 0 and message.block(GRAPH) is not None
    except ValueError:
        return False


def files(source: ModelSource) -> tuple[str, ...]:
    """Return the model and its external data files; reads the model to find them."""
    return model_files.all_files(source)


FORMAT = Format(
    "ONNX",
    (".onnx",),
    matches,
    f"{__name__}.reader",
    cpu_engine="onnxruntime",
    files=files,
    writer=f"{__name__}.write_graph",
)
