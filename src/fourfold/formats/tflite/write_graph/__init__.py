"""Writes a graph as a TFLite file, with one rule per op, discovered by scanning `operators`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fourfold.formats.tflite.metadata import BUFFER
from fourfold.formats.tflite.write_graph.expand import expansions
from fourfold.formats.tflite.write_graph.metadata import write_metadata
from fourfold.formats.tflite.write_graph.operators import rules
from fourfold.formats.tflite.write_graph.serialize import serialize
from fourfold.formats.tflite.write_graph.walk import file_of
from fourfold.formats.writable import WritableModel


def write(model: WritableModel) -> bytes:
    """Return the file.

    Raises UnsupportedError with every node that TFLite cannot express.
    """
    file, about = file_of(model), write_metadata(model.metadata)
    if about is None:
        return serialize(file)
    buffer = np.frombuffer(about.content, np.uint8)
    file = replace(file, buffers=(*file.buffers, buffer), metadata={BUFFER: buffer})
    return about.append_files(serialize(file))


def operators() -> Mapping[str, str]:
    """Return the ops that can be written, each with a short description."""
    expanded = {op: expand for op, expand in expansions().items() if op not in (*rules(), "tail")}
    functions = {**{op: rule.write for op, rule in rules().items()}, **expanded}
    return {op: (one.__doc__ or "").split("\n")[0] for op, one in sorted(functions.items())}
