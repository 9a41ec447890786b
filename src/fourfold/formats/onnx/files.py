"""Finds the files of an ONNX model: itself and its external data."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fourfold.formats.conversion import report_damage
from fourfold.formats.onnx.file import GraphRecord, read_entries, read_file
from fourfold.formats.onnx.schema import TensorField
from fourfold.formats.onnx.scope import inner_graphs
from fourfold.formats.onnx.tensors import external_path, is_external
from fourfold.formats.source import ModelSource


def all_files(source: ModelSource) -> tuple[str, ...]:
    """Return the paths of all existing files; reading the model reports missing ones."""
    if source.path is None:
        return ()
    model = os.path.abspath(source.path)
    with report_damage(source.title, "ONNX model", RecursionError):
        names = dict.fromkeys(_locations(read_file(source.content).graph))
        external = [external_path(model, name) for name in names]
    return (source.path, *(path for path in external if os.path.isfile(path)))


def _locations(graph: GraphRecord) -> Iterator[str]:
    """Yield the locations of external data, including those in subgraphs."""
    for tensor in graph.initializers.values():
        if is_external(tensor):
            entries = read_entries(tensor.message.messages(TensorField.EXTERNAL))
            yield entries.get("location", "")
    for node in graph.nodes:
        for inner in inner_graphs(node):
            yield from _locations(inner)
