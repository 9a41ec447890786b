"""PyTorch exported programs (.pt2), converted to ONNX by PyTorch's exporter."""

from __future__ import annotations

from fourfold.formats.format import Converter, Format, Package
from fourfold.formats.source import ModelSource, zip_members

PROGRAM = ".pt2"
MEMBERS = ("archive_format", "serialized_exported_program.json")  # of current files, of older ones


def matches(source: ModelSource) -> bool:
    members = zip_members(source.content)
    return any(name.rpartition("/")[2] in MEMBERS for name in members)


FORMAT = Format(
    "PyTorch",
    (PROGRAM,),
    matches,
    converter=Converter(
        "PyTorch",
        (f"{__name__}.script",),
        target="ONNX",
        extra="torch",
        needs=(Package("torch"), Package("onnxscript")),
        also=(Package("onnx"), Package("onnx_ir")),
        suffix=lambda source: PROGRAM,
    ),
)
