"""Keras models (.keras, .h5), converted to TFLite by TensorFlow."""

from __future__ import annotations

from dataclasses import replace

from fourfold.formats.format import Format
from fourfold.formats.source import ModelSource, zip_members
from fourfold.formats.tensorflow import CONVERTER, HELPERS

ARCHIVE, HDF5 = ".keras", ".h5"
HDF5_START = b"\x89HDF\r\n\x1a\n"
CONFIG = "config.json"  # in every archive, with at least one of OTHERS
OTHERS = ("metadata.json", "model.weights.h5", "model.weights.npz")


def matches(source: ModelSource) -> bool:
    if source.content[:8] == HDF5_START:
        return True
    members = zip_members(source.content)
    return CONFIG in members and any(name in members for name in OTHERS)


def suffix(source: ModelSource) -> str:
    """Return the suffix that Keras requires."""
    return HDF5 if source.content[:8] == HDF5_START else ARCHIVE


FORMAT = Format(
    "Keras",
    (ARCHIVE, HDF5, ".hdf5"),
    matches,
    converter=replace(CONVERTER, scripts=(f"{__name__}.script", *HELPERS), suffix=suffix),
)
