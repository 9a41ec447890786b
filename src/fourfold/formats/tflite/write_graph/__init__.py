"""Writes a graph as a TFLite file: one rule for each op, found by scanning `operators`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fourfold.formats.tflite.metadata import BUFFER
from fourfold.formats.tflite.write_graph.expand import expansions
from fourfold.formats.tflite.write_graph.metadata import write_metadata
from fourfold.formats.tflite.write_graph.operators import rules
from fourfold.formats.tflite.write_graph.serialise import serialise
from fourfold.formats.tflite.write_graph.walk import file_of
from fourfold.formats.writable import WritableModel


def write(model: WritableModel) -> bytes:
    """The bytes of the file, or an UnsupportedError that names every node it cannot say."""
    file, described = file_of(model), write_metadata(model.metadata)
    if described is None:
        return serialise(file)
    note = np.frombuffer(described.content, np.uint8)
    file = replace(file, buffers=(*file.buffers, note), metadata={BUFFER: note})
    return described.append_files(serialise(file))


def operators() -> Mapping[str, str]:
    """The ops that can be written, each with what it becomes in a few words."""
    expanded = {op: expand for op, expand in expansions().items() if op not in (*rules(), "tail")}
    functions = {**{op: rule.write for op, rule in rules().items()}, **expanded}
    return {op: (one.__doc__ or "").split("\n")[0] for op, one in sorted(functions.items())}
