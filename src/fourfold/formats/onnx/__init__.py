"""ONNX files, which ONNX Runtime runs on the CPU."""

from __future__ import annotations

from fourfold.formats.format import Format
from fourfold.formats.protobuf import Message
from fourfold.formats.source import ModelSource

IR_VERSION, GRAPH = 1, 7  # fields that every model has
_STARTS = bytes.fromhex("08121a2228323a4272")  # bytes with which a field of a model can begin


def matches(source: ModelSource) -> bool:
    """By the fields that every model has; a damaged file still counts if it is called so."""
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


FORMAT = Format("ONNX", (".onnx",), matches, f"{__name__}.reader", cpu_engine="onnxruntime")
